"""Small dense linear algebra for estimators, compiled; buffers are the caller's.

Triangular factors are *upper* and stored by rows, ``A = R'R``: every inner loop then walks along a row.
"""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled
from posse.types import Array

EPSILON = float(np.finfo(np.float64).eps)
SWEEPS = 60  # of Jacobi's rotations, at most
RANK = 1e-12  # eigenvalues of a Gram matrix are squares of singular values: their noise is wider than d * EPSILON


@compiled
def dot(x: Array, y: Array) -> float:
    """Return x'y."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled
def multiply_symmetric(matrix: Array, x: Array, out: Array) -> None:
    """Write ``matrix @ x`` for a symmetric matrix."""
    for i in range(x.shape[0]):
        out[i] = 0.0
    for i in range(x.shape[0]):
        weight = x[i]
        for j in range(x.shape[0]):
            out[j] += weight * matrix[i, j]


@compiled
def add_outer(weight: float, x: Array, out: Array) -> None:
    """Add ``weight * x x'``; a symmetric matrix stays so to the last bit."""
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            out[i, j] += weight * (x[i] * x[j])


@compiled
def multiply_upper(upper: Array, right: Array, out: Array) -> None:
    """Write ``upper @ right`` for an upper triangular matrix."""
    d = upper.shape[0]
    for i in range(d):
        out[i] = 0.0
        for k in range(i, d):
            weight = upper[i, k]
            for j in range(d):
                out[i, j] += weight * right[k, j]


@compiled
def mirror_upper(matrix: Array) -> None:
    """Copy the upper triangle onto the lower one."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1, matrix.shape[0]):
            matrix[j, i] = matrix[i, j]


@compiled
def _eliminate(upper: Array, k: int) -> None:
    """Turn row k of a matrix into that of its Cholesky factor, and take it out of the rows below."""
    d = upper.shape[0]
    scale = 1.0 / math.sqrt(upper[k, k])
    for j in range(k, d):
        upper[k, j] *= scale
    for i in range(k + 1, d):
        weight = upper[k, i]
        for j in range(i, d):
            upper[i, j] -= weight * upper[k, j]


@compiled
def _copy_upper(matrix: Array, out: Array) -> None:
    """Copy the upper triangle; zeros below."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            out[i, j] = matrix[i, j] if j >= i else 0.0


@compiled
def factor(matrix: Array, out: Array) -> bool:
    """Write the upper R with ``matrix = R'R``, zeros below its diagonal; return whether it is positive definite."""
    _copy_upper(matrix, out)
    for k in range(matrix.shape[0]):
        if not out[k, k] > 0.0:  # NaN fails, too
            return False
        _eliminate(out, k)
    return True


@compiled
def factor_at_least(matrix: Array, least: float, out: Array) -> None:
    """Write the upper R with ``matrix = R'R``, given that no eigenvalue is below ``least``.

    Every pivot of such a matrix is at least ``least``; one that is not lost it to rounding and gets it back.
    """
    _copy_upper(matrix, out)
    for k in range(matrix.shape[0]):
        out[k, k] = max(out[k, k], least)
        _eliminate(out, k)


@compiled
def factor_semidefinite(matrix: Array, out: Array) -> None:
    """Write an upper R with ``matrix = R'R`` for a positive-semidefinite matrix.

    A pivot that is zero up to rounding means that its whole row is, so the row of R is set to zero. Rounding is
    measured by the row's own diagonal entry: features may come in very different units.
    """
    d = matrix.shape[0]
    _copy_upper(matrix, out)
    for k in range(d):
        if out[k, k] > 64.0 * d * EPSILON * matrix[k, k]:
            _eliminate(out, k)
        else:
            for j in range(k, d):
                out[k, j] = 0.0


@compiled
def solve_transposed(upper: Array, rhs: Array) -> None:
    """Replace the rows of ``rhs`` by the solution Y of ``upper' Y = rhs``."""
    d, width = upper.shape[0], rhs.shape[1]
    for i in range(d):
        for k in range(i):
            weight = upper[k, i]
            for j in range(width):
                rhs[i, j] -= weight * rhs[k, j]
        scale = 1.0 / upper[i, i]
        for j in range(width):
            rhs[i, j] *= scale


@compiled
def invert_factor(upper: Array, out: Array) -> None:
    """Write the lower triangular inverse of ``upper'``."""
    d = upper.shape[0]
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
        out[i, i] = 1.0
        for k in range(i):
            weight = upper[k, i]
            for j in range(k + 1):
                out[i, j] -= weight * out[k, j]
        scale = 1.0 / upper[i, i]
        for j in range(i + 1):
            out[i, j] *= scale


@compiled
def cross_product(rows: Array, out: Array) -> None:
    """Write ``rows' rows``."""
    d = rows.shape[1]
    for i in range(d):
        out[i] = 0.0
    for k in range(rows.shape[0]):
        for i in range(d):
            weight = rows[k, i]
            for j in range(i, d):
                out[i, j] += weight * rows[k, j]
    mirror_upper(out)


