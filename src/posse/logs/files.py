"""Reading and writing logs: which format a file has, and files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from posse.checks import one_of
from posse.errors import DataFileError, InvalidValue, MissingData
from posse.logs.dsjson import from_dsjson, looks_like_dsjson
from posse.logs.findings import BadRow
from posse.logs.jsonl import frame_to_write, numbered_lines, open_bytes, read_jsonl, write_jsonl
from posse.logs.log import Log

READ = ("jsonl", "parquet", "dsjson")
WRITTEN = ("jsonl", "parquet")
SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".dsjson": "dsjson",
}
HOW = "name it .jsonl, .ndjson (both also .gz) or .parquet, or pass its format"


def read_log(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    *,
    task: str | None = None,
    arms: str | None = None,
) -> Log:
    """Read a log from a file.

    Parameters
    ----------
    path : str or Path
        The file. Text may be gzipped, whatever its name is.
    format : {"jsonl", "parquet", "dsjson"}, optional
        Default: what the name ends in; JSON Lines with the keys of Vowpal Wabbit's decision service are dsjson.
    task : str, optional
        For dsjson, where the task is found, see :func:`from_dsjson`.
    arms : str, optional
        For dsjson, where an action's name is found.

    Raises
    ------
    MissingData
        If there is no such file.
    DataFileError
        If it cannot be read; the error names the line or row and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> file = Path(getfixture("tmp_path")) / "log.jsonl"
    >>> _ = file.write_text('{"task": "a", "arm": "red", "reward": 1}')
    >>> read_log(file)
    Log(1 row, 1 task, 1 arm, 0 features)
    """
    source = Path(path)
    if not source.is_file():
        raise MissingData(f"no log {source}; give the path of a file")
    chosen = one_of(format, "format", READ) if format is not None else recognise(source)
    if chosen == "dsjson":
        if task is None:
            raise InvalidValue(
                f"{source} is dsjson, which has no tasks: say where the task is found, such as task='Shared.store', "
                "or task='=all' for one task of that name"
            )
        return from_dsjson(source, task=task, arms=arms)
    if task is not None or arms is not None:
        raise InvalidValue("task and arms say where dsjson has them; other formats have their own place")
    return read_jsonl(source) if chosen == "jsonl" else _read_parquet(source)


def write_log(log: Log, path: str | Path, format: str | None = None) -> None:  # noqa: A002 - as in read_log
    """Write a log to a file, which is replaced at once or not at all.

    Parameters
    ----------
    log : Log
        What to write.
    path : str or Path
        The file; JSON Lines are gzipped if its name ends in .gz.
    format : {"jsonl", "parquet"}, optional
        Default: what the name ends in.
    """
    target = Path(path)
    chosen = format_to_write(target, format)
    if chosen == "parquet":
        # Parquet has no structs without fields; a column that is absent means the same.
        frame = frame_to_write(log) if log.features else frame_to_write(log).drop("context")
        with replacing(target) as partial:
            frame.write_parquet(partial)
    else:
        with replacing(target) as partial, _open_text(partial, zipped=target.suffix.lower() == ".gz") as stream:
            write_jsonl(log, stream)


def format_to_write(path: Path, asked: str | None = None) -> str:
    """Return the format that was asked for, or the one that the name says."""
    chosen = one_of(asked, "format", WRITTEN) if asked is not None else _by_name(path)
    if chosen not in WRITTEN:
        raise InvalidValue(f"cannot tell the format of {path}; {HOW}")
    return chosen


def recognise(path: Path) -> str:
    """Return the format of a file by its name, or by its content where the name leaves it open."""
    chosen = _by_name(path)
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise DataFileError(f"expected a log or a table, got the spreadsheet {path}; save it as .csv")
    if chosen in ("parquet", "dsjson"):
        return chosen
    try:
        with open_bytes(path) as stream:
            head = stream.read(4)
    except (OSError, EOFError) as error:
        raise DataFileError(f"cannot read {path}: {error}") from None
    if chosen is None and head == b"PAR1":
        return "parquet"
    if chosen is None and not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        raise DataFileError(f"cannot tell the format of {path}; {HOW}")
    for _, lines in numbered_lines(path):
        for line in lines:
            if line.strip():
                return "dsjson" if looks_like_dsjson(line) else "jsonl"
    return "jsonl"


def _by_name(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        found = SUFFIXES.get(suffixes[-2]) if len(suffixes) > 1 else None
        return found if found in ("jsonl", "dsjson") else None
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _read_parquet(path: Path) -> Log:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        return Log(frame)
    except BadRow as error:
        raise DataFileError(f"{path}, row {error.row}: {error.problem}") from None
    except InvalidValue as error:
        raise DataFileError(f"{path}: {error}") from None
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataFileError(f"cannot read {path} as Parquet: {reason[0]}") from None
    except BaseException as error:
        # Polars panics on some damaged files, and a panic is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DataFileError(f"cannot read {path} as Parquet: it is damaged") from None


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; it takes that name when all went well, else it goes.

    A new file is for its owner alone, since contexts may be personal; a replaced one keeps the permissions it had.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise DataFileError(f"cannot write {target}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise DataFileError(f"cannot write {target}: it is a folder; name a file")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        yield partial
        if target.exists():
            partial.chmod(target.stat().st_mode & 0o777)
        partial.replace(target)
    except OSError as error:
        raise DataFileError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _open_text(path: Path, *, zipped: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as stream:
        if not zipped:
            yield stream
            return
        # Neither name nor time in the header: the same log gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
