"""The log of a fleet as a file that :func:`posse.logs.read_log` reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import to_json

from posse.service.answers import log_record
from posse.storage import LoggedDecision, Storage

if TYPE_CHECKING:
    from posse.logs import Log

AT_ONCE = 1000  # rows that are read at a time


def rows_of(storage: Storage, fleet: str) -> Iterator[list[LoggedDecision]]:
    """Yield all rows of a log, the oldest first, some at a time."""
    last = 0
    while rows := storage.decisions(fleet, after=last, limit=AT_ONCE):
        yield rows
        last = rows[-1].number


def json_lines(parts: Iterable[list[LoggedDecision]]) -> Iterator[bytes]:
    """Yield rows as JSON Lines."""
    for rows in parts:
        yield b"".join(to_json(log_record(row)) + b"\n" for row in rows)


def read_rows(parts: Iterable[list[LoggedDecision]]) -> Log:
    """Return rows as a log; by way of a file, so that types are those which everybody gets who reads one."""
    from posse.logs import read_log

    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = Path(folder) / "log.jsonl"
        with path.open("wb") as stream:
            stream.writelines(json_lines(parts))
        return read_log(path)


def write_parquet(parts: Iterable[list[LoggedDecision]], path: Path) -> None:
    """Write rows to a Parquet file."""
    from posse.logs import write_log

    write_log(read_rows(parts), path, "parquet")
