"""What a shard has done since its last snapshot, on disk before it is acknowledged.

A record is its length and checksum, a line of JSON, and plain arrays behind it. A record that was not finished when the
process died is cut off: nobody was told of it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.container.replace import flush_folder
from posse.errors import DamagedFile

if TYPE_CHECKING:
    import numpy.typing as npt

FRAME = struct.Struct("<QI")  # bytes of the record, and their checksum
TYPES = ("<f8", "<i8", "|b1")


class Record(NamedTuple):
    """One thing that a shard did.

    Parameters
    ----------
    what : str
    facts : dict
        Plain JSON values.
    arrays : dict
    """

    what: str
    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


class Journal:
    """A file that records are added to.

    Parameters
    ----------
    path : path
    fsync : bool, default True
        Whether a record is on the disk, with those before it, and not only with the operating system, when
        :meth:`append` returns. False survives the death of the process, and not that of the machine.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self.fsync = fsync
        # For its owner alone, as a fleet's file is: names of tasks may be personal.
        self._file = FileIO(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
        if fsync:
            flush_folder(path)

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return self._file.tell()

    def append(
        self, what: str, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], *, waits: bool = True
    ) -> None:
        """Write a record; if that fails, the file is as it was. What nobody ``waits`` for may reach the disk later."""
        end = self._file.tell()
        data = encode(Record(what, dict(facts), dict(arrays)))
        frame = FRAME.pack(len(data), zlib.crc32(data)) + data
        try:
            view = memoryview(frame)
            while view:
                view = view[self._file.write(view) :]
            if self.fsync and waits:
                os.fdatasync(self._file.fileno())
        except BaseException:
            self._file.truncate(end)
            self._file.seek(end)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()


def read_journal(path: Path) -> Iterator[Record]:
    """Yield the records of a journal, and cut off one that was not finished."""
    end = 0
    with open(path, "r+b") as file:
        size = path.stat().st_size
        while True:
            head = file.read(FRAME.size)
            if len(head) < FRAME.size:
                break
            length, checksum = FRAME.unpack(head)
            if length > size - end:
                break
            data = file.read(length)
            if zlib.crc32(data) != checksum:
                if end + FRAME.size + length < size:
                    raise DamagedFile(
                        f"{path} is damaged at byte {end}, with records behind it; restore the folder from a backup"
                    )
                break
            yield decode(data)
            end += FRAME.size + length
        file.truncate(end)


def encode(record: Record) -> bytes:
    """Return a record as bytes."""
    specs, parts = [], []
    for name, array in record.arrays.items():
        plain = np.ascontiguousarray(array)
        specs.append([name, plain.dtype.str, list(plain.shape)])
        parts.append(plain.tobytes())
    text = json.dumps([record.what, record.facts, specs]).encode()
    return struct.pack("<I", len(text)) + text + b"".join(parts)


def decode(data: bytes) -> Record:
    """Return the record that :func:`encode` gave."""
    (length,) = struct.unpack_from("<I", data)
    what, facts, specs = json.loads(data[4 : 4 + length])
    arrays, place = {}, 4 + length
    for name, kind, shape in specs:
        if kind not in TYPES:
            raise DamagedFile(f"expected arrays of {', '.join(TYPES)} in a journal, got {kind}")
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, kind, count, place).reshape(shape)
        arrays[name] = array.copy()
        place += array.nbytes
    return Record(what, facts, arrays)
