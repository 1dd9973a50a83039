"""Symmetric matrices as their upper triangles, row after row: what plain array code needs to know about them."""

from __future__ import annotations

import math

import numpy as np

from posse.types import Array, IntArray


def side(triangle: int) -> int:
    """Return how many rows the matrix has whose upper triangle has so many entries."""
    return (math.isqrt(8 * triangle + 1) - 1) // 2


def diagonal_places(n_features: int) -> IntArray:
    """Return where the diagonal stands in a triangle."""
    i = np.arange(n_features)
    return i * n_features - i * (i - 1) // 2


def whole_matrix(matrix: Array) -> Array:
    """Return a symmetric matrix as it is, or made whole from its upper triangle."""
    if matrix.ndim == 2:
        return matrix
    return whole_matrices(matrix[None])[0]


def whole_matrices(triangles: Array) -> Array:
    """Return the symmetric matrices of which these rows are the upper triangles."""
    d = side(triangles.shape[1])
    rows, columns = np.triu_indices(d)
    result = np.empty((len(triangles), d, d))
    result[:, rows, columns] = triangles
    result[:, columns, rows] = triangles
    return result
