"""What is written to a log, what becomes of it, and the changes of what a fleet believes that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from posse.storage.rows import LoggedDecision

ACCEPTED = "accepted"
SAME = "same"  # it had come before: a decision under this key, or this reward
CONFLICT = "conflict"  # the decision has another reward, or the key belongs to another request
UNKNOWN = "unknown"  # no such decision, or no such fleet
GONE = "gone"  # the decision is older than its time to live
UNFIT = "unfit"  # no reward of this fleet: 0.5 where rewards are 0 or 1, say
NAMELESS = "nameless"  # the fleet adds rewards up, and this one has no name by which it could be told from a copy
UNREWARDED = "unrewarded"  # there is no reward that could be corrected
WITHHELD = "withheld"  # nothing was wrong with it, but another entry of its group was refused

DIGEST = 32  # bytes that stand for the name of a task


def digest_of(fleet: str, task: str) -> bytes:
    """Return what stands for an erased task: processes that still know its name recognise it, nobody else does.

    Examples
    --------
    >>> len(digest_of("stores", "store-17"))
    32
    """
    return hashlib.blake2b(task.encode(), key=hashlib.sha256(fleet.encode()).digest(), digest_size=DIGEST).digest()


class NewDecision(NamedTuple):
    """A decision that is to be logged.

    Parameters
    ----------
    fleet, id, task, arm : str
    time, propensity : float
    body : str
        JSON: ``context`` (raw values by name), ``eligible``, ``probabilities``, ``mean`` and ``sd`` (lists in the order
        of ``eligible``).
    policy, version : str
        Of the fleet, and of posse.
    key : str or None
        The idempotency key of the request.
    digest : str
        Of all that was asked, so that a key is not used for something else. Empty without a key.
    created : float or None
        When the fleet was made that decided; if there is another of this name by now, the decision is UNKNOWN. None
        does not ask.
    """

    fleet: str
    id: str
    time: float
    task: str
    arm: str
    propensity: float
    body: str
    policy: str
    version: str
    key: str | None = None
    digest: str = ""
    created: float | None = None


class NewReward(NamedTuple):
    """A reward that is to be logged.

    Parameters
    ----------
    id : str
        Of the decision.
    value, time : float
    truth : bool
        Whether it came as true or false, which rewards of numbers are not.
    leeway : float
        Seconds by which the decision may seem older than its time to live: a clock may be in doubt.
    fleets : tuple of str
        Those that whoever reports it may reach, all if none is named; decisions of others are UNKNOWN.
    event : str or None
        What it is called, where a decision has several: the same again is SAME, with another value CONFLICT.
    corrects : bool
        Whether it replaces the reward that the decision has, whatever its fleet says about several.
    instead_of : float or None
        Of one that corrects: the reward that is to be replaced; CONFLICT if there is another. None does not ask.
    expiring : bool
        Whether this is the reward of a decision that has waited too long: it counts as rewarded, unless it is rewarded
        already, which is SAME whatever its reward is. A reward that was held until now becomes a change.
    """

    id: str
    value: float
    time: float
    expiring: bool = False
    leeway: float = 0.0
    truth: bool = False
    fleets: tuple[str, ...] = ()
    event: str | None = None
    corrects: bool = False
    instead_of: float | None = None


class Outcome(NamedTuple):
    """What became of an entry.

    Parameters
    ----------
    kind : str
        ACCEPTED, SAME, CONFLICT, UNKNOWN, GONE, UNFIT, NAMELESS, UNREWARDED or WITHHELD.
    decision : LoggedDecision or None
        For a decision that is SAME: the one that was made then. For rewards: the decision, where it is known (with the
        reward that it has by now).
    """

    kind: str
    decision: LoggedDecision | None = None


class Change(NamedTuple):
    """Something that changes what a fleet believes.

    Parameters
    ----------
    number : int
    kind : {"reward", "decision", "arms", "erase", "population", "drift", "task"}
    task, arm, body : str
        Of the rewarded decision, or the one that counts from now on; empty for other kinds.
    reward : float
        Of a decision: what it counts as until its reward comes.
    data : bytes
        Of other kinds: the definition (JSON) after arms came or went, the digest of the erased task's name (see
        :func:`digest_of`), a population, or what was noticed about changes (JSON). Of a task: the
        digest of its name, by which an erasure finds it, and what is known about it from then on (JSON).
    old : float or None
        Of a reward: what the decision counted as until now, None if it did not count.
    time : float
        Of a reward: when it came. Of other kinds 0.
    """

    number: int
    kind: str
    task: str = ""
    arm: str = ""
    body: str = ""
    reward: float = 0.0
    data: bytes = b""
    old: float | None = None
    time: float = 0.0


class RewardRun(NamedTuple):
    """Rewards that follow each other with no other change between them, a column each; see :class:`Change`."""

    numbers: Sequence[int]
    tasks: Sequence[str]
    arms: Sequence[str]
    bodies: Sequence[str]
    rewards: Sequence[float]
    old: Sequence[float | None]
    times: Sequence[float]


class Written(NamedTuple):
    """What became of groups that were written together.

    Parameters
    ----------
    outcomes : list of list of Outcome
        One list per group, in the order of its entries.
    before : dict
        By fleet that changed: the number of its last change before.
    changes : dict
        By fleet that changed: its new changes (rewards, and decisions that count), in order.
    """

    outcomes: list[list[Outcome]]
    before: dict[str, int]
    changes: dict[str, list[Change]]
