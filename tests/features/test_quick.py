"""The short way: taken by plain values, left to the long way by all others."""

import math

import numpy as np
import pytest

from posse.features import FeatureSpec, hashed, numeric, one_hot
from posse.features.quick import Quick

FEATURES = [
    numeric("x", center=1.0, spread=4.0, missing="indicator"),
    one_hot("c", ["red", "green"], unknown="other"),
    numeric("y"),
    hashed("h", 5),
    one_hot("b", [True, False]),
]


def test_by_hand():
    quick = Quick(FEATURES, intercept=True)
    bucket = FEATURES[3].bucket("z")
    expected = [1, 0.5, 0, 0, 1, 0, -2.0, *(float(k == bucket) for k in range(5)), 1, 0]
    assert quick.encode([3.0, "green", -2, "z", True], False).tolist() == expected


@pytest.mark.parametrize(
    "values",
    [
        [None, "red", 1.0, "z", True],
        [math.nan, "red", 1.0, "z", True],
        [math.inf, "red", 1.0, "z", True],
        [1e51, "red", 1.0, "z", True],
        [10**400, "red", 1.0, "z", True],
        [np.float32(1), "red", 1.0, "z", True],
        ["3", "red", 1.0, "z", True],
        [1.0, "blue", 1.0, "z", True],
        [1.0, None, 1.0, "z", True],
        [1.0, 1, 1.0, "z", True],
        [1.0, "red", 1.0, None, True],
        [1.0, "red", 1.0, 2**64, True],
        [1.0, "red", 1.0, 1.0, True],
        [1.0, "red", 1.0, "z", 1],
        [1.0, "red", 1.0, "z", 1.0],
        [1.0, ["red"], 1.0, "z", True],
    ],
    ids=repr,
)
def test_anything_odd_is_left_to_the_long_way(values):
    assert Quick(FEATURES, intercept=True).encode(values, False) is None


def test_an_array_of_numbers():
    quick = Quick([numeric("x", center=1.0, spread=4.0), numeric("y")], intercept=True)
    assert quick.encode_matrix(np.array([[3, 5], [1, -2]])).tolist() == [[1, 0.5, 5], [1, 0, -2]]
    for wrong in (math.nan, math.inf, 1e51):
        assert quick.encode_matrix(np.array([[3, 5], [1, wrong]])) is None
    assert Quick([numeric("x", spread=1e-50)], intercept=False).encode_matrix(np.array([[3.0]])) is None
    assert Quick([numeric("x", missing="indicator")], intercept=False).encode_matrix(np.array([[3.0]])) is None
    assert Quick([one_hot("c", [3])], intercept=False).encode_matrix(np.array([[3]])) is None


def test_the_common_case_takes_the_quick_way(monkeypatch):
    spec = FeatureSpec(FEATURES)
    monkeypatch.setattr(type(FEATURES[0]), "part", None)
    spec.encode({"x": 1.5, "c": "red", "y": 2, "h": "z", "b": False})
    spec.encode((1.5, "red", True, 7, False))
    FeatureSpec(["x", "y"]).encode(np.array([1.5, 2.5]))
