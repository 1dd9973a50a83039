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
