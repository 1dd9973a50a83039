"""Connections for reading, each used by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from posse.errors import StorageUnavailable


class Closable(Protocol):
    """What a pool keeps."""

    def close(self) -> None:
        """Close it."""


Connection = TypeVar("Connection", bound=Closable)


class Pool(Generic[Connection]):
    """Up to ``size`` connections, made when they are needed and kept for the next who asks.

    Parameters
    ----------
    connect : callable
    size : int
    patience : float
        Seconds to wait for one while all are in use.
    """

    def __init__(self, connect: Callable[[], Connection], size: int, patience: float) -> None:
        self._connect = connect
        self._free = threading.Semaphore(size)
        self._patience = patience
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._era = 0

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection; it is thrown away if the body raises."""
        if not self._free.acquire(timeout=self._patience):
            raise StorageUnavailable(
                f"all connections for reading were in use for {self._patience:g} s; try again, with fewer at once"
            )
        try:
            with self._lock:
                era = self._era
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                kept = era == self._era
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()
        finally:
            self._free.release()

    def clear(self) -> None:
        """Close idle connections now and lent ones when they come back, as after the database went away."""
        with self._lock:
            self._era += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
