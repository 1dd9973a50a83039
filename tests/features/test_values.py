"""Single raw values, and how errors show them."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.features.values import category, quantity, shown


class Angry:
    def __repr__(self):
        raise RuntimeError


def test_errors_show_values_on_one_line():
    assert shown("red") == '"red"'
    assert shown(1.5) == "1.5"
    assert len(shown("x" * 10_000)) == 80
    assert shown(Angry()) == "a value of type Angry"
    assert shown(10**5000) == "a value of type int"  # more digits than Python prints


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.bool(False), 0.0),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.array(2.5), 2.5),
        (Decimal("0.1"), 0.1),
        (Fraction(1, 3), 1 / 3),
        (2**60 + 1, float(2**60 + 1)),
        (-0.0, -0.0),
        (1e50, 1e50),
    ],
)
def test_quantities(value, expected):
    result = quantity(value, "x", None)
    assert type(result) is float
    assert (result, math.copysign(1, result)) == (expected, math.copysign(1, expected))


@pytest.mark.parametrize("value", [None, math.nan, Decimal("nan"), np.float32("nan")])
def test_a_missing_quantity_is_nan(value):
    assert math.isnan(quantity(value, "x", None))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", "a"), (np.str_("a"), "a"), (1, 1), (np.uint8(1), 1), (1.0, 1), (np.bool(True), True), (np.array(3), 3)],
)
def test_categories(value, expected):
    result = category(value, "x", None)
    assert result == expected
    assert type(result) is type(expected)


def test_errors_name_the_feature_and_the_row():
    with pytest.raises(InvalidValue, match=r'^expected feature "x" to be a number, got "3"; convert it first$'):
        quantity("3", "x", None)
    with pytest.raises(InvalidValue, match=r'^feature "x" at row 7 is 1.5, which has a fraction'):
        category(1.5, "x", 7)
