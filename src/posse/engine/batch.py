"""Rows of clicks or counts that are learned one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from posse.types import Array, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows in the order in which they are learned.

    Parameters
    ----------
    tasks, arms : int ndarray of shape (n,)
    contexts : ndarray of shape (n, n_features)
    rewards : ndarray of shape (n,)
    old : ndarray of shape (n,), optional
        What each row counted as while it waited, NaN for those that are new. Default: all are new.
    waiting : bool
        Whether new ones wait for their reward.
    """

    tasks: IntArray
    arms: IntArray
    contexts: Array
    rewards: Array
    old: Array | None = None
    waiting: bool = False

    def part(self, first: int, last: int) -> Batch:
        """Return some of the rows."""
        rows = slice(first, last)
        old = None if self.old is None else self.old[rows]
        return Batch(self.tasks[rows], self.arms[rows], self.contexts[rows], self.rewards[rows], old, self.waiting)

    def stretches(self) -> Iterator[Batch]:
        """Yield rows that follow one another and are all new, whose ``old`` is None, or all not."""
        if not self.rewards.size:
            return
        if self.old is None:
            yield self
            return
        new = np.isnan(self.old)
        for first, last in pairwise([0, *(np.flatnonzero(np.diff(new)) + 1).tolist(), new.size]):
            part = self.part(first, last)
            old = None if new[first] else part.old
            yield Batch(part.tasks, part.arms, part.contexts, part.rewards, old, self.waiting)


def one_row(task: int, arm: int, context: Array, reward: float, *, waiting: bool = False) -> Batch:
    """Return one row."""
    return Batch(np.array([task]), np.array([arm]), context[None].copy(), np.array([reward]), waiting=waiting)
