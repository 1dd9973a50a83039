"""One raw feature for many rows, whatever holds it.

A kind of feature knows how to read one value. A column applies that to all its rows: as one array where the values are
numbers already, else once per distinct value. So one row and many rows cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.types import Array, IntArray

if TYPE_CHECKING:
    import polars as pl


class Column:
    """The raw values of one feature; here Python's own, read one by one.

    Parameters
    ----------
    values : list
    rows : sequence of int or None
        How errors call the rows; None: by their places.
    """

    def __init__(self, values: Any, rows: Sequence[int | None] | None = None) -> None:
        self._values, self._rows = values, rows

    def values(self) -> list[Any]:
        """Return all raw values as Python's own; None where there is none."""
        return self._values  # type: ignore[no-any-return]

    def value(self, place: int) -> Any:
        """Return one raw value as Python's own."""
        return self._values[place]

    def row(self, place: int) -> int | None:
        """Return how errors call the row of a value."""
        return place if self._rows is None else self._rows[place]

    def floats(self, read: Callable[[Any, int | None], float]) -> Array:
        """Return the values as floats, NaN where one is missing; ``read(value, row)`` where they are no numbers."""
        values = self.values()
        return np.array([read(value, self.row(place)) for place, value in enumerate(values)], dtype=np.float64)

    def places(self, find: Callable[[Any, int | None], int]) -> IntArray:
        """Return ``find(value, row)`` of every row."""
        values = self.values()
        return np.array([find(value, self.row(place)) for place, value in enumerate(values)], dtype=np.int64)


class NumberColumn(Column):
    """A NumPy array of bools, whole numbers or floats."""

    def values(self) -> list[Any]:
        """Return all raw values."""
        return self._values.tolist()  # type: ignore[no-any-return]

    def value(self, place: int) -> Any:
        """Return one raw value."""
        return self._values[place].item()

    def floats(self, read: Callable[[Any, int | None], float]) -> Array:  # noqa: ARG002 -- they are numbers
        """Return the values as floats."""
        return np.ascontiguousarray(self._values, dtype=np.float64)

    def places(self, find: Callable[[Any, int | None], int]) -> IntArray:
        """Return what ``find`` makes of the distinct values."""
        distinct, codes = np.unique(self._values, return_inverse=True)
        return _spread(distinct.tolist(), codes, find)


class SeriesColumn(Column):
    """A column of a Polars table."""

    def values(self) -> list[Any]:
        """Return all raw values."""
        return self._values.to_list()  # type: ignore[no-any-return]

    def floats(self, read: Callable[[Any, int | None], float]) -> Array:
        """Return the values as floats, without a copy where they are floats without nulls."""
        import polars as pl

        dtype = self._values.dtype
        if dtype.is_float() or dtype.is_integer() or dtype == pl.Boolean():
            return self._values.cast(pl.Float64()).to_numpy()  # type: ignore[no-any-return]
        return super().floats(read)

    def places(self, find: Callable[[Any, int | None], int]) -> IntArray:
        """Return what ``find`` makes of the distinct values."""
        import polars as pl

        values: pl.Series = self._values
        if values.dtype.is_nested() or values.dtype in (pl.Object(), pl.Null()):
            return super().places(find)
        if values.dtype.is_float():
            values = values.fill_nan(None)
        distinct = values.drop_nulls().unique()
        order = pl.Series(range(len(distinct)), dtype=pl.Int64())
        # Nulls match nothing and get the last place, where None stands.
        codes = values.replace_strict(distinct, order, default=len(distinct), return_dtype=pl.Int64()).to_numpy()
        seen = [*distinct.to_list(), None] if values.null_count() else distinct.to_list()
        return _spread(seen, codes, find)


def _spread(distinct: list[Any], codes: IntArray, find: Callable[[Any, int | None], int]) -> IntArray:
    """Return ``find(distinct[code])`` for every code; what it refuses is refused at the first row that has it."""
    places = np.empty(len(distinct), dtype=np.int64)
    refused = []
    for code, value in enumerate(distinct):
        try:
            places[code] = find(value, 0)
        except InvalidValue:
            refused.append(code)
    if refused:
        row = int(np.argmax(np.isin(codes, refused)))
        find(distinct[codes[row]], row)
    return places[codes]
