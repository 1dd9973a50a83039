"""Tables with columns of their own names: which one is the task, the arm, the reward; what is no feature."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.errors import InvalidValue

if TYPE_CHECKING:
    import polars as pl

    from posse.logs import Log

# How pandas calls the index of a frame that was written with it.
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")

TaskColumn = Annotated[str, typer.Option("--task-column", metavar="NAME", help="The column of a table with the task.")]
ArmColumn = Annotated[str, typer.Option("--arm-column", metavar="NAME", help="The column of a table with the arm.")]
RewardColumn = Annotated[
    str, typer.Option("--reward-column", metavar="NAME", help="The column of a table with the reward.")
]
PropensityColumn = Annotated[
    str,
    typer.Option("--propensity-column", metavar="NAME", help="The column of a table with the arm's probability."),
]


def read_table(path: Path) -> pl.DataFrame | None:
    """Return a table of columns, without pandas' index, or None for what is a log."""
    from posse.tables import as_frame

    if path.suffix not in (".parquet", ".csv"):
        return None
    table = as_frame(path)
    if "context" in table.columns:
        return None
    index = [name for name in table.columns if INDEX.fullmatch(name)]
    if index:
        typer.echo(f"left out the index that pandas wrote: {', '.join(map(repr, index))}", err=True)
    return table.drop(index)


def require_columns(table: pl.DataFrame, path: Path, **columns: str) -> None:
    """Raise unless a table has the columns of the task, the arm and so on."""
    for name, column in columns.items():
        if column not in table.columns:
            raise InvalidValue(
                f"{path} has no column {column!r}; its columns are {', '.join(table.columns)}. "
                f"Say which one is the {name} with --{name}-column"
            )


def read_log_or_table(
    path: Path, *, task: str, arm: str, reward: str, propensity: str, propensity_needed: bool = True
) -> Log:
    """Return a log from its file, or from a table whose other columns are the features.

    Without ``propensity_needed`` a table may lack the column, if it was not asked for by a name of its own.
    """
    import polars as pl

    from posse.logs import Log, read_log
    from posse.logs.schema import ARM_FEATURES, COLUMNS

    table = read_table(path)
    if table is None:
        return read_log(path)
    named = {task: "task", arm: "arm", reward: "reward", propensity: "propensity"}
    if not propensity_needed and propensity == "propensity" and propensity not in table.columns:
        del named[propensity]
    require_columns(table, path, **{name: column for column, name in named.items()})
    # What has one of these names but was not meant is a feature, unless it says something about the decision.
    clash = [name for name in named.values() if name in table.columns and name not in named]
    table = table.drop(clash).rename(named)
    features = [name for name in table.columns if name not in (*COLUMNS, ARM_FEATURES)]
    context = table.select(pl.struct(features).alias("context")) if features else pl.DataFrame()
    return Log(pl.concat([table.drop(features), context], how="horizontal"))
