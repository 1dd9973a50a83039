"""The ``posse`` command: its subcommands, and one way to report an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from posse._version import __version__
from posse.cli.commands import Root
from posse.errors import PosseError

EXIT_STATUS = (
    "Exit status: 0 done; 1 the answer is no (a log that cannot tell, a check or verification that found something); 2 "
    "refused, with one line on standard error that says what to do; 130 stopped with Ctrl-C. Everywhere `--json` "
    "prints JSON on standard output and `--task` names a task, `--task-column` a column."
)

app = typer.Typer(
    name="posse",
    cls=Root,
    help="Many related contextual bandits that learn from each other.",
    epilog=EXIT_STATUS,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
        print("\n".join([f"posse: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        raise SystemExit(2) from None
