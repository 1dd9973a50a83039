"""JSON Lines: one decision per line, read strictly."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from posse.errors import DataFileError, NotFinite
from posse.logs.findings import BadRow, first_row, shown
from posse.logs.joining import join_rewards
from posse.logs.log import Log
from posse.logs.schema import ARM_FEATURES, COLUMNS, LABEL, NUMBER_LISTS, PRICES, join_features
from posse.logs.times import as_text, as_times

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 23  # bytes that are read at once
ROWS = 100_000  # rows that are written at once
MOST_KEYS = 10_000  # of a line, or features; a file with more has values where names belong
KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number"}
LISTS = ("eligible", *NUMBER_LISTS)
TASK_FEATURES = "task_features"


class BadLine(Exception):
    """A line is wrong; the caller adds its number."""


def read_jsonl(path: str | Path) -> Log:
    """Read a file of JSON Lines, gzipped or not; see :func:`posse.logs.read_log`."""
    columns, of_tasks = _Columns(), _Columns()
    tables = [columns.decisions([], [])]
    known: list[tuple[int, dict[str, Any]]] = []
    for start, texts in numbered_lines(path):
        records: list[tuple[int, dict[str, Any]]] = []
        for line, text in enumerate(texts, start=start):
            if not text.strip(" \t\r"):
                continue
            try:
                record = decode(text)
                is_known = record.get(TASK_FEATURES) is not None
                (known if is_known else records).append((line, _task_features(record) if is_known else record))
            except BadLine as error:
                raise DataFileError(f"{path}, line {line}: {error}") from None
        if records:
            lines, rows = zip(*records, strict=True)
            with _naming_lines(path, lines):
                tables.append(columns.decisions(lines, rows))
    frame, numbers = columns.joined(tables)
    with _naming_lines(path, numbers):
        frame, numbers, notes = join_rewards(frame, numbers)
    features = None
    if known:
        lines, rows = zip(*known, strict=True)
        with _naming_lines(path, lines):
            features = of_tasks.task_features(lines, rows)
    with _naming_lines(path, numbers):
        unknown = tuple(key for key in columns.names[""] if key not in (*COLUMNS, ARM_FEATURES, *PRICES))
        return Log(frame, unknown=unknown, notes=notes, task_features=features)


@contextlib.contextmanager
def _naming_lines(path: str | Path, lines: Sequence[int] | pl.Series) -> Iterator[None]:
    """Turn an error about a row into one that names the file and the line."""
    try:
        yield
    except BadRow as error:
        raise DataFileError(f"{path}, line {lines[error.row]}: {error.problem}") from None


def numbered_lines(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield blocks of lines of a text file, gzipped or not, each with the number of its first line."""
    line, rest = 1, b""
    try:
        with open_bytes(path) as stream:
            while True:
                block = stream.read(BLOCK)
                data = rest + block
                end = data.rfind(b"\n") + 1 if block else len(data)
                data, rest = data[:end], data[end:]
                if line == 1 and data.startswith(b"\xef\xbb\xbf"):
                    data = data[3:]
                if data:
                    lines = _decoded(data, path, line).split("\n")
                    if not lines[-1]:  # what follows the last line's end
                        lines.pop()
                    yield line, lines
                    line += len(lines)
                if not block:
                    return
    except (EOFError, zlib.error):
        raise DataFileError(f"cannot read {path}: it is cut off; copy it again") from None
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error}") from None


