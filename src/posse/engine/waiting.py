"""Rows of clicks and counts that count as an absent reward until theirs comes, each with its site.

They are as many as decisions wait, and take 8 (d + 3) bytes each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.engine.capacity import longer

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.types import Array, IntArray

FIRST_ROOM = 64


class Waiting:
    """Rows by slot, those of a slot in the order in which they came.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self.contexts: Array = np.zeros((FIRST_ROOM, n_features))
        self.rewards: Array = np.zeros(FIRST_ROOM)
        self.precision: Array = np.zeros(FIRST_ROOM)
        self.moment: Array = np.zeros(FIRST_ROOM)
        self._of: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._used = 0

    def __len__(self) -> int:
        return self._used - len(self._free)

    def copy(self) -> Waiting:
        """Return the same rows once more."""
        copy = Waiting(self.contexts.shape[1])
        for name in ("contexts", "rewards", "precision", "moment"):
            setattr(copy, name, getattr(self, name).copy())
        copy._of = {slot: list(places) for slot, places in self._of.items()}
        copy._free, copy._used = list(self._free), self._used
        return copy

    def reserve(self, count: int) -> None:
        """Make room, so that adding so many cannot fail."""
        needed = self._used + max(count - len(self._free), 0)
        if needed > self.rewards.size:
            size = max(needed, 2 * self.rewards.size)
            grown = {name: longer(getattr(self, name), size) for name in ("contexts", "rewards", "precision", "moment")}
            self.__dict__.update(grown)

    def add(self, slot: int, context: Array, reward: float, precision: float, moment: float) -> None:
        """Add a row, for which there is room."""
        place = self._free.pop() if self._free else self._used
        self._used = max(self._used, place + 1)
        self.contexts[place] = context
        self.rewards[place], self.precision[place], self.moment[place] = reward, precision, moment
        self._of.setdefault(slot, []).append(place)

    def dropping(self, slots: list[int]) -> Steps:
        """Let all rows of some slots go."""
        places = [place for slot in slots for place in self._of.get(slot, ())]
        return [
            *self.clearing(places),
            partial(self._free.extend, places),
            *(partial(self._of.pop, slot, None) for slot in slots),
        ]

    def clearing(self, places: list[int]) -> Steps:
        """Leave nothing of rows that are gone."""
        return [
            partial(array.__setitem__, places, 0.0)
            for array in (self.contexts, self.rewards, self.precision, self.moment)
        ]

    def of(self, slot: int) -> IntArray:
        """Return where the rows of a slot stand."""
        return np.array(self._of.get(slot, []), dtype=np.int64)

    def counts(self, n_slots: int) -> IntArray:
        """Return how many rows every slot has."""
        counts = np.zeros(n_slots, dtype=np.int64)
        for slot, places in self._of.items():
            counts[slot] = len(places)
        return counts

    def places(self, slots: IntArray) -> IntArray:
        """Return where the rows of these slots stand, slot after slot."""
        found = [place for slot in slots.tolist() for place in self._of.get(slot, ())]
        return np.array(found, dtype=np.int64)


class WaitingPlan:
    """Which rows come and go, worked out before anything changes.

    Parameters
    ----------
    waiting : Waiting
        There must be room for what is added.
    """

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._left = len(waiting._free)  # of the free places there are now; those above them were taken
        self._freed: list[int] = []
        self._used = waiting._used
        self._of: dict[int, list[int]] = {}
        self._contexts: dict[int, Array] = {}  # of rows that were added

    def of(self, slot: int) -> list[int]:
        """Return where the rows of a slot stand."""
        if slot not in self._of:
            self._of[slot] = list(self._waiting._of.get(slot, ()))
        return self._of[slot]

    def add(self, slot: int, context: Array) -> int:
        """Return the place of a new row."""
        if self._freed:
            place = self._freed.pop()
        elif self._left:
            self._left -= 1
            place = self._waiting._free[self._left]
        else:
            place, self._used = self._used, self._used + 1
        self.of(slot).append(place)
        self._contexts[place] = context
        return place

    def find(self, slot: int, context: Array) -> int:
        """Return where the first row of a slot stands that has this context, negative if none does."""
        places = self.of(slot)
        if not places:
            return -1
        there = self._waiting.contexts[places]
        for row, place in enumerate(places if self._contexts else ()):
            if place in self._contexts:
                there[row] = self._contexts[place]
        same = np.flatnonzero((there == context).all(axis=1))
        return places[same[0]] if len(same) else -1

    def remove(self, slot: int, place: int) -> None:
        """Let a row go."""
        self.of(slot).remove(place)
        self._contexts.pop(place, None)
        self._freed.append(place)

    def installing(self) -> Steps:
        """Let it be so, as far as it was worked out until now."""
        waiting = self._waiting
        return [
            partial(waiting._free.__delitem__, slice(self._left, None)),
            partial(waiting._free.extend, list(self._freed)),
            partial(waiting._of.update, {slot: list(places) for slot, places in self._of.items()}),
            partial(waiting.__dict__.update, _used=self._used),
        ]
