"""Columns: a value is read once where it comes often, and refused at the first row that has it."""

import math

import numpy as np
import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.features.columns import Column, NumberColumn, SeriesColumn

VALUES = [3, 1, 3, 2, 1]


@pytest.mark.parametrize(
    "column",
    [
        Column(VALUES),
        NumberColumn(np.array(VALUES)),
        SeriesColumn(pl.Series(VALUES)),
        SeriesColumn(pl.Series(VALUES, dtype=pl.Object)),
    ],
    ids=["list", "numbers", "series", "objects"],
)
def test_places_and_floats(column):
    assert column.places(lambda value, row: 10 * value).tolist() == [30, 10, 30, 20, 10]
    assert column.floats(lambda value, row: float(value)).tolist() == [3.0, 1.0, 3.0, 2.0, 1.0]
    assert column.value(3) == 2


@pytest.mark.parametrize("column", [NumberColumn(np.array(VALUES)), SeriesColumn(pl.Series(VALUES))])
def test_a_value_is_read_once(column):
    read = []
    column.places(lambda value, row: read.append(value) or 0)
    assert sorted(read) == [1, 2, 3]


@pytest.mark.parametrize(
    "column",
    [Column([5, None, 6]), SeriesColumn(pl.Series([5, None, 6])), SeriesColumn(pl.Series([5.0, math.nan, 6.0]))],
)
def test_what_is_missing_is_none(column):
    assert column.places(lambda value, row: -1 if value is None else int(value)).tolist() == [5, -1, 6]


@pytest.mark.parametrize("wrong", [[2], [3], [1, 2, 3], [2, 1]])
@pytest.mark.parametrize("kind", [Column, lambda v: NumberColumn(np.array(v)), lambda v: SeriesColumn(pl.Series(v))])
def test_refused_at_the_first_row(kind, wrong):
    def find(value, row):
        if value in wrong:
            raise InvalidValue(f"row {row}")
        return 0

    first = next(row for row, value in enumerate(VALUES) if value in wrong)
    with pytest.raises(InvalidValue, match=f"^row {first}$"):
        kind(VALUES).places(find)


def test_floats_of_a_table_are_not_copied():
    values = pl.Series([1.0, 2.0])
    assert np.shares_memory(SeriesColumn(values).floats(lambda value, row: 0.0), values.to_numpy())


def test_no_rows():
    for column in (Column([]), NumberColumn(np.empty(0)), SeriesColumn(pl.Series([], dtype=pl.String))):
        assert column.places(lambda value, row: 0).shape == (0,)
        assert column.floats(lambda value, row: 0.0).shape == (0,)
