"""What a client returns: values of :mod:`posse.api`, read from JSON, and some of its own.

Keys that a newer service adds are left out; one that is missing is a TypeError or KeyError here, and an error that
names the service where it is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from posse.api import Answer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision.

    Parameters
    ----------
    id : str or None
        What a reward names it by; None for a fallback.
    fleet, task : str
    arm : str
        The arm to pull.
    propensity : float or None
        The probability that this arm had; None for a fallback.
    probabilities, mean, sd : dict
        By eligible arm: its probability, and what is believed about its expected reward. Empty for a fallback.
    fallback : bool, default False
        Whether the service could not be asked and the arm is the fallback: not logged, and nothing to learn from.
    reason : str, default ""
        Why it is a fallback.
    worth : dict or None, default None
        Where rewards have values or arms have costs: value x mean - cost by eligible arm.
    """

    id: str | None
    fleet: str
    task: str
    arm: str
    propensity: float | None
    probabilities: dict[str, float]
    mean: dict[str, float]
    sd: dict[str, float]
    fallback: bool = False
    reason: str = ""
    worth: dict[str, float] | None = None


class RewardCounts(NamedTuple):
    """How many rewards were news, and how many had come before."""

    new: int
    same: int


class IngestCounts(NamedTuple):
    """What became of rows that were taken in: new decisions, new rewards, and rows of which nothing was new."""

    decisions: int
    rewards: int
    same: int


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service takes requests, how many fleets it has, and whether this process is the one that learns."""

    ready: bool
    fleets: int
    leading: bool


def reader(kind: type[T]) -> Callable[[Any], T]:
    """Return what reads JSON into a value of a class of :mod:`posse.api`."""
    read: Callable[[Any], T] = _reader(kind)  # type: ignore[arg-type]  # a class can be hashed
    return read


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    if kind is datetime:
        return datetime.fromisoformat
    if isinstance(kind, type) and issubclass(kind, Answer):
        fields = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
        maybe = {name for name in fields if getattr(kind, name, 0) is None}  # answers may lack them
        return lambda data: kind(
            **{name: read(data[name]) for name, read in fields.items() if name in data or name not in maybe}
        )
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        item = _reader(parts[0])
        return lambda data: tuple(map(item, data))
    if type(None) in parts:
        (some,) = (part for part in parts if part is not type(None))
        whole = _reader(some)
        return lambda data: None if data is None else whole(data)
    return lambda data: data


def decisions_of(data: Any) -> list[Decision]:
    """Read a list of decisions, or an answer whose only field is one."""
    (many,) = data.values() if isinstance(data, dict) else (data,)
    fields = ("fleet", "task", "arm", "propensity", "probabilities", "mean", "sd")
    return [Decision(str(one["id"]), **{name: one[name] for name in fields}, worth=one.get("worth")) for one in many]


def health_of(data: Any) -> Health:
    """Read whether the service is ready: a service that is not says so in the shape of its errors."""
    if "error" in data:
        return Health(ready=False, fleets=0, leading=False)
    ready = data["status"] in ("ready", "degraded")
    return Health(ready=ready, fleets=int(data["fleets"]), leading=bool(data["leading"]))
