"""Hashed categories: the columns never change between versions, processes and machines."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue
from posse.features import FeatureSpec, hashed


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        ("berlin", 608),
        ("", 227),
        ("Zürich", 529),
        (1, 313),
        ("1", 753),
        (True, 833),
        (False, 714),
        (0, 85),
        (-7, 904),
        (2**64 - 1, 377),
    ],
)
def test_pinned_columns(value, bucket):
    # These numbers stand in saved models: a coefficient belongs to its column for ever.
    assert hashed("city", 1000).bucket(value) == bucket


def test_pinned_columns_of_another_name_and_number_of_buckets():
    assert hashed("town", 1000).bucket("berlin") == 478
    assert hashed("city", 16).bucket("berlin") == 0


@given(st.text(min_size=1, max_size=5), st.text(max_size=5), st.integers(1, 10_000))
def test_the_column_is_blake2b_of_name_type_and_value(name, value, buckets):
    encoded = name.encode()
    digest = hashlib.blake2b(
        str(len(encoded)).encode() + b":" + encoded + b"s" + value.encode(), digest_size=8
    ).digest()
    assert hashed(name, buckets).bucket(value) == int.from_bytes(digest, "little") % buckets


def test_half_a_surrogate_pair_has_a_column():
    assert 0 <= hashed("city", 16).place("\ud800") < 16


def test_types_are_told_apart_and_numpy_is_not():
    feature = hashed("city", 10_000)
    assert len({feature.place(value) for value in ("1", 1, True)}) == 3
    assert feature.place(1) == feature.place(1.0) == feature.place(np.int8(1)) == feature.place(np.float32(1))
    assert feature.place("a") == feature.place(np.str_("a"))
    assert feature.place(True) == feature.place(np.bool(True))


def test_columns_are_used_evenly():
    feature = hashed("user", 50)
    counts = np.bincount([feature.place(f"user {k}") for k in range(10_000)], minlength=50)
    # 200 each; the standard deviation of a count is 14, and 5 of them leave a chance of 3e-5 over all columns.
    assert np.abs(counts - 200).max() < 70


def test_missing():
    assert hashed("city", 2, missing="zeros").place(None) == -1
    feature = hashed("city", 2, missing="category")
    assert feature.place(None) == 2
    assert feature.columns == ("city#0", "city#1", "city#(missing)")
    assert feature.width == 3
    assert FeatureSpec([feature]).encode([None]).tolist() == [1, 0, 0, 1]
    with pytest.raises(InvalidValue, match='feature "city" at row 4 is missing'):
        hashed("city", 2).place(None, 4)


@pytest.mark.parametrize("value", [1.5, 2.0**53 + 2, 2**64, b"a", [1], pytest.param(10**5000, id="long")])
def test_what_is_no_category(value):
    with pytest.raises(InvalidValue, match='feature "city" '):
        hashed("city", 4).place(value)


@pytest.mark.parametrize("buckets", [0, -1, 1.0, True, "4", None, 10_001, 10**30])
def test_buckets_that_are_refused(buckets):
    with pytest.raises(InvalidValue, match="buckets of feature"):
        hashed("city", buckets)


def test_missing_rules_that_are_refused():
    for rule in ("mean", None, 0.0):
        with pytest.raises(InvalidValue, match="missing of feature"):
            hashed("city", 4, missing=rule)


def test_it_is_a_value():
    feature = hashed("city", 16, missing="zeros")
    assert feature == copy.deepcopy(feature) == pickle.loads(pickle.dumps(feature)) == eval(repr(feature))
    assert feature != hashed("city", 17, missing="zeros")
    assert repr(feature) == "hashed('city', buckets=16, missing='zeros')"
