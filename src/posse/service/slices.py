"""Long work in the database, cut into short transactions, so that requests go in between."""

from __future__ import annotations

import time
from collections.abc import Callable

SLICE_SECONDS = 0.010  # that a slice may take, so that a decision which waits for it is still quick
FEWEST, FIRST, MOST = 10, 100, 1000  # rows of a slice


class Slices:
    """Finds out how many rows a slice may have, and rests after each for as long as it took.

    Parameters
    ----------
    stopped : callable
        Whether to leave the rest for later.
    clock, sleep : callable
    """

    def __init__(
        self,
        stopped: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stopped, self._clock, self._sleep = stopped, clock, sleep
        self.rows = FIRST

    def run(self, work: Callable[[int], int], seconds: float = float("inf")) -> bool:
        """Do some work slice by slice; return whether all of it was done, which is False if time was over before.

        Parameters
        ----------
        work : callable
            Given how many rows to work on at most, returns how many there were; fewer means that these were the last.
        seconds : float
            For how long.
        """
        begin = now = self._clock()
        while not self._stopped() and now - begin < seconds:
            asked = self.rows
            done = work(asked)
            took = max(self._clock() - now, 1e-6)
            # Twice as many at most: one quick slice says little about the next.
            self.rows = round(min(max(asked * min(SLICE_SECONDS / took, 2.0), FEWEST), MOST))
            if done < asked:
                return True
            self._sleep(took)
            now = self._clock()
        return False
