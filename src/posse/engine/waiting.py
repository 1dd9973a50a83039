"""Rows of clicks and counts that count as an absent reward until theirs comes, each with its site.

They are as many as decisions wait, and take 8 (d + 3) bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.engine.capacity import longer

if TYPE_CHECKING:
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

    def find(self, slot: int, context: Array) -> int:
        """Return where the first row of a slot stands that has this context, negative if none does."""
        places = self._of.get(slot, [])
        same = np.flatnonzero((self.contexts[places] == context).all(axis=1)) if places else places
        return places[same[0]] if len(same) else -1

    def remove(self, slot: int, place: int) -> None:
        """Let a row go."""
        places = self._of[slot]
        places.remove(place)
        if not places:
            del self._of[slot]
        self._clear([place])

    def drop(self, slots: list[int]) -> None:
        """Let all rows of some slots go."""
        for slot in slots:
            self._clear(self._of.pop(slot, []))

    def _clear(self, places: list[int]) -> None:
        for array in (self.contexts, self.rewards, self.precision, self.moment):
            array[places] = 0.0
        self._free.extend(places)

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
