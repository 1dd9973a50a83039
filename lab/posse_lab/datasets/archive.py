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

Source = Path | io.BytesIO


def read_member(source: Source, member: str, name: str = "") -> bytes:
    """Return a member, also if it lies in a folder of its own; ``name`` is what errors call the archive."""
    with _opened(source, name or str(source)) as archive:
        for entry in archive.infolist():
            if entry.filename == member or entry.filename.endswith(f"/{member}"):
                return _read(archive, entry, name or str(source))
    raise DamagedData(f"{name or source} has no member {member}; get it again")


def find_members(source: Source, name: str, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the members whose last name is wanted, in any folder and in archives inside the archive.

    Only last names are looked at and returned, so where a member goes is decided by the caller alone.
    """
    found: dict[str, bytes] = {}
    left = LARGEST
    for member, content in _walk(source, name, wanted, DEEPEST):
        left -= len(content)
        if left < 0:
            raise DamagedData(f"{name} holds more than {LARGEST:,} bytes of data, which is no dataset known here")
        if found.setdefault(member, content) != content:
            raise DamagedData(f"{name} holds two different members {member}")
    return found


def _walk(source: Source, name: str, wanted: Callable[[str], bool], depth: int) -> Iterator[tuple[str, bytes]]:
    with _opened(source, name) as archive:
        for entry in archive.infolist():
            member = PurePosixPath(entry.filename.replace("\\", "/")).name
            if entry.is_dir():
                continue
            if wanted(member):
                yield member, _read(archive, entry, name)
            # macOS adds a shadow ._x.zip, which is no zip file, for every x.zip.
            elif depth > 1 and member.lower().endswith(".zip") and not member.startswith("._"):
                yield from _walk(io.BytesIO(_read(archive, entry, name)), name, wanted, depth - 1)


@contextmanager
def _opened(source: Source, name: str) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DamagedData(f"{name} is not a zip file that can be read: {error}; get it again") from None
    except OSError as error:
        raise DataFileError(f"cannot read {name}: {error}") from error
    with archive:
        yield archive


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    # zipfile stops at the size that the entry announces, so a member that says it is small cannot become large.
    if entry.file_size > LARGEST:
        raise DamagedData(f"{name}: its member {entry.filename!r} has {entry.file_size:,} bytes, more than {LARGEST:,}")
    try:
        return archive.read(entry)
    # RuntimeError: encrypted; NotImplementedError: a compression that this Python does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError) as error:
        raise DamagedData(f"{name}: its member {entry.filename!r} cannot be read: {error}; get it again") from None
