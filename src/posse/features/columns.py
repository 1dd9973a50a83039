"""One raw feature for many rows, whatever holds it.

A kind of feature knows how to read one value. A column applies that to all its rows: as one array where the values are
numbers already, else once per distinct value. So one row and many rows cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from posse.errors import InvalidValue
from posse.types import Array, IntArray

if TYPE_CHECKING:
    import polars as pl


class Column(Protocol):
    """The raw values of one feature."""

    def value(self, row: int) -> Any:
        """Return one raw value; None where there is none."""

    def values(self) -> list[Any]:
        """Return all raw values as Python's own."""

    def floats(self, read: Callable[[Any, int], float]) -> Array:
        """Return the values as floats, NaN where one is missing; ``read(value, row)`` where they are no numbers."""

    def places(self, find: Callable[[Any, int], int]) -> IntArray:
        """Return ``find(value, row)`` of every row."""


class ListColumn:
    """Python values, read one by one."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def value(self, row: int) -> Any:
        """Return one raw value."""
        return self._values[row]

    def values(self) -> list[Any]:
        """Return all raw values."""
        return self._values

    def floats(self, read: Callable[[Any, int], float]) -> Array:
        """Return what ``read`` makes of the values."""
        values = (read(value, row) for row, value in enumerate(self._values))
        return np.fromiter(values, dtype=np.float64, count=len(self._values))

    def places(self, find: Callable[[Any, int], int]) -> IntArray:
        """Return what ``find`` makes of the values."""
        values = (find(value, row) for row, value in enumerate(self._values))
        return np.fromiter(values, dtype=np.int64, count=len(self._values))


class NumberColumn:
    """A NumPy array of bools, whole numbers or floats."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    def value(self, row: int) -> Any:
        """Return one raw value."""
        return self._values[row].item()

    def values(self) -> list[Any]:
        """Return all raw values."""
        return self._values.tolist()  # type: ignore[no-any-return]

    def floats(self, read: Callable[[Any, int], float]) -> Array:  # noqa: ARG002 -- they are numbers
        """Return the values as floats."""
        return np.ascontiguousarray(self._values, dtype=np.float64)

    def places(self, find: Callable[[Any, int], int]) -> IntArray:
        """Return what ``find`` makes of the distinct values."""
        distinct, codes = np.unique(self._values, return_inverse=True)
        return _spread(distinct.tolist(), codes, find)


class SeriesColumn:
    """A column of a Polars table."""

    def __init__(self, values: pl.Series) -> None:
        self._values = values

    def value(self, row: int) -> Any:
        """Return one raw value."""
        return self._values[row]

    def values(self) -> list[Any]:
        """Return all raw values."""
        return self._values.to_list()

    def floats(self, read: Callable[[Any, int], float]) -> Array:
        """Return the values as floats, without a copy where they are floats without nulls."""
        import polars as pl

        dtype = self._values.dtype
        if dtype.is_float() or dtype.is_integer() or dtype == pl.Boolean():
            return self._values.cast(pl.Float64()).to_numpy()
        return ListColumn(self._values.to_list()).floats(read)

    def places(self, find: Callable[[Any, int], int]) -> IntArray:
        """Return what ``find`` makes of the distinct values."""
        import polars as pl

        values = self._values
        if values.dtype.is_nested() or values.dtype in (pl.Object(), pl.Null()):
            return ListColumn(values.to_list()).places(find)
        if values.dtype.is_float():
            values = values.fill_nan(None)
        distinct = values.drop_nulls().unique()
        order = pl.Series(range(len(distinct)), dtype=pl.Int64())
        # Nulls match nothing and get the last place, where None stands.
        codes = values.replace_strict(distinct, order, default=len(distinct), return_dtype=pl.Int64()).to_numpy()
        seen = [*distinct.to_list(), None] if values.null_count() else distinct.to_list()
        return _spread(seen, codes, find)


def _spread(distinct: list[Any], codes: IntArray, find: Callable[[Any, int], int]) -> IntArray:
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
