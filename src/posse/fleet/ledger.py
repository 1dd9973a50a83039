"""Decisions that may still get a reward, and rewards that may come twice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.engine.commit import Steps, commit
from posse.fleet.labels import Label, Labels

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array, BoolArray, IntArray

PENDING, REWARDED, FORGOTTEN = 0, 1, 2

FIRST_ROOM = 64
MOST = 10**18  # decisions; a number beyond it is nobody's


class Pending(NamedTuple):
    """A decision that waits for its reward.

    Parameters
    ----------
    id : str
    task, arm : str or int
    age : float
        Seconds since the decision.
    """

    id: str
    task: Label
    arm: Label
    age: float


class Entry(NamedTuple):
    """One decision, tasks and arms by number."""

    task: int
    arm: int
    context: Array
    time: float
    status: int
    reward: float


class Ledger:
    """Decisions by number, the oldest first, as columns that slide: old ones leave, new ones join.

    Parameters
    ----------
    prefix : str
        The id of decision n is ``f"{prefix}-{n}"``.
    n_features : int
    first : int
        The number of the first decision.
    """

    def __init__(self, prefix: str, n_features: int, first: int = 1) -> None:
        self.prefix = prefix
        self.first = first
        self.size = 0
        self._head = 0
        self._task: IntArray = np.zeros(FIRST_ROOM, dtype=np.int64)
        self._arm: IntArray = np.zeros(FIRST_ROOM, dtype=np.int64)
        self._time: Array = np.zeros(FIRST_ROOM)
        self._status: npt.NDArray[np.uint8] = np.zeros(FIRST_ROOM, dtype=np.uint8)
        self._reward: Array = np.zeros(FIRST_ROOM)
        self._context: Array = np.zeros((FIRST_ROOM, n_features))

    @property
    def task(self) -> IntArray:
        """The task of every decision."""
        return self._task[self._head : self._head + self.size]

    @property
    def arm(self) -> IntArray:
        """The arm of every decision."""
        return self._arm[self._head : self._head + self.size]

    @property
    def time(self) -> Array:
        """When it was made, in seconds since the epoch."""
        return self._time[self._head : self._head + self.size]

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """PENDING, REWARDED or FORGOTTEN."""
        return self._status[self._head : self._head + self.size]

    @property
    def reward(self) -> Array:
        """The reward of every decision that got one."""
        return self._reward[self._head : self._head + self.size]

    @property
    def context(self) -> Array:
        """The encoded context of every decision."""
        return self._context[self._head : self._head + self.size]

    @property
    def next(self) -> int:
        """The number of the next decision."""
        return self.first + self.size

    @property
    def n_pending(self) -> int:
        """Decisions that wait for their reward."""
        return int((self.status == PENDING).sum())

    def pending(self, now: float, tasks: Labels, arms: Labels) -> list[Pending]:
        """Return the decisions that wait for their reward, the oldest first."""
        return [
            Pending(
                f"{self.prefix}-{self.first + row}",
                tasks.label(int(self.task[row])),
                arms.label(int(self.arm[row])),
                now - float(self.time[row]),
            )
            for row in np.flatnonzero(self.status == PENDING).tolist()
        ]

    def reserve(self, count: int) -> None:
        """Make room, so that adding so many cannot fail."""
        if self._head + self.size + count <= self._task.size:
            return
        live = slice(self._head, self._head + self.size)
        room = max(FIRST_ROOM, 2 * self.size + count)
        grown: dict[str, Any] = {"_head": 0}
        for name in ("_task", "_arm", "_time", "_status", "_reward", "_context"):
            old = getattr(self, name)
            grown[name] = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
            grown[name][: self.size] = old[live]
        self.__dict__.update(grown)

    def entry(self, row: int) -> Entry:
        """Return one decision."""
        at = self._head + row
        return Entry(
            int(self._task[at]), int(self._arm[at]), self._context[at], float(self._time[at]), int(self._status[at]),
            float(self._reward[at]),
        )  # fmt: skip

    def write(self, task: int, arm: int, time: float, context: Array) -> int:
        """Write one decision behind the last and return its number; it is there once ``size`` counts it."""
        row = self._head + self.size
        if row == self._task.size:
            self.reserve(1)
            row = self._head + self.size
        if self.size and time < self._time[row - 1]:
            time = self._time[row - 1]  # the clock went back, and the oldest leave first
        self._task[row] = task
        self._arm[row] = arm
        self._time[row] = time
        self._status[row] = PENDING
        self._context[row] = context
        return self.first + self.size

    def write_many(self, tasks: IntArray, arms: IntArray, time: float, contexts: Array) -> None:
        """Write many decisions, for which there is room, behind the last; they are there once ``size`` counts them."""
        rows = slice(self._head + self.size, self._head + self.size + tasks.size)
        self._task[rows], self._arm[rows], self._time[rows] = tasks, arms, self._not_before(time)
        self._status[rows], self._context[rows] = PENDING, contexts

    def add(self, task: int, arm: int, time: float, context: Array) -> int:
        """Note one decision; return its number."""
        number = self.write(task, arm, time, context)
        self.size += 1
        return number

    def add_many(self, tasks: IntArray, arms: IntArray, time: float, contexts: Array) -> int:
        """Note many decisions, for which there is room; return the number of the first."""
        first = self.next
        self.write_many(tasks, arms, time, contexts)
        self.size += tasks.size
        return first

    def rewarding(self, rows: IntArray, rewards: Array) -> Steps:
        """Give decisions their rewards; see :func:`posse.engine.commit.commit`."""
        return [partial(self.status.__setitem__, rows, REWARDED), partial(self.reward.__setitem__, rows, rewards)]

    def _not_before(self, time: float) -> float:
        """Return the time, or that of the last decision if the clock went back: the oldest leave first."""
        if not self.size or not time < self._time[self._head + self.size - 1]:
            return time
        return float(self._time[self._head + self.size - 1])

    def is_late(self, row: int, before: float) -> bool:
        """Whether there is such a decision and it was made before a time; those before it were, too."""
        return row < self.size and bool(self._time[self._head + row] < before)

    def late(self, before: float) -> IntArray:
        """Return the rows at the old end that were decided before a time."""
        if not self.is_late(0, before):
            return np.empty(0, dtype=np.int64)
        kept = self.time >= before
        return np.arange(int(np.argmax(kept)) if kept.any() else self.size)

    def dropping_oldest(self, count: int) -> Steps:
        """Let the oldest decisions go."""
        head, first, size = self._head + count, self.first + count, self.size - count
        return [partial(self.__dict__.update, _head=head, first=first, size=size)]

    def of(self, tasks: IntArray) -> BoolArray:
        """Return which decisions belong to some tasks."""
        return np.isin(self.task, tasks)

    def forgetting(self, rows: BoolArray) -> Steps:
        """Blank decisions: no reward is accepted for them, and nothing of them is kept."""
        return [
            partial(self.status.__setitem__, rows, FORGOTTEN),
            partial(self.task.__setitem__, rows, -1),
            partial(self.arm.__setitem__, rows, -1),
            partial(self.reward.__setitem__, rows, 0.0),
            partial(self.context.__setitem__, rows, 0.0),
        ]

    def forget(self, rows: BoolArray) -> None:
        """Blank decisions."""
        commit(self.forgetting(rows))


def parse_id(decision_id: object) -> tuple[str, int] | None:
    """Return prefix and number of a decision's id, or None if it is not one."""
    if not isinstance(decision_id, str):
        return None
    prefix, _, digits = decision_id.rpartition("-")
    if not prefix or not (digits.isascii() and digits.isdigit()) or digits.startswith("0") or len(digits) > 18:
        return None
    return prefix, int(digits)
