"""Measure features from their means, so that a belief about a slope does not depend on the zero of its feature.

Temperatures near 290 and prices near 100 leave intercept and slopes entangled: at feature 0, far outside the data, the
reward may be anything, and a prior that knows nothing of it believes that it lies near the other rewards. So where a
column of the contexts is constant (an intercept) the population is learned in columns less their means,

    z = T x,  z_i = x_i - m_i x_c        c the constant column, m_i the mean of column i beside it, m_c = 0

Coefficients follow: ``theta_x = T' theta_z``. Sums and beliefs stay as they came, in x. Means move while data come in;
only what an :class:`posse.kernels.evidence.Evidence` holds depends on them.

Precisions and sums of products change like the contexts, covariances and coefficients the other way round.
"""

from __future__ import annotations

from posse.kernels.compiler import inner_kernel
from posse.types import Array, BoolArray


@inner_kernel
def column_of(intercept: BoolArray) -> int:
    """Return the constant column, -1 if there is none."""
    for i in range(intercept.shape[0]):
        if intercept[i]:
            return i
    return -1


@inner_kernel
def shift_precision(matrix: Array, mean: Array, intercept: BoolArray, sign: float) -> None:
    """Turn a precision, or sums of products, into that of centred columns, or back with ``sign`` -1, in place."""
    c, d = column_of(intercept), mean.shape[0]
    if c < 0:
        return
    for i in range(d):
        if mean[i] != 0.0:
            for j in range(d):
                matrix[i, j] -= sign * mean[i] * matrix[c, j]
    for j in range(d):
        if mean[j] != 0.0:
            for i in range(d):
                matrix[i, j] -= sign * mean[j] * matrix[i, c]


@inner_kernel
def shift_moment(moment: Array, mean: Array, intercept: BoolArray, sign: float) -> None:
    """Turn a moment, a precision times coefficients, into that of centred columns, or back, in place."""
    c = column_of(intercept)
    if c < 0:
        return
    for i in range(mean.shape[0]):
        moment[i] -= sign * mean[i] * moment[c]


@inner_kernel
def shift_covariance(matrix: Array, mean: Array, intercept: BoolArray, sign: float) -> None:
    """Turn a covariance of coefficients into that for centred columns, or back with ``sign`` -1, in place."""
    c, d = column_of(intercept), mean.shape[0]
    if c < 0:
        return
    for i in range(d):
        if mean[i] != 0.0:
            for j in range(d):
                matrix[c, j] += sign * mean[i] * matrix[i, j]
    for i in range(d):
        if mean[i] != 0.0:
            for j in range(d):
                matrix[j, c] += sign * mean[i] * matrix[j, i]


@inner_kernel
def shift_coefficients(coefficients: Array, mean: Array, intercept: BoolArray, sign: float) -> None:
    """Turn coefficients into those for centred columns, or back with ``sign`` -1, in place."""
    c = column_of(intercept)
    if c < 0:
        return
    for i in range(mean.shape[0]):
        coefficients[c] += sign * mean[i] * coefficients[i]
