"""Numbers: scaling by hand, every rule for missing ones, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue, NotFinite
from posse.features import FeatureSpec, numeric
from posse.features.columns import Column, NumberColumn


def encoded(feature, value):
    return FeatureSpec([feature], intercept=False).encode([value]).tolist()


def test_scaling_by_hand():
    assert encoded(numeric("x", center=50.0, spread=8.0), 54) == [0.5]
    assert encoded(numeric("x", center=50.0), 54) == [4.0]
    assert encoded(numeric("x", spread=8.0), 54) == [6.75]
    assert encoded(numeric("x", scale="standard", center=50.0, spread=8.0), 54) == [0.5]


@pytest.mark.parametrize(
    ("missing", "expected"), [("mean", [0.0]), ("indicator", [0.0, 1.0]), (54, [0.5]), (46.0, [-0.5])]
)
def test_a_missing_number(missing, expected):
    feature = numeric("x", center=50.0, spread=8.0, missing=missing)
    assert encoded(feature, None) == expected
    assert encoded(feature, 54) == [0.5, 0.0][: len(expected)]
    assert len(feature.columns) == feature.width == len(expected)


def test_a_missing_number_without_scaling():
    assert encoded(numeric("x", missing="indicator"), math.nan) == [0.0, 1.0]
    assert numeric("x", missing="indicator").columns == ("x", "x?")
    with pytest.raises(InvalidValue, match=r'feature "x" is missing; .* numeric\("x", missing=...\)'):
        encoded(numeric("x"), None)


@pytest.mark.parametrize(
    "value", ["3", "", b"3", [1.0], 1j, np.complex128(1), np.datetime64(1, "s"), np.timedelta64(1, "s"), {}]
)
def test_what_is_no_number(value):
    with pytest.raises(InvalidValue, match='feature "x" to be a number'):
        encoded(numeric("x"), value)


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, np.float32("inf"), 10**400, 1.1e50, -(10**51), np.longdouble("1e60")]
)
@pytest.mark.parametrize("missing", ["error", "indicator"])
def test_what_is_too_large(value, missing):
    for feature in (numeric("x", missing=missing), numeric("x", spread=1e30, missing=missing)):
        with pytest.raises(NotFinite, match='feature "x" '):
            encoded(feature, value)


def test_what_is_too_large_after_scaling():
    with pytest.raises(NotFinite, match=r'feature "x" at row 1 is 3.0, which scaling .* makes 3e\+50'):
        FeatureSpec([numeric("x", spread=1e-50)]).encode_many(np.array([[0.5], [3.0]]))
    with pytest.raises(NotFinite, match="makes 3e"):
        encoded(numeric("x", spread=1e-50), 3.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": "minmax"},
        {"scale": 1},
        {"scale": "standard", "center": 1.0},
        {"scale": "standard", "spread": 1.0},
        {"center": math.nan},
        {"center": "0"},
        {"center": 1e51},
        {"center": -1e51},
        {"spread": 0.0},
        {"spread": -1.0},
        {"spread": 1e-51},
        {"spread": math.inf},
        {"spread": True},
        {"missing": "mean"},
        {"missing": "zero"},
        {"missing": None},
        {"missing": math.nan},
        {"missing": 1e51},
        {"missing": True},
    ],
    ids=repr,
)
def test_declarations_that_are_refused(settings):
    with pytest.raises(InvalidValue, match='feature "x"'):
        numeric("x", **settings)


@pytest.mark.parametrize("name", ["", "x" * 201, None, 3, "\ud800"])
def test_names_that_are_refused(name):
    with pytest.raises(InvalidValue, match="name of a feature"):
        numeric(name)


def test_mean_and_standard_deviation_by_hand():
    feature = numeric("x", scale="standard", missing="mean")
    assert not feature.ready

    # Mean 4, mean square 2; whatever cannot be encoded is left out.
    learned = feature.learned(Column([2, 4.0, None, 6, math.nan, math.inf, 4]))

    assert learned.ready
    assert learned.center == 4.0
    assert learned.spread == math.sqrt(2.0)
    assert learned.missing == "mean"
    assert learned.scale == "standard"


@given(st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=20))
def test_a_learned_scaling_standardises(values):
    feature = numeric("x", scale="standard").learned(NumberColumn(np.array(values)))
    (column,) = feature.part(NumberColumn(np.array(values))).columns
    # The mean is off by rounding of numbers up to the largest, in units of the spread.
    rounding = 1e-13 * max(map(abs, values)) / feature.spread + 1e-13
    assert abs(column.mean()) <= rounding
    assert abs(column.std() - (len(set(values)) > 1)) <= 10 * rounding


@pytest.mark.parametrize("values", [[3.0], [0.1] * 7, [0.0, 0.0], [1e-60, 2e-60], [1e9, 1e9 + 1e-7]])
def test_a_constant_is_not_stretched(values):
    assert numeric("x", scale="standard").learned(NumberColumn(np.array(values))).spread == 1.0


def test_nothing_to_learn_from():
    with pytest.raises(InvalidValue, match='feature "x" has no finite value'):
        numeric("x", scale="standard").learned(Column([None, math.inf, math.nan]))
    with pytest.raises(InvalidValue, match='feature "x" at row 1 to be a number'):
        numeric("x", scale="standard").learned(Column([1.0, "2"]))


def test_values_too_large_to_encode_are_not_learned_from():
    assert numeric("x", scale="standard").learned(NumberColumn(np.array([1.0, 1e60, 3.0]))).center == 2.0


def test_it_reads_as_it_was_written():
    assert repr(numeric("x")) == "numeric('x')"
    feature = numeric("x", scale="standard", center=1, spread=2.5, missing=0)
    assert repr(feature) == "numeric('x', scale='standard', center=1.0, spread=2.5, missing=0.0)"
    assert eval(repr(feature)) == feature
