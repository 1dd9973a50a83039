"""From rows of a table to the numbers that the arrays know tasks and arms by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import nearest
from posse.errors import InvalidValue, NotFinite
from posse.fleet.labels import Label, Labels
from posse.kernels.distinct import number_values
from posse.kernels.linalg import LARGEST, moderate

if TYPE_CHECKING:
    import polars as pl

    from posse.types import Array, IntArray


MANY = 1000  # rows from which on a table is worth its start


def listed(values: Any, expected: str) -> list[Any]:
    """Return any sequence as a list; what is none gets a clear error."""
    try:
        return list(values)
    except TypeError:
        raise InvalidValue(f"expected {expected}, got {type(values).__name__}; pass a list") from None


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


def without_missing(frame: pl.DataFrame, column: str, value: float | None) -> pl.DataFrame:
    """Return a table whose rows all have a reward: others are left out, or get ``value``."""
    import polars as pl

    numbers = frame.schema[column].is_float()
    if value is None:
        frame = frame.drop_nulls(column)
        return frame.drop_nans(column) if numbers else frame  # pandas has no other way to say that there is none
    rewards = pl.col(column).fill_nan(None) if numbers else pl.col(column)
    kind = frame.schema[column]
    if not kind.is_numeric() and kind != pl.Null:
        return frame  # rewards_of says what is wrong with it
    return frame.with_columns(rewards.cast(pl.Float64).fill_null(value).alias(column))


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


def rewards_of(series: pl.Series) -> Array:
    """Return rewards as finite floats."""
    import polars as pl

    if len(series) and not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise InvalidValue(
            f"expected rewards to be numbers, got the column {series.name!r} of type {series.dtype}; cast it first"
        )
    values: Array = np.ascontiguousarray(series.cast(pl.Float64).to_numpy())
    if not moderate(values):
        row = int(np.argmax(~(np.abs(values) <= LARGEST)))
        hint = '; missing_reward="skip" leaves out rows without a reward' if np.isnan(values[row]) else ""
        raise NotFinite(
            f"expected rewards to be finite and below {LARGEST:g} in size, got {values[row]} at row {row}{hint}"
        )
    return values


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
        values = values.tolist()
    elif hasattr(values, "tolist"):  # a pandas column
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
