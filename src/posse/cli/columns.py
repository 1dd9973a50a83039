"""The options by which commands read any table, and what they say of its columns."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.progress import is_quiet
from posse.errors import InvalidValue

if TYPE_CHECKING:
    from posse.logs import ColumnUse, Log

MOST = 30  # columns that get a line each; of more, those that are alike share one
FEW = 4  # alike that get a line each all the same
WIDEST = 32  # of a name, before what comes of it

TaskColumn = Annotated[str, typer.Option("--task-column", metavar="NAME", help="The column of a table with the task.")]
ArmColumn = Annotated[str, typer.Option("--arm-column", metavar="NAME", help="The column of a table with the arm.")]
RewardColumn = Annotated[
    str, typer.Option("--reward-column", metavar="NAME", help="The column of a table with the reward.")
]
PropensityColumn = Annotated[
    str | None,
    typer.Option(
        "--propensity-column",
        metavar="NAME",
        help="The column of a table with the arm's probability. Default: recognised.",
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option("--time-column", metavar="NAME", help="The column of a table with the time. Default: recognised."),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature", "-f", metavar="NAME", help="A feature; repeat for more. Default: all that look like one."
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="NAME", help="A column to leave out; repeat for more.")
]
Rewards = Annotated[
    str | None,
    typer.Option(
        "--rewards",
        help="What rewards are: number, binary (0 or 1: clicks), count (0, 1, 2, ...) or revenue (0, or an amount "
        "above 0). Default: recognised; a log of posse says it.",
    ),
]
MissingReward = Annotated[
    str | None,
    typer.Option(
        "--missing-reward",
        metavar="WHAT",
        help="`skip` leaves out rows without a reward, `error` refuses them. Default: a log is read without them, a "
        "table with some is refused.",
    ),
]

OPTION = re.compile(
    r"\b(?P<name>task|arm|reward|propensity|time|ignore|rewards|missing_reward|absent_reward)="
    r"\[?(?P<value>'[^']*'|[\w.]+)\]?"
)
COLUMN = re.compile(r"\bexpected (task|arm|reward|propensity|time) to be(?= a column)")


def read(path: Path, **asked: Any) -> Log:
    """Return a log, or a table as one, and say what became of its columns."""
    from posse.logs import read_table

    with in_options():
        log = read_table(path, **asked)
    show_columns(log.columns)
    return log


@contextlib.contextmanager
def in_options() -> Iterator[None]:
    """Turn a complaint that names arguments of functions into one that names options."""
    try:
        yield
    except InvalidValue as error:
        text = COLUMN.sub(r"expected --\1-column to be", str(error))
        error.args = (OPTION.sub(_option, text), *error.args[1:])
        raise


def _option(found: re.Match[str]) -> str:
    name = found["name"]
    column = "-column" if name in ("task", "arm", "reward", "propensity", "time") else ""
    return f"--{name.replace('_', '-')}{column} {found['value'].strip(chr(39))}"


def show_columns(columns: Sequence[ColumnUse]) -> None:
    """Print what becomes of every column, unless nothing but results is wanted."""
    if is_quiet():
        return
    alike: dict[str, list[str]] = {}
    for use in columns:
        alike.setdefault(_words(use), []).append(use.name)
    width = min(WIDEST, max((len(use.name) for use in columns), default=0))
    for use in columns:
        words, names = _words(use), alike[_words(use)]
        grouped = len(columns) > MOST and len(names) > FEW
        if not grouped or use.name == names[0]:
            more = f" (and {len(names) - 1} more)" if grouped else ""
            typer.echo(f"{use.name or '(no name)':<{width}}  {words}{more}", err=True)


def _words(use: ColumnUse) -> str:
    if use.use == "feature":
        return use.note
    return f"{use.use}: {use.note}" if use.note else use.use
