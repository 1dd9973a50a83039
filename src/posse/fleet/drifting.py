"""The drift of a fleet as people say and see it: half-lives, and the changes that were noticed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from posse.checks import number
from posse.engine.drift import EVERYWHERE
from posse.engine.fading import DAY, Fading
from posse.errors import InvalidValue

if TYPE_CHECKING:
    from posse.engine.engine import Engine
    from posse.fleet.labels import Label, Labels
    from posse.fleet.late import LateRewards
    from posse.types import Array

HalfLife: TypeAlias = float | timedelta


@dataclass(frozen=True, slots=True)
class NoticedChange:
    """A sudden change.

    Parameters
    ----------
    time : datetime
        When it was noticed, some rewards after it happened.
    task : str, int or None
        Of which task, or None if all of them changed.
    """

    time: datetime
    task: Label | None


def noticed_changes(fading: Fading, tasks: Labels) -> list[NoticedChange]:
    """Return the changes that were noticed."""
    return [
        NoticedChange(
            datetime.fromtimestamp(change.time, UTC),
            None if change.task == EVERYWHERE else tasks.label(change.task),
        )
        for change in fading.drift.changes
    ]


def drift_findings(fading: Fading, tasks: Labels) -> list[str]:
    """Return in plain sentences what was found about changes."""
    found, noticed = [], noticed_changes(fading, tasks)
    half_life = fading.half_life
    if fading.drift.learned and half_life is not None:
        found.append(
            f"coefficients change with time: a half-life of {in_words(half_life)} was learned, and older rewards "
            "count less"
        )
    everywhere = [change for change in noticed if change.task is None]
    if everywhere:
        often = "noticed" if len(everywhere) == 1 else f"{len(everywhere)} times so far, noticed last"
        found.append(
            f"all tasks changed at once, {often} on "
            f"{everywhere[-1].time:%Y-%m-%d at %H:%M} UTC: they started afresh then"
        )
    alone = [change for change in noticed if change.task is not None]
    if alone:
        many, last = len({change.task for change in alone}), alone[-1]
        who = f"task {last.task!r} changed suddenly and started afresh"
        if many > 1:
            who = f"{many} tasks changed suddenly and started afresh, the last of them {last.task!r}"
        found.append(f"{who}, noticed on {last.time:%Y-%m-%d at %H:%M} UTC")
    return found


def drift_json(fading: Fading, tasks: Labels) -> dict[str, Any]:
    """Return what was found as plain values."""
    half_life = fading.half_life
    return {
        "learned": fading.drift.learned,
        "half_life_days": None if half_life is None else half_life / timedelta(days=1),
        "changes": [
            {"time": change.time.isoformat(), "task": change.task} for change in noticed_changes(fading, tasks)
        ],
    }


def in_words(half_life: timedelta) -> str:
    """Return a half-life as people say it."""
    days = half_life / timedelta(days=1)
    if days >= 2:
        return f"{days:.3g} days"
    return f"{24 * days:.3g} hours" if days >= 1 / 24 else f"{86400 * days:.3g} seconds"


def new_fading(drift: Any, engine: Engine, late: LateRewards) -> Fading | None:
    """Return what an engine with this drift needs, or None if it has none; or raise if it cannot have it."""
    if drift is None:
        return None
    half_life = half_life_of(drift)
    if late.absent_reward is not None and late.count_pending:
        raise InvalidValue(
            "expected count_pending=False with absent_reward and drift, got True: what a decision counted as may have "
            "faded when its reward takes its place; pass count_pending=False"
        )
    return Fading(engine, half_life)


def half_life_of(drift: Any) -> float | None:
    """Return the half-life that was asked for, in seconds, or None if it is to be learned."""
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(
                f"expected drift to be None, 'learn', or a half-life in days or as a timedelta, got {drift!r}; pass "
                "one of these"
            )
        return None
    if isinstance(drift, timedelta):
        drift = drift / timedelta(days=1)
    return DAY * number(drift, "drift, a half-life in days,", above=0)


def times_of(column: Any) -> Array:
    """Return a column of times, dates or seconds since the epoch, as seconds since the epoch."""
    import polars as pl

    if column.dtype in (pl.Date, pl.Datetime):
        moments = column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column.dt.cast_time_unit("us")
        column = moments.dt.epoch("us") / 1e6
    if not column.dtype.is_numeric():
        raise InvalidValue(
            f"expected times as dates or in seconds since the epoch, got a column of {column.dtype}; parse it first"
        )
    times = column.cast(pl.Float64).to_numpy()
    if not np.isfinite(times).all():
        raise InvalidValue("expected a time in every row, got one that is missing or not finite; leave out such rows")
    return np.array(times, dtype=np.float64)
