"""One file over HTTP: continued where it stopped, and never put together from two versions."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posse._version import __version__
from posse.errors import DataFileError, FetchFailed, InvalidValue

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and the bytes that there will be, if the server says."""

LARGEST = 2**30
"""Bytes of a download from which on it is no dataset known here."""

CHUNK = 1 << 16
PASSING = {408, 425, 429, 500, 502, 503, 504}  # HTTP answers that may be better next time
TRIES = 4  # in a row without a new byte
PAUSE = 1.0  # seconds after the first failure, doubled after each further one


def download(
    address: str, partial: Path, *, progress: Progress | None = None, timeout: float = 30.0, pause: float = PAUSE
) -> bool:
    """Download ``address`` into ``partial``, continuing what an earlier try left there.

    What the server says about the version of the file is kept beside it; a file that changed meanwhile, or a server
    that cannot tell, means a new start.

    Returns
    -------
    bool
        Whether bytes of an earlier answer were used.
    """
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidValue(f"address must start with http:// or https://, but {address!r} came")
    farthest, failures = _size(partial), 0
    while True:
        try:
            return _attempt(address, partial, progress, timeout)
        except _StartAgain:
            forget(partial)
        except _ConnectionLost as lost:
            reached = _size(partial)
            failures = 0 if reached > farthest else failures + 1
            farthest = max(farthest, reached)
            if failures >= TRIES:
                kept = f"; {reached:,} bytes are kept, and the same command continues" if reached else ""
                raise FetchFailed(f"cannot download {address}: {lost}{kept}") from None
            time.sleep(pause * 2 ** max(failures - 1, 0))


def forget(partial: Path) -> None:
    """Remove an unfinished download and the note beside it."""
    partial.unlink(missing_ok=True)
    _note_file(partial).unlink(missing_ok=True)


class _ConnectionLost(Exception):
    """Worth another try."""


class _StartAgain(Exception):
    """What is here does not fit what the server has."""


@dataclass(frozen=True, slots=True)
class _Note:
    """Which version of the file the bytes of a partial download belong to."""

    address: str
    etag: str | None
    modified: str | None
    size: int | None

    @property
    def validator(self) -> str | None:
        # A weak ETag promises the same meaning, not the same bytes.
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


def _attempt(address: str, partial: Path, progress: Progress | None, timeout: float) -> bool:
    """Ask once and write what comes; return whether it continues bytes that were here."""
    note, here = _read_note(partial), _size(partial)
    headers = {"User-Agent": f"posse/{__version__}", "Accept-Encoding": "identity"}
    if note is None or note.address != address or note.validator is None:
        here = 0
    if here and note is not None and note.validator is not None:
        if here == note.size:
            return True
        headers |= {"Range": f"bytes={here}-", "If-Range": note.validator}
    try:
        response = urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and here:
                whole = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
                if whole is not None and int(whole[1]) == here:
                    return True
                raise _StartAgain from None
            if error.code in PASSING:
                raise _ConnectionLost(f"the server answers {error.code} {error.reason}") from None
            raise FetchFailed(f"cannot download {address}: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise FetchFailed(f"cannot download {address}: {error.reason}") from None
        raise _ConnectionLost(str(error.reason)) from None
    except http.client.InvalidURL as error:
        raise InvalidValue(f"address {address!r} cannot be used: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _ConnectionLost(_words(error)) from None
    with response:
        answer = _Note(address, response.headers.get("ETag"), response.headers.get("Last-Modified"), None)
        if response.status == 206 and here:
            total = _total(response, note, answer, here)
        elif response.status == 200:
            here, total = 0, _length(response)
            _write_new(partial, _Note(address, answer.etag, answer.modified, total))
        else:
            raise FetchFailed(f"cannot download {address}: the server answers {response.status} {response.reason}")
        _receive(response, partial, here, total, progress)
    return here > 0


def _total(response: Any, note: _Note | None, answer: _Note, here: int) -> int | None:
    """Return the whole size that a partial answer announces, if the answer continues what is here."""
    announced = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if note is None or announced is None or int(announced[1]) != here:
        raise _StartAgain
    total = None if announced[2] == "*" else int(announced[2])
    # A server may honour Range without minding If-Range.
    pairs = ((note.etag, answer.etag), (note.modified, answer.modified), (note.size, total))
    if any(before is not None and now is not None and before != now for before, now in pairs):
        raise _StartAgain
    return total if total is not None else note.size


def _length(response: Any) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _receive(response: Any, partial: Path, here: int, total: int | None, progress: Progress | None) -> None:
    """Append the body to ``partial``, and raise unless all of it came."""
    if total is not None and total > LARGEST:
        forget(partial)
        raise FetchFailed(f"{response.url} has {total:,} bytes, more than any dataset known here")
    with _writing(partial), partial.open("ab") as file:
        if progress is not None:
            progress(here, total)
        while total is None or here < total:
            try:
                chunk = response.read1(CHUNK)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _ConnectionLost(_words(error)) from None
            if not chunk:
                break
            here += len(chunk)
            if here > LARGEST:
                break
            file.write(chunk)
            if progress is not None:
                progress(here, total)
        file.flush()
        os.fsync(file.fileno())
    if here > LARGEST:
        forget(partial)
        raise FetchFailed(f"{response.url} sends more than {LARGEST:,} bytes, more than any dataset known here")
    if total is not None and here < total:
        raise _ConnectionLost(f"the connection ended after {here:,} of {total:,} bytes")


def _write_new(partial: Path, note: _Note) -> None:
    with _writing(partial):
        # First the old bytes go, then the new note comes: no note ever describes bytes of another version.
        partial.write_bytes(b"")
        _note_file(partial).write_text(json.dumps(asdict(note)), encoding="utf-8")


@contextlib.contextmanager
def _writing(partial: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataFileError(f"cannot write {partial}: {error.strerror or error}") from error


def _read_note(partial: Path) -> _Note | None:
    try:
        return _Note(**json.loads(_note_file(partial).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _note_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
