"""Moves what was written from SQLite's write-ahead log to its file, beside whoever writes.

SQLite would do so by itself within every thousandth page's commit, which then waits for the disk several times as long
as others. Nor is it done after every commit: each is several waits for the same disk that commits wait for, and a page
that many of them write is moved once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from posse.errors import StorageUnavailable

DUE = 4 * 2**20
"""Bytes of the write-ahead log from which on it is worth the work: what SQLite itself takes."""

LARGE = 8 * 2**20
"""Bytes of the write-ahead log from which on it is made to start over, without a pause.

Commits wait for the disk behind a checkpoint, and the longer the more it has to move."""

PAGE = 4096 + 24
"""Bytes of a page in the write-ahead log."""

PAUSE = 0.5
"""Seconds from one checkpoint to the next, unless much is written."""


class Checkpoints:
    """A thread that makes checkpoints which hardly anybody waits for; it is started when the first is due.

    Parameters
    ----------
    path : Path
        Of the write-ahead log.
    connect : callable
        Returns a connection of its own.
    alone : context manager
        Keeps others from writing.
    """

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], alone: AbstractContextManager[object]
    ) -> None:
        self._path, self._connect, self._alone = path, connect, alone
        self._due, self._lock, self._closed = threading.Event(), threading.Lock(), False
        self._hurry = threading.Event()
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
        if self.size > LARGE:
            self._hurry.set()

    def _work(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closed:
                return
            begin = time.monotonic()
            self._hurry.clear()
            # What fails here is done, or said, by the next one that bounds the log.
            with suppress(sqlite3.Error, StorageUnavailable, OSError):
                self.make()
                # Once more: what came meanwhile is little. The log starts over with the next commit if nothing is left
                # of it, which is a matter of luck while others write; where it grew for long, they wait for the rest.
                if self.make() > LARGE:
                    with self._alone:
                        self.make()
            self._hurry.wait(max(PAUSE - (time.monotonic() - begin), 0.0))

    def make(self) -> int:
        """Make a checkpoint as far as readers let it, on a connection that is not the writer's.

        Return how many bytes the log has had since it started over.
        """
        connection = self._connect()
        try:
            [(_, pages, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self.made += 1
            return int(pages) * PAGE
        finally:
            connection.close()

    def close(self) -> None:
        """Stop."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._hurry.set()
        self._due.set()
        if thread is not None:
            thread.join()
