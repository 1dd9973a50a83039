"""Moves what was written from SQLite's write-ahead log to its file, beside whoever writes.

SQLite would do so by itself within every thousandth page's commit, which then waits for the disk several times as long
as others.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from posse.errors import StorageUnavailable

DUE = 4 * 2**20
"""Bytes of the write-ahead log from which on it is worth the work: what SQLite itself takes."""

LONG = 16 * 2**20
"""Bytes from which on whoever writes waits until it can start over, which takes a moment."""


class Checkpoints:
    """A thread that makes checkpoints which nobody waits for; it is started when the first is due.

    Parameters
    ----------
    path : Path
        Of the write-ahead log.
    connect : callable
        Returns a connection of its own.
    writing : lock
        Held by whoever writes.
    """

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], writing: AbstractContextManager[Any]
    ) -> None:
        self._path, self._connect, self._writing = path, connect, writing
        self._due, self._lock, self._closed = threading.Event(), threading.Lock(), False
        self._thread: threading.Thread | None = None
        self.made = 0
        self.size = 0
        """Bytes of the write-ahead log after the last write."""

    def written(self) -> None:
        """Take notice that something was written."""
        try:
            self.size = os.stat(self._path).st_size
        except OSError:
            self.size = 0
        if self.size > DUE and not self._due.is_set():
            with self._lock:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=self._work, name="posse-checkpoints", daemon=True)
                    self._thread.start()
            self._due.set()

    def _work(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closed:
                return
            # What fails here is done, or said, by the next one that bounds the log.
            with suppress(sqlite3.Error, StorageUnavailable):
                self.make()

    def make(self) -> None:
        """Make a checkpoint as far as readers let it, on a connection that is not the writer's."""
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if self.size > LONG:
                # It starts over when all of it was moved, which it never is while somebody goes on writing. What came
                # meanwhile is little.
                with self._writing:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self.made += 1
        finally:
            connection.close()

    def close(self) -> None:
        """Stop."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._due.set()
        if thread is not None:
            thread.join()
