"""``posse lab``: benchmarks, data sets, simulations and the reproduction of the paper."""

from __future__ import annotations

import typer

from posse.cli.commands import group_of, homes

COMMANDS = homes(
    "posse_lab.cli",
    {
        "Compare": {
            "paper": "Compare posse with the paper's six methods: 10 tasks, 5 arms, 3 features, 2,000 steps, 100 "
            "seeds.",
            "reproduce": "Run the paper's experiments and write one page: every figure redrawn, every claim tested.",
        },
        "Data and speed": {
            "data": "List, fetch and verify the datasets.",
            "bench": "Run a fixed benchmark.",
        },
    },
    data="data:app",
    bench="bench:app",
)

app = typer.Typer(
    cls=group_of(COMMANDS),
    help="Benchmarks, data sets and the reproduction of the paper.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _lab() -> None:
    """Benchmarks, data sets and the reproduction of the paper."""
