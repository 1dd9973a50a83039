"""The ``posse`` command: its subcommands, and one way to report an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from posse._version import __version__
from posse.cli.backup import backup
from posse.cli.bench import app as bench
from posse.cli.data import app as data
from posse.cli.decide import decide, reward
from posse.cli.demo import demo
from posse.cli.evaluate import evaluate
from posse.cli.fit import fit
from posse.cli.inspect import inspect
from posse.cli.keys import keys_app
from posse.cli.log import log_app
from posse.cli.reproduce import reproduce
from posse.cli.serve import serve
from posse.cli.simulate import simulate
from posse.cli.warmup import warmup
from posse.errors import PosseError

app = typer.Typer(
    name="posse",
    help="Many related contextual bandits that learn from each other.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(simulate)
app.command()(reproduce)
app.command()(fit)
app.command()(inspect)
app.command()(decide)
app.command()(reward)
app.command()(evaluate)
app.command()(serve)
app.add_typer(keys_app, name="keys")
app.command()(backup)
app.command()(warmup)
app.add_typer(log_app, name="log")
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"posse {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Many related contextual bandits that learn from each other."""


def main() -> None:
    """Run the command; an error that posse raises on purpose is one line and exit status 2."""
    try:
        app()
    except PosseError as error:
        print(f"posse: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("posse: stopped; what was written is whole, and simulate --out continues where it was", file=sys.stderr)
        raise SystemExit(130) from None
