import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse import checks, errors
from posse.errors import (
    InvalidValue,
    MissingDependency,
    NotFinite,
    NotPositiveDefinite,
    PosseError,
    PosseWarning,
    ResultFileError,
    SettingsDiffer,
    ShapeError,
    UnknownArm,
    UnknownLabel,
    UnknownPolicy,
    UnknownTask,
)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (InvalidValue, (PosseError, ValueError)),
        (ShapeError, (InvalidValue,)),
        (NotFinite, (InvalidValue,)),
        (NotPositiveDefinite, (InvalidValue,)),
        (UnknownLabel, (PosseError, KeyError)),
        (UnknownTask, (UnknownLabel,)),
        (UnknownArm, (UnknownLabel,)),
        (UnknownPolicy, (UnknownLabel,)),
        (ResultFileError, (PosseError, ValueError)),
        (SettingsDiffer, (ResultFileError,)),
        (MissingDependency, (PosseError, ImportError)),
        (PosseWarning, (UserWarning,)),
    ],
)
def test_error_tree_is_as_drawn(error, parents):
    assert all(issubclass(error, parent) for parent in parents)
    assert error.__name__ in errors.__doc__


@pytest.mark.parametrize("error", [InvalidValue, UnknownTask, MissingDependency])
def test_messages_are_shown_as_sentences(error):
    # KeyError would show the quoted repr.
    assert str(error('no task "a"')) == 'no task "a"'
    assert str(error()) == error.__name__


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_number_comes_back_as_int(value):
    result = checks.whole_number(value, "passes", at_least=3)

    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2, "passes to be at least 3, got 2"),
        (3.0, "passes to be a whole number of at least 3, got 3.0"),
        (True, "passes to be a whole number of at least 3, got True"),
        ("3", "passes to be a whole number of at least 3, got '3'"),
        (None, "passes to be a whole number of at least 3, got None"),
        (math.nan, "passes to be a whole number of at least 3, got nan"),
    ],
)
def test_other_than_a_whole_number_is_refused(value, message):
    with pytest.raises(InvalidValue) as caught:
        checks.whole_number(value, "passes", at_least=3)

    assert str(caught.value) == f"expected {message}"


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), Fraction(4, 2)])
def test_number_comes_back_as_float(value):
    result = checks.number(value, "scale", above=1.5, at_least=2)

    assert result == 2.0
    assert type(result) is float


@pytest.mark.parametrize(
    ("value", "limits", "error", "message"),
    [
        (0, {"above": 0}, InvalidValue, "scale to be greater than 0, got 0"),
        (-0.5, {"at_least": 0}, InvalidValue, "scale to be at least 0, got -0.5"),
        (math.nan, {}, NotFinite, "scale to be finite, got nan"),
        (-math.inf, {}, NotFinite, "scale to be finite, got -inf"),
        (True, {}, InvalidValue, "scale to be a number, got True"),
        ("1", {}, InvalidValue, "scale to be a number, got '1'"),
        (1j, {}, InvalidValue, "scale to be a number, got 1j"),
        (None, {}, InvalidValue, "scale to be a number, got None"),
    ],
)
def test_other_than_a_number_in_range_is_refused(value, limits, error, message):
    with pytest.raises(error) as caught:
        checks.number(value, "scale", **limits)

    assert str(caught.value) == f"expected {message}"


def test_number_beyond_the_floats_is_refused():
    with pytest.raises(NotFinite, match="scale"):
        checks.number(10**400, "scale")


def test_limits_of_a_number_are_where_they_say():
    assert checks.number(0, "scale", at_least=0) == 0.0
    with pytest.raises(InvalidValue):
        checks.number(0, "scale", above=0)


