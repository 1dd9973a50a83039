"""Vector operations against plain array code in the same order: every bit must agree.

They exist inside compiled code only. What calls them here is compiled in every run: a cache would not notice that they
changed.
"""

import numpy as np
from numba import njit

from posse.kernels.llvm.vector import (
    LANES,
    subtract_products,
)


@njit
def call_subtract_products(out, o, count, a, i, a_step, b, s, b_step, n):
    subtract_products(out, o, count, a, i, a_step, b, s, b_step, n)


def test_multiplication_and_addition_are_two_roundings():
    # (1 + e)^2 - (1 + 2e) is e^2 exactly, and 0 if the product is rounded before it is subtracted.
    e = 2.0**-30
    a, out = np.full(LANES, 1.0 + e), np.full(LANES, 1.0 + 2 * e)

    call_subtract_products(out, 0, 1, a, 0, 0, a, 0, 0, 1)

    assert out.tolist() == [0.0] * LANES
