"""Decide what becomes of every column of a table: by the name that somebody gave, else by what it looks like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posse.logs.columns import Asked, ColumnUse
from posse.logs.moments import moments_in

if TYPE_CHECKING:
    import polars as pl

INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # how pandas calls the index of a frame that was written
CERTAIN = ("propensity", "propensity_score", "pscore")  # names of nothing else, whatever the values are
PROPENSITIES = (*CERTAIN, "propensities", "action_prob", "p", "prob", "probability")
TIMES = ("time", "timestamp", "datetime", "date", "ts", "event_time", "created_at", "day")
AFTERWARDS = ("reward_at", "reward_timestamp", "reward_date", "expected_rewards")
ID = re.compile(r"(?:^|_)(?:id|uuid|guid|key|index|idx|row)$|[a-z]I[dD]$", re.IGNORECASE)
MOST_LEVELS = 1000  # of a category
NEARLY = 0.9  # levels per row from which on a column is a name of the row
ABOUT_DECISIONS = ("reward_family", "reward_time", "policy", "version", "ranking_id", "ranking_place")
LEFT_OUT = "left out"
CONSTANT, EMPTY = "constant", "empty"


def uses_of(frame: pl.DataFrame, asked: Asked) -> list[ColumnUse]:
    """Return what every column of a table is used for, in their order."""
    roles = asked.roles
    uses: list[ColumnUse] = []
    for column in frame:
        name = column.name
        if name in roles:
            uses.append(ColumnUse(name, roles[name]))
        elif name in asked.ignore:
            uses.append(ColumnUse(name, LEFT_OUT, "as asked"))
        elif name in asked.listed:
            uses.append(ColumnUse(name, "feature", kind_of_feature(column)))
        else:
            uses.append(_recognised(column))
    for role, names in (("propensity", PROPENSITIES), ("time", TIMES)):
        uses = _one_of_a_kind(uses, role, names, named=getattr(asked, role))
    if asked.features is None:
        return uses
    others = [use.use == "feature" and use.name not in asked.listed for use in uses]
    return [
        ColumnUse(use.name, LEFT_OUT, "not among the features that were named") if other else use
        for use, other in zip(uses, others, strict=True)
    ]


def kind_of_feature(column: pl.Series) -> str:
    """Return what kind of feature a column is, in words."""
    import polars as pl

    if column.dtype == pl.Boolean():
        return "true or false"
    if column.dtype.is_numeric():
        return "number"
    levels = column.drop_nulls().n_unique()
    return f"category, {levels} level{'s' * (levels != 1)}"


def _one_of_a_kind(uses: list[ColumnUse], role: str, names: tuple[str, ...], *, named: str | None) -> list[ColumnUse]:
    """Return uses with one column of a role at most: the one that was named, else the one with the likeliest name."""
    found = [use.name for use in uses if use.use == role]
    chosen = named or min(found, key=lambda name: names.index(name.lower()), default=None)
    word = {"propensity": "a propensity, and there is another", "time": "a time, and there is another"}[role]
    return [ColumnUse(use.name, LEFT_OUT, word) if use.use == role and use.name != chosen else use for use in uses]


def _recognised(column: pl.Series) -> ColumnUse:
    """Return what a column that nobody named is used for."""
    name, low = column.name, column.name.lower()
    if INDEX.fullmatch(name):
        return ColumnUse(name, LEFT_OUT, "an index that pandas wrote")
    if low in AFTERWARDS:
        return ColumnUse(name, LEFT_OUT, "known only after the decision")
    if name in ABOUT_DECISIONS:
        return ColumnUse(name, "of logs", "no feature")
    if column.null_count() == column.len():
        return ColumnUse(name, LEFT_OUT, EMPTY)
    if low in CERTAIN or (low in PROPENSITIES and _all_probabilities(column)):
        return ColumnUse(name, "propensity", "by its name")
    if name == "decision_id" and (column.dtype.is_integer() or _is_text(column)):
        return ColumnUse(name, "decision id", "by its name")
    if (moments := moments_in(column, named=low in TIMES or low.endswith(("_time", "_at", "_date")))) is not None:
        usable = low in TIMES and not isinstance(moments, str)
        return ColumnUse(name, "time", "by its name") if usable else ColumnUse(name, LEFT_OUT, _words_of(moments))
    return _feature_or_not(column)


def _words_of(moments: pl.Series | str) -> str:
    return moments if isinstance(moments, str) else "a time"


def _feature_or_not(column: pl.Series) -> ColumnUse:
    import polars as pl

    name, n_rows = column.name, column.len()
    if name == "context":
        return ColumnUse(name, LEFT_OUT, "the name under which logs have all features; rename it")
    text, number = _is_text(column), column.dtype.is_numeric()
    if not (text or number or column.dtype == pl.Boolean()):
        return ColumnUse(name, LEFT_OUT, f"of type {column.dtype}, neither number nor text")
    levels = column.n_unique()
    if levels == 1:
        return ColumnUse(name, LEFT_OUT, CONSTANT)
    if column.dtype.is_integer():
        least, most = int(column.min()), int(column.max())  # type: ignore[arg-type]
        if levels == n_rows == most - least + 1 and least in (0, 1) and n_rows > 2:
            return ColumnUse(name, LEFT_OUT, "a number of the row")
        if ID.search(name):
            return ColumnUse(name, LEFT_OUT, "an id")
    if text and levels > 1 and (levels == n_rows or (n_rows >= 10 and levels >= NEARLY * n_rows)):
        return ColumnUse(name, LEFT_OUT, "an id, a level per row")
    if text and levels > MOST_LEVELS:
        return ColumnUse(name, LEFT_OUT, f"an id, {levels:,} levels")
    return ColumnUse(name, "feature", kind_of_feature(column))


def _is_text(column: pl.Series) -> bool:
    import polars as pl

    return isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum)


def _all_probabilities(column: pl.Series) -> bool:
    if not column.dtype.is_numeric():
        return False
    values = column.drop_nulls()
    return bool(((values > 0) & (values <= 1)).all())