def test_choice_is_among_the_choices():
    assert checks.one_of("b", "letter", ("a", "b")) == "b"
    with pytest.raises(InvalidValue) as caught:
        checks.one_of("c", "letter", ("a", "b"))

    assert str(caught.value) == "expected letter to be one of 'a', 'b', got 'c'"


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], order="F"), ((1, 2.0), (3, 4))])
def test_array_comes_back_contiguous_in_doubles(value):
    result = checks.real_array(value, "context")

    assert result.dtype == np.float64
    assert result.flags.c_contiguous
    assert_array_equal(result, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([1.0, math.nan], NotFinite, "context to be finite, got nan at index 1;"),
        ([[1.0, 2.0], [-math.inf, 4.0]], NotFinite, "context to be finite, got -inf at index (1, 0);"),
        (math.inf, NotFinite, "context to be finite, got inf;"),
        ([1.0, None], NotFinite, "context to be finite, got nan at index 1;"),
        ([[1.0], [1.0, 2.0]], InvalidValue, "context to be an array of numbers, got list"),
        ({"age": 1.0}, InvalidValue, "context to be an array of numbers, got dict"),
        ("wide", InvalidValue, "context to be an array of numbers, got str"),
        (np.array([1.0 + 1.0j]), InvalidValue, "context to be an array of numbers"),
    ],
)
def test_other_than_an_array_of_finite_numbers_is_refused(value, error, message):
    with pytest.raises(error) as caught:
        checks.real_array(value, "context")

    assert message in str(caught.value)


def test_labels_come_back_as_64_bit_whole_numbers():
    result = checks.labels(np.array([0, 3], dtype=np.uint8), "task", below=4, error=UnknownTask)

    assert result.dtype == np.int64
    assert_array_equal(result, [0, 3])
    assert checks.labels([], "task", below=4, error=UnknownTask).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([0, 4], UnknownArm, "arm 4 at row 1 is unknown; the arms are 0 to 3"),
        ([-1, 4], UnknownArm, "arm -1 at row 0 is unknown; the arms are 0 to 3"),
        ([0.0, 1.0], InvalidValue, "arm to be whole numbers from 0 to 3, got type float64"),
        ([[0, 1]], ShapeError, "arm to have one axis, got shape (1, 2)"),
        (2, ShapeError, "arm to have one axis, got shape ()"),
        ([[0], [0, 1]], InvalidValue, "arm"),
    ],
)
def test_other_than_known_labels_are_refused(value, error, message):
    with pytest.raises(error) as caught:
        checks.labels(value, "arm", below=4, error=UnknownArm)

    assert message in str(caught.value)
    assert isinstance(caught.value, PosseError)


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint64(3)])
def test_one_label_comes_back_as_int(value):
    result = checks.label(value, "task", below=4, error=UnknownTask)

    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize("value", [4, -1, 3.0, "3", None])
def test_other_than_a_known_label_is_refused(value):
    with pytest.raises(UnknownTask) as caught:
        checks.label(value, "task", below=4, error=UnknownTask)

    assert str(caught.value) == f"no task {value!r}; the tasks are 0 to 3"
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize(
    "value", [np.zeros((2, 2)), [[4.0, 2.0], [2.0, 1.0]], [[[2.0, -1.0], [-1.0, 3.0]]], [[1e-200, 0.0], [0.0, 1e200]]]
)
def test_semidefinite_matrices_are_covariances(value):
    assert_array_equal(checks.covariance(value, "S"), value)


def test_asymmetry_of_rounding_is_averaged_away():
    result = checks.covariance([[2.0, 1.0 + 1e-12], [1.0 - 1e-12, 2.0]], "S")

    assert_array_equal(result, [[2.0, 1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([1.0, 2.0], ShapeError, "S to be square matrices, got shape (2,)"),
        (np.ones((3, 2)), ShapeError, "S to be square matrices, got shape (3, 2)"),
        (np.ones((0, 0)), ShapeError, "S to be square matrices, got shape (0, 0)"),
        ([[1.0, math.nan], [math.nan, 1.0]], NotFinite, "S to be finite, got nan at index (0, 1)"),
        ([[1.0, 0.5], [0.5 + 1e-6, 1.0]], NotPositiveDefinite, "S to be symmetric, got entries that differ"),
        (
            [[1.0, 1.5], [1.5, 1.0]],
            NotPositiveDefinite,
            "S to be positive semidefinite, got a smallest eigenvalue of -0.5",
        ),
        ([[[1.0]], [[-2.0]]], NotPositiveDefinite, "S of arm 1 to be positive semidefinite"),
        # A small arm is measured on its own scale, not on that of its neighbour.
        ([[[1e9]], [[-1e-3]]], NotPositiveDefinite, "S of arm 1 to be positive semidefinite"),
        ([np.eye(2) * 1e9, [[1.0, 0.1], [0.2, 1.0]]], NotPositiveDefinite, "S to be symmetric"),
    ],
)
def test_other_than_a_covariance_is_refused(value, error, message):
    with pytest.raises(error) as caught:
        checks.covariance(value, "S")

    assert message in str(caught.value)
