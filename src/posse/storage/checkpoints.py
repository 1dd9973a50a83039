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

LARGE = 16 * 2**20
"""Bytes of the write-ahead log from which on it is made to start over, without a pause.

Commits wait for the disk behind a checkpoint, and the longer the more it has to move."""

KEPT = 2 * LARGE
"""Bytes that the file of the write-ahead log keeps when it starts over.

A commit that makes the file longer waits for the file system's own log, too, behind all that others write: it takes
half as long again as one that overwrites what is no longer needed, and one in a hundred ten times as long."""

PAGE = 4096 + 24
"""Bytes of a page in the write-ahead log."""

HEAD, SALT, SALT_OF_PAGE = 32, 16, 8
"""Bytes before the first page, and where eight bytes stand that are others whenever the log starts over: in the head,
and at the beginning of each page that belongs to it (https://www.sqlite.org/fileformat.html, section 4.1)."""

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
        self._file: int | None = None
        self.made = 0
        self.large = False
        """Whether the write-ahead log was large after the last write."""

    def written(self) -> None:
        """Take notice that something was written."""
        due = self.reaches(DUE)
        self.large = due and self.reaches(LARGE)
        if due and not self._due.is_set():
            with self._lock:
                if self._thread is None and not self._closed:
                    thread = threading.Thread(target=self._work, name="posse-checkpoints", daemon=True)
                    # What was written is written. If no thread is to be had, the next write tries again.
                    with suppress(RuntimeError):
                        thread.start()
                        self._thread = thread
            if self._thread is not None:
                self._due.set()
        if self.large:
            self._hurry.set()

    def reaches(self, size: int) -> bool:
        """Whether the write-ahead log has more bytes than this since it started over; its file may be longer."""
        place = HEAD + size // PAGE * PAGE  # of the first page beyond
        try:
            with self._lock:
                if self._file is None:
                    self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                salt = os.pread(self._file, 8, SALT)
                return bool(salt) and os.pread(self._file, 8, place + SALT_OF_PAGE) == salt
        except OSError:
            return False  # what is wrong with it is found out by those who need it

    def let_go(self) -> None:
        """Let go of the file: with the last connection SQLite deletes it, and makes another."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)  # SQLite takes no lock of this one, which would be lost now

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
                self.make(again=True)
            self._hurry.wait(max(PAUSE - (time.monotonic() - begin), 0.0))

    def make(self, *, again: bool = False) -> None:
        """Make a checkpoint as far as readers let it, on a connection that is not the writer's.

        With ``again``, what came meanwhile is moved, too, which is little: the log starts over with the next commit if
        nothing is left of it. That is a matter of luck while others write; where it grew for long, they wait for the
        rest, which takes a millisecond.
        """
        connection = self._connect()
        try:
            size = self._move(connection)
            if again and self.reaches(size):
                size = self._move(connection)
                if size > LARGE and self.reaches(size):
                    with self._alone:
                        self._move(connection)
        finally:
            connection.close()

    def _move(self, connection: sqlite3.Connection) -> int:
        """Move all that there is; return how many bytes the log had since it started over."""
        [(_, pages, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self.made += 1
        return int(pages) * PAGE

    def close(self) -> None:
        """Stop."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._hurry.set()
        self._due.set()
        if thread is not None:
            thread.join()
