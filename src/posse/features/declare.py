"""Features by looking at a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from posse.checks import nearest, whole_number
from posse.errors import InvalidValue
from posse.features.categories import one_hot
from posse.features.hashing import hashed
from posse.features.parts import Feature
from posse.features.quantities import numeric
from posse.features.values import shown
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl


def by_looking(
    table: Any, columns: Sequence[str] | None, *, scale: str | None, max_categories: int, buckets: int
) -> list[Feature]:
    """Return a feature for each of the columns, in their order."""
    frame = as_frame(table)
    if isinstance(columns, str):
        raise InvalidValue(f"expected columns to be a list of names, got {shown(columns)}; pass [{shown(columns)}]")
    names = frame.columns if columns is None else list(columns)
    absent = [name for name in names if name not in frame.columns]
    if absent:
        hint = nearest(absent[0], frame.columns, "columns", shown)
        raise InvalidValue(f"table has no column {', '.join(map(shown, absent))}; {hint}")
    most = whole_number(max_categories, "max_categories", at_least=0)
    return [_declared(frame[name], scale=scale, most=most, buckets=buckets) for name in names]


def _declared(column: pl.Series, *, scale: str | None, most: int, buckets: int) -> Feature:
    import polars as pl

    name, dtype = column.name, column.dtype
    if dtype.is_numeric() or dtype == pl.Boolean():
        gaps = column.null_count() > 0 or (dtype.is_float() and column.is_nan().any())
        return numeric(name, scale=scale, missing="indicator" if gaps else "error")
    missing = "category" if column.null_count() else "error"
    if dtype in (pl.String(), pl.Categorical()) or isinstance(dtype, pl.Enum):
        categories = column.drop_nulls().unique().cast(pl.String()).sort()
        if not len(categories):
            raise InvalidValue(f'column "{name}" has no values to take categories from; declare it by hand')
        if len(categories) > most:
            return hashed(name, buckets, missing=missing)
        return one_hot(name, categories.to_list(), unknown="zeros", missing=missing)
    raise InvalidValue(
        f'column "{name}" is of type {dtype}, neither a number nor text; leave it out of columns, or convert it'
    )
