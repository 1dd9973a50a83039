"""Small dense linear algebra over buffers that the caller owns.

Triangular factors are *upper* and stored by rows, ``A = R'R``: every inner loop then walks along a row.
"""

from __future__ import annotations

import math

import numpy as np

from posse.kernels.compiler import inlined_kernel, inner_kernel, kernel
from posse.kernels.llvm.blocks import add_outer_rows, multiply_rows
from posse.types import Array

EPSILON = float(np.finfo(np.float64).eps)
LARGEST = 1e50  # of a context's or a reward's size


@inlined_kernel
def dot(x: Array, y: Array) -> float:
    """Return x'y."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@inlined_kernel
def multiply_symmetric(matrix: Array, x: Array, out: Array) -> None:
    """Write ``matrix @ x`` to ``out`` for a symmetric matrix, whole or as its upper triangle."""
    if matrix.ndim == 2:
        multiply_rows(matrix, x, out)
        return
    d = x.shape[0]
    for i in range(d):
        out[i] = 0.0
    place = 0
    for i in range(d):
        own = x[i]
        total = matrix[place] * own
        for j in range(i + 1, d):
            total += matrix[place + j - i] * x[j]
            out[j] += matrix[place + j - i] * own
        out[i] += total
        place += d - i


@inlined_kernel
def add_outer(weight: float, x: Array, out: Array) -> None:
    """Add ``weight * x x'`` to ``out``, whole or an upper triangle; a symmetric one stays so to the last bit."""
    if out.ndim == 2:
        add_outer_rows(weight, x, out)
        return
    d = x.shape[0]
    place = 0
    for i in range(d):
        own = x[i]
        for j in range(i, d):
            out[place + j - i] += weight * (own * x[j])
        place += d - i


@inlined_kernel
def whole(matrix: Array, room: Array) -> Array:
    """Return a symmetric matrix that is stored whole, or as its upper triangle; then it is written to ``room``."""
    if matrix.ndim == 2:
        return matrix
    d = room.shape[0]
    place = 0
    for i in range(d):
        for j in range(i, d):
            room[i, j] = matrix[place]
            room[j, i] = matrix[place]
            place += 1
    return room


@inlined_kernel
def copy_symmetric(matrix: Array, divisor: float, out: Array) -> None:
    """Write a whole symmetric matrix over a number to ``out``, whole or an upper triangle."""
    d = matrix.shape[0]
    if out.ndim == 1:
        place = 0
        for i in range(d):
            for j in range(i, d):
                out[place] = matrix[i, j] / divisor
                place += 1
        return
    for i in range(d):
        for j in range(d):
            out[i, j] = matrix[i, j] / divisor


@kernel
def moderate(values: Array) -> bool:
    """Whether every number is finite and small enough for its powers and sums to stay finite."""
    for i in range(values.shape[0]):  # noqa: SIM110 -- a generator does not compile
        if not abs(values[i]) <= LARGEST:
            return False
    return True


@inner_kernel
def mirror_upper(matrix: Array) -> None:
    """Copy the upper triangle onto the lower one."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i + 1, d):
            matrix[j, i] = matrix[i, j]


@inner_kernel
def multiply(left: Array, right: Array, out: Array) -> None:
    """Write ``left @ right`` to ``out``."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
        for k in range(left.shape[1]):
            weight = left[i, k]
            for j in range(out.shape[1]):
                out[i, j] += weight * right[k, j]


@inner_kernel
def multiply_upper(upper: Array, right: Array, out: Array) -> None:
    """Write ``upper @ right`` to ``out`` for an upper triangular matrix."""
    d = upper.shape[0]
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
        for k in range(i, d):
            weight = upper[i, k]
            for j in range(d):
                out[i, j] += weight * right[k, j]


