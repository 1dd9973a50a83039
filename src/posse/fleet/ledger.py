"""Decisions that may still get a reward, and rewards that may come twice or be corrected."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.core.state import Receipt, Receipts
from posse.errors import ExpiredDecision, UnknownDecision
from posse.fleet.names import Arms, Label, Tasks

if TYPE_CHECKING:
    from posse.types import Array, BoolArray, IntArray

PENDING, REWARDED, FORGOTTEN = 0, 1, 2

FIRST_SIZE = 64
MOST = 10**18  # decisions; a number beyond it is nobody's
NOT_LEARNED = -1  # the serial of a decision that counts as nothing yet
COLUMNS = {
    "task": np.int64, "arm": np.int64, "time": np.float64, "status": np.uint8, "reward": np.float64,
    "context": np.float64, "decay": np.float64, "row": np.int64, "serial": np.int64,
}  # fmt: skip


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


class Ledger:
    """Decisions by number, the oldest first, as columns that slide: old ones leave, new ones join.

    Tasks and arms are numbers. ``reward`` is what a decision counts as or has been given; together with ``decay``,
    ``row`` and ``serial`` a row is the receipt of what was learned, so that it can be replaced.

    Parameters
    ----------
    prefix : str
        The id of decision n is ``f"{prefix}-{n}"``.
    n_features : int
    first : int
        The number of the first decision.
    """

    task: IntArray
    arm: IntArray
    time: Array
    status: Any
    reward: Array
    context: Array
    decay: Array
    row: IntArray
    serial: IntArray

    def __init__(self, prefix: str, n_features: int, first: int = 1) -> None:
        self.prefix, self.first, self.size, self.head = prefix, first, 0, 0
        for name, kind in COLUMNS.items():
            setattr(self, name, np.zeros((FIRST_SIZE, *([n_features] if name == "context" else [])), dtype=kind))

    @property
    def next(self) -> int:
        """The number of the next decision."""
        return self.first + self.size

    @property
    def live(self) -> slice:
        """Where decisions stand in the columns."""
        return slice(self.head, self.head + self.size)

    @property
    def n_pending(self) -> int:
        """Decisions that wait for their reward."""
        return int((self.status[self.live] == PENDING).sum())

    def id_at(self, place: int) -> str:
        """Return the id of the decision at a place."""
        return f"{self.prefix}-{self.first + place - self.head}"

    def places(self, mask: BoolArray) -> list[int]:
        """Return the places of decisions, given which of all of them are meant."""
        return [self.head + row for row in np.flatnonzero(mask).tolist()]

    def pending(self, now: float, tasks: Tasks, arms: Arms) -> list[Pending]:
        """Return the decisions that wait for their reward, the oldest first."""
        return [
            Pending(
                self.id_at(at), tasks.label(int(self.task[at])), arms.label(int(self.arm[at])),
                now - float(self.time[at]),
            )
            for at in self.places(self.status[self.live] == PENDING)
        ]  # fmt: skip

    def reserve(self, count: int) -> None:
        """Make capacity, so that adding as many decisions cannot fail."""
        if self.head + self.size + count <= self.task.size:
            return
        size, grown = max(FIRST_SIZE, 2 * self.size + count), {}
        for name in COLUMNS:
            old = getattr(self, name)
            grown[name] = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
            grown[name][: self.size] = old[self.live]
        self.__dict__.update(grown, head=0)

    def write(self, task: int, arm: int, time: float, context: Array, ahead: int = 0) -> int:
        """Write a decision behind the last, and ``ahead`` others, and return its place.

        There must be capacity; it is there once ``size`` counts it.
        """
        at = self.head + self.size + ahead
        if self.size and time < self.time[self.head + self.size - 1]:
            time = self.time[self.head + self.size - 1]  # the clock went back, and the oldest leave first
        self.task[at], self.arm[at], self.time[at] = task, arm, time
        self.status[at], self.reward[at], self.serial[at] = PENDING, 0.0, NOT_LEARNED
        self.context[at] = context
        return at

    def write_many(self, tasks: IntArray, arms: IntArray, time: float, contexts: Array) -> slice:
        """Write many decisions behind the last, for which there is capacity; return their places."""
        at = slice(self.head + self.size, self.head + self.size + tasks.size)
        if self.size and time < self.time[at.start - 1]:
            time = self.time[at.start - 1]
        self.task[at], self.arm[at], self.time[at] = tasks, arms, time
        self.status[at], self.reward[at], self.serial[at] = PENDING, 0.0, NOT_LEARNED
        self.context[at] = contexts
        return at

    def receipt(self, at: int) -> Receipt:
        """Return what was learned of a decision, or would be: then its serial is negative."""
        return Receipt(
            int(self.task[at]), int(self.arm[at]), self.context[at], float(self.reward[at]), float(self.decay[at]),
            int(self.row[at]), int(self.serial[at]),
        )  # fmt: skip

    def keep(self, at: int, receipt: Receipt) -> None:
        """Keep what was learned of a decision."""
        self.context[at], self.reward[at], self.decay[at] = receipt.context, receipt.reward, receipt.decay
        self.row[at], self.serial[at] = receipt.row, receipt.serial

    def keep_many(self, at: slice, reward: float, receipts: Receipts) -> None:
        """Keep what was learned of many decisions, the same reward of all."""
        self.reward[at] = reward
        self.decay[at], self.row[at], self.serial[at] = receipts

    def n_late(self, before: float) -> int:
        """Return how many decisions at the old end were made before a time."""
        if not self.size or not self.time[self.head] < before:
            return 0
        there = self.time[self.live] >= before
        return int(np.argmax(there)) if there.any() else self.size

    def drop(self, count: int) -> None:
        """Let the oldest decisions go."""
        self.head, self.first, self.size = self.head + count, self.first + count, self.size - count

    def of_tasks(self, tasks: IntArray) -> IntArray:
        """Return the places of the decisions of some tasks."""
        places: IntArray = np.flatnonzero(np.isin(self.task[self.live], tasks)) + self.head
        return places

    def forget(self, at: IntArray) -> None:
        """Blank the decisions at some places: no reward is accepted for them, and nothing of them stays."""
        self.status[at], self.task[at], self.arm[at] = FORGOTTEN, -1, -1
        self.reward[at], self.context[at] = 0.0, 0.0
        self.decay[at], self.row[at], self.serial[at] = 0.0, -1, NOT_LEARNED

    def columns(self) -> dict[str, Any]:
        """Return copies of all columns, without what has left them."""
        return {name: getattr(self, name)[self.live].copy() for name in COLUMNS}

    def fill(self, columns: dict[str, Any]) -> None:
        """Have these decisions in an empty ledger."""
        count = len(columns["task"])
        self.reserve(count)
        for name, values in columns.items():
            getattr(self, name)[:count] = values
        self.size = count


class Ledgers:
    """The decisions of a fleet, and those of fleets that it has learned from.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        prefix = secrets.token_hex(6)
        self.own = Ledger(prefix, n_features)
        self.adopted: dict[str, Ledger] = {}
        """Of fleets that this one has learned from, by the prefix of their ids."""
        self.origins = {prefix}
        """Of all fleets that this one learned from, itself included."""

    def __iter__(self) -> Iterator[Ledger]:
        return iter((self.own, *self.adopted.values()))

    @property
    def n_pending(self) -> int:
        """Decisions that wait for their reward."""
        return sum(ledger.n_pending for ledger in self)

    def joined(self, ledger: Ledger) -> Ledger:
        """Return a ledger with the decisions of this one, and those that are here under the same prefix."""
        mine = self.adopted.get(ledger.prefix)
        if mine is None:
            return ledger
        result = Ledger(ledger.prefix, ledger.context.shape[1], min(mine.first, ledger.first))
        size = max(mine.next, ledger.next) - result.first
        result.reserve(size)
        result.status[:size], result.size = FORGOTTEN, size
        for one in (mine, ledger):
            rows = np.flatnonzero(one.status[one.live] != FORGOTTEN)
            for name, column in one.columns().items():
                getattr(result, name)[rows + one.first - result.first] = column[rows]
        blank = result.status[:size] == FORGOTTEN
        result.task[:size][blank] = result.arm[:size][blank] = -1
        result.time[:size] = np.maximum.accumulate(result.time[:size])
        return result

    def has_late(self, before: float) -> bool:
        """Whether there may be decisions that were made before a time; asked by every decision."""
        own = self.own
        return bool(self.adopted) or (own.size > 0 and bool(own.time[own.head] < before))

    def find(self, decision_id: Any, before: float) -> tuple[Ledger, int]:
        """Return where a decision stands, or raise if it is nobody's, too old, or of a task that was forgotten."""
        place = parse_id(decision_id)
        ledger = None
        if place is not None:
            ledger = self.own if place[0] == self.own.prefix else self.adopted.get(place[0])
        if place is None or ledger is None or place[1] >= ledger.first + ledger.size:
            if not isinstance(decision_id, str):
                raise UnknownDecision(f"expected a decision of this fleet or its id, got {type(decision_id).__name__}")
            raise UnknownDecision(f"no decision {decision_id!r} was made by this fleet; pass the id of a Decision")
        at = place[1] - ledger.first + ledger.head
        if at < ledger.head or ledger.time[at] < before:
            raise ExpiredDecision(
                f"decision {decision_id!r} is older than its time to live; "
                "make the fleet with a longer time_to_live if rewards come this late"
            )
        if ledger.status[at] == FORGOTTEN:
            raise UnknownDecision(f"decision {decision_id!r} belongs to a task that was forgotten")
        return ledger, at

    def made(self, decision_ids: Any) -> int:
        """Return how many of these ids are those of decisions of a fleet that this one learned from, or is."""
        next_of = {ledger.prefix: ledger.next for ledger in self}
        places = [place for place in map(parse_id, decision_ids) if place is not None]
        return sum(prefix in self.origins and number < next_of.get(prefix, number + 1) for prefix, number in places)


def parse_id(decision_id: object) -> tuple[str, int] | None:
    """Return prefix and number of a decision's id, or None if it is not one."""
    if not isinstance(decision_id, str):
        return None
    prefix, _, digits = decision_id.rpartition("-")
    if not prefix or not (digits.isascii() and digits.isdigit()) or digits.startswith("0") or len(digits) > 18:
        return None
    return prefix, int(digits)
