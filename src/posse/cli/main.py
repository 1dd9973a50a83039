"""The ``posse`` command: its subcommands, and one way to report an error."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from posse._version import __version__
from posse.cli.commands import Root
from posse.errors import PosseError

EXIT_STATUS = (
    "Exit status: 0 done; 1 a check failed, or the data do not support an estimate; 2 "
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
        status = app(standalone_mode=False)
    except PosseError as error:
        print("\n".join([f"posse: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        raise SystemExit(2) from None
    except USAGE as error:
        _show_misuse(error)
        raise SystemExit(2) from None
    except typer.Abort:
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)


USAGE: type[Any] = typer.BadParameter.__mro__[1]
"""The class of what Typer raises for options and arguments that a command does not take."""


def _show_misuse(error: Any) -> None:
    """Print in one line what is wrong with options or arguments, or the help that was asked for."""
    if "\n" in error.message:  # the help of a command that was called without any
        error.show()
        return
    found = error.format_message()
    wrong: list[Any] = getattr(error.__cause__, "errors", list)()  # Pydantic's, which know what was given
    if wrong:
        expected = {"int_parsing": "a whole number", "float_parsing": "a number"}.get(wrong[0]["type"], wrong[0]["msg"])
        found = f"expected {error.param.get_error_hint()} to be {expected}, got {wrong[0]['input']!r}"
    if near := getattr(error, "possibilities", None):
        found = f"no such option: {error.option_name}. Did you mean {' or '.join(sorted(near))}?"
    found = (found[0].lower() + found[1:].rstrip(".")).replace(". Did you mean", "; did you mean")
    path = "posse" if error.ctx is None else error.ctx.command_path
    print(f"posse: {found}{' See' if found.endswith('?') else '; see'} `{path} --help`", file=sys.stderr)
