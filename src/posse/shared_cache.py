"""Numba's cache on disk, for several processes that fill it at the same time.

Numba looks for a free name, notes it in an index and writes the code, with nothing that keeps two processes apart: both
may take one name for different kinds of arguments, and whoever loads it then runs code that was made for the other. Who
saves holds a lock meanwhile, and so does who loads. Where there are no locks, or the folder cannot be written to, all
is as Numba has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba.core.caching import IndexDataCacheFile

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

LOCK, TURN = "posse-kernels.lock", "posse-compiling.lock"


def share_cache() -> None:
    """Let this process keep out of others' way when it reads and fills the cache; twice does no harm."""
    cache: Any = IndexDataCacheFile
    if fcntl is None or getattr(cache, "shared", False):
        return
    save, load = cache.save, cache.load

    def locked_save(self: Any, key: Any, data: Any) -> None:
        with _locked(self._cache_path, fcntl.LOCK_EX):
            save(self, key, data)

    def locked_load(self: Any, key: Any) -> Any:
        with _locked(self._cache_path, fcntl.LOCK_SH):
            return load(self, key)

    cache.save, cache.load, cache.shared = locked_save, locked_load, True


class Turn:
    """The right to compile much: one process has it, others wait and find what it compiled in the cache.

    Parameters
    ----------
    folder : str, optional
        Of the cache, if there is one.
    """

    def __init__(self, folder: str | None) -> None:
        self._file: int | None = None
        if fcntl is not None and folder is not None:
            with suppress(OSError):
                self._file = os.open(os.path.join(folder, TURN), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def taken(self) -> bool:
        """Take it if nobody has it; where no file can be made all have it."""
        if self._file is None:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def end(self) -> None:
        """Leave it to others."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextmanager
def _locked(folder: str, kind: int) -> Iterator[None]:
    file = None
    with suppress(OSError):
        file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(file, kind)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)