@contextlib.contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file, and look through gzip whatever its name is."""
    with Path(path).open("rb") as stream:
        magic = stream.read(2)
        stream.seek(0)
        if magic != b"\x1f\x8b":
            yield stream
            return
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield cast("IO[bytes]", unpacked)


def _decoded(data: bytes, path: str | Path, line: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise DataFileError(f"{path}, line {line}: this is not UTF-8 text ({error.reason})") from None


def decode(line: str) -> dict[str, Any]:
    """Return a line's object; duplicate keys, NaN, infinity and broken text are refused."""
    try:
        record = _DECODER.decode(line)
        if "\\u" in line:  # Python reads half of a surrogate pair, which no file can hold
            json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadLine(f"this is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadLine("lists or objects are nested too deep") from None
    except UnicodeEncodeError:
        raise BadLine("a text has half of a surrogate pair, which is no character") from None
    except ValueError:  # Python's limit on the digits of whole numbers
        raise BadLine("a whole number has more digits than any number here can have") from None
    if not isinstance(record, dict):
        raise BadLine(f"an object was expected, but {shown(record)} came")
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise BadLine(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return result


def _refuse_constant(name: str) -> None:
    raise BadLine(f"{name} is not JSON; leave a number that is not known out or write null")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _task_features(record: dict[str, Any]) -> dict[str, Any]:
    """Return time, task and features of a line that says what is known about a task from then on."""
    features = record[TASK_FEATURES]
    if not isinstance(features, dict) or record.get("task") is None or record.keys() - {TASK_FEATURES, "task", "time"}:
        raise BadLine(f"a line with {TASK_FEATURES} has task and {TASK_FEATURES}, may have time, and nothing else")
    if {"task", "time"} & features.keys():
        raise BadLine("a task feature cannot be called task or time")
    return {"time": record.get("time"), "task": record["task"], **features}


class _Columns:
    """Makes typed columns of records, block by block; in all of them a name has values of one kind.

    An error names the row of its block.
    """

    def __init__(self) -> None:
        self.names: dict[str, dict[str, None]] = {"": {}, "context": {}, ARM_FEATURES: {}}
        self._kinds: dict[str, tuple[str, int]] = {}  # of every name, and the line where it was seen first

    def decisions(self, lines: Sequence[int], records: Sequence[dict[str, Any]]) -> pl.DataFrame:
        """Return records of decisions or rewards as a table with their lines, a column per feature."""
        import polars as pl

        self._note_names("", records)
        columns = [pl.Series("line", lines, dtype=pl.Int64())]
        columns += self.scalars(lines, records, (name for name in COLUMNS if name not in (*LISTS, "context")))
        columns += [
            self._lists(lines, [record.get(name) for record in records], name)
            for name in (*LISTS, *self.priced(records))
        ]
        for key in ("context", ARM_FEATURES):
            objects = [record.get(key) or {} for record in records]
            for row, value in enumerate(objects):
                if not isinstance(value, dict):
                    what = "features" if key == "context" else "lists"
                    raise BadRow(f"{key} must be an object of {what} by name, but {shown(value)} came", row)
            self._note_names(key, objects)
            for name in dict.fromkeys(chain.from_iterable(objects)):
                values = [value.get(name) for value in objects]
                if key == "context":
                    columns.append(self._scalar(lines, values, f"feature {name!r}").alias(f"context.{name}"))
                else:
                    columns.append(self._lists(lines, values, f"arm feature {name!r}").alias(f"{key}.{name}"))
        return pl.DataFrame(columns)

    def priced(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """Return which prices some records have."""
        return [name for name in PRICES if any(name in record for record in records)]

    def joined(self, tables: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, pl.Series]:
        """Return all decisions as the table of a log, and their lines."""
        import polars as pl

        table = pl.concat(tables, how="diagonal_relaxed")
        there = [name for name in PRICES if name in table.columns]
        frame = table.select(*(name for name in COLUMNS if name != "context"), *there)
        for key in ("context", ARM_FEATURES):
            features = [table[f"{key}.{name}"].alias(name) for name in self.names[key]]
            if features or key == "context":
                frame = frame.with_columns(join_features(features, table.height).alias(key))
        return frame, table["line"]

    def task_features(self, lines: Sequence[int], records: Sequence[dict[str, Any]]) -> pl.DataFrame:
        """Return time, task and features of lines that say what is known about tasks."""
        import polars as pl

        columns = self.scalars(lines, records, ("time", "task"))
        columns[0] = as_times(columns[0], "time")
        for name in list(dict.fromkeys(chain.from_iterable(records)))[2:]:
            values = [record.get(name) for record in records]
            columns.append(self._scalar(lines, values, f"task feature {name!r}").alias(name))
        return pl.DataFrame(columns)

    def scalars(self, lines: Sequence[int], records: Sequence[dict[str, Any]], names: Iterable[str]) -> list[pl.Series]:
        """Return columns of text, numbers or truth values."""
        return [self._scalar(lines, [record.get(name) for record in records], name).alias(name) for name in names]

    def _note_names(self, key: str, objects: Sequence[dict[str, Any]]) -> None:
        known = self.names[key]
        for row, value in enumerate(objects):
            if not value.keys() <= known.keys():
                known.update(dict.fromkeys(value))
                if len(known) > MOST_KEYS:
                    what = "features" if key else "keys"
                    raise BadRow(
                        f"with this line there are more than {MOST_KEYS} different {what}; they must not vary by line",
                        row,
                    )

    def _scalar(
        self, lines: Sequence[int], values: Sequence[Any], name: str, rows: Sequence[int] | None = None
    ) -> pl.Series:
        """Return a column; ``rows`` says in which row of the block each value stands, where several share one."""
        import polars as pl

        types = list(map(type, values))
        label = name in ("task", "arm")
        for one in sorted(set(types) - {type(None)}, key=types.index):
            place = types.index(one)
            row = place if rows is None else rows[place]
            if one not in KINDS or (label and one not in (str, int)):
                expected = LABEL if label else "must be a number, text, true or false"
                raise BadRow(f"{name} {expected}, but {shown(values[place])} came", row)
            kind, line = self._kinds.setdefault(name, (KINDS[one], lines[row]))
            if KINDS[one] != kind:
                raise BadRow(f"{name} is {KINDS[one]} here, but {kind} in line {line}; make it one kind", row)
        found = set(types) - {type(None)}
        if not found & {int, float}:
            return pl.Series(values, dtype={str: pl.String(), bool: pl.Boolean()}[found.pop()] if found else pl.Null())
        wide = (value is not None and not -(2**63) <= value < 2**63 for value in values)
        place = next((place for place, one in enumerate(wide) if one), -1) if found == {int} else -1
        if found == {int} and place < 0:
            return pl.Series(values, dtype=pl.Int64())
        if label:
            raise BadRow(f"{name} {LABEL}, but {shown(values[place])} came", place if rows is None else rows[place])
        numbers = pl.Series([None if value is None else as_float(value) for value in values], dtype=pl.Float64())
        if numbers.is_infinite().any():
            place = first_row(numbers.is_infinite())
            problem = f"{name} must be finite, but a number too large for a float came"
            raise BadRow(problem, place if rows is None else rows[place])
        return numbers

    def _lists(self, lines: Sequence[int], values: Sequence[Any], name: str) -> pl.Series:
        """Return a column of lists, made of one flat column: Polars would take each list through Python again."""
        import polars as pl

        for row, value in enumerate(values):
            if value is not None and not isinstance(value, list):
                raise BadRow(f"{name} must be a list, but {shown(value)} came", row)
        sizes = np.array([len(value) if value else 0 for value in values], dtype=np.int64)
        rows = np.repeat(np.arange(sizes.size), sizes)
        entries = list(chain.from_iterable(filter(None, values)))
        flat = self._scalar(lines, entries, "arm" if name == "eligible" else name, rows=rows.tolist()).alias("value")
        filled = pl.DataFrame([pl.Series("row", rows), flat]).group_by("row", maintain_order=True).agg("value")["value"]
        pool = pl.concat([filled, pl.Series("value", [[], None], dtype=filled.dtype)])
        # Rows with entries take the lists in order, others the empty list or the null behind them.
        place = np.cumsum(sizes > 0) - 1
        place[sizes == 0] = filled.len()
        place[np.array([value is None for value in values], dtype=bool)] = filled.len() + 1
        return pool.gather(pl.Series(place)).alias(name)


def as_float(value: float) -> float:
    """Return a number as a float; infinity if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def write_jsonl(log: Log, stream: IO[bytes]) -> None:
    """Write a log as JSON Lines, every key in every line; what rewards are is left out where nobody said it."""
    require_finite(log)
    if log.task_features is not None:
        table = log.task_features.with_columns(as_text(log.task_features["time"]))
        for row in table.iter_rows(named=True):
            when, task = row.pop("time"), row.pop("task")
            known = {TASK_FEATURES: row, "task": task, "time": when}
            stream.write(json.dumps(known, ensure_ascii=False).encode() + b"\n")
    for start in range(0, log.n_rows, ROWS):
        rows = frame_to_write(log)[start : start + ROWS]
        rows.with_columns(as_text(rows["time"]), as_text(rows["reward_time"])).write_ndjson(stream)


def frame_to_write(log: Log) -> pl.DataFrame:
    """Return the rows as files have them: without what rewards are, where nobody said it."""
    return log.frame if log.frame["reward_family"].count() else log.frame.drop("reward_family")


def require_finite(log: Log) -> None:
    """Refuse a log with NaN or infinity, which JSON cannot hold."""
    import polars as pl

    columns = [log.frame["propensity"], log.frame["reward"], *log.contexts]
    columns += [log.frame[name].alias(name) for name in NUMBER_LISTS]
    columns += [log.frame[ARM_FEATURES].struct.field(name) for name in log.arm_features]
    for values in columns:
        if values.dtype == pl.Float64():
            wrong = ~values.is_finite()
        elif values.dtype == pl.List(pl.Float64()):
            wrong = ~values.list.eval(pl.element().is_finite()).list.all()
        else:
            continue
        if wrong.any():
            row = first_row(wrong)
            raise NotFinite(
                f"{values.name} in row {row} of the log is NaN or infinite, which JSON cannot hold; make it null"
            )
