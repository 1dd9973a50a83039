"""Copies of deleted rows that SQLite leaves in a file, and how they go.

With ``secure_delete`` SQLite overwrites what it deletes. But when it moves rows from a full page to a new one, the old
places become unused space as they are, and what is deleted later stays readable there. This finds such copies and
overwrites the unused space of their pages; the layout of a page is section 1.6 of SQLite's description of its file
format. SQLite itself would have to rewrite a whole index, or the whole file, while nobody else can write.
"""

from __future__ import annotations

import math
import os
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

PAGES = 256
"""Pages that are read at a time."""

AT_ONCE = 64
"""Pages that are overwritten at a time: a moment's work, while nobody else can write."""

PATIENCE = 5.0
"""Seconds after which whoever overwrites is given up; nobody else can write meanwhile."""

NICE = 10
"""Requests come first."""

LOOK = 0.2
"""Seconds after which it is asked again whether anybody still wants it."""

DONE = "done"
"""What the process says when it did as it was told."""

LOCKED = 1.0
"""Seconds that it waits for others who write."""

INTERIOR, LEAF = (2, 5), (10, 13)


class Residue:
    """A process that looks for copies of a text in the unused space of an SQLite file; as a context.

    It is a process of its own since locks of a file belong to a process, which loses all of them when it closes the
    file anywhere, and SQLite would not know.

    Parameters
    ----------
    path : Path
    text : str
    ended : callable
        Whether nobody wants it any more: it is then given up.
    """

    def __init__(self, path: Path, text: str, ended: Callable[[], bool] = lambda: False) -> None:
        self._path, self._text, self._ended = path, text, ended
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Residue:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def find(self) -> int:
        """Return how many pages have copies, :data:`AT_ONCE` of them at most; others may write meanwhile."""
        return int(self._ask(self._text.encode().hex()))

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def overwrite(self) -> bool:
        """Overwrite what is unused in pages that were found; False if somebody wrote, and it must be tried again.

        The process itself keeps others from writing meanwhile, so its lock ends when it does, however that comes.
        """
        try:
            return self._ask("now", PATIENCE) == DONE
        except BaseException:
            self._end()  # before the next who writes: what is unused space now need not be later
            raise

    def flush(self) -> None:
        """Return when that is on disk; others may write meanwhile."""
        self._ask("flush")

    def _ask(self, line: str, seconds: float | None = None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        end = math.inf if seconds is None else time.monotonic() + seconds
        while not select.select([self._process.stdout], [], [], min(LOOK, max(end - time.monotonic(), 0.0)))[0]:
            if self._ended():
                raise OSError(f"looking for copies in {self._path} was given up, as it is closed")
            if time.monotonic() >= end:
                raise OSError(f"overwriting copies in {self._path} took more than {seconds:g} s")
        answer = self._process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise OSError(f"looking for copies in {self._path} failed")
        return answer.decode().strip()


def in_unused_space(path: Path, text: str) -> bool:
    """Say whether a text stands in the unused space of any page of an SQLite file."""
    with Residue(path, text) as residue:
        return residue.find() > 0


def _search(file: BinaryIO, sought: bytes) -> Iterator[int]:
    """Yield where pages begin that have a text in their unused space."""
    size = _page_size(file)
    n_pages = os.fstat(file.fileno()).st_size // size
    file.seek(0)
    start = 0
    while block := file.read(PAGES * size):
        # Nearly always, nothing is in the whole block: one search is enough then.
        place = block.find(sought)
        while place >= 0:
            page = place - place % size
            low, high = _unused(block[page : page + size], n_pages, is_first=start + page == 0)
            if block.find(sought, page + low, page + high) >= 0:
                yield start + page
            place = block.find(sought, page + size)
        start += len(block)


def _overwrite(file: BinaryIO, pages: list[int], sought: bytes) -> None:
    size = _page_size(file)
    n_pages = os.fstat(file.fileno()).st_size // size
    for start in pages:
        file.seek(start)
        page = file.read(size)
        low, high = _unused(page, n_pages, is_first=start == 0)
        # Looked for again: what it is may have changed since.
        if page.find(sought, low, high) >= 0:
            file.seek(start + low)
            file.write(bytes(high - low))


def _page_size(file: BinaryIO) -> int:
    file.seek(16)
    size = int.from_bytes(file.read(2), "big")
    return 65536 if size == 1 else size


def _unused(page: bytes, n_pages: int, *, is_first: bool) -> tuple[int, int]:
    """Return where the space between the list of cells and the cells begins and ends; other pages have none."""
    header = 100 if is_first else 0
    kind = page[header]
    # Pages of other kinds begin with the number of a page, whose first byte could be taken for a kind in a file of
    # hundreds of gigabytes.
    if kind not in INTERIOR + LEAF or kind << 24 <= n_pages:
        return 0, 0
    cells = int.from_bytes(page[header + 3 : header + 5], "big")
    content = int.from_bytes(page[header + 5 : header + 7], "big") or 65536
    low = header + (12 if kind in INTERIOR else 8) + 2 * cells
    return (low, content) if low <= content <= len(page) else (0, 0)


def _find(file: BinaryIO, sought: bytes) -> list[int]:
    # Of this thread alone, where a thread can have one: nobody else can write while the other one overwrites.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    return list(islice(_search(file, sought), AT_ONCE))


def _main() -> None:
    sought = bytes.fromhex(sys.stdin.readline())
    with open(sys.argv[1], "r+b", buffering=0) as file:
        with ThreadPoolExecutor(1) as looking:
            pages = looking.submit(_find, file, sought).result()
        print(len(pages), flush=True)
        for line in sys.stdin:
            done = True
            if line == "now\n":
                done = _overwrite_alone(file, pages, sought)
            else:
                os.fsync(file.fileno())
            print(DONE if done else "later", flush=True)


def _overwrite_alone(file: BinaryIO, pages: list[int], sought: bytes) -> bool:
    """Overwrite while nobody can write; False if somebody does, or what was written is not in the file."""
    connection = sqlite3.connect(sys.argv[1], timeout=LOCKED, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if os.stat(f"{sys.argv[1]}-wal").st_size:  # another process has written just before that
            return False
        _overwrite(file, pages, sought)
        return True
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    try:
        _main()
    except BrokenPipeError:
        # Whoever asked was killed, and asks again after the next start. The end of the interpreter would complain.
        os._exit(1)
