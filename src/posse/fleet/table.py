"""Learning a table of rewards."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.batches import is_many
from posse.checks import one_of
from posse.engine.commit import Step, commit
from posse.engine.learn import prepare_rows
from posse.errors import InvalidValue
from posse.fleet.checking import require_truth_value
from posse.fleet.drifting import times_of
from posse.fleet.rows import contexts_of, label_codes, required, rewards_of, without_missing
from posse.fleet.streaming import Columns, learn_stream
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet.posse import Posse
    from posse.fleet.streaming import Progress


def require_learnable(columns: Columns, absent_reward: float | None, refresh: Any) -> None:
    """Raise unless this is how a fleet with this absent reward can learn a table."""
    one_of(columns.missing_reward, "missing_reward", ("error", "skip", "absent"))
    require_truth_value(refresh, "refresh")
    if columns.missing_reward == "absent" and absent_reward is None:
        raise InvalidValue(
            'missing_reward="absent" learns absent_reward where there is none, but this fleet has none; '
            "make it with absent_reward"
        )


def rewarded_rows(table: Any, columns: Columns, absent_reward: float | None) -> pl.DataFrame:
    """Return the rows of a table that are learned; those without a reward are left out, or get the absent one."""
    frame = as_frame(table)
    if columns.missing_reward == "error" or columns.reward not in frame.columns:
        return frame
    return without_missing(frame, columns.reward, absent_reward if columns.missing_reward == "absent" else None)


def learn_table(
    fleet: Posse,
    table: Any,
    columns: Columns,
    *,
    refresh: bool,
    checkpoint: str | os.PathLike[str] | None,
    progress: Callable[[Progress], None] | None,
    time: str | None,
) -> int:
    """Learn the rows of a table; see :meth:`posse.Posse.learn_many`."""
    require_learnable(columns, fleet._late.absent_reward, refresh)
    if is_many(table):
        if time is not None:
            raise InvalidValue(
                "expected one table with time=..., whose rows it orders, got files that are read in batches; pass a "
                "table"
            )
        return learn_stream(fleet, table, columns, refresh=refresh, checkpoint=checkpoint, progress=progress)
    frame = rewarded_rows(table, columns, fleet._late.absent_reward)
    y = fleet._behaviour.family.check_many(rewards_of(required(frame, columns.reward, "reward")))
    task_labels, task_codes = label_codes(required(frame, columns.task, "task"), fleet._tasks)
    arm_labels, arm_codes = label_codes(required(frame, columns.arm, "arm"), fleet._arms)
    contexts = contexts_of(frame, fleet._features.names)
    engine, times = fleet._engine, None
    if time is not None:
        if engine.fading is None:
            raise InvalidValue("expected a fleet with drift for time=..., got one without; leave it out")
        times = times_of(required(frame, time, "time"))
    with fleet._lock:
        fleet._require_whole()
        arms = np.array([fleet._arms.number(label) for label in arm_labels], dtype=np.int64)
        spec = fleet._features if fleet._features.ready else fleet._features.learn_scaling(contexts)
        X = spec.encode_many(contexts)
        if not len(y):
            return 0
        engine.finish_background()
        numbers, new = fleet._tasks.numbered(engine.store, task_labels, fleet._tasks.known(task_labels))
        rows: Any = slice(None) if times is None else np.argsort(times, kind="stable")
        begin: list[Step] = [partial(fleet.__dict__.update, _features=spec)]
        if engine.fading is not None and times is not None:
            commit([*begin, *fleet._tasks.taking(engine.store, new)])
            learned = [0]
            try:
                engine.fading.learn_rows(
                    numbers[task_codes][rows], arms[arm_codes][rows], X[rows], y[rows], times[rows], estimate=refresh,
                    moving=lambda row: [partial(learned.__setitem__, 0, row + 1)],
                )  # fmt: skip
            except BaseException as error:
                error.add_note(f"the first {learned[0]:,} rows in the order of their times were learned")
                raise
            return len(y)
        if engine.fading is not None:
            engine.fading.advance(fleet._clock(), X)
        update = prepare_rows(
            engine, numbers[task_codes][rows], arms[arm_codes][rows], X[rows], y[rows], refresh=refresh, fit=True
        )
        taking = fleet._tasks.taking(engine.store, new)
        commit([*begin, *taking, *update.steps])
        engine.estimate_after(update)
        return len(y)