@compiled
def invert(matrix: Array, root: Array, inverse_root: Array, out: Array) -> bool:
    """Write the inverse of a matrix and return True; False, and no inverse, unless it is positive definite."""
    if not factor(matrix, root):
        return False
    invert_factor(root, inverse_root)
    cross_product(inverse_root, out)
    return True


@compiled
def log_determinant(upper: Array) -> float:
    """Return log det(R'R)."""
    total = 0.0
    for i in range(upper.shape[0]):
        total += math.log(upper[i, i])
    return 2.0 * total


@compiled
def eigen(matrix: Array, values: Array, vectors: Array) -> None:
    """Diagonalise a symmetric matrix by cyclic Jacobi rotations, which overwrite it.

    On return row i of ``vectors`` is the eigenvector of ``values[i]``, in the order that the rotations left.
    """
    d = matrix.shape[0]
    for i in range(d):
        for j in range(d):
            vectors[i, j] = 0.0
        vectors[i, i] = 1.0
    for _sweep in range(SWEEPS):
        off, total = 0.0, 0.0
        for i in range(d):
            total += matrix[i, i] * matrix[i, i]
            for j in range(i + 1, d):
                off += 2.0 * matrix[i, j] * matrix[i, j]
        if not off > (EPSILON * EPSILON) * (total + off):
            break
        for p in range(d - 1):
            for q in range(p + 1, d):
                coupling = matrix[p, q]
                if coupling == 0.0:
                    continue
                theta = (matrix[q, q] - matrix[p, p]) / (2.0 * coupling)
                tangent = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                _rotate(matrix[p], matrix[q], cosine, sine)
                _rotate(matrix[:, p], matrix[:, q], cosine, sine)
                _rotate(vectors[p], vectors[q], cosine, sine)
    for i in range(d):
        values[i] = matrix[i, i]


@compiled
def _rotate(x: Array, y: Array, cosine: float, sine: float) -> None:
    """Turn two vectors in their plane, in place."""
    for k in range(x.shape[0]):
        first, second = x[k], y[k]
        x[k] = cosine * first - sine * second
        y[k] = sine * first + cosine * second


@compiled
def raise_eigenvalues(matrix: Array, floor: float, values: Array, vectors: Array, work: Array) -> int:
    """Raise every eigenvalue of ``matrix`` below ``floor`` to it, in place; return how many there were."""
    d = matrix.shape[0]
    work[:] = matrix
    for i in range(d):
        work[i, i] -= floor
    # A Cholesky factor of matrix - floor I exists only if every eigenvalue is above the floor: the common case, and
    # far cheaper than the eigenvalues. `vectors` is only a buffer here.
    if factor(work, vectors):
        return 0
    work[:] = matrix
    eigen(work, values, vectors)
    raised = 0
    matrix[:] = 0.0
    for k in range(d):
        raised += values[k] < floor
        values[k] = max(values[k], floor)
        for i in range(d):
            weight = values[k] * vectors[k, i]
            for j in range(d):
                matrix[i, j] += weight * vectors[k, j]
    return raised


@compiled
def least_squares(gram: Array, moment: Array, out: Array, work: Array, values: Array, vectors: Array) -> int:
    """Write the minimum-norm solution of ``gram @ beta = moment``; return the rank of ``gram``."""
    d = moment.shape[0]
    work[:] = gram
    out[:] = 0.0
    eigen(work, values, vectors)
    largest = max(0.0, values.max())
    rank = 0
    for k in range(d):
        if values[k] > RANK * largest:
            rank += 1
            weight = dot(vectors[k], moment) / values[k]
            for i in range(d):
                out[i] += weight * vectors[k, i]
    return rank


@compiled
def ordinary_least_squares(
    gram: Array, moment: Array, out: Array, root: Array, inverse_root: Array, condition_limit: float
) -> float:
    """Write ``gram^-1 moment`` and return tr(gram) tr(gram^-1); return inf if that passes the limit.

    The product of the traces is at least the condition number and at most n_features^2 times it, and costs no
    eigenvalues. Afterwards ``inverse_root`` holds T with ``T'T = gram^-1``.
    """
    d = moment.shape[0]
    if not factor(gram, root):
        return math.inf
    invert_factor(root, inverse_root)
    trace, inverse_trace = 0.0, 0.0
    for i in range(d):
        trace += gram[i, i]
        for j in range(i + 1):
            inverse_trace += inverse_root[i, j] * inverse_root[i, j]
    condition = trace * inverse_trace
    if not condition < condition_limit:
        return math.inf
    out[:] = 0.0
    for k in range(d):
        weight = 0.0
        for j in range(k + 1):
            weight += inverse_root[k, j] * moment[j]
        for i in range(k + 1):
            out[i] += weight * inverse_root[k, i]
    return condition
