"""Categories: every rule by hand, and types that are not mixed up."""

import enum
import math

import numpy as np
import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.features import FeatureSpec, one_hot


class Color(str, enum.Enum):  # noqa: UP042 -- str() of this one is not its value
    RED = "red"


def encoded(feature, value):
    return FeatureSpec([feature], intercept=False).encode([value]).tolist()


def test_columns():
    assert one_hot("c", ["red", "green"]).columns == ("c=red", "c=green")
    assert one_hot("c", [3, -1], unknown="other", missing="category").columns == (
        "c=3",
        "c=-1",
        "c=(other)",
        "c=(missing)",
    )
    assert one_hot("c", [True], missing="category").columns == ("c=True", "c=(missing)")


@pytest.mark.parametrize(
    ("unknown", "missing", "of_unknown", "of_missing"),
    [
        ("zeros", "zeros", [0, 0], [0, 0]),
        ("other", "zeros", [0, 0, 1], [0, 0, 0]),
        ("zeros", "category", [0, 0, 0], [0, 0, 1]),
        ("other", "category", [0, 0, 1, 0], [0, 0, 0, 1]),
    ],
)
def test_unknown_and_missing_by_hand(unknown, missing, of_unknown, of_missing):
    feature = one_hot("c", ["red", "green"], unknown=unknown, missing=missing)

    assert encoded(feature, "green") == [0, 1, 0, 0][: feature.width]
    assert encoded(feature, Color.RED) == [1, 0, 0, 0][: feature.width]
    assert encoded(feature, "blue") == of_unknown
    assert encoded(feature, "") == of_unknown  # the empty string is a category like any other
    for gap in (None, math.nan, np.float32("nan")):
        assert encoded(feature, gap) == of_missing


def test_the_default_is_to_refuse():
    feature = one_hot("c", ["red", "green"])
    with pytest.raises(InvalidValue, match='feature "c" is "blue", which is none of its categories "red", "green"; '):
        encoded(feature, "blue")
    with pytest.raises(InvalidValue, match='feature "c" is missing'):
        encoded(feature, None)


@pytest.mark.parametrize("unknown", ["error", "zeros", "other"])
@pytest.mark.parametrize(
    ("categories", "value"),
    [
        (["1", "2"], 1),
        (["1", "2"], 1.0),
        ([1, 2], "1"),
        ([1, 2], True),
        ([1, 2], np.bool(True)),
        ([True, False], 1),
        ([True, False], 1.0),
        ([True, False], "True"),
    ],
)
def test_a_value_of_another_type_is_refused_whatever_the_rule(categories, value, unknown):
    with pytest.raises(InvalidValue, match="convert it"):
        encoded(one_hot("c", categories, unknown=unknown), value)


def test_a_whole_number_may_come_as_a_float():
    feature = one_hot("c", [1, 2], unknown="zeros")
    assert encoded(feature, 2.0) == encoded(feature, np.float32(2)) == encoded(feature, np.int8(2)) == [0, 1]
    assert encoded(feature, 2.0**53) == [0, 0]
    assert encoded(one_hot("c", [0, 1]), -0.0) == [1, 0]


@pytest.mark.parametrize(
    "value", [1.5, 2.0**53 + 2, math.inf, 2**64, -(2**63) - 1, [1], b"1", 1j, np.timedelta64(1, "s")]
)
def test_what_is_no_category(value):
    for feature in (one_hot("c", [1, 2], unknown="zeros"), one_hot("c", ["1"], unknown="zeros")):
        with pytest.raises(InvalidValue, match='feature "c" '):
            encoded(feature, value)


@pytest.mark.parametrize(
    "categories",
    [
        [],
        "red",
        5,
        None,
        [1.0],
        [None],
        ["a", 1],
        [1, True],
        ["a", "a"],
        [np.int64(1), 1],
        [2**64],
        ["x" * 1001],
        ["\ud800"],
        [["a"]],
        range(10_001),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_declarations_that_are_refused(categories):
    with pytest.raises(InvalidValue, match='feature "c"'):
        one_hot("c", categories)


@pytest.mark.parametrize("rule", ["ignore", None, 0, ["zeros"]])
def test_rules_that_are_refused(rule):
    with pytest.raises(InvalidValue, match="unknown of feature"):
        one_hot("c", ["a"], unknown=rule)
    with pytest.raises(InvalidValue, match="missing of feature"):
        one_hot("c", ["a"], missing=rule)


def test_categories_from_arrays():
    expected = one_hot("c", ["a", "b"])
    assert (
        one_hot("c", np.array(["a", "b"]))
        == one_hot("c", pl.Series(["a", "b"]))
        == one_hot("c", ("a", "b"))
        == expected
    )
    assert one_hot("c", np.array([2, 1])) == one_hot("c", [2, 1])


def test_zero_and_one_are_not_false_and_true():
    assert one_hot("c", [0, 1]) != one_hot("c", [False, True])
    assert one_hot("c", [0, 1]) == one_hot("c", [0, 1])
    assert one_hot("c", [0, 1]) != one_hot("c", [1, 0])


def test_it_reads_as_it_was_written():
    feature = one_hot("c", ["a", "b"], missing="category")
    assert repr(feature) == "one_hot('c', ['a', 'b'], missing='category')"
    assert eval(repr(feature)) == feature
