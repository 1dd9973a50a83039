"""Kernels called through their address, from Python and from other kernels."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.testing import assert_array_equal

from posse.kernels.llvm.callback import CompiledCallback, call
from posse.kernels.llvm.handle import Handle, Layout, floats

# Not kept: a cached kernel would test code that is no longer there.
compiled = njit(error_model="numpy")


class Box(NamedTuple):
    values: np.ndarray


LAYOUT = Layout(Box(floats(1)))
open_box = LAYOUT.open


def _scaler(factor):
    def scale(handle, place):
        open_box(handle).values[place] *= factor

    return CompiledCallback(scale)


DOUBLE, NEGATE = _scaler(2.0), _scaler(-1.0)


@compiled
def scale_all(address, handle):
    for place in range(open_box(handle).values.shape[0]):
        call(address, handle, place)
    return open_box(handle).values.sum()


def test_python_and_kernels_call_the_same_code():
    values = np.array([1.0, 2.0, 4.0])
    handle = Handle(LAYOUT, Box(values))

    DOUBLE(handle.address, 1)
    assert_array_equal(values, [1.0, 4.0, 4.0])
    # A kernel sees what the called one wrote.
    assert scale_all(DOUBLE.address, handle.address) == 18.0
    assert scale_all(NEGATE.address, handle.address) == -18.0
    assert_array_equal(values, [-2.0, -8.0, -8.0])


def test_nothing_is_compiled_before_it_is_asked_for():
    assert "_compiled" not in vars(_scaler(3.0))
