"""A file open for reading at any place, by several threads, with our errors."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path
from threading import Lock

from posse.errors import DamagedFile, InvalidValue, MissingFile, SavedFileError

RESTORE = "restore it from a backup or save it again"
"""What to do about a damaged file."""


class Source:
    """An open file: bytes at a place, all of them or an error.

    Attributes
    ----------
    path : Path
    size : int
        Length in bytes when it was opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock()
        try:
            # Asked first: opening a pipe would wait for someone to write to it.
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise SavedFileError(
                    f"cannot read {self.path}: it is not a file but a folder or a device; choose the name of a file"
                )
            self._file = FileIO(self.path, "rb")
            self.size = os.fstat(self._file.fileno()).st_size
        except FileNotFoundError:
            raise MissingFile(f"no file {self.path}; check the path") from None
        except OSError as error:
            raise self._failed(error) from error

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on."""
        buffer = bytearray(length)
        self.read_at(start, memoryview(buffer))
        return bytes(buffer)

    def read_at(self, start: int, target: memoryview) -> None:
        """Fill ``target`` with the file's bytes from ``start`` on."""
        # The place to read from belongs to the open file, not to the thread.
        with self._lock:
            if self._file.closed:
                raise InvalidValue(f"{self.path} is closed; read it inside the with block")
            try:
                self._file.seek(start)
                while len(target):
                    count = self._file.readinto(target)
                    if not count:
                        raise self.damaged("it was cut off while it was read")
                    target = target[count:]
            except OSError as error:
                raise self._failed(error) from error

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        with self._lock:
            self._file.close()

    def damaged(self, reason: str) -> DamagedFile:
        """Return the error that says so."""
        return DamagedFile(f"{self.path} is damaged: {reason}; {RESTORE}")

    def _failed(self, error: OSError) -> SavedFileError:
        return SavedFileError(
            f"cannot read {self.path}: {error.strerror or error}; check the disk and your permissions"
        )
