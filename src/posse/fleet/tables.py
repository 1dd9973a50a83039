"""Tables of rewards: from rows to numbers, and learning them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from posse.batches import TableFiles, is_many
from posse.checks import nearest, one_of
from posse.core.size import LARGEST
from posse.errors import InvalidValue, NotFinite, ShapeError
from posse.features import FeatureSpec
from posse.features.declare import representative_rows
from posse.fleet.distinct import number_values
from posse.fleet.learning import learn_rows
from posse.fleet.names import Label, Labels, listed
from posse.fleet.settings import Settings, require_truth_value
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet.fleet import Fleet
    from posse.fleet.posse import Posse
    from posse.fleet.streaming import Progress
    from posse.logs import Log
    from posse.logs.columns import Asked
    from posse.types import Array, IntArray

F = TypeVar("F", bound="Posse")

MANY = 1000  # rows from which on a table is worth its start


class Columns(NamedTuple):
    """Where rows have what is learned, and what a null reward means."""

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"
    missing_reward: str = "error"
    time: str | None = None


# Columns.


def required(frame: pl.DataFrame, column: str, what: str) -> pl.Series:
    """Return a column that must be there and have no nulls."""
    import polars as pl

    if column not in frame.columns:
        raise InvalidValue(
            f"the table has no {what} column {column!r}; {nearest(column, frame.columns, 'columns')}; say which one it "
            f"is, as in {what}='...'"
        )
    series = frame.get_column(column)
    if series.null_count():
        row = int(series.is_null().arg_max() or 0)
        how = 'leave them out, as missing_reward="skip" does' if what == "reward" else "leave them out"
        raise InvalidValue(f"{what} is missing at row {row}, and in {series.null_count()} rows in all; {how}")
    return series.rechunk() if series.dtype != pl.Null else series


def contexts_of(frame: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the columns of the raw features, from the table itself or from the fields of its ``context`` column."""
    import polars as pl

    if "context" in frame.columns and "context" not in names and isinstance(frame.schema["context"], pl.Struct):
        return frame.get_column("context").struct.unnest()
    return frame


