"""Whether to ask a service that did not answer a moment ago."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum, auto


class Way(Enum):
    """What to do with a request."""

    ASK = auto()
    PROBE = auto()  # ask once: whoever asks finds out for all whether the service is back
    SKIP = auto()


class Circuit:
    """Remembers a failure for a while; threads may share it.

    Parameters
    ----------
    pause : float
        Seconds after a failure in which nothing is asked; 0: always ask.
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> circuit = Circuit(1.0, lambda: now[0])
    >>> circuit.failed(), circuit.way()
    (None, <Way.SKIP: 3>)
    >>> now[0] = 1.5
    >>> circuit.way(), circuit.way()
    (<Way.PROBE: 2>, <Way.SKIP: 3>)
    >>> circuit.answered(), circuit.way()
    (None, <Way.ASK: 1>)
    """

    def __init__(self, pause: float, clock: Callable[[], float]) -> None:
        self.pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._until: float | None = None

    def way(self) -> Way:
        """Say what to do with a request now."""
        with self._lock:
            if self._until is None:
                return Way.ASK
            now = self._clock()
            if now < self._until:
                return Way.SKIP
            # The others skip for one more pause; a probe that never comes back is then followed by another.
            self._until = now + self.pause
            return Way.PROBE

    def answered(self) -> None:
        """Note that the service answered."""
        with self._lock:
            self._until = None

    def failed(self) -> None:
        """Note that it did not."""
        if self.pause > 0:
            with self._lock:
                self._until = self._clock() + self.pause
