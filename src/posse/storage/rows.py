"""What a storage has, what is written to its log, and what becomes of it: values without a database."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

PENDING, REWARDED, EXPIRED = 0, 1, 2
"""States of a decision: it waits for its reward, has it, or has waited too long."""


class FleetRow(NamedTuple):
    """A fleet as it is stored.

    Parameters
    ----------
    name : str
    definition : dict
        All that makes it: arms (retired ones too, in the order in which they came), retired arms, features, policy and
        settings. Plain JSON values.
    created : float
        Seconds since the epoch, as all times here.
    tasks, decisions, rewards, pending : int
        Counts; erased tasks do not count, and decisions that waited too long are not pending.
    changes : int
        The number of the last change.
    snapshot : int
        The number of the last change that is in the newest snapshot, 0 if there is none.
    """

    name: str
    definition: dict[str, Any]
    created: float
    tasks: int
    decisions: int
    rewards: int
    pending: int
    changes: int
    snapshot: int


class Progress(NamedTuple):
    """How far the log of a fleet is, and nothing that takes long to read; see :class:`FleetRow`.

    ``erasure`` is the number of the last erasure, 0 if there was none.
    """

    name: str
    created: float
    tasks: int
    pending: int
    changes: int
    snapshot: int
    erasure: int


class LoggedDecision(NamedTuple):
    """A row of the log; ``reward``, ``reward_time`` and ``change`` are None unless ``state`` is REWARDED.

    ``change`` is that of the first reward, and None while the reward is held; ``counted`` is the change with which the
    decision began to count as the absent reward, None if it did not; ``corrected`` is that of the last event after the
    first reward, None if there was none.
    """

    fleet: str
    number: int
    id: str
    time: float
    task: str
    arm: str
    propensity: float
    body: str
    policy: str
    version: str
    state: int
    reward: float | None
    reward_time: float | None
    change: int | None
    counted: int | None = None
    corrected: int | None = None


class RewardEvent(NamedTuple):
    """Something that a decision's reward was made of.

    Parameters
    ----------
    number : int or None
        Of the change that it was; None for the first reward, and while rewards are held.
    event : str or None
        Its name.
    kind : {"reward", "correction"}
    value : float
        What came.
    reward, old : float, float or None
        What the decision's reward was then, and before.
    time : float
    """

    number: int | None
    event: str | None
    kind: str
    value: float
    reward: float
    old: float | None
    time: float


class TaskRow(NamedTuple):
    """A task of the log."""

    task: str
    first_time: float
    decisions: int
    rewards: int


class Activity(NamedTuple):
    """What happened in one stretch of time."""

    time: float
    decisions: int
    rewards: int
    reward_sum: float


class KeyRow(NamedTuple):
    """An API key: its public name, what it may do, and the SHA-256 digest of its secret; the secret is not kept.

    It is for ``fleets`` only (for all if none is named), good for nothing from ``expires`` on (None: for ever), and was
    last ``used`` then, to about half a minute (None: never).
    """

    id: str
    label: str
    scopes: tuple[str, ...]
    digest: str
    created: float
    fleets: tuple[str, ...] = ()
    expires: float | None = None
    used: float | None = None

    @property
    def revoked(self) -> bool:
        """Whether it is good for nothing any more: of such a key only its id and its time are kept."""
        return not self.digest


class AuditRow(NamedTuple):
    """Somebody asked for something that needs an admin.

    Parameters
    ----------
    id : int
        They grow; 0 for one that is to be stored.
    time : float
    actor : str
        The id of a key, "local" where there are none, or "command line".
    client : str or None
        Address.
    action : str
        What it was, as routes and commands are called.
    fleet : str or None
    target : str or None
        An arm, a key, or the digest of a task's name: the name of an erased task is kept nowhere.
    request : str or None
        The id of the request.
    status : int or None
        Of the answer; None if there was none (yet).
    """

    id: int
    time: float
    actor: str
    client: str | None
    action: str
    fleet: str | None = None
    target: str | None = None
    request: str | None = None
    status: int | None = None


class ClockRow(NamedTuple):
    """What a service knew about time when it was last seen.

    Parameters
    ----------
    seen : float
        The time.
    settled, shift : float
        When the clock was last found to have been wrong, and by how many seconds it was put forward; 0 if it was not.
    """

    seen: float
    settled: float = 0.0
    shift: float = 0.0


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
        Of a reward: when it came; of a decision: when it was made. Of other kinds 0.
    first : int or None
        Of a reward that takes the place of what was learned before: the number of the change with which the decision
        was learned first.
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
    first: int | None = None


class RewardRun(NamedTuple):
    """Rewards that follow each other with no other change between them, a column each; see :class:`Change`."""

    numbers: Sequence[int]
    tasks: Sequence[str]
    arms: Sequence[str]
    bodies: Sequence[str]
    rewards: Sequence[float]
    old: Sequence[float | None]
    times: Sequence[float]
    first: Sequence[int | None]


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
