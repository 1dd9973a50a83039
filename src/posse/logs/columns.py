"""What becomes of the columns of a table when it is read as a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from posse.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Names:
    """What the owner of a table calls its tasks, arms and rewards; reports use these words.

    Parameters
    ----------
    task, arm, reward : str
        Singular nouns, such as store, offer and sale.
    """

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """What a column is used for.

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
    """Which columns of a table somebody named, and for what.

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
    def of(
        cls,
        task: str = "task",
        arm: str = "arm",
        reward: str = "reward",
        propensity: str | None = None,
        time: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> Asked:
        """Return what was asked for, after its types were looked at."""
        for value, what in ((features, "features"), (ignore, "ignore"), (also, "also")):
            if isinstance(value, str):
                raise InvalidValue(f"expected {what} to be a list of names, got {value!r}; pass [{value!r}]")
        listed = None if features is None else tuple(dict.fromkeys(features))
        return cls(task, arm, reward, propensity, time, listed, tuple(ignore), tuple(also))

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
    lacking = [role for role in ("task", "arm", "reward") if role == getattr(asked, role) and role not in columns]
    if lacking:
        which = " and ".join([", ".join(lacking[:-1]), lacking[-1]] if len(lacking) > 1 else lacking)
        how = ", ".join(f"{role}='NAME'" for role in lacking)
        raise InvalidValue(
            f"expected to know the {which} column{'s' * (len(lacking) > 1)} of {source}, got {_some(columns)}; "
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
