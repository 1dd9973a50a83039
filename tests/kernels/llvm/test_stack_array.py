"""Room that belongs to one call alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from posse.kernels.llvm.stack_array import ON_THE_STACK, room

# Not kept: a cached kernel would test code that is no longer there.
compiled = njit(error_model="numpy")


@compiled
def fill(n_rows, n_columns, start):
    one, other = room(n_rows, n_columns), room(n_rows, n_columns)
    for i in range(n_rows):
        for j in range(n_columns):
            one[i, j] = start + i * n_columns + j
            other[i, j] = -1.0
    return one.shape, one.copy(), other[0].sum()


@pytest.mark.parametrize("size", [(1, 1), (3, 10), (2, ON_THE_STACK // 2), (2, ON_THE_STACK), (2000, 1000)], ids=str)
def test_stack_arrays_have_their_shape_and_do_not_overlap(size):
    shape, numbers, others = fill(*size, 5.0)
    assert shape == size
    assert_array_equal(numbers, 5.0 + np.arange(size[0] * size[1]).reshape(size))
    assert others == -size[1]


@compiled
def nested(times):
    total = 0.0
    for _ in range(times):
        total += fill(3, 300, 1.0)[2]
    return total


def test_stack_arrays_are_freed_after_each_call():
    # Kept, this would be 1.4 GB of stack.
    assert nested(100_000) == -300.0 * 100_000


def test_threads_have_stack_arrays_of_their_own():
    with ThreadPoolExecutor(4) as pool:
        for start, (_, numbers, _) in enumerate(pool.map(lambda start: fill(40, 50, start), np.arange(200.0))):
            assert_array_equal(numbers, start + np.arange(2000).reshape(40, 50))
