"""Numbering values, against a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from posse.kernels.distinct import find_numbers, number_values, put_numbers

whole = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.integers(0, 40).map(lambda i: i << 40)


@given(st.lists(whole, max_size=60))
def test_values_are_numbered_in_the_order_in_which_they_come(values):
    table = np.full(1 << max(2 * len(values) - 1, 1).bit_length(), -1, dtype=np.int64)
    codes, distinct = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)

    count = number_values(np.array(values, dtype=np.int64), table, codes, distinct)

    expected: dict[int, int] = {}
    for value in values:
        expected.setdefault(value, len(expected))
    assert distinct[:count].tolist() == list(expected)
    assert_array_equal(codes, [expected[value] for value in values])


@given(st.lists(whole, unique=True, max_size=40), st.lists(whole, max_size=40))
def test_what_was_entered_is_found_and_nothing_else(entered, asked):
    size = 1 << max(2 * len(entered), 1).bit_length()
    keys, found = np.empty(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    put_numbers(np.array(entered, dtype=np.int64), np.arange(len(entered)), keys, found)
    asked = entered + asked
    out = np.empty(len(asked), dtype=np.int64)

    find_numbers(np.array(asked, dtype=np.int64), keys, found, out)

    assert out.tolist() == [entered.index(value) if value in entered else -1 for value in asked]
