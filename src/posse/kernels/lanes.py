r"""Conditioning eight (arm, task) pairs at a time on their own rewards.

With the population's covariance :math:`\Sigma = R^\top R` and ``u`` the deviation of a task in units of it,
:math:`\theta = m_0 + R^\top u`, all that a refresh needs of a pair is a function of one symmetric matrix::

    B = R A R'                       what the pair's rewards say about u
    M'M = B + s2 w I                 (w is the task's weight, 1 unless outliers are modelled)
    V = (M'M)^-1 B                   how much of u they settle: 0 without rewards, I with plenty
    z = (M'M)^-1 R b

so that ``R G R' = w V`` and ``R g = w z`` (see :mod:`posse.kernels.posterior` for G and g), the local mean is ``R'z``,
and no difference of large numbers is taken however much or little data a pair has. Sums over pairs are taken of V and
z, and only the sums are brought back to the features' units.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel, woven_kernel
from posse.kernels.llvm.callback import CompiledCallback, call
from posse.kernels.llvm.stack_array import array_at
from posse.kernels.llvm.vector import (
    LANES,
    add_products,
    add_rows,
    add_squares,
    address,
    copy_row,
    interleave,
    inverse_root,
    scale_row,
    subtract_products,
)
from posse.kernels.sums import Sums
from posse.types import Array, IntArray

N_MATRICES = 15  # of d rows, d + 1 columns and eight lanes: room that one thread works in


class Pairs(NamedTuple):
    """Some (arm, task) pairs of one arm: rows of ``sums``, in the order in which they are summed up."""

    sums: Sums
    rows: IntArray  # (n,)
    task_of: IntArray  # over the rows of sums
    task_weight: Array  # over tasks


class Lanes(NamedTuple):
    """What one thread works in."""

    room: Array  # (N_MATRICES, d rows, d + 1 columns and eight lanes, and a little more)
    condition_at: int  # the address of CONDITION


def lanes_size(n_features: int) -> tuple[int, int]:
    """Return the shape of the room that one thread works in."""
    return N_MATRICES, (n_features * (n_features + 1) + 4) * LANES


def new_lanes(n_features: int) -> Lanes:
    """Return what one thread works in."""
    return Lanes(np.empty(lanes_size(n_features)), CONDITION.address)


@inlined_kernel
def fill(value: float, out: Array, count: int) -> None:
    """Set the first ``count`` numbers."""
    for i in range(count):
        out[i] = value


@woven_kernel
def spread(matrix: Array, transpose: bool, out: Array) -> None:
    """Give every lane the same square matrix."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(d):
            value = matrix[j, i] if transpose else matrix[i, j]
            for lane in range(LANES):
                out[(i * d + j) * LANES + lane] = value


@woven_kernel
def spread_vector(vector: Array, out: Array) -> None:
    """Give every lane the same vector."""
    for i in range(vector.shape[0]):
        for lane in range(LANES):
            out[i * LANES + lane] = vector[i]


@woven_kernel
def expand(flat: Array, packed: bool, d: int, width: int, out: Array) -> None:
    """Write symmetric matrices of d rows, upper triangles if ``packed``, to the first d of ``width`` columns."""
    if not packed:
        for i in range(d):
            copy_row(out, i * width * LANES, flat, i * d * LANES, d)
        return
    place = 0
    for i in range(d):
        copy_row(out, (i * width + i) * LANES, flat, place, d - i)
        for j in range(i + 1, d):
            copy_row(out, (j * width + i) * LANES, flat, place + (j - i) * LANES, 1)
        place += (d - i) * LANES


