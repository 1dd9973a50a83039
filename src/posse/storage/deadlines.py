"""Ends waiting for a server that keeps its connections open but does not answer."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Deadlines:
    """Shuts a socket down when its call has taken too long; the call then fails as if the server had gone away.

    A database limits the time of its statements by itself, but not while it, or its machine, stands still.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[int, float] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, seconds: float, descriptor: int) -> Iterator[None]:
        """Shut a socket down if the body takes longer."""
        with self._lock:
            self._due[descriptor] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="posse storage deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._due.pop(descriptor, None)

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            now = time.monotonic()
            # The lock keeps the body from ending, so the number cannot belong to another file by now.
            with self._lock:
                for descriptor in [number for number, due in self._due.items() if due < now]:
                    del self._due[descriptor]
                    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as handle:
                        handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
