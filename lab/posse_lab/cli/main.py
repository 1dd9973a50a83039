"""``posse lab``: benchmarks, data sets, simulations and the reproduction of the paper."""

from __future__ import annotations

import typer

from posse.cli.commands import Home, group_of

COMMANDS = {
    "paper": Home(
        "posse_lab.cli.paper:paper",
        "Compare",
        "Compare posse with the paper's six methods: 10 tasks, 5 arms, 3 features, 2,000 steps, 100 seeds.",
    ),
    "simulate": Home(
        "posse_lab.cli.simulate:simulate",
        "Compare",
        "Run policies on the same synthetic worlds and compare their regret.",
    ),
    "reproduce": Home(
        "posse_lab.cli.reproduce:reproduce",
        "Compare",
        "Run the paper's experiments and write one page: every figure redrawn, every claim tested.",
    ),
    "data": Home("posse_lab.cli.data:app", "Data and speed", "List, fetch and verify the datasets."),
    "bench": Home("posse_lab.cli.bench:app", "Data and speed", "Run a fixed benchmark."),
}

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
