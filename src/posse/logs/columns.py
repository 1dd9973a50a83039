"""Decide what becomes of every column of a table: by the name that somebody gave, else by what it looks like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from posse.errors import InvalidValue
from posse.logs.times import recognised_times

if TYPE_CHECKING:
    import polars as pl

NOUNS = {  # of columns that say whether something was done
    "bought": "purchase", "booked": "booking", "clicked": "click", "converted": "conversion", "opened": "opening",
    "ordered": "order", "paid": "payment", "purchased": "purchase", "sold": "sale", "subscribed": "subscription",
}  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Names:
    """Nouns for tasks, arms and rewards, in which reports speak.

    Parameters
    ----------
    task, arm, reward : str
        Singular nouns, such as store, offer and sale.
    """

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"


def as_noun(name: str) -> str:
    """Return the noun that the name of a column stands for.

    Examples
    --------
    >>> [as_noun(name) for name in ("sold", "clicked", "store_id", "offer", "person/people", "id")]
    ['sale', 'click', 'store', 'offer', 'person/people', 'id']
    """
    words = name.replace("_", " ").split(" ")
    if len(words) > 1 and words[-1].lower() in ("id", "name"):
        words = words[:-1]
    return NOUNS.get(" ".join(words).lower(), " ".join(words))


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """One column of a table and its use.

    Parameters
    ----------
    name : str
        The column.
    use : {"task", "arm", "reward", "propensity", "time", "decision id", "feature", "of logs", "left out"}
        "of logs": what logs of posse say of a decision under this name, such as who made it.
    note : str
        More about it: the kind of a feature, or why it is left out.
    """

    name: str
    use: str
    note: str = ""


class Asked(NamedTuple):
    """Columns of a table that somebody named for a use.

    Parameters
    ----------
    task, arm, reward : str
    propensity, time : str, optional
        Default: recognised.
    features : tuple of str, optional
        Exactly these. Default: all that look like features.
    ignore : tuple of str
    also : tuple of str
        Features whatever they look like.
    """

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"
    propensity: str | None = None
    time: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @classmethod
    def of(cls, *names: Any, **named: Any) -> Asked:
        """Return columns by the fields of this class, where lists may be any sequence but one text."""
        asked = cls(*names, **named)
        for what in ("features", "ignore", "also"):
            if isinstance(value := getattr(asked, what), str):
                raise InvalidValue(f"expected {what} to be a list of names, got {value!r}; pass [{value!r}]")
        features = None if asked.features is None else tuple(dict.fromkeys(asked.features))
        return asked._replace(features=features, ignore=tuple(asked.ignore), also=tuple(asked.also))

    @property
    def roles(self) -> dict[str, str]:
        """The columns that have a role, by name: which one."""
        named = ("task", "arm", "reward", "propensity", "time")
        return {getattr(self, role): role for role in named if getattr(self, role) is not None}

    @property
    def listed(self) -> tuple[str, ...]:
        """The features that were named."""
        return tuple(dict.fromkeys((*(self.features or ()), *self.also)))


def require_columns(columns: Sequence[str], asked: Asked, source: str) -> None:
    """Raise unless a table has all columns that were named, none of them for two things."""
    missing = [role for role in ("task", "arm", "reward") if role == getattr(asked, role) and role not in columns]
    if missing:
        which = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
        how = ", ".join(f"{role}='NAME'" for role in missing)
        raise InvalidValue(
            f"expected to know the {which} column{'s' * (len(missing) > 1)} of {source}, got {_some(columns)}; "
            f"say which is which: {how}"
        )
    for role, name in (
        *((role, name) for name, role in asked.roles.items()),
        *(("feature", name) for name in asked.listed),
        *(("ignore", name) for name in asked.ignore),
    ):
        if name not in columns:
            near = get_close_matches(name, columns, 1)
            hint = f"did you mean {near[0]!r}?" if near else "name one of these"
            raise InvalidValue(
                f"expected {role} to be a column of {source}, got {name!r}, not one of {_some(columns)}; {hint}"
            )
    named = [asked.task, asked.arm, asked.reward, asked.propensity, asked.time, *asked.listed, *asked.ignore]
    twice = [name for place, name in enumerate(named) if name is not None and name in named[:place]]
    if twice:
        raise InvalidValue(
            f"expected every column for one thing, got {twice[0]!r} for two; name another for one of them"
        )


def _some(names: Sequence[str]) -> str:
    """Return names as an error lists them: not hundreds."""
    most = 40
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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
    if (times := recognised_times(column, named=low in TIMES or low.endswith(("_time", "_at", "_date")))) is not None:
        usable = low in TIMES and not isinstance(times, str)
        return ColumnUse(name, "time", "by its name") if usable else ColumnUse(name, LEFT_OUT, _reason(times))
    return _feature_or_not(column)


def _reason(times: pl.Series | str) -> str:
    return times if isinstance(times, str) else "a time"


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
