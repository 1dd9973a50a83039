"""Products by blocks of columns are those of the plain loops to the last bit."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from posse.kernels.llvm.blocks import add_outer_rows, multiply_rows

# Not kept: a cached kernel would test code that is no longer there.
compiled = njit(error_model="numpy")

SIZES = [*range(1, 26), 31, 32, 33, 64]


@compiled
def multiply(matrix, x, out):
    multiply_rows(matrix, x, out)


@compiled
def add_outer(weight, x, out):
    add_outer_rows(weight, x, out)


def awkward(rng, *shape):
    """Numbers of very different sizes, so that the order of a sum shows in its last bits."""
    return rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 9, shape)


@pytest.mark.parametrize("d", SIZES)
def test_a_product_is_that_of_the_loop_over_rows(d):
    rng = np.random.default_rng(d)
    matrix, x, out = awkward(rng, d, d), awkward(rng, d), np.full(d + 1, 7.0)
    multiply(matrix, x, out[:d])

    plain = np.zeros(d)
    for row in range(d):
        plain = plain + x[row] * matrix[row]
    assert_array_equal(out[:d], plain)
    assert out[d] == 7.0, "nothing is written beyond the end"


@pytest.mark.parametrize("d", SIZES)
def test_an_outer_product_is_that_of_the_loop_over_entries(d):
    rng = np.random.default_rng(d)
    matrix, x = awkward(rng, d + 1, d), awkward(rng, d)
    out = matrix.copy()
    add_outer(0.3, x, out[:d])

    assert_array_equal(out[:d], matrix[:d] + 0.3 * (x[:, None] * x[None, :]))
    assert_array_equal(out[d], matrix[d])


def test_a_symmetric_matrix_stays_symmetric():
    rng = np.random.default_rng(0)
    out = np.eye(11)
    for _ in range(50):
        add_outer(-0.01, awkward(rng, 11), out)
    assert_array_equal(out, out.T)


def test_rows_of_a_larger_array_are_left_alone():
    rng = np.random.default_rng(1)
    stack, x, out = rng.standard_normal((5, 10, 10)), rng.standard_normal(10), np.zeros((3, 10))
    before = stack.copy()
    multiply(stack[2], x, out[1])
    add_outer(2.0, x, stack[3])

    assert_array_equal(out[[0, 2]], 0.0)
    np.testing.assert_allclose(out[1], x @ before[2])
    assert_array_equal(np.delete(stack, 3, axis=0), np.delete(before, 3, axis=0))
