"""JSON Lines: one decision per line."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from posse.errors import DataFileError, NotFinite
from posse.logs.joining import join_rewards
from posse.logs.kinds import AtLine, BadLine, Kinds
from posse.logs.known import KnownLines, write_known
from posse.logs.log import Log
from posse.logs.rows import BadRow, first_row
from posse.logs.schema import ARM_FEATURES, COLUMNS, NUMBER_LISTS, join_features
from posse.logs.shapes import Shape, shape_of
from posse.logs.strict import read_line
from posse.logs.times import as_text, as_times

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 25  # bytes that are read at once
ROWS = 100_000  # rows that are written at once
FIRST = 200  # lines that are read one by one to learn what lines look like
FEW = 2000  # lines unlike the others in a block: so many are read one by one, then one more shape is tried
ROUNDS = 3


@dataclass(frozen=True)
class Part:
    """Some lines, read: their numbers, their values, and the features of contexts and of eligible arms."""

    lines: pl.Series
    values: pl.DataFrame
    features: dict[str, pl.Series]
    arm_features: dict[str, pl.Series]


def read_jsonl(path: str | Path) -> Log:
    """Read a file of JSON Lines, gzipped or not; see :func:`posse.logs.read_log`."""
    import polars as pl

    kinds, parts, known = Kinds(), [_part([], [], Kinds())], KnownLines()
    for first, lines in numbered_lines(path):
        numbers = pl.int_range(first, first + len(lines), dtype=pl.Int64(), eager=True)
        texts = pl.Series(lines, dtype=pl.String())
        present = texts.str.contains(r"[^ \t\r]")
        with _located(path):
            present &= ~known.take(numbers, texts)
            parts.extend(_read_block(numbers.filter(present), texts.filter(present), kinds))
    numbers, frame = _joined(parts, kinds)
    with _located(path, numbers):
        frame, numbers, notes = join_rewards(frame, numbers)
    with _located(path, numbers):
        unknown = tuple(key for key in kinds.order.keys if key not in (*COLUMNS, ARM_FEATURES))
        if kinds.of("reward") == "truth":
            frame = frame.with_columns(pl.col("reward").cast(pl.Boolean()))  # by which a log knows clicks
        return Log(frame, unknown=unknown, notes=notes, task_features=known.table())


class _located:  # noqa: N801 - used like a function
    """Turn a complaint about a line or row into one that names the file and the line."""

    def __init__(self, path: str | Path, lines: pl.Series | None = None) -> None:
        self.path, self.lines = path, lines

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, BadRow) and self.lines is not None:
            raise DataFileError(f"{self.path}, line {self.lines[error.row]}: {error.problem}") from None
        if isinstance(error, AtLine):
            raise DataFileError(f"{self.path}, line {error.line}: {error.problem}") from None


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


def _read_block(numbers: pl.Series, texts: pl.Series, kinds: Kinds) -> Iterator[Part]:
    """Read lines: by Polars where they have the shape of those seen so far, else one by one."""
    if not kinds.order.keys:
        yield _part(numbers[:FIRST].to_list(), texts[:FIRST].to_list(), kinds)
        numbers, texts = numbers[FIRST:], texts[FIRST:]
    for _ in range(ROUNDS):
        if texts.is_empty():
            return
        shape, fits = _fitting(texts, kinds)
        decoded = _decode(texts.filter(fits), shape)
        if decoded is None:
            break
        yield _typed(numbers.filter(fits), decoded)
        numbers, texts = numbers.filter(~fits), texts.filter(~fits)
        # A new shape may fit the rest once some of it was seen.
        yield _part(numbers[:FEW].to_list(), texts[:FEW].to_list(), kinds)
        numbers, texts = numbers[FEW:], texts[FEW:]
    yield _part(numbers.to_list(), texts.to_list(), kinds)


def _fitting(texts: pl.Series, kinds: Kinds) -> tuple[Shape, pl.Series]:
    import polars as pl

    shape = shape_of(kinds)
    try:
        return shape, texts.str.contains(shape.pattern)
    except pl.exceptions.ComputeError:  # too many features for a regular expression
        return shape, pl.repeat(False, texts.len(), eager=True)


def _decode(texts: pl.Series, shape: Shape) -> pl.DataFrame | None:
    """Return the columns of lines that have a shape; None if one of them is not JSON after all."""
    import polars as pl

    try:
        return texts.str.json_decode(shape.dtype).struct.unnest()
    except pl.exceptions.ComputeError:
        return None


def _typed(lines: pl.Series, values: pl.DataFrame) -> Part:
    """Return decoded lines with times for times and features apart."""
    apart: dict[str, dict[str, pl.Series]] = {"context": {}, ARM_FEATURES: {}}
    for key in apart.keys() & set(values.columns):
        struct = values[key].struct
        apart[key] = {name: struct.field(name) for name in struct.fields}
        values = values.drop(key)
    for name in {"time", "reward_time"} & set(values.columns):
        try:
            values = values.with_columns(as_times(values[name], name).alias(name))
        except BadRow as error:
            raise AtLine(int(lines[error.row]), error.problem) from None
    return Part(lines, values, apart["context"], apart[ARM_FEATURES])


def _part(lines: list[int], texts: list[str], kinds: Kinds) -> Part:
    """Read lines one by one."""
    import polars as pl

    records = []
    for line, text in zip(lines, texts, strict=True):
        try:
            records.append(read_line(text, line, kinds))
        except BadLine as error:
            raise AtLine(line, str(error)) from None
    types = {
        "decision_id": pl.String(),
        "task": kinds.dtype("task"),
        "arm": kinds.dtype("arm"),
        "propensity": pl.Float64(),
        "reward": pl.Float64(),
        "reward_family": pl.String(),
        "policy": pl.String(),
        "version": pl.String(),
        "ranking_id": pl.String(),
        "ranking_place": pl.Int64(),
    }
    columns = [pl.Series(key, [record[key] for record in records], dtype=dtype) for key, dtype in types.items()]
    columns.append(_lists([record["eligible"] for record in records], "eligible", kinds.dtype("arm")))
    columns += [_lists([record[key] for record in records], key, pl.Float64()) for key in NUMBER_LISTS]
    columns += [_times([record[key] for record in records], key, lines) for key in ("time", "reward_time")]
    contexts = [record["context"] for record in records]
    features = {}
    for name in kinds.features.keys:
        dtype = kinds.dtype(("context", name))
        entries = [context.get(name) for context in contexts]
        if dtype == pl.Float64():
            entries = [None if entry is None else float(entry) for entry in entries]
        features[name] = pl.Series(name, entries, dtype=dtype)
    return Part(pl.Series(lines, dtype=pl.Int64()), pl.DataFrame(columns), features, _arm_features(records, kinds))


def _arm_features(records: list[dict[str, Any]], kinds: Kinds) -> dict[str, pl.Series]:
    """Return the features of eligible arms, a column of lists each."""
    import polars as pl

    found = {}
    for name in kinds.arm_features.keys:
        dtype = _inner(kinds, name)
        lists = [record[ARM_FEATURES].get(name) for record in records]
        if dtype == pl.Float64():
            lists = [entries and [None if one is None else float(one) for one in entries] for entries in lists]
        found[name] = _lists(lists, name, dtype)
    return found


def _lists(values: list[list[Any] | None], name: str, inner: pl.DataType) -> pl.Series:
    """Return a column of lists, made of one flat column: Polars would take each list through Python again."""
    import polars as pl

    sizes = np.array([len(value) if value else 0 for value in values], dtype=np.int64)
    flat = pl.Series("value", [entry for value in values if value for entry in value], dtype=inner)
    rows = pl.Series("row", np.repeat(np.arange(sizes.size), sizes))
    filled = pl.DataFrame([rows, flat]).group_by("row", maintain_order=True).agg("value")["value"]
    pool = pl.concat([filled, pl.Series("value", [[], None], dtype=filled.dtype)])
    # Rows with entries take the lists in order, others the empty list or the null behind them.
    place = np.cumsum(sizes > 0) - 1
    none = np.array([value is None for value in values], dtype=bool)
    place[sizes == 0] = filled.len()
    place[none] = filled.len() + 1
    return pool.gather(pl.Series(place)).alias(name)


def _times(values: list[Any], name: str, lines: list[int]) -> pl.Series:
    """Return times, some of which may be text and others seconds."""
    import polars as pl

    texts = pl.Series([value if isinstance(value, str) else None for value in values], dtype=pl.String())
    seconds = pl.Series([None if isinstance(value, str) else value for value in values], dtype=pl.Float64())
    try:
        return as_times(texts, name).zip_with(texts.is_not_null(), as_times(seconds, name)).alias(name)
    except BadRow as error:
        raise AtLine(lines[error.row], error.problem) from None


def _joined(parts: list[Part], kinds: Kinds) -> tuple[pl.Series, pl.DataFrame]:
    """Return all parts in the order of their lines: the numbers of the lines, and the table."""
    import polars as pl

    def column(pieces: list[pl.Series | None], name: str, dtype: pl.DataType) -> pl.Series:
        return pl.concat(
            [
                (
                    pl.repeat(None, part.lines.len(), dtype=dtype, eager=True) if piece is None else piece.cast(dtype)
                ).alias(name)
                for part, piece in zip(parts, pieces, strict=True)
            ]
        )

    types = parts[0].values.schema | {
        "task": kinds.dtype("task"),
        "arm": kinds.dtype("arm"),
        "eligible": pl.List(kinds.dtype("arm")),
    }
    lines = pl.concat([part.lines for part in parts])
    columns = [
        column([part.values.get_column(name, default=None) for part in parts], name, dtype)
        for name, dtype in types.items()
    ]
    features = [
        column([part.features.get(name) for part in parts], name, kinds.dtype(("context", name)))
        for name in kinds.features.keys
    ]
    frame = pl.DataFrame([*columns, join_features(features, lines.len())])
    of_arms = [
        column([part.arm_features.get(name) for part in parts], name, pl.List(_inner(kinds, name)))
        for name in kinds.arm_features.keys
    ]
    if of_arms:
        frame = frame.with_columns(pl.DataFrame(of_arms).to_struct(ARM_FEATURES))
    if not lines.is_sorted():
        order = lines.arg_sort()
        lines, frame = lines.gather(order), frame[order]
    return lines, frame


def _inner(kinds: Kinds, name: str) -> pl.DataType:
    import polars as pl

    dtype = kinds.dtype((ARM_FEATURES, name))
    return dtype if dtype != pl.Null() else pl.Float64()


def write_jsonl(log: Log, stream: IO[bytes]) -> None:
    """Write a log as JSON Lines, every key in every line; what rewards are is left out where nobody said it."""
    require_finite(log)
    write_known(log.task_features, stream)
    for start in range(0, log.n_rows, ROWS):
        rows = said(log)[start : start + ROWS]
        rows.with_columns(as_text(rows["time"]), as_text(rows["reward_time"])).write_ndjson(stream)


def said(log: Log) -> pl.DataFrame:
    """Return the rows as files have them: a log of numbers is what it was before there were families."""
    return log.frame if log.frame["reward_family"].count() else log.frame.drop("reward_family")


def require_finite(log: Log) -> None:
    """Refuse a log with NaN or infinity, which JSON cannot hold."""
    import polars as pl

    columns = [log.frame["propensity"], log.frame["reward"], *log.contexts]
    wrong = [(values.name, ~values.is_finite()) for values in columns if values.dtype == pl.Float64()]
    wrong += [(name, ~log.frame[name].list.eval(pl.element().is_finite()).list.all()) for name in NUMBER_LISTS]
    for name in log.arm_features:
        values = log.frame[ARM_FEATURES].struct.field(name)
        if values.dtype == pl.List(pl.Float64()):
            wrong.append((name, ~values.list.eval(pl.element().is_finite()).list.all()))
    for name, mask in wrong:
        if mask.any():
            row = first_row(mask)
            raise NotFinite(f"{name} in row {row} of the log is NaN or infinite, which JSON cannot hold; make it null")
