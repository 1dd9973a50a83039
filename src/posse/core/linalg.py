"""Dense algebra on small matrices; packed ones are upper triangles, row after row."""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.types import Array

EPSILON = float(np.finfo(np.float64).eps)
ZERO = np.zeros(1, dtype=np.int64)  # ZERO[0] is no constant, for which functions would be compiled once more


@inlined
def factorise(packed: Array, row: int, d: int, floors: Array, arm: int, scale: float) -> None:
    """Overwrite a packed matrix by U with U'U = matrix, reciprocals on the diagonal.

    The matrix begins in column 1 of this row. Rounding takes no squared pivot below ``scale`` times row ``d`` of the
    floors of an arm.
    """
    at = 1
    for k in range(d):
        root = 1.0 / math.sqrt(max(packed[row, at], scale * floors[arm, d, k]))
        packed[row, at] = root
        for j in range(1, d - k):
            packed[row, at + j] *= root
        below = at + d - k
        for i in range(1, d - k):
            factor = packed[row, at + i]
            for j in range(i, d - k):
                packed[row, below + j - i] -= factor * packed[row, at + j]
            below += d - k - i
        at += d - k


@compiled
def solve(factors: Array, row: int, rhs: Array, out: Array) -> None:
    """Write the solution of ``U'U out = rhs``; the packed U begins in column 1 of this row.

    The row is a number, as a part of an array costs more to make than a small system to solve.
    """
    d, at = rhs.shape[0], 1
    for i in range(d):
        out[i] = rhs[i]
    for i in range(d):
        value = out[i] * factors[row, at]
        out[i] = value
        for j in range(1, d - i):
            out[i + j] -= factors[row, at + j] * value
        at += d - i
    for i in range(d - 1, -1, -1):
        at -= d - i
        total = out[i]
        for j in range(1, d - i):
            total -= factors[row, at + j] * out[i + j]
        out[i] = total * factors[row, at]


@compiled
def multiply(matrix: Array, vector: Array, out: Array) -> None:
    """Write the product of a vector and a matrix, row by row; of a symmetric one it is the product either way."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(vector.shape[0]):
        value = vector[i]
        for j in range(out.shape[0]):
            out[j] += value * matrix[i, j]


@inlined
def dot(a: Array, b: Array) -> float:
    """Return the inner product."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@compiled
def quadratic(matrices: Array, arm: int, vector: Array, n: int) -> float:
    """Return ``v' matrix v`` for the first entries of a vector and a symmetric matrix of an arm."""
    total = 0.0
    for i in range(n):
        inner = 0.5 * matrices[arm, i, i] * vector[i]
        for j in range(i):
            inner += matrices[arm, i, j] * vector[j]
        total += 2.0 * inner * vector[i]
    return total


@compiled
def times_arm(matrices: Array, arm: int, first: int, vector: Array, out: Array) -> None:
    """Write the product of a vector and a symmetric matrix of an arm, which begins in row ``first``."""
    n = vector.shape[0]
    for j in range(n):
        out[j] = 0.0
    for i in range(n):
        value = vector[i]
        for j in range(n):
            out[j] += value * matrices[arm, first + i, j]


@compiled
def product(a: Array, b: Array, out: Array) -> None:
    """Write the product of two matrices."""
    for i in range(a.shape[0]):
        multiply(b, a[i], out[i])


@compiled
def unpack(triangle: Array, out: Array) -> None:
    """Write a symmetric matrix, given its upper triangle row after row."""
    at = 0
    for i in range(out.shape[0]):
        for j in range(i, out.shape[0]):
            out[i, j] = out[j, i] = triangle[at]
            at += 1


@compiled
def invert(matrices: Array, arm: int, out: Array, triangle: Array, unit: Array) -> None:
    """Write the inverse of a symmetric positive definite matrix to that of ``out``; the last two are buffers.

    Of matrices (K, D + 1, D), and the row below the square is left alone. An infinite diagonal entry has zeros in the
    inverse.
    """
    n, at = unit.shape[0], 1
    for i in range(n):
        for j in range(i, n):
            triangle[0, at] = matrices[arm, i, j]
            at += 1
    at = 1
    for k in range(n):
        root = 1.0 / math.sqrt(triangle[0, at])
        triangle[0, at] = root
        for j in range(1, n - k):
            triangle[0, at + j] *= root
        below = at + n - k
        for i in range(1, n - k):
            factor = triangle[0, at + i]
            for j in range(i, n - k):
                triangle[0, below + j - i] -= factor * triangle[0, at + j]
            below += n - k - i
        at += n - k
    for i in range(n):
        unit[i] = 0.0
    for i in range(n):
        unit[i] = 1.0
        solve(triangle, ZERO[0], unit, out[arm, i])
        unit[i] = 0.0
    for i in range(n):
        for j in range(i):
            out[arm, i, j] = out[arm, j, i] = 0.5 * (out[arm, i, j] + out[arm, j, i])


@compiled
def inverse_of(matrix: Array) -> Array:
    """Return the inverse of a symmetric positive definite matrix."""
    n = matrix.shape[0]
    out = np.empty((1, n, n))
    invert(matrix.reshape((1, n, n)), ZERO[0], out, np.empty((1, 1 + n * (n + 1) // 2)), np.empty(n))
    inverse: Array = out[0]
    return inverse


@compiled
def inverses(matrices: Array) -> Array:
    """Return the inverses of symmetric positive definite matrices; of others, numbers that are not finite."""
    n, out = matrices.shape[1], np.empty(matrices.shape)
    triangle, unit = np.empty((1, 1 + n * (n + 1) // 2)), np.empty(n)
    for k in range(matrices.shape[0]):
        invert(matrices, k, out, triangle, unit)
    return out


@compiled
def squared_pivots(matrices: Array) -> Array:
    """Return the squared pivots of symmetric matrices; one that is not above 0 says that a matrix is not definite."""
    n = matrices.shape[1]
    out, work = np.empty(matrices.shape[:2]), np.empty((n, n))
    for place in range(matrices.shape[0]):
        for i in range(n):
            for j in range(i, n):
                work[i, j] = matrices[place, i, j]
        for k in range(n):
            out[place, k] = work[k, k]
            for i in range(k + 1, n):
                for j in range(i, n):
                    work[i, j] -= work[k, i] * work[k, j] / work[k, k]
    return out


@compiled
def semidefinite_pivots(matrix: Array) -> Array:
    """Return the squared pivots of a symmetric matrix that may be singular, 0 where they are rounding.

    Then the whole row is, too. Rounding is measured by the row's own diagonal entry: units may be very different.
    """
    n, work = matrix.shape[0], matrix.copy()
    out = np.zeros(n)
    for k in range(n):
        if work[k, k] > 64.0 * n * EPSILON * matrix[k, k]:
            out[k] = work[k, k]
            for i in range(k + 1, n):
                for j in range(i, n):
                    work[i, j] -= work[k, i] * work[k, j] / work[k, k]
    return out