@inlined_kernel
def copy_upper(matrix: Array, out: Array) -> None:
    """Copy the upper triangle; zeros below."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i):
            out[i, j] = 0.0
        for j in range(i, d):
            out[i, j] = matrix[i, j]


@inlined_kernel
def eliminate(upper: Array, k: int) -> None:
    """Turn row k of a matrix into that of its Cholesky factor, and take it out of the rows below."""
    d = upper.shape[0]
    scale = 1.0 / math.sqrt(upper[k, k])
    for j in range(k, d):
        upper[k, j] *= scale
    for i in range(k + 1, d):
        weight = upper[k, i]
        for j in range(i, d):
            upper[i, j] -= weight * upper[k, j]


@inner_kernel
def factor(matrix: Array, out: Array) -> bool:
    """Write the upper R with ``matrix = R'R`` to ``out``; False if the matrix is not positive definite.

    Reads the upper triangle only; entries of ``out`` below the diagonal are set to zero.
    """
    copy_upper(matrix, out)
    for k in range(matrix.shape[0]):
        # The test is written so that NaN fails it too.
        if not out[k, k] > 0.0:
            return False
        eliminate(out, k)
    return True


@inner_kernel
def factor_at_least(matrix: Array, least: float, out: Array) -> None:
    """Write the upper R with ``matrix = R'R`` to ``out``, given that no eigenvalue is below ``least``.

    Every pivot of such a matrix is at least ``least``; one that is not lost it to rounding and gets it back.
    """
    copy_upper(matrix, out)
    for k in range(matrix.shape[0]):
        out[k, k] = max(out[k, k], least)
        eliminate(out, k)


@kernel
def factor_semidefinite(matrix: Array, out: Array) -> None:
    """Write an upper R with ``matrix = R'R`` to ``out`` for a positive-semidefinite matrix.

    A pivot that is zero up to rounding means that its whole row is, so the row of R is set to zero. Rounding is
    measured by the row's own diagonal entry: features may come in very different units.
    """
    d = matrix.shape[0]
    copy_upper(matrix, out)
    for k in range(d):
        if out[k, k] > 64.0 * d * EPSILON * matrix[k, k]:
            eliminate(out, k)
        else:
            for j in range(k, d):
                out[k, j] = 0.0


@inner_kernel
def solve_transposed(upper: Array, rhs: Array) -> None:
    """Replace the rows of ``rhs`` by the solution Y of ``upper' Y = rhs``."""
    d = upper.shape[0]
    width = rhs.shape[1]
    for i in range(d):
        for k in range(i):
            weight = upper[k, i]
            for j in range(width):
                rhs[i, j] -= weight * rhs[k, j]
        scale = 1.0 / upper[i, i]
        for j in range(width):
            rhs[i, j] *= scale


@inner_kernel
def invert_factor(upper: Array, out: Array) -> None:
    """Write the lower triangular inverse of ``upper'`` to ``out``."""
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


@inner_kernel
def cross_product(rows: Array, out: Array) -> None:
    """Write ``rows' rows`` to ``out``."""
    d = rows.shape[1]
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
    for k in range(rows.shape[0]):
        for i in range(d):
            weight = rows[k, i]
            for j in range(i, d):
                out[i, j] += weight * rows[k, j]
    mirror_upper(out)


@kernel
def invert(matrix: Array, root: Array, inverse_root: Array, out: Array) -> bool:
    """Write the inverse of a positive-definite matrix to ``out``; False (and no answer) if it is not one."""
    if not factor(matrix, root):
        return False
    invert_factor(root, inverse_root)
    cross_product(inverse_root, out)
    return True


@inner_kernel
def log_determinant(upper: Array) -> float:
    """Return log det(R'R)."""
    total = 0.0
    for i in range(upper.shape[0]):
        total += math.log(upper[i, i])
    return 2.0 * total


