"""Reading a container: all of an array, or only the rows that are wanted."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Collection
from io import FileIO
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from posse.checks import whole_number
from posse.container.layout import (
    DIGEST_BYTES,
    FORMAT,
    MAGIC,
    PREFIX,
    Entry,
    Front,
    aligned,
    checksum,
    unpack_header,
    unpack_prefix,
)
from posse.errors import DamagedFile, InvalidValue, MissingFile, SavedFileError, ShapeError, UnknownLabel
from posse.types import IntArray

RESTORE = "restore it from a backup or save it again"
"""Advice about a damaged file."""


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


def open_container(path: str | os.PathLike[str], *, kind: str, versions: Collection[int]) -> Container:
    """Open a file that ``write_container`` wrote and check everything in it but the values of its arrays.

    Parameters
    ----------
    path : path of the file
    kind : str
        What the file must hold.
    versions : collection of int
        The versions of that kind that the caller can read.

    Returns
    -------
    Container
        To be used in a ``with`` statement, or closed.

    Raises
    ------
    MissingFile
        If there is no such file.
    DamagedFile
        If it is not whole, holds something else, or is of another version.
    SavedFileError
        If it cannot be opened.
    """
    source = Source(path)
    try:
        box = Container(source)
        _require(box, kind, versions)
    except BaseException:
        source.close()
        raise
    return box


class Container:
    """An open container; made by :func:`open_container`.

    Several threads may read at the same time. Everything read is compared with its checksum: an array comes back as it
    was written or not at all.

    Attributes
    ----------
    path : Path
    kind : str
    version : int
    header : dict
    names : tuple of str
        The arrays, in file order.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.path = source.path
        front, start = _read_front(source)
        try:
            whole, entries = unpack_header(start[PREFIX.size : front.table_at], front)
        except ValueError as error:
            raise source.damaged(str(error)) from None
        self._chunk_bytes = front.chunk_bytes
        self._table = start[front.table_at : front.seal_at]
        self._entries = {entry.name: entry for entry in entries}
        self.kind: str = whole["kind"]
        self.version: int = whole["version"]
        self.header: dict[str, Any] = whole["header"]
        self.names = tuple(self._entries)
        ends = [front.stop, *(entry.stop for entry in entries)]
        for end, begin in zip(ends, [*(entry.start for entry in entries), aligned(ends[-1])], strict=True):
            # Behind the last array the file is over; where there is none, the front is padded all the same.
            if end < begin <= source.size and any(source.bytes_at(end, begin - end)):
                raise source.damaged(f"bytes {end} to {begin - 1} must be zero")

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._source.close()

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        return self._entry(name).shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of an array."""
        return self._entry(name).dtype.newbyteorder("=")

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array, fresh and writable."""
        entry = self._entry(name)
        result = self._empty(entry, entry.shape)
        self._fill(entry, 0, _bytes_of(result), _Held())
        return self._finished(entry, result)

    def rows(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the rows ``start`` to ``stop - 1`` along the first axis; only the chunks they stand in are read."""
        entry = self._entry_with_rows(name)
        start = whole_number(start, "start", at_least=0)
        stop = whole_number(stop, "stop", at_least=0)
        if not start <= stop <= entry.shape[0]:
            raise InvalidValue(
                f"expected rows of array {name!r} to be within 0 and {entry.shape[0]}, got {start} to {stop}"
            )
        result = self._empty(entry, (stop - start, *entry.shape[1:]))
        self._fill(entry, start * _row_bytes(entry), _bytes_of(result), _Held())
        return self._finished(entry, result)

    def take(self, name: str, rows: IntArray) -> npt.NDArray[Any]:
        """Return the given rows along the first axis, in the order asked; only the chunks they stand in are read."""
        entry = self._entry_with_rows(name)
        asked = np.asarray(rows)
        if asked.ndim != 1 or not (asked.size == 0 or np.issubdtype(asked.dtype, np.integer)):
            raise InvalidValue(f"expected rows to be whole numbers along one axis, got {asked.dtype} of {asked.shape}")
        wrong = (asked < 0) | (asked >= entry.shape[0])
        if wrong.any():
            raise InvalidValue(
                f"array {name!r} has rows 0 to {entry.shape[0] - 1}, but row {asked[wrong][0]} was asked for"
            )
        wanted, order = np.unique(asked.astype(np.int64), return_inverse=True)
        result = self._empty(entry, (len(wanted), *entry.shape[1:]))
        target, size, held = _bytes_of(result), _row_bytes(entry), _Held()
        # Neighbours are read in one go, and in rising order no chunk is read twice.
        cuts = (np.flatnonzero(np.diff(wanted) != 1) + 1).tolist()
        for first, last in zip([0, *cuts], [*cuts, len(wanted)], strict=True):
            if first < last:
                self._fill(entry, int(wanted[first]) * size, target[first * size : last * size], held)
        result = self._finished(entry, result)
        return result if np.array_equal(wanted, asked) else result[order]

    def _entry(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(map(repr, self.names)) or "none"
            raise UnknownLabel(f"no array {name!r} in {self.path}; its arrays are {known}") from None

    def _entry_with_rows(self, name: str) -> Entry:
        entry = self._entry(name)
        if not entry.shape:
            raise ShapeError(f"array {name!r} is a single value without rows; use read({name!r})")
        return entry

    def _empty(self, entry: Entry, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        try:
            return np.empty(shape, dtype=entry.dtype)
        except MemoryError as error:
            raise SavedFileError(
                f"cannot read array {entry.name!r} of {self.path}: {error}; read fewer rows or use a larger machine"
            ) from None

    def _finished(self, entry: Entry, result: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values that NumPy can trust, in this machine's byte order."""
        if entry.dtype.kind == "b" and result.view(np.uint8).max(initial=0) > 1:
            raise self._source.damaged(f"array {entry.name!r} has bytes other than 0 and 1")
        return result.astype(entry.dtype.newbyteorder("="), copy=False)

    def _fill(self, entry: Entry, start: int, target: memoryview, held: _Held) -> None:
        """Fill ``target`` with the array's bytes from ``start`` on."""
        done = 0
        while done < len(target):
            chunk, offset = divmod(start + done, self._chunk_bytes)
            length = min(self._chunk_bytes, entry.n_bytes - chunk * self._chunk_bytes)
            piece = target[done : done + length - offset]
            if len(piece) == length:
                self._read_chunk(entry, chunk, piece)
            else:
                if held.chunk != chunk:
                    held.chunk, held.buffer = chunk, memoryview(bytearray(length))
                    self._read_chunk(entry, chunk, held.buffer)
                piece[:] = held.buffer[offset : offset + len(piece)]
            done += len(piece)

    def _read_chunk(self, entry: Entry, chunk: int, target: memoryview) -> None:
        start = entry.start + chunk * self._chunk_bytes
        self._source.read_at(start, target)
        at = DIGEST_BYTES * (entry.first_chunk + chunk)
        if checksum(target) != self._table[at : at + DIGEST_BYTES]:
            raise self._source.damaged(
                f"bytes {start} to {start + len(target) - 1}, in array {entry.name!r}, do not match their checksum"
            )


class _Held:
    """The chunk that was read last though only part of it was wanted: the next rows may stand in it too."""

    def __init__(self) -> None:
        self.chunk = -1
        self.buffer = memoryview(b"")


def _row_bytes(entry: Entry) -> int:
    return math.prod(entry.shape[1:]) * entry.dtype.itemsize


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read_front(source: Source) -> tuple[Front, bytes]:
    """Return the numbers at the front, and all bytes up to the end of the seal, which fits them."""
    if source.size < PREFIX.size:
        raise DamagedFile(f"{source.path} is no posse file, or cut off: it has {source.size} bytes; check the path")
    prefix = source.bytes_at(0, PREFIX.size)
    try:
        front = unpack_prefix(prefix, source.size)
    except ValueError as error:
        if not prefix.startswith(MAGIC):
            raise DamagedFile(f"{source.path} is not a posse file: {error}; check the path") from None
        if int.from_bytes(prefix[len(MAGIC) :][:4], "little") > FORMAT:
            raise DamagedFile(
                f"{source.path} was written by a newer posse, or is damaged: {error}; upgrade posse, or {RESTORE}"
            ) from None
        raise source.damaged(str(error)) from None
    # The prefix is not read again, so what the seal covers is what was believed.
    start = prefix + source.bytes_at(PREFIX.size, front.stop - PREFIX.size)
    if checksum(start[: front.seal_at]) != start[front.seal_at :]:
        raise source.damaged("its header does not match its checksum")
    return front, start


def _require(box: Container, kind: str, versions: Collection[int]) -> None:
    if box.kind != kind:
        raise DamagedFile(f"{box.path} holds {box.kind[:60]!r}, but {kind!r} was expected; choose another file")
    if box.version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        newer = box.version > max(versions, default=-1)
        remedy = "it was written by a newer posse: upgrade posse" if newer else "learn its log again"
        raise DamagedFile(f"{box.path} is version {box.version} of {kind!r}, but this posse reads {known}; {remedy}")
