"""Vector operations against plain array code in the same order: every bit must agree.

They exist inside compiled code only. What calls them here is compiled in every run: a cache would not notice that they
changed.
"""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from posse.kernels.llvm.vector import (
    LANES,
    add_products,
    add_rows,
    add_squares,
    address,
    copy_row,
    fetch,
    interleave,
    inverse_root,
    scale_row,
    subtract_products,
)


@njit
def call_add_products(out, o, count, a, i, a_step, b, s, b_step, n):
    add_products(out, o, count, a, i, a_step, b, s, b_step, n)


@njit
def call_subtract_products(out, o, count, a, i, a_step, b, s, b_step, n):
    subtract_products(out, o, count, a, i, a_step, b, s, b_step, n)


@njit
def call_add_rows(out, b, count):
    add_rows(out, b, count)


@njit
def call_add_squares(out, b, count):
    add_squares(out, b, count)


@njit
def call_scale_row(out, o, a, i, count):
    scale_row(out, o, a, i, count)


@njit
def call_inverse_root(out, o, a, i, least, j):
    inverse_root(out, o, a, i, least, j)


@njit
def call_copy_row(out, o, b, s, count):
    copy_row(out, o, b, s, count)


@njit
def call_address(array, row):
    return address(array, row)


@njit
def call_interleave(addresses, count, out):
    interleave(addresses, count, out)


@njit
def call_fetch(array, row):
    fetch(array, row)


def entry(array, place):
    """The eight numbers from ``place`` on."""
    return array[place : place + LANES]


def numbers(rng, size):
    """Numbers of very different sizes, so that another order of sums would show."""
    return rng.standard_normal(size) * 10.0 ** rng.integers(-6, 7, size=size)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 11])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize(("call", "sign"), [(call_add_products, 1.0), (call_subtract_products, -1.0)])
def test_products_are_added_in_order(call, sign, n, count):
    rng = np.random.default_rng([count, n])
    for _ in range(20):
        # Places need not be those of a whole entry, and steps may be zero.
        a_step, b_step = int(rng.integers(0, 30)), int(rng.integers(0, 40))
        o, i, s = (int(place) for place in rng.integers(0, 25, size=3))
        out = numbers(rng, o + LANES * count + 9)
        a, b = numbers(rng, i + a_step * n + LANES), numbers(rng, s + b_step * n + LANES * (count + 1))
        expected, before = out.copy(), (a.copy(), b.copy())
        for c in range(count):
            for k in range(n):
                product = entry(a, i + k * a_step) * entry(b, s + k * b_step + c * LANES)
                entry(expected, o + c * LANES)[:] += sign * product

        call(out, o, count, a, i, a_step, b, s, b_step, n)

        assert out.tobytes() == expected.tobytes()
        assert (a.tobytes(), b.tobytes()) == (before[0].tobytes(), before[1].tobytes())


def test_multiplication_and_addition_are_two_roundings():
    # (1 + e)^2 - (1 + 2e) is e^2 exactly, and 0 if the product is rounded before it is subtracted.
    e = 2.0**-30
    a, out = np.full(LANES, 1.0 + e), np.full(LANES, 1.0 + 2 * e)

    call_subtract_products(out, 0, 1, a, 0, 0, a, 0, 0, 1)

    assert out.tolist() == [0.0] * LANES


def test_a_row_may_be_changed_by_the_rows_before_it():
    # What a factorisation does: rows of one array are taken from a later row of it.
    rng = np.random.default_rng(3)
    matrix = numbers(rng, 4 * 4 * LANES)
    expected = matrix.copy().reshape(4, 4, LANES)
    for k in range(2):
        expected[2, 2:] -= expected[k, 2] * expected[k, 2:]

    place = (2 * 4 + 2) * LANES
    call_subtract_products(matrix, place, 2, matrix, 2 * LANES, 4 * LANES, matrix, 2 * LANES, 4 * LANES, 2)

    assert matrix.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_rows_and_squares_are_added(count):
    rng = np.random.default_rng(count)
    b = numbers(rng, (count + 2) * LANES)
    for call, power in ((call_add_rows, 1), (call_add_squares, 2)):
        out = numbers(rng, (count + 2) * LANES)
        expected = out.copy()
        expected[: count * LANES] += b[: count * LANES] if power == 1 else b[: count * LANES] * b[: count * LANES]

        call(out, b, count)

        assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_a_row_is_scaled(count):
    rng = np.random.default_rng(count)
    for _ in range(10):
        o, i = (int(place) for place in rng.integers(0, 25, size=2))
        out, a = numbers(rng, o + (count + 1) * LANES), numbers(rng, i + LANES)
        expected = out.copy()
        for c in range(count):
            entry(expected, o + c * LANES)[:] *= entry(a, i)

        call_scale_row(out, o, a, i, count)

        assert out.tobytes() == expected.tobytes()


def test_an_inverse_root_has_a_least_pivot_and_lets_no_number_be_none():
    rng = np.random.default_rng(0)
    a, least = np.abs(numbers(rng, 3 + LANES)), np.full(5 + LANES, 0.5)
    a[3:6] = [-2.0, 0.0, np.nan]
    least[5 + 1] = 1e-3
    out, expected = np.full(1 + LANES, 9.0), np.full(1 + LANES, 9.0)
    pivots = entry(a, 3)
    expected[1:] = 1.0 / np.sqrt(np.where(pivots < entry(least, 5), entry(least, 5), pivots))

    call_inverse_root(out, 1, a, 3, least, 5)

    assert_array_equal(out, expected)
    assert np.isnan(out[3])
    assert out[1:3].tolist() == [1.0 / np.sqrt(0.5), 1.0 / np.sqrt(1e-3)]


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_entries_are_copied(count):
    rng = np.random.default_rng(count)
    for _ in range(10):
        o, s = (int(place) for place in rng.integers(0, 25, size=2))
        out, b = numbers(rng, o + (count + 1) * LANES), numbers(rng, s + (count + 1) * LANES)
        expected = out.copy()
        expected[o : o + count * LANES] = b[s : s + count * LANES]

        call_copy_row(out, o, b, s, count)

        assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(7,), (7, 5), (7, 3, 4)])
def test_the_address_of_a_row_is_where_it_begins(shape):
    array = np.zeros(shape)

    for row in range(7):
        assert call_address(array, row) == array[row:].ctypes.data


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 9, 16, 23, 55])
def test_rows_become_lanes(count):
    rng = np.random.default_rng(count)
    # Rows anywhere, some of them the same; what stands beyond the count is left alone.
    rows = [numbers(rng, count + int(rng.integers(0, 9))) for _ in range(LANES - 1)]
    rows.append(rows[2])
    out = np.full(LANES * count + 5, 9.0)

    call_interleave(np.array([row.ctypes.data for row in rows]), count, out)

    expected = np.array([row[:count] for row in rows]).T.ravel()
    assert out[: LANES * count].tobytes() == expected.tobytes()
    assert (out[LANES * count :] == 9.0).all()


@pytest.mark.parametrize("shape", [(7,), (7, 5), (7, 30)])
def test_asking_memory_for_a_row_changes_nothing(shape):
    array = np.random.default_rng(0).standard_normal(shape)
    before = array.tobytes()

    for row in range(7):
        call_fetch(array, row)

    assert array.tobytes() == before