@woven_kernel
def put_pairs(grams: IntArray, moments: IntArray, packed: bool, d: int, flat: Array, column: Array, out: Array) -> None:
    """Write Gram matrices and, as one column more, moments that stand at these addresses to the lanes."""
    w = d + 1
    interleave(grams, (d * w) // 2 if packed else d * d, flat)
    expand(flat, packed, d, w, out)
    interleave(moments, d, column)
    for i in range(d):
        copy_row(out, (i * w + d) * LANES, column, i * LANES, 1)


@woven_kernel
def condition(
    d: int,
    root: Array,
    lower: Array,
    data: Array,
    noise: Array,
    half: Array,
    both: Array,
    middle: Array,
    inverse: Array,
) -> None:
    """From [A, b] of every lane write R [A, b] to ``half``, [B, R b] to ``both`` and M to ``middle``.

    ``root`` is the upper R and ``lower`` its transpose; ``inverse`` gets one over the diagonal of M.
    """
    w = d + 1
    fill(0.0, half, d * w * LANES)
    fill(0.0, both, d * w * LANES)
    step, wide = d * LANES, w * LANES  # from one row to the next
    for i in range(d):
        add_products(half, i * wide, w, root, i * step + i * LANES, LANES, data, i * wide, wide, d - i)
    for i in range(d):
        here = i * wide + i * LANES
        add_products(both, here, d - i, half, here, LANES, lower, i * step + i * LANES, step, d - i)
    for i in range(d):
        copy_row(middle, (i * d + i) * LANES, both, (i * w + i) * LANES, d - i)
        copy_row(both, (i * w + d) * LANES, half, (i * w + d) * LANES, 1)
        add_rows(middle[(i * d + i) * LANES :], noise, 1)
        for j in range(i + 1, d):
            copy_row(both, (j * w + i) * LANES, both, (i * w + j) * LANES, 1)
    for i in range(d):
        here = i * step + i * LANES
        subtract_products(middle, here, d - i, middle, i * LANES, step, middle, i * LANES, step, i)
        # No pivot is below the noise; one that is lost it to rounding.
        inverse_root(inverse, i * LANES, middle, here, noise, 0)
        scale_row(middle, here, inverse, i * LANES, d - i)


@woven_kernel
def solve_lower(d: int, middle: Array, inverse: Array, rhs: Array, width: int) -> None:
    """Replace ``rhs`` by the solution Y of ``M' Y = rhs``."""
    wide = width * LANES
    for i in range(d):
        subtract_products(rhs, i * wide, width, middle, i * LANES, d * LANES, rhs, 0, wide, i)
        scale_row(rhs, i * wide, inverse, i * LANES, width)


@woven_kernel
def solve_upper(d: int, middle: Array, inverse: Array, rhs: Array, width: int) -> None:
    """Replace ``rhs`` by the solution Y of ``M Y = rhs``."""
    wide = width * LANES
    for i in range(d - 1, -1, -1):
        after = i + 1
        subtract_products(
            rhs, i * wide, width, middle, (i * d + after) * LANES, LANES, rhs, after * wide, wide, d - after
        )
        scale_row(rhs, i * wide, inverse, i * LANES, width)


@woven_kernel
def local_posterior(d: int, root: Array, middle: Array, inverse: Array, whitened: Array, out: Array) -> None:
    """Write the upper triangle of Ct = (M'^-1 R)'(M'^-1 R), row after row, to ``out``."""
    for i in range(d * d * LANES):
        whitened[i] = root[i]
        out[i] = 0.0
    step = d * LANES
    solve_lower(d, middle, inverse, whitened, d)
    place = 0
    for i in range(d):
        add_products(out, place * LANES, d - i, whitened, i * LANES, step, whitened, i * LANES, step, d)
        place += d - i


@inlined_kernel
def take_symmetric(triangles: Array, lane: int, matrix: Array) -> None:
    """Write the triangle of one lane to a matrix, whole or as its upper triangle."""
    if matrix.ndim == 1:
        for i in range(matrix.shape[0]):
            matrix[i] = triangles[i * LANES + lane]
    else:
        d = matrix.shape[0]
        place = 0
        for i in range(d):
            for j in range(i, d):
                matrix[i, j] = triangles[place * LANES + lane]
                matrix[j, i] = triangles[place * LANES + lane]
                place += 1


@woven_kernel
def take_mean(d: int, root: Array, z: Array, width: int, column: int, lane: int, out: Array) -> None:
    """Write the local mean R'z of one lane; z is a column of a matrix with ``width`` of them."""
    for i in range(d):
        out[i] = 0.0
    for k in range(d):
        weight = z[(k * width + column) * LANES + lane]
        for i in range(k, d):
            out[i] += weight * root[(k * d + i) * LANES + lane]


@inlined_kernel
def over_lanes(matrix: Array, entry: int) -> float:
    """Return the sum of an entry over all lanes."""
    total = 0.0
    for lane in range(LANES):
        total += matrix[entry * LANES + lane]
    return total


PACKED, KEEP, COLUMN, ROOTS = 1, 2, 4, 8  # how CONDITION goes about it; the bits above are the number of features
FLAGS = 16


def _condition(place: int, number: int) -> None:
    """Condition the eight pairs whose addresses are in the last row of the room at ``place``.

    Reads R and R' from rows 0 and 1, or with ROOTS writes them there, and the noise from row 11. Writes [A, b] to row
    2, M to row 5, and [V, z] to row 4; with COLUMN only z, to row 9. With KEEP, row 8 gets the local covariances. Gram
    matrices are triangles if PACKED.
    """
    d = number // FLAGS
    w = d + 1
    room = array_at(place, N_MATRICES, (d * w + 4) * LANES)
    upper, lower, data, half, both, middle = room[0], room[1], room[2], room[3], room[4], room[5]
    inverse, noise = room[11], room[11][d * LANES :]
    places = room[N_MATRICES - 1].view(np.int64)
    if number & ROOTS:
        interleave(places[2 * LANES : 3 * LANES], d * d, upper)
        for i in range(d):
            for j in range(d):
                copy_row(lower, (j * d + i) * LANES, upper, (i * d + j) * LANES, 1)
    put_pairs(
        places[:LANES], places[LANES : 2 * LANES], number & PACKED != 0, d, room[N_MATRICES - 2], room[N_MATRICES - 3],
        data,
    )  # fmt: skip
    condition(d, upper, lower, data, noise, half, both, middle, inverse)
    if number & KEEP:
        local_posterior(d, upper, middle, inverse, room[7], room[8])
    right, width = both, w
    if number & COLUMN:
        right, width = room[9], 1
        for i in range(d):
            copy_row(right, i * LANES, both, (i * w + d) * LANES, 1)
    solve_lower(d, middle, inverse, right, width)
    solve_upper(d, middle, inverse, right, width)


CONDITION = CompiledCallback(_condition)
"""Compiled once: both passes of a refresh and every decision of a fleet condition pairs."""


@woven_kernel
def load(pairs: Pairs, first: int, s2: float, room: Array, noise: Array, weight: Array) -> int:
    """Fill the lanes with pairs from ``first`` on; return how many there are. Lanes left over have no rewards.

    The last row of ``room`` must hold zeros after its first sixteen numbers.
    """
    n = min(LANES, pairs.rows.shape[0] - first)
    grams, moments = room[N_MATRICES - 1].view(np.int64)[:LANES], room[N_MATRICES - 1].view(np.int64)[LANES:]
    nothing = address(room[N_MATRICES - 1], 2 * LANES)
    for lane in range(LANES):
        grams[lane], moments[lane], weight[lane] = nothing, nothing, 1.0
        if lane < n:
            row = pairs.rows[first + lane]
            grams[lane], moments[lane] = address(pairs.sums.gram, row), address(pairs.sums.moment, row)
            weight[lane] = pairs.task_weight[pairs.task_of[row]]
        noise[lane] = s2 * weight[lane]
    return n


@kernel
def sum_information(
    pairs: Pairs,
    root: Array,
    s2: float,
    local_covariance: Array,
    local_mean: Array,
    keep: bool,
    lanes: Lanes,
    out: Array,
) -> None:
    """Write the sum of ``w [V, z]`` over pairs to ``out`` of shape (d, d + 1).

    With ``keep``, local covariance and mean of every pair are written to its row.
    """
    d = root.shape[0]
    w = d + 1
    room = lanes.room
    upper, lower, both, total, local = room[0], room[1], room[4], room[6], room[8]
    noise, weight = room[11][d * LANES :], room[11][w * LANES :]
    number = FLAGS * d + (PACKED if pairs.sums.gram.ndim == 2 else 0) + (KEEP if keep else 0)
    fill(0.0, room[N_MATRICES - 1], room.shape[1])
    spread(root, False, upper)
    spread(root, True, lower)
    fill(0.0, total, d * w * LANES)
    for first in range(0, pairs.rows.shape[0], LANES):
        n = load(pairs, first, s2, room, noise, weight)
        call(lanes.condition_at, address(room, 0), number)
        add_products(total, 0, d * w, weight, 0, 0, both, 0, 0, 1)
        if keep:
            for lane in range(n):
                row = pairs.rows[first + lane]
                take_symmetric(local, lane, local_covariance[row])
                take_mean(d, upper, both, w, d, lane, local_mean[row])
    for i in range(d):
        for j in range(w):
            out[i, j] = over_lanes(total, i * w + j)


# What sum_moments counts beside the matrix. The last four say how unevenly squared residuals fall on pairs: sums of the
# degrees of freedom f of every pair, of its squared residuals r squared, of r f and of f squared.
LEVERAGE, SQUARED_LEVERAGE, RESIDUAL, SPREAD, FREEDOM, RESIDUAL_SQUARE, CROSS, FREEDOM_SQUARE = range(8)
N_COUNTS = 8
ROUNDING = 1e-13  # share of a pair's sum of squares below which residuals are rounding, whose scatter says nothing


@kernel
def sum_moments(
    pairs: Pairs,
    root: Array,
    s2: float,
    shared_mean: Array,
    shared_root: Array,
    start: Array,
    distance: Array,
    lanes: Lanes,
    out: Array,
    counts: Array,
) -> None:
    """Write the second moments of u, summed over pairs, to ``out`` (d, d), and what else a step needs to ``counts``.

    ``start`` is R'^-1 m0 and ``shared_root`` the upper H with H'H = R'^-1 Phi R^-1, so that the uncertainty of the
    shared mean enters as V H'H V, and a pair's deviation has the mean ``z - V start``. If ``distance`` has room, that
    of every pair from the shared mean is written to it, in their order.
    """
    d = root.shape[0]
    w = d + 1
    robust = distance.shape[0] > 0
    step, wide = d * LANES, w * LANES
    room = lanes.room
    upper, lower, data, half, both = room[0], room[1], room[2], room[3], room[4]
    sum_v, sum_squares, sum_moment, crossed, shared = room[6], room[7], room[8], room[9], room[10]
    noise, weight, squares = room[11][d * LANES :], room[11][w * LANES :], room[11][(d + 2) * LANES :]
    number = FLAGS * d + (PACKED if pairs.sums.gram.ndim == 2 else 0)
    deviation = crossed[d * d * LANES :]
    # Vectors live where R [A, b] was, once that is not needed.
    vector, fitted, gradient = half, half[d * LANES :], half[2 * d * LANES :]
    fill(0.0, room[N_MATRICES - 1], room.shape[1])
    spread(root, False, upper)
    spread(root, True, lower)
    spread(shared_root, False, shared)
    fill(0.0, sum_v, d * w * LANES)
    fill(0.0, sum_squares, d * w * LANES)
    fill(0.0, sum_moment, d * w * LANES)
    residual, length_of_all, settled = 0.0, 0.0, 0.0
    fill(0.0, counts, N_COUNTS)
    for first in range(0, pairs.rows.shape[0], LANES):
        n = load(pairs, first, s2, room, noise, weight)
        call(lanes.condition_at, address(room, 0), number)
        # crossed = H V, and one more row: the deviation z - V start.
        fill(0.0, crossed, d * d * LANES)
        for i in range(d):
            here = (i * d + i) * LANES
            add_products(crossed, i * d * LANES, d, shared, here, LANES, both, i * wide, wide, d - i)
            for lane in range(LANES):
                deviation[i * LANES + lane] = both[(i * w + d) * LANES + lane]
        spread_vector(start, vector)
        subtract_products(deviation, 0, d, vector, 0, LANES, both, 0, wide, d)
        # fitted = A m0; then the squares around the shared mean, b - A m0, and gradient = R (b - A m0).
        spread_vector(shared_mean, vector)
        fill(0.0, fitted, 2 * d * LANES)
        add_products(fitted, 0, d, vector, 0, LANES, data, 0, wide, d)
        for lane in range(LANES):
            squares[lane] = pairs.sums.sum_of_squares[pairs.rows[first + lane]] if lane < n else 0.0
        for i in range(d):
            for lane in range(LANES):
                moment = data[(i * w + d) * LANES + lane]
                squares[lane] += shared_mean[i] * (fitted[i * LANES + lane] - 2.0 * moment)
                fitted[i * LANES + lane] = moment - fitted[i * LANES + lane]
        add_products(gradient, 0, d, fitted, 0, LANES, lower, 0, step, d)
        for lane in range(n):
            explained, length = 0.0, 0.0
            for i in range(d):
                value = deviation[i * LANES + lane]
                explained += value * gradient[i * LANES + lane]
                length += value * value
            own = squares[lane] - explained - noise[lane] * length
            if not own > ROUNDING * pairs.sums.sum_of_squares[pairs.rows[first + lane]]:
                own = 0.0
            leverage = 0.0
            for i in range(d):
                leverage += both[(i * w + i) * LANES + lane]
            free = max(pairs.sums.counts[pairs.rows[first + lane]] - leverage, 0.0)
            residual += own
            counts[FREEDOM] += free
            counts[RESIDUAL_SQUARE] += own * own
            counts[CROSS] += own * free
            counts[FREEDOM_SQUARE] += free * free
            length_of_all += weight[lane] * length
            if robust:
                shared_trace, crossed_trace = 0.0, 0.0
                for i in range(d):
                    for j in range(d):
                        value = crossed[(i * d + j) * LANES + lane]
                        shared_trace += value * value
                        crossed_trace += shared_root[i, j] * value
                distance[first + lane] = (d - leverage) / weight[lane] + shared_trace + length
                settled += (weight[lane] - 1.0) * crossed_trace
                weight[lane] = math.sqrt(weight[lane])
        if robust:
            scale_row(crossed, 0, weight, 0, d * w)
        for i in range(d):
            here = i * LANES
            add_products(sum_moment, i * step + here, d - i, crossed, here, step, crossed, here, step, w)
        add_rows(sum_v, both, d * w)
        add_squares(sum_squares, both, d * w)
    counts[RESIDUAL] = residual
    # tr(V P) - tr(V P V) of all pairs, with their weights; tr(V P) = sum of H o (H V).
    counts[SPREAD] = settled + length_of_all
    for i in range(d):
        for j in range(d):
            counts[SQUARED_LEVERAGE] += over_lanes(sum_squares, i * w + j)
            inner = 0.0
            for k in range(d):
                inner += shared_root[k, i] * shared_root[k, j]
            counts[SPREAD] += inner * over_lanes(sum_v, i * w + j)
        for j in range(i, d):
            moment = over_lanes(sum_moment, i * d + j)
            counts[SPREAD] -= moment if i == j else 0.0
            out[i, j] = moment - 0.5 * (over_lanes(sum_v, i * w + j) + over_lanes(sum_v, j * w + i))
        counts[LEVERAGE] += over_lanes(sum_v, i * w + i)
        out[i, i] += pairs.rows.shape[0]
    for i in range(d):
        for j in range(i):
            out[i, j] = out[j, i]
