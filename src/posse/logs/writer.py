"""Writing a log while it happens: a line when a decision is made, and a line when its reward comes."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posse.errors import InvalidValue

Record = dict[str, Any]
"""A decision with the columns of a log, or the reward of one: ``decision_id``, ``reward`` and ``reward_time``."""


class LogWriter:
    """A JSON Lines file that records are added to; :func:`posse.logs.read_log` puts rewards to their decisions.

    Parameters
    ----------
    path : path
        Ends in .jsonl or .ndjson; what is there stays, new lines come after it.

    Notes
    -----
    A record is handed to the operating system before the call returns, in one piece, so several threads or processes
    may add to one file. It survives a crash of this process, not of the machine.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".jsonl", ".ndjson"):
            raise InvalidValue(f"a log that is added to must end in .jsonl or .ndjson, but {self.path.name!r} came")
        self._lock = threading.Lock()
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidValue(f"cannot write the log {self.path}: {error.strerror or error}") from None
        self._cut_torn_line()

    def _cut_torn_line(self) -> None:
        """Take away half a line at the end: a crash cut it off before the call returned."""
        with self.path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            whole = size
            while whole > 0:
                start = max(whole - 65536, 0)
                stream.seek(start)
                newline = stream.read(whole - start).rfind(b"\n")
                if newline >= 0:
                    whole = start + newline + 1
                    break
                whole = start
        if whole < size:
            os.ftruncate(self._file, whole)

    def __call__(self, records: list[Record]) -> None:
        """Add records: all of them, or none if the disk is full."""
        data = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        with self._lock:
            size = None
            try:
                size = os.fstat(self._file).st_size
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
            except BaseException as error:
                if size is not None:
                    # Half a line would make all that comes after it unreadable.
                    os.ftruncate(self._file, size)
                if not isinstance(error, OSError):
                    raise
                raise InvalidValue(
                    f"cannot add to the log {self.path}: {error.strerror or error}; nothing was decided or learned"
                ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def moment(seconds: float) -> str:
    """Return seconds since the epoch as a log writes them.

    Examples
    --------
    >>> moment(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (OverflowError, OSError, ValueError):
        raise InvalidValue(f"the clock says {seconds!r} seconds since 1970, which no log can hold; check it") from None
