"""What a storage has: rows of fleets, of the log, of keys and of the audit log."""

from __future__ import annotations

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
