"""The log of a fleet as a file that :func:`posse.logs.read_log` reads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from posse.logs.schema import ARM_FEATURES, PRICES
from posse.logs.writer import moment
from posse.storage import LoggedDecision, Storage

if TYPE_CHECKING:
    import polars as pl

    from posse.logs import Log

AT_ONCE = 200  # rows that are read at a time: a few milliseconds of work
PIECE = 5000  # rows of a piece of a Parquet file
LONG = 2000  # rows of a log from which on a process of its own reads it; starting one takes longer than fewer rows do


def is_long(storage: Storage, fleet: str, most: float = float("inf")) -> bool:
    """Say whether a fleet has so many decisions, ``most`` of which are read, that they are read apart."""
    row = storage.fleet(fleet)
    return row is not None and min(row.decisions, most) > LONG


def rows_of(storage: Storage, fleet: str) -> Iterator[list[LoggedDecision]]:
    """Yield all rows of a log, the oldest first, some at a time."""
    last = 0
    while rows := storage.decisions(fleet, after=last, limit=AT_ONCE):
        yield rows
        last = rows[-1].number


def json_lines(parts: Iterable[list[LoggedDecision]], rewards: str = "number") -> Iterator[bytes]:
    """Yield rows as JSON Lines; ``rewards`` is what the fleet's definition says that they are."""
    for rows in parts:
        yield b"".join(to_json(log_record(row, rewards)) + b"\n" for row in rows)


def read_rows(parts: Iterable[list[LoggedDecision]], rewards: str = "number") -> Log:
    """Return rows as a log; by way of a file, so that types are those which everybody gets who reads one."""
    from posse.logs import read_log

    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = Path(folder) / "log.jsonl"
        with path.open("wb") as stream:
            stream.writelines(json_lines(parts, rewards))
        return read_log(path)


def write_parquet(parts: Iterable[list[LoggedDecision]], path: Path, rewards: str = "number") -> None:
    """Write rows to a Parquet file, some at a time: no more than a few thousand are in memory."""
    import polars as pl

    from posse.logs import write_log

    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        pieces: list[Path] = []
        kinds: dict[str, dict[str, pl.DataType]] = {"context": {}, ARM_FEATURES: {}}
        for number, rows in enumerate(batched(chain.from_iterable(parts), PIECE)):
            log = read_rows([rows], rewards)
            for column in kinds.keys() & set(log.frame.columns):
                for name in log.frame[column].struct.fields:
                    values = log.frame[column].struct.field(name)
                    entries = values if column == "context" else values.explode()
                    # Where a feature is always null, its type says nothing.
                    if name not in kinds[column] or entries.null_count() < len(entries):
                        kinds[column][name] = values.dtype
            pieces.append(Path(folder) / f"{number}.parquet")
            write_log(log, pieces[-1], "parquet")
        if not pieces:
            write_log(read_rows([]), path, "parquet")
            return
        structs = [pl.col(column).cast(pl.Struct(names)) for column, names in kinds.items() if names]
        _one_after_another(pieces, structs).sink_parquet(path, row_group_size=PIECE)


def _one_after_another(pieces: list[Path], columns: list[pl.Expr]) -> pl.LazyFrame:
    """Return files as one table of which one file is in memory at a time; a plain concatenation reads many at once."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del with_columns, predicate, n_rows, batch_size  # all of it is asked for
        for piece in pieces:
            yield pl.read_parquet(piece).with_columns(columns)

    schema = pl.read_parquet(pieces[0]).with_columns(columns).schema
    return register_io_source(io_source=read, schema=schema)


def batched(rows: Iterable[LoggedDecision], size: int) -> Iterator[list[LoggedDecision]]:
    """Yield rows, so many at a time."""
    left = iter(rows)
    while some := list(islice(left, size)):
        yield some


def log_record(row: LoggedDecision, rewards: str = "number") -> dict[str, Any]:
    """Return a row as :mod:`posse.logs` reads it; ``rewards`` is what the fleet's definition says that they are."""
    body = json.loads(row.body)
    ranking = body.get("ranking")
    return {
        "decision_id": row.id,
        "time": moment(row.time),
        "task": row.task,
        "arm": row.arm,
        "eligible": body["eligible"],
        "probabilities": body["probabilities"] or None,
        "expected_rewards": body["mean"] or None,
        "propensity": row.propensity,
        "context": context_of(body),
        **({"arm_features": body["arm_features"]} if "arm_features" in body else {}),
        **{name: body[name] for name in PRICES if name in body},
        "policy": row.policy,
        "version": row.version,
        **({} if ranking is None else {"ranking_id": ranking[0], "ranking_place": ranking[1]}),
        "reward": row.reward,
        **({} if rewards == "number" else {"reward_family": rewards}),
        "reward_time": None if row.reward_time is None else moment(row.reward_time),
    }


def context_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return what was known before the decision: a catalogue's row has the features of the arm taken beside it."""
    of_arms = body.get("arm_features", {})
    known = {name: value for name, value in body["context"].items() if name not in of_arms}
    return {**known, **body.get("task_features", {})}
