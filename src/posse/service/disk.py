"""Whether the storage works, and saying so without a line for every request."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from posse.errors import StorageError, StorageMismatch

AGAIN = 60.0  # seconds after which it is said again that the storage fails

logger = logging.getLogger("posse.service")


class DiskHealth:
    """Knows since when the storage fails; logs when that begins, once a minute while it lasts, and when it is over.

    A damaged file may fail for some rows and work for others, so it is over only after a minute without a failure.

    Parameters
    ----------
    clock : callable
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.problem: StorageError | None = None
        """Why the storage fails; None if it does not."""
        self.tried = False
        """Whether anything was written, or could not be, since the start."""
        self._since = self._said = self._failed = 0.0
        self._refused = 0

    def failed(self, error: StorageError, requests: int = 0) -> None:
        """Note that the storage failed, and how many requests that write were refused for it."""
        what = "the storage fails" if isinstance(error, StorageMismatch) else "nothing can be written"
        with self._lock:
            now = self._failed = self._clock()
            if self.problem is None:
                self._since, self._refused = now, 0
            self._refused += requests
            if self.problem is None or now >= self._said + AGAIN:
                self._said = now
                logger.warning("%s: %s (%d requests refused in %.0f s)", what, error, self._refused, now - self._since)
            self.problem, self.tried = error, True

    def succeeded(self) -> None:
        """Note that a write arrived."""
        self.tried = True
        if self.problem is None:
            return
        with self._lock:
            now, damaged = self._clock(), isinstance(self.problem, StorageMismatch)
            if self.problem is None or (damaged and now < self._failed + AGAIN):
                return
            self.problem = None
            logger.warning(
                "writing works again after %.0f s (%d requests were refused)", now - self._since, self._refused
            )