@inner_kernel
def eigen(matrix: Array, values: Array, vectors: Array) -> None:
    """Diagonalise a symmetric matrix by cyclic Jacobi rotations.

    ``matrix`` is overwritten. On return row i of ``vectors`` is the eigenvector of ``values[i]``; the order is
    whatever the rotations left.
    """
    d = matrix.shape[0]
    for i in range(d):
        for j in range(d):
            vectors[i, j] = 0.0
        vectors[i, i] = 1.0
    for _sweep in range(60):
        off = 0.0
        total = 0.0
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
                for k in range(d):
                    row_p, row_q = matrix[p, k], matrix[q, k]
                    matrix[p, k] = cosine * row_p - sine * row_q
                    matrix[q, k] = sine * row_p + cosine * row_q
                for k in range(d):
                    column_p, column_q = matrix[k, p], matrix[k, q]
                    matrix[k, p] = cosine * column_p - sine * column_q
                    matrix[k, q] = sine * column_p + cosine * column_q
                for k in range(d):
                    row_p, row_q = vectors[p, k], vectors[q, k]
                    vectors[p, k] = cosine * row_p - sine * row_q
                    vectors[q, k] = sine * row_p + cosine * row_q
    for i in range(d):
        values[i] = matrix[i, i]


@inner_kernel
def raise_eigenvalues(matrix: Array, floor: float, values: Array, vectors: Array, work: Array) -> int:
    """Raise every eigenvalue of ``matrix`` below ``floor`` to it, in place; return how many there were."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(d):
            work[i, j] = matrix[i, j]
        work[i, i] -= floor
    # A Cholesky factor of matrix - floor I exists only if every eigenvalue is above the floor: the common case, and
    # far cheaper than the eigenvalues. `vectors` is only a buffer here.
    if factor(work, vectors):
        return 0
    for i in range(d):
        for j in range(d):
            work[i, j] = matrix[i, j]
    eigen(work, values, vectors)
    raised = 0
    for i in range(d):
        if values[i] < floor:
            values[i] = floor
            raised += 1
    for i in range(d):
        for j in range(d):
            matrix[i, j] = 0.0
    for k in range(d):
        for i in range(d):
            weight = values[k] * vectors[k, i]
            for j in range(d):
                matrix[i, j] += weight * vectors[k, j]
    return raised


@inner_kernel
def least_squares(gram: Array, moment: Array, out: Array, work: Array, values: Array, vectors: Array) -> int:
    """Write the minimum-norm solution of ``gram @ beta = moment`` to ``out``; return the rank of ``gram``."""
    d = moment.shape[0]
    for i in range(d):
        out[i] = 0.0
        for j in range(d):
            work[i, j] = gram[i, j]
    eigen(work, values, vectors)
    largest = 0.0
    for k in range(d):
        largest = max(largest, values[k])
    rank = 0
    for k in range(d):
        # Eigenvalues of a Gram matrix are squares of singular values, so their noise floor is wider than d * epsilon.
        if values[k] > 1e-12 * largest:
            rank += 1
            weight = dot(vectors[k], moment) / values[k]
            for i in range(d):
                out[i] += weight * vectors[k, i]
    return rank


@inner_kernel
def ordinary_least_squares(
    gram: Array, moment: Array, out: Array, root: Array, inverse_root: Array, condition_limit: float
) -> float:
    """Write ``gram^-1 moment`` to ``out`` and return tr(gram) tr(gram^-1); return inf if that passes the limit.

    The product of the traces is at least the condition number and at most n_features^2 times it, and costs no
    eigenvalues. Afterwards ``inverse_root`` holds T with ``T'T = gram^-1``.
    """
    d = moment.shape[0]
    if not factor(gram, root):
        return math.inf
    invert_factor(root, inverse_root)
    trace = 0.0
    inverse_trace = 0.0
    for i in range(d):
        trace += gram[i, i]
        for j in range(i + 1):
            inverse_trace += inverse_root[i, j] * inverse_root[i, j]
    condition = trace * inverse_trace
    if not condition < condition_limit:
        return math.inf
    for i in range(d):
        out[i] = 0.0
    for k in range(d):
        weight = 0.0
        for j in range(k + 1):
            weight += inverse_root[k, j] * moment[j]
        for i in range(k + 1):
            out[i] += weight * inverse_root[k, i]
    return condition
