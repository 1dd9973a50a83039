"""Whether what is written arrives on disk, and saying so without a line for every request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from posse.errors import StorageUnavailable

AGAIN = 60.0  # seconds after which it is said again that nothing can be written

logger = logging.getLogger("posse.service")


class DiskHealth:
    """Knows since when writes fail; logs when that begins, once a minute while it lasts, and when it is over.

    Parameters
    ----------
    clock : callable
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.problem: StorageUnavailable | None = None
        """Why the last write failed; None if it did not."""
        self.tried = False
        """Whether anything was written, or could not be, since the start."""
        self._since = self._said = 0.0
        self._refused = 0

    def failed(self, error: StorageUnavailable, requests: int = 0) -> None:
        """Note that a write failed, and how many requests were refused for it."""
        now = self._clock()
        if self.problem is None:
            self._since, self._refused = now, 0
        self._refused += requests
        if self.problem is None or now >= self._said + AGAIN:
            self._said = now
            logger.warning(
                "nothing can be written: %s (%d requests refused in %.0f s)", error, self._refused, now - self._since
            )
        self.problem, self.tried = error, True

    def succeeded(self) -> None:
        """Note that a write arrived."""
        self.tried = True
        if self.problem is not None:
            self.problem = None
            logger.warning(
                "writing works again after %.0f s (%d requests were refused)",
                self._clock() - self._since, self._refused,
            )  # fmt: skip
