"""Keep Python's collector from looking through all that a service has in memory again and again.

A full collection of a service with thousands of tasks stops all requests for tenths of a second, and finds nothing:
what is loaded stays. So it is frozen when the service is ready. What is replaced later, a fleet that was learned again
say, may be part of a cycle, and would stay for ever if nobody looked.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

PAUSE = 60.0  # seconds between two looks at frozen objects, at least


class Heap:
    """Freezes what is in memory, and anew after something large was replaced.

    Parameters
    ----------
    clock : callable
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._frozen: set[int] | None = None  # ids of large objects, which stay in use while they are frozen
        self._due = 0.0

    def settle(self, large: Iterable[object]) -> None:
        """Freeze all objects, if they are not, or if one of the ``large`` ones of last time is gone."""
        now = {id(one) for one in large}
        if self._frozen is not None and self._frozen <= now:
            return
        if self._clock() < self._due:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._frozen, self._due = now, self._clock() + PAUSE

    def release(self) -> None:
        """Let the collector look at everything again."""
        gc.unfreeze()
