"""A fleet's sums as they were at one moment, while the fleet goes on learning."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from posse.interrupts import defer_interrupts
from posse.kernels.changed_sums import copy_rows, keep_rows, new_block, new_sums
from posse.kernels.lanes import Pairs
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.engine.store import Store
    from posse.model.refresh import Scratch
    from posse.types import Array, BoolArray, IntArray

FIRST_ROOM = 1024
BLOCK = 1024  # pairs that are copied at a time, at most
SLICE_BYTES = 4 << 20  # of sums that are read while decisions wait: about a millisecond


class ChangedSums:
    """Copies of the sums of slots that have changed since this was made; to be made and written under the lock.

    Parameters
    ----------
    n_slots : int
        Slots that there are; later ones belong to no pair of that moment.
    n_features : int
    """

    def __init__(self, n_slots: int, n_features: int) -> None:
        self.n_features = n_features
        self.place = np.zeros(n_slots, dtype=np.int64)
        self.sums = new_sums(FIRST_ROOM, n_features)
        self._of = np.zeros((2, FIRST_ROOM), dtype=np.int64)
        self.count = 0

    def keep(self, sums: Sums, slots: IntArray, arms: IntArray) -> None:
        """Copy the sums of slots that are about to change."""
        needed = self.count + slots.size
        if needed > self._of.shape[1]:
            size = max(needed, 2 * self._of.shape[1])
            larger, of = new_sums(size, self.n_features), np.zeros((2, size), dtype=np.int64)
            for new, old in zip(larger, self.sums, strict=True):
                new[: self.count] = old[: self.count]
            of[:, : self.count] = self._of[:, : self.count]
            self.sums, self._of = larger, of
        with defer_interrupts():
            self.count = keep_rows(sums, slots, arms, self.place, self.sums, self._of, self.count)

    def changed(self, n_arms: int) -> list[IntArray]:
        """Return which copies are of which arm."""
        arms = self._of[1, : self.count]
        return [np.flatnonzero(arms == arm) for arm in range(n_arms)]

    def has(self, slots: IntArray) -> BoolArray:
        """Return which slots have a copy."""
        result = np.zeros(slots.size, dtype=np.bool_)
        there = slots < self.place.size
        result[there] = self.place[slots[there]] > 0
        return result

    def slots(self, copies: IntArray) -> IntArray:
        """Return the slots that these are copies of."""
        slots: IntArray = self._of[0, copies]
        return slots


class SnapshotReader:
    """Reads a fleet's sums as they were when ``kept`` was made; blocks are copied out under the lock."""

    def __init__(self, store: Store, lock: threading.RLock, kept: ChangedSums) -> None:
        self.store, self.lock, self.kept = store, lock, kept

    def pairs(self, rows: IntArray, weight: Array, room: Scratch) -> Pairs:
        """Return copies of some slots."""
        block = room.block
        with self.lock:
            belief, overdue = self.store.belief, self.store.overdue
            copy_rows(belief.sums, rows, self.kept.place, self.kept.sums, belief.task_of, weight, block)
            # Copies were brought up to date before they were made. What fades after that makes all of this void.
            share = np.ones(0) if overdue is None else np.where(self.kept.has(rows), 1.0, overdue.of(rows))
        if overdue is not None:
            overdue.let_fade(block.sums, share)
        return Pairs(block.sums, block.rows[: rows.size], block.rows, block.weight)


class SumsSnapshot:
    """All sums of a fleet as they are now, to be read later, some pairs at a time; made under the lock.

    Parameters
    ----------
    store : Store
    lock : RLock
    """

    def __init__(self, store: Store, lock: threading.RLock) -> None:
        belief, d = store.belief, store.n_features
        self._store, self._lock, self._d = store, lock, d
        self._rows = np.concatenate([belief.seen[arm, : belief.n_seen[arm]] for arm in range(store.n_arms)])
        self._kept = ChangedSums(store.n_slots, d)
        store.frozen.add(self._kept)  # for as long as this is there
        # What is aged at once, and what has yet to fade; copies are of sums as they are, also where that is due.
        self._counts = belief.sums.counts[: store.n_slots].copy() if store.fades else None
        self._overdue = None if store.overdue is None else store.overdue.copy()
        n, triangle = self._rows.size, belief.sums.gram.shape[1]
        self.fields: dict[str, tuple[int, tuple[int, ...]]] = {
            "gram": (0, (n, triangle)),
            "moment": (1, (n, d)),
            "sum_of_squares": (2, (n,)),
            "count": (3, (n,)),
        }
        """Number and shape of every field, by its name in a file."""

    def blocks(self, field: int) -> Iterator[Array]:
        """Yield one field of all pairs, arm after arm; what was yielded is written over by the next."""
        size = min(BLOCK, slice_rows(self._d))
        block, nobody = new_block(size, self._d), np.zeros(0)
        for start in range(0, self._rows.size, size):
            rows = self._rows[start : start + size]
            with self._lock:
                belief = self._store.belief
                copy_rows(belief.sums, rows, self._kept.place, self._kept.sums, belief.task_of, nobody, block)
            if self._overdue is not None:
                self._overdue.let_fade(block.sums, self._overdue.of(rows))
            if self._counts is not None:
                block.sums.counts[: rows.size] = self._counts[rows]
            yield block.sums[field][: rows.size]


class ChangedReader:
    """Reads the copies themselves."""

    def __init__(self, store: Store, kept: ChangedSums) -> None:
        self.kept = kept
        self.task_of = store.belief.task_of[kept.slots(np.arange(kept.count))]

    def pairs(self, rows: IntArray, weight: Array, room: Scratch) -> Pairs:  # noqa: ARG002 -- others copy into it
        """Return some copies."""
        return Pairs(self.kept.sums, rows, self.task_of, weight)


def slice_rows(n_features: int) -> int:
    """Return how many pairs are read at a time."""
    return max(1, SLICE_BYTES // (8 * n_features * (n_features + 1) // 2))
