"""Scan tables that do not fit in memory: the first rows say what columns are used for, all rows where they must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from posse.errors import InvalidValue
from posse.logs.columns import CONSTANT, EMPTY, Asked, ColumnUse, kind_of_feature, require_columns, uses_of
from posse.logs.outcomes import family_of_summary, require_rewards, reward_summary
from posse.logs.reading import is_log, missing_rewards, require_choices, with_family

if TYPE_CHECKING:
    import polars as pl

    from posse.batches import TableFiles

FIRST = 10_000  # rows


class ScannedTables(NamedTuple):
    """Arms, features and rewards of files, found before they are read.

    Parameters
    ----------
    arms : list
        Sorted.
    contexts : polars.LazyFrame
        The columns of the features.
    rewards : str
        The family.
    missing : int
        Rows without a reward.
    rows : int
    columns : tuple of ColumnUse
        Empty for logs of posse.
    """

    arms: list[Any]
    contexts: pl.LazyFrame
    rewards: str
    missing: int
    rows: int
    columns: tuple[ColumnUse, ...]

    def missing_reward(self, asked: str | None, absent: float | None) -> str:
        """Return what becomes of rows without a reward, as for one table."""
        return missing_rewards(asked, absent, self.missing, self.rows, ours=not self.columns)


def scan_tables(files: TableFiles, asked: Asked, rewards: str | None = None) -> ScannedTables:
    """Return what is known of files: arms and rewards by all rows, features by the first."""
    import polars as pl

    source, schema = str(files.path), files.schema
    logged = is_log(schema, asked)
    require_columns(list(schema), asked._replace(features=None, ignore=(), also=()) if logged else asked, source)
    first = files.first_rows(FIRST)
    if first.is_empty():
        raise InvalidValue(f"expected rows in {source}, got none")
    uses = [] if logged else _corrected(uses_of(first, asked), files)
    arms = _distinct(files, asked.arm).sort()
    require_choices(arms, asked.arm, source)
    summary = files.collect(files.scan().select(reward_summary(asked.reward))).row(0, named=True)
    require_rewards(summary, asked.reward, source)
    stated = _distinct(files, "reward_family") if "reward_family" in schema else None
    if logged and rewards is None and (stated is None or not stated.len()):
        rewards = "binary" if schema[asked.reward] == pl.Boolean() else "number"  # as for one log
    family, why = family_of_summary(summary, truths=schema[asked.reward] == pl.Boolean(), asked=rewards, stated=stated)
    return ScannedTables(
        arms.to_list(),
        _contexts(files, [use.name for use in uses if use.use == "feature"], asked, logged=logged),
        family,
        summary["missing"],
        summary["rows"],
        tuple(with_family(uses, family, why)),
    )


def _contexts(files: TableFiles, features: list[str], asked: Asked, *, logged: bool) -> pl.LazyFrame:
    import polars as pl

    context = files.schema.get("context")
    if not (logged and isinstance(context, pl.Struct)):
        return files.scan().select(features)
    names = [field.name for field in context.fields] if asked.features is None else asked.features
    return files.scan().select(pl.col("context").struct.field(*(name for name in names if name not in asked.ignore)))


def _corrected(uses: list[ColumnUse], files: TableFiles) -> list[ColumnUse]:
    """Return uses in which columns are left out as constant or empty only if all rows say so."""
    import polars as pl

    doubtful = [use.name for use in uses if use.note in (CONSTANT, EMPTY)]
    if not doubtful:
        return uses
    found = files.collect(files.scan().select(pl.col(name).unique().head(2).implode() for name in doubtful))
    vary = {name for name in doubtful if len(found[name][0]) > 1}
    return [
        ColumnUse(use.name, "feature", kind_of_feature(found[use.name][0])) if use.name in vary else use for use in uses
    ]


def _distinct(files: TableFiles, name: str) -> pl.Series:
    import polars as pl

    return files.collect(files.scan().select(pl.col(name).drop_nulls().unique()))[name]
