"""Learning tables that do not fit in memory, a batch of rows at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posse.batches import ROWS, TableFiles
from posse.core.size import LARGEST
from posse.errors import InvalidValue, PosseError
from posse.features.quantities import CONSTANT, SMALLEST_SPREAD, Numeric
from posse.features.spec import FeatureSpec
from posse.fleet.file import VERSION, freeze_fleet, load_fleet
from posse.fleet.tables import Columns
from posse.interrupts import defer_interrupts
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet.posse import Posse

KIND = "fit"  # of the file of an unfinished one
SHARE = 20  # at most one part in so many of the time goes into checkpoints
SECONDS = 30.0  # between two checkpoints, at least


class Progress(NamedTuple):
    """How far learning a table has come.

    Parameters
    ----------
    rows : int
        Read so far, those that were left out included.
    total : int or None
        All rows; None if that is not known.
    seconds : float
        Since the start, or since it was continued.
    left : float or None
        Seconds that are left at this pace; None if that is not known.
    """

    rows: int
    total: int | None
    seconds: float
    left: float | None


def learn_stream(
    fleet: Posse,
    table: Any,
    columns: Columns,
    *,
    refresh: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Learn a table in batches; return how many rows. See :meth:`posse.Posse.learn_many`."""
    files = None if isinstance(table, Iterator) else TableFiles(table)
    begun = learned = 0
    if checkpoint is not None:
        if files is None:
            raise InvalidValue("expected the path of files with a checkpoint, got an iterator: nobody can go on in it")
        if Path(checkpoint).exists():
            begun, learned = _continue(fleet, files, columns, checkpoint)
    if not fleet.features.ready:
        if files is None:
            raise InvalidValue(
                "expected features with a known scaling for an iterator of tables, got some that wait for theirs; "
                "give center and spread, or use FeatureSpec.learn_scaling"
            )
        fleet.features = learn_scaling(fleet.features, files)
    batches = _frames(table) if files is None else files.batches(wanted_columns(files, fleet, columns), begun)
    total = None if files is None else files.n_rows
    start = saved = time.monotonic()
    cost, done = 0.0, begun
    try:
        for frame in batches:
            with defer_interrupts():  # a batch that was learned is counted, or a checkpoint would have it learned again
                learned += fleet.learn_many(frame, **columns._asdict(), refresh=False)
                done += frame.height
            now = time.monotonic()
            if progress is not None:
                left = None if total is None else (total - done) * (now - start) / max(done - begun, 1)
                progress(Progress(done, total, now - start, left))
            if checkpoint is not None and done != total and now - saved > max(SECONDS, SHARE * cost):
                _save(fleet, files, columns, checkpoint, done, learned)
                saved = time.monotonic()
                cost = saved - now
    except PosseError as error:
        if done > begun:
            # Whole batches before it were learned: rows cannot be taken back.
            error.add_note(f"the first {done:,} rows were learned; rows in this message are counted from there")
        raise
    except KeyboardInterrupt as stopped:
        if checkpoint is not None and done > begun:
            _save(fleet, files, columns, checkpoint, done, learned)
        if checkpoint is not None and done:
            stopped.add_note(
                f"the first {done:,} rows are in {os.fspath(checkpoint)}, and the same command goes on there"
            )
        raise
    if refresh and learned:
        with fleet.lock:
            fleet.core.ensure_fresh()
    return learned


def wanted_columns(files: TableFiles, fleet: Posse, columns: Columns) -> list[str]:
    """Return the columns of files that a fleet learns from."""
    import polars as pl

    schema = files.schema
    names = [columns.task, columns.arm, columns.reward, *([] if columns.time is None else [columns.time])]
    if "context" in schema and "context" not in fleet.features.names and isinstance(schema["context"], pl.Struct):
        names.append("context")
    else:
        names += fleet.features.names
    # One that is not there is missed by whoever looks for it.
    return [name for name in dict.fromkeys(names) if name in schema]


