"""Contexts as they come, and what is said about those that cannot be read."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from posse.errors import InvalidValue, MissingData, ShapeError
from posse.features import FeatureSpec, numeric
from posse.features.parts import ROWS_AT_ONCE, Dense, Marks, assemble

SPEC = FeatureSpec(["age", numeric("hour", missing=-1.0)], intercept=False)
EXPECTED = [3.0, 0.5]


@dataclasses.dataclass
class Visit:
    shop: str
    hour: float
    age: int


class Tensor:
    """What other array libraries offer."""

    def __init__(self, array):
        self._array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return self._array


@pytest.mark.parametrize(
    "context",
    [
        {"age": 3, "hour": 0.5},
        OrderedDict(hour=0.5, age=3),
        defaultdict(int, age=3, hour=0.5),
        [3, 0.5],
        (3, 0.5),
        np.array([3, 0.5]),
        np.array([3, 0.5], dtype=object),
        np.array([3, 0.5], dtype=np.float32),
        np.array([9, 3, 9, 0.5])[1::2],
        Tensor([3, 0.5]),
        pl.Series([3, 0.5], strict=False),
        pd.Series([3, 0.5]),
        pd.Series({"hour": 0.5, "age": 3, "task": 7.0}),
        pd.Series({"hour": 0.5, "age": 3, "task": "x"}),
        namedtuple("Row", "task hour age")("x", 0.5, 3),
        Visit("x", 0.5, 3),
        next(pd.DataFrame({"age": [3], "hour": [0.5]}).itertuples()),
        pl.DataFrame({"age": [3], "hour": [0.5]}).row(0, named=True),
        pl.DataFrame({"age": [3], "hour": [0.5]}).row(0),
    ],
    ids=lambda context: type(context).__name__,
)
def test_one_context(context):
    assert SPEC.encode(context).tolist() == EXPECTED
    assert SPEC.encode_many([context, context]).tolist() == [EXPECTED, EXPECTED]


def test_many_contexts(tmp_path):
    frame = pl.DataFrame({"task": ["x", "y"], "hour": [0.5, None], "age": [3, 4]})
    frame.write_parquet(tmp_path / "log.parquet")
    masked = np.ma.array([[3, 0.5], [4, 99.0]], mask=[[False, False], [False, True]])
    for contexts in (
        frame,
        frame.lazy(),
        frame.to_dict(),
        tmp_path / "log.parquet",
        masked,
        [{"age": 3, "hour": 0.5}, {"age": 4}],
    ):
        assert SPEC.encode_many(contexts).tolist() == [[3.0, 0.5], [4.0, -1.0]]
    assert SPEC.encode_many(Tensor([[3, 0.5]])).tolist() == [EXPECTED]


def test_a_masked_entry_is_missing():
    assert SPEC.encode(np.ma.array([4.0, 99.0], mask=[False, True])).tolist() == [4.0, -1.0]


def test_a_name_that_is_not_declared_is_a_typo():
    with pytest.raises(InvalidValue, match='context has "houre", which is not declared; did you mean "hour"'):
        SPEC.encode({"age": 3, "houre": 0.5})
    with pytest.raises(InvalidValue, match='"task"'):
        SPEC.encode({"age": 3, "hour": 0.5, "task": "x"})
    with pytest.raises(InvalidValue, match='the context at row 1 has "houre"'):
        SPEC.encode_many([{"age": 3}, {"age": 3, "houre": 0.5}])
    with pytest.raises(InvalidValue, match="has 1, which"):
        SPEC.encode({"age": 3, 1: 0.5})


def test_rows_of_a_table_have_all_features():
    with pytest.raises(InvalidValue, match='context is a row without "age"; its fields are "hour", "task"'):
        SPEC.encode(namedtuple("Row", "hour task")(0.5, "x"))
    with pytest.raises(InvalidValue, match='without "age"'):
        SPEC.encode(pd.Series({"hour": 0.5}))
    with pytest.raises(InvalidValue, match='contexts has no column "age"; its columns are "hour"'):
        SPEC.encode_many({"hour": [0.5]})
    with pytest.raises(InvalidValue, match="twice"):
        SPEC.encode(pd.Series([1.0, 2.0, 3.0], index=["age", "hour", "age"]))


@pytest.mark.parametrize(
    "context", [[1.0], (1.0, 2.0, 3.0), np.zeros(3), np.zeros((2, 1)), np.array(1.0), [], pl.Series([1.0])]
)
def test_wrong_shapes(context):
    with pytest.raises(ShapeError):
        SPEC.encode(context)


@pytest.mark.parametrize(
    "context", [None, 3.0, "ab", b"ab", {1, 2}, pd.DataFrame({"age": [1]}), pl.DataFrame({"age": [1]}), Visit]
)
def test_what_is_no_context(context):
    with pytest.raises(InvalidValue, match="expected context to be"):
        SPEC.encode(context)


@pytest.mark.parametrize("contexts", [np.zeros(2), np.zeros((3, 1)), np.zeros((1, 2, 1)), Tensor([1.0, 2.0])])
def test_wrong_shapes_of_many(contexts):
    with pytest.raises(ShapeError, match=r"the shape \(rows, 2\), one column for each of \"age\", \"hour\""):
        SPEC.encode_many(contexts)


@pytest.mark.parametrize(
    "contexts", [None, 3.0, "ab", iter([]), {1, 2}, pl.Series([1.0, 2.0]), [1.0, 2.0], ["ab"], [None]]
)
def test_what_is_no_contexts(contexts):
    with pytest.raises(InvalidValue):
        SPEC.encode_many(contexts)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(MissingData):
        SPEC.encode_many(tmp_path / "gone.parquet")


def test_no_contexts():
    for contexts in ([], (), np.empty((0, 2)), {"age": [], "hour": []}):
        assert SPEC.encode_many(contexts).shape == (0, 2)


def test_what_came_is_left_as_it_was():
    array = np.array([[3, np.nan], [4, 0.5]])
    frame = pl.DataFrame(array.copy(), schema=["age", "hour"])
    before = array.copy()
    spec = FeatureSpec(["age", numeric("hour", center=1.0, spread=2.0, missing="mean")])
    result = spec.encode_many(array)
    result[...] = 7.0
    spec.encode(array[0])[...] = 7.0
    spec.encode_many(frame)[...] = 7.0
    plain = FeatureSpec(["age", numeric("hour", missing=0.0)], intercept=False)
    plain.encode_many(array)[...] = 7.0
    plain.encode_many(frame)[...] = 7.0
    np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(frame.to_numpy(), before)


@pytest.mark.parametrize("n_rows", [0, 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 3])
@pytest.mark.parametrize("lowest", [-1, 0])
def test_blocks_leave_no_seam(n_rows, lowest):
    rng = np.random.default_rng(5)
    x, flag = rng.normal(size=n_rows), rng.normal(size=n_rows)
    places = rng.integers(lowest, 3, size=n_rows)
    expected = np.zeros((n_rows, 6))
    expected[:, 0] = 1.0
    expected[:, 1], expected[:, 2] = x, flag
    for row, place in enumerate(places):
        if place >= 0:
            expected[row, 3 + place] = 1.0

    result = assemble([(1, Dense((x, flag))), (3, Marks(places))], n_rows, 6, intercept=True)

    np.testing.assert_array_equal(result, expected)


def test_without_an_intercept():
    x = np.array([2.0, 3.0])
    np.testing.assert_array_equal(assemble([(0, Dense((x,)))], 2, 1, intercept=False), [[2.0], [3.0]])
