"""How much each reward of a log had been aged when it was learned, so that another can take its place exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from posse.fleet.file import Reader
    from posse.types import Array, IntArray

MOST = 100_000  # rewards beyond those that wait for another


class Decays:
    """By number of a change, for numbers that fade: all decisions that wait, and the last of the others.

    Clicks and counts need none of this: rows that a core keeps have it.
    """

    def __init__(self) -> None:
        self._numbers: IntArray = np.zeros(0, dtype=np.int64)
        self._decays: Array = np.zeros(0)
        self._waits: Any = np.zeros(0, dtype=np.bool_)

    def add(self, numbers: IntArray, decays: Array, *, wait: bool) -> None:
        """Note rewards that were just learned, with numbers greater than those of all before."""
        self._numbers = np.append(self._numbers, numbers)
        self._decays = np.append(self._decays, decays)
        self._waits = np.append(self._waits, np.full(len(numbers), wait))
        if len(self._numbers) - np.count_nonzero(self._waits) > 2 * MOST:
            stays = self._waits.copy()
            stays[np.flatnonzero(~stays)[-MOST:]] = True
            self._numbers, self._decays, self._waits = self._numbers[stays], self._decays[stays], self._waits[stays]

    def find(self, number: int) -> tuple[float, bool] | None:
        """Return the decay of a reward, and whether it waits for another, or None if it is not known any more."""
        at = int(np.searchsorted(self._numbers, number))
        if at == len(self._numbers) or self._numbers[at] != number:
            return None
        return float(self._decays[at]), bool(self._waits[at])

    def close(self, number: int) -> None:
        """Note that a reward waits for no other."""
        self._waits[np.searchsorted(self._numbers, number)] = False

    def arrays(self) -> dict[str, Any]:
        """Return copies of all that there is, for a file."""
        return {
            "decays.numbers": self._numbers.copy(),
            "decays.decays": self._decays.copy(),
            "decays.waits": self._waits.copy(),
        }

    def take(self, reader: Reader) -> None:
        """Have again what a file has."""
        n = reader.length("decays.numbers")
        numbers = reader.array("decays.numbers", (n,), np.int64)
        if (np.diff(numbers) <= 0).any():
            raise reader.damaged("numbers of rewards are not in order")
        self._decays, self._waits = reader.array("decays.decays", (n,)), reader.array("decays.waits", (n,), np.bool_)
        self._numbers = numbers