def learn_scaling(spec: FeatureSpec, files: TableFiles) -> FeatureSpec:
    """Return the features with the centre and spread of files for every standard scaling that has none yet.

    They have nine digits, so that they do not depend on the order in which threads add.
    """
    import polars as pl

    waiting = [feature for feature in spec.features if isinstance(feature, Numeric) and not feature.ready]
    absent = [feature.name for feature in waiting if feature.name not in files.schema]
    if absent:
        raise InvalidValue(f"expected a column {absent[0]!r} in {files.path}, got {', '.join(files.schema)}")
    looks = []
    for number, feature in enumerate(waiting):
        column = pl.col(feature.name).cast(pl.Float64)
        usable = column.filter(column.abs() <= LARGEST)
        looks += [
            usable.mean().alias(f"mean{number}"),
            usable.std(ddof=0).alias(f"sd{number}"),
            usable.abs().max().alias(f"most{number}"),
        ]
    found = files.collect(files.scan().select(looks)).row(0, named=True)
    scaled = {}
    for number, feature in enumerate(waiting):
        mean, sd, most = (found[f"{name}{number}"] for name in ("mean", "sd", "most"))
        if mean is None:
            raise InvalidValue(
                f"feature {feature.name!r} has no finite value to learn its scaling from; give center and "
                "spread instead"
            )
        spread = 1.0 if sd < SMALLEST_SPREAD or sd <= CONSTANT * most else sd
        scaled[feature.name] = Numeric(
            feature.name, feature.scale, float(f"{mean:.9g}"), float(f"{spread:.9g}"), feature.missing
        )
    return FeatureSpec([scaled.get(feature.name, feature) for feature in spec.features], intercept=spec.intercept)


def _frames(tables: Iterator[Any]) -> Iterator[pl.DataFrame]:
    for table in tables:
        frame = as_frame(table)
        for first in range(0, frame.height, ROWS):
            yield frame.slice(first, ROWS)


def _save(
    fleet: Posse,
    files: TableFiles | None,
    columns: Columns,
    path: str | os.PathLike[str],
    rows: int,
    learned: int,
) -> None:
    """Write a fleet with how many rows it has learned, and of which files and columns they are."""
    assert files is not None
    entry = {"files": files.signature, "columns": list(columns), "rows": rows, "learned": learned}
    freeze_fleet(fleet, look=False, kind=KIND, more={"fit": entry})(path)


def _continue(fleet: Posse, files: TableFiles, columns: Columns, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Go on where a checkpoint ends; return the rows that were read before it, and how many of them were learned."""
    from posse.container import open_container

    with open_container(path, kind=KIND, versions=(VERSION,)) as box:
        entry = box.header["fit"]
    saved = load_fleet(type(fleet), path, clock=fleet.clock, kind=KIND)
    if entry["files"] != files.signature or entry["columns"] != list(columns):
        raise InvalidValue(
            f"expected the checkpoint {os.fspath(path)} to be of these files and columns, got another fit's; "
            "remove it to start again, or name another"
        )
    mine, theirs = (
        (one.arms, one.policy, one.features.names, one.settings.prior, one.settings.drift, one.rewards)
        for one in (fleet, saved)
    )
    if mine != theirs:
        raise InvalidValue(
            f"expected the checkpoint {os.fspath(path)} to have the arms, features, policy, prior and drift of this "
            "fleet, got others; remove it to start again, or name another"
        )
    with fleet.lock:
        if fleet.tasks or fleet.n_decisions:
            raise InvalidValue(
                f"expected a new fleet to continue {os.fspath(path)} with, got one that has learned already; "
                "begin with a new one, or remove the checkpoint"
            )
        own = {name: fleet.__dict__[name] for name in ("lock", "clock", "notes", "background")}
        fleet.__dict__.update(saved.__dict__ | own)
        fleet.run_in_background(fleet.background)
    return int(entry["rows"]), int(entry["learned"])
