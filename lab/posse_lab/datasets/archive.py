"""Reading zip files that nobody vouches for: known members only, never a path of theirs, never more than a limit."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from posse.errors import DamagedData, DataFileError

LARGEST = 2**30  # bytes of all members that are read from one file; the largest we know of has a quarter of it
DEEPEST = 2  # archives inside archives


def read_member(file: Path, name: str) -> bytes:
    """Return the member that goes by ``name``, also if it lies in a folder of its own."""
    with _opened(file, file) as archive:
        for entry in archive.infolist():
            if entry.filename == name or entry.filename.endswith(f"/{name}"):
                return _read(archive, entry, LARGEST, file)
    raise DamagedData(f"{file} has no member {name}; get it again")


def find_members(file: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the members whose last name is wanted, in any folder and in archives inside the archive.

    Only last names are looked at and returned, so where a member goes is decided by the caller alone.
    """
    found: dict[str, bytes] = {}
    left = LARGEST
    for name, content in _walk(file, file, wanted, DEEPEST):
        left -= len(content)
        if left < 0:
            raise DamagedData(f"{file} holds more than {LARGEST:,} bytes of data, which is no dataset known here")
        if found.setdefault(name, content) != content:
            raise DamagedData(f"{file} holds two different members {name}")
    return found


def _walk(
    source: Path | io.BytesIO, file: Path, wanted: Callable[[str], bool], depth: int
) -> Iterator[tuple[str, bytes]]:
    with _opened(source, file) as archive:
        for entry in archive.infolist():
            name = PurePosixPath(entry.filename.replace("\\", "/")).name
            if entry.is_dir():
                continue
            if wanted(name):
                yield name, _read(archive, entry, LARGEST, file)
            # macOS adds a shadow ._x.zip, which is no zip file, for every x.zip.
            elif depth > 1 and name.lower().endswith(".zip") and not name.startswith("._"):
                yield from _walk(io.BytesIO(_read(archive, entry, LARGEST, file)), file, wanted, depth - 1)


@contextmanager
def _opened(source: Path | io.BytesIO, file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DamagedData(f"{file} is not a zip file that can be read: {error}; get it again") from None
    except OSError as error:
        raise DataFileError(f"cannot read {file}: {error}") from error
    with archive:
        yield archive


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int, file: Path) -> bytes:
    # zipfile stops at the size that the entry announces, so a member that says it is small cannot become large.
    if entry.file_size > limit:
        raise DamagedData(f"{file}: its member {entry.filename!r} has {entry.file_size:,} bytes, more than {limit:,}")
    try:
        return archive.read(entry)
    # RuntimeError: encrypted; NotImplementedError: a compression that this Python does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError) as error:
        raise DamagedData(f"{file}: its member {entry.filename!r} cannot be read: {error}; get it again") from None