def label_codes(series: pl.Series, labels: Labels) -> tuple[list[Label], IntArray]:
    """Return the distinct names of a column in the order of their first row, and every row's position among them."""
    import polars as pl

    kind = series.dtype
    if not len(series):
        return [], np.empty(0, dtype=np.int64)  # a column without values may have any type
    if isinstance(kind, pl.Categorical | pl.Enum):
        series = series.cast(pl.String)
    elif not (kind.is_integer() or kind == pl.String):
        first = series[0]
        if kind == pl.Object:  # values of more than one kind, or whole numbers beyond 64 bits: the first wrong one says
            labels.checked_all(series.to_list())
        raise InvalidValue(
            f"{labels.what}s are named by text or whole numbers, but the column {series.name!r} has type {kind}"
            + (f" (its first value is {first!r})" if first is not None else "")
            + "; cast it first"
        )
    if series.dtype.is_integer() and len(series) >= MANY and series.dtype != pl.UInt64:
        values, numbers = _distinct(np.ascontiguousarray(series.cast(pl.Int64).to_numpy()))
        return labels.checked_all(values.tolist()), numbers
    if series.dtype == pl.String and len(series) >= MANY:
        # By hashes; that no two names have one is then checked.
        _, numbers = _distinct(series.hash().to_numpy().view(np.int64))
        first = np.empty(int(numbers.max()) + 1, dtype=np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        found = series.gather(first)
        if (found.gather(numbers) == series).all():
            return labels.checked_all(found.to_list()), numbers
    distinct = series.unique(maintain_order=True)
    names = labels.checked_all(distinct.to_list())
    codes = series.replace_strict(distinct, np.arange(len(distinct)), return_dtype=pl.Int64)
    return names, codes.to_numpy()


def _distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct numbers in the order of their first row, and every row's position among them."""
    size = 1 << max(2 * len(values) - 1, 1).bit_length()
    codes, found = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
    count = number_values(values, np.full(size, -1, dtype=np.int64), codes, found)
    return found[:count], codes


def sequence_codes(values: Any, labels: Labels) -> tuple[list[Label], IntArray]:
    """As :func:`label_codes`, for any sequence of names."""
    if hasattr(values, "to_numpy") and type(values).__module__.startswith("polars"):
        return label_codes(values, labels)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidValue(f"expected {labels.what}s to have one axis, got shape {values.shape}")
        if values.dtype.kind in "iu" and values.size >= MANY:
            import polars as pl

            return label_codes(pl.Series("tasks", values), labels)
    if hasattr(values, "tolist"):  # of an array, or a pandas column
        values = values.tolist()
    values = listed(values, f"{labels.what}s to be a sequence of names")
    if not {type(value) for value in values} <= {str} and not {type(value) for value in values} <= {int}:
        # True and 1.0 equal 1, and would be taken for it.
        values = [labels.checked(value) for value in values]
    positions: dict[Any, int] = {}
    try:
        codes = [positions.setdefault(value, len(positions)) for value in values]
    except TypeError as error:
        raise InvalidValue(f"{labels.what}s are named by text or whole numbers: {error}") from None
    return labels.checked_all(positions), np.asarray(codes, dtype=np.int64)


def rewards_of(series: pl.Series) -> Array:
    """Return rewards as finite floats."""
    import polars as pl

    if len(series) and not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise InvalidValue(
            f"expected rewards to be numbers, got the column {series.name!r} of type {series.dtype}; cast it first"
        )
    values: Array = np.ascontiguousarray(series.cast(pl.Float64).to_numpy())
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = '; missing_reward="skip" leaves out rows without a reward' if np.isnan(values[row]) else ""
        raise NotFinite(
            f"expected rewards to be finite and below {LARGEST:g} in size, got {values[row]} at row {row}{hint}"
        )
    return values


def times_of(column: pl.Series) -> Array:
    """Return a column of times, dates or seconds since the epoch, as seconds since the epoch."""
    import polars as pl

    if column.dtype in (pl.Date, pl.Datetime):
        moments = column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column.dt.cast_time_unit("us")
        column = moments.dt.epoch("us") / 1e6
    if not column.dtype.is_numeric():
        raise InvalidValue(
            f"expected times as dates or in seconds since the epoch, got a column of {column.dtype}; parse it first"
        )
    times: Array = np.array(column.cast(pl.Float64).to_numpy(), dtype=np.float64)
    if not np.isfinite(times).all():
        raise InvalidValue("expected a time in every row, got one that is missing or not finite; leave out such rows")
    return times


# Learning.


def require_learnable(columns: Columns, settings: Settings, refresh: Any) -> None:
    """Raise unless this is how a fleet with these settings can learn a table."""
    one_of(columns.missing_reward, "missing_reward", ("error", "skip", "absent"))
    require_truth_value(refresh, "refresh")
    if columns.missing_reward == "absent" and settings.absent_reward is None:
        raise InvalidValue(
            'missing_reward="absent" learns absent_reward where there is none, but this fleet has none; '
            "make it with absent_reward"
        )
    if columns.time is not None and settings.drift is None:
        raise InvalidValue("expected a fleet with drift for time=..., got one without; leave it out")


def rewarded_rows(table: Any, columns: Columns, absent_reward: float | None) -> pl.DataFrame:
    """Return the rows of a table that are learned; those without a reward are left out, or get the absent one."""
    import polars as pl

    frame, name = as_frame(table), columns.reward
    if columns.missing_reward == "error" or name not in frame.columns:
        return frame
    kind = frame.schema[name]
    if columns.missing_reward == "skip":
        frame = frame.drop_nulls(name)
        return frame.drop_nans(name) if kind.is_float() else frame  # pandas has no other way to say that there is none
    if not kind.is_numeric() and kind != pl.Null:
        return frame  # rewards_of says what is wrong with it
    rewards = pl.col(name).fill_nan(None) if kind.is_float() else pl.col(name)
    return frame.with_columns(rewards.cast(pl.Float64).fill_null(absent_reward).alias(name))


def encoded_rows(fleet: Fleet, tasks: Any, contexts: Any) -> tuple[list[Label], IntArray, Array]:
    """Return distinct task names, every row's position among them, and encoded contexts."""
    if isinstance(tasks, str):
        contexts = as_frame(contexts, name="contexts")
        labels, codes = label_codes(required(contexts, tasks, "task"), fleet.names.tasks)
    else:
        labels, codes = sequence_codes(tasks, fleet.names.tasks)
    X = fleet.features.encode_many(contexts)
    fleet.names.tasks.require_loaded(labels)
    if len(X) != len(codes):
        raise ShapeError(f"expected as many contexts as tasks, got {len(codes)} tasks and {len(X)} contexts")
    return labels, codes, X


def learn_table(
    fleet: Posse,
    table: Any,
    columns: Columns,
    *,
    refresh: bool,
    checkpoint: str | os.PathLike[str] | None,
    progress: Callable[[Progress], None] | None,
) -> int:
    """Learn the rows of a table; see :meth:`posse.Posse.learn_many`."""
    settings = fleet.settings
    require_learnable(columns, settings, refresh)
    if is_many(table):
        from posse.fleet.streaming import learn_stream

        return learn_stream(fleet, table, columns, refresh=refresh, checkpoint=checkpoint, progress=progress)
    frame = rewarded_rows(table, columns, settings.absent_reward)
    y = settings.family.check_many(rewards_of(required(frame, columns.reward, "reward")))
    task_labels, task_codes = label_codes(required(frame, columns.task, "task"), fleet.names.tasks)
    arm_labels, arm_codes = label_codes(required(frame, columns.arm, "arm"), fleet.names.arms)
    contexts = contexts_of(frame, fleet.features.names)
    times = None if columns.time is None else times_of(required(frame, columns.time, "time"))
    with fleet.lock:
        fleet.require_whole()
        arms = np.array([fleet.names.arms.number(label) for label in arm_labels], dtype=np.int64)
        spec = fleet.features if fleet.features.ready else fleet.features.learn_scaling(contexts)
        X = spec.encode_many(contexts)
        if len(y):
            learn_rows(fleet, task_labels, task_codes, arms[arm_codes], X, y, times, refresh=refresh, features=spec)
    return len(y)


# A fleet from a table of decisions and rewards.


def fit_fleet(
    fleets: type[F],
    table: Any,
    asked: Asked,
    *,
    features: FeatureSpec | None,
    rewards: str | None,
    missing_reward: str | None,
    settings: dict[str, Any],
) -> F:
    """Return a fleet that has learned a table; see :meth:`posse.Posse.fit`."""
    from posse.logs.many import scan_tables
    from posse.logs.reading import read_table, with_missing_rewards

    absent = settings.get("absent_reward")
    if not is_many(table):
        log = with_missing_rewards(read_table(table, **asked._asdict(), rewards=rewards), missing_reward, absent)
        fleet = fleets(**settings_for(log, features, settings))
        learn_log(fleet, log)
        return fleet
    if not isinstance(table, str | Path):
        raise InvalidValue("expected a table or files to fit, got an iterator; make a fleet, and use learn_many")
    scanned = scan_tables(TableFiles(table), asked, rewards)
    missing = scanned.missing_reward(missing_reward, absent)
    spec = FeatureSpec.from_table(representative_rows(scanned.contexts)) if features is None else features
    made: dict[str, Any] = {"arms": scanned.arms, "features": spec, "rewards": scanned.rewards}
    fleet = fleets(**made | settings)
    fleet.learn_many(table, task=asked.task, arm=asked.arm, reward=asked.reward, missing_reward=missing)
    return fleet


def settings_for(log: Log, features: FeatureSpec | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a fleet that learns a log: its arms, features and rewards, unless others are given."""
    if not log.n_rows:
        raise InvalidValue("expected a log with decisions, got one without rows")
    if log.unknown and not log.features:
        raise InvalidValue(
            f"expected features under 'context', got none, and {', '.join(log.unknown)} were not read; put them there, "
            "or pass a table"
        )
    spec = FeatureSpec.from_table(log.contexts) if features is None else features
    return {"arms": log.arms, "features": spec, "rewards": log.rewards} | settings


def learn_log(fleet: Posse, log: Log) -> int:
    """Learn the rows of a log that have a reward, where a fleet drifts as of their times; return how many."""
    frame, time = (log.frame, None) if fleet.settings.drift is None else _with_times(log.frame)
    return fleet.learn_many(frame, missing_reward="skip", time=time)


def _with_times(frame: pl.DataFrame) -> tuple[pl.DataFrame, str | None]:
    """Return rows, and the column that says when rewards came, or decisions were made, if the rows say so."""
    came = frame["reward_time"].fill_null(frame["time"])
    missing = came.null_count()
    if 0 < missing < frame.height:
        raise InvalidValue(
            f"expected the time of every row with drift, got {missing} of {frame.height} rows without; give them one, "
            "or leave them out"
        )
    return frame.with_columns(_came=came), None if missing else "_came"
