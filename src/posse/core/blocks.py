"""Factor, solve and add up many pairs at once: the innermost loop is over the pairs of a block.

Neighbours in memory belong to different pairs, so the compiler makes vector instructions of that loop by itself. Sums
over the pairs of a block are taken in a fixed order, whatever the width of vectors. Blocks are large, as each such loop
takes as long to begin as some thirty pairs take.
"""

from __future__ import annotations

import math

from numba import njit

from posse.types import Array, IntArray

MOST_LANES = 64  # pairs of a block, whose arrays have the shape (..., lanes)
FEWEST_LANES = 8  # blocks are multiples of these

# Contraction is the one liberty with rounding: a product and a sum may be rounded once.
blockwise = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@blockwise
def load(pairs: Array, slots: IntArray, first: int, data: Array) -> None:
    """Write [A, b] of the pairs at ``slots[first:]``; lanes that are left over get zeros."""
    lanes = data.shape[2]
    d, place = data.shape[0], 0
    n = min(lanes, slots.shape[0] - first)
    for i in range(d):
        for j in range(i, d):
            entry = data[i, j]
            for lane in range(n):
                entry[lane] = pairs[slots[first + lane], place]
            for lane in range(n, lanes):
                entry[lane] = 0.0
            place += 1
            if j > i:
                target = data[j, i]
                for lane in range(lanes):
                    target[lane] = entry[lane]
    for i in range(d):
        entry = data[i, d]
        for lane in range(n):
            entry[lane] = pairs[slots[first + lane], place + i]
        for lane in range(n, lanes):
            entry[lane] = 0.0


@blockwise
def condition(data: Array, inverse: Array, noise: Array, factor: Array) -> None:
    """Write U with U'U = P = A + s2 w Q and reciprocals on the diagonal; ``inverse`` has Q, and below it its pivots."""
    lanes = factor.shape[2]
    d = factor.shape[0]
    for i in range(d):
        for j in range(i, d):
            entry, source, value = factor[i, j], data[i, j], inverse[i, j]
            for lane in range(lanes):
                entry[lane] = source[lane] + noise[lane] * value
    for k in range(d):
        pivot, least = factor[k, k], inverse[d, k]
        for lane in range(lanes):
            pivot[lane] = 1.0 / math.sqrt(max(pivot[lane], noise[lane] * least))
        eliminate(factor, k)


@blockwise
def eliminate(factor: Array, k: int) -> None:
    """Scale row ``k`` of a factor, and take what it explains from the rows below."""
    lanes = factor.shape[2]
    d, pivot = factor.shape[0], factor[k, k]
    for j in range(k + 1, d):
        entry = factor[k, j]
        for lane in range(lanes):
            entry[lane] *= pivot[lane]
    for i in range(k + 1, d):
        left = factor[k, i]
        for j in range(i, d):
            entry, right = factor[i, j], factor[k, j]
            for lane in range(lanes):
                entry[lane] -= left[lane] * right[lane]


@blockwise
def solve(factor: Array, rhs: Array, out: Array) -> None:
    """Write the solutions of ``U'U out = rhs``, all columns."""
    lanes = factor.shape[2]
    d, width = factor.shape[0], rhs.shape[1]
    for i in range(d):
        pivot = factor[i, i]
        for j in range(width):
            entry, source, k = out[i, j], rhs[i, j], 0
            for lane in range(lanes):
                entry[lane] = source[lane]
            while k + 3 < i:  # four at a time: fewer trips to memory
                a, b, c, e = factor[k, i], factor[k + 1, i], factor[k + 2, i], factor[k + 3, i]
                f, g, h, m = out[k, j], out[k + 1, j], out[k + 2, j], out[k + 3, j]
                for lane in range(lanes):
                    entry[lane] -= (a[lane] * f[lane] + b[lane] * g[lane]) + (c[lane] * h[lane] + e[lane] * m[lane])
                k += 4
            for rest in range(k, i):
                left, right = factor[rest, i], out[rest, j]
                for lane in range(lanes):
                    entry[lane] -= left[lane] * right[lane]
            for lane in range(lanes):
                entry[lane] *= pivot[lane]
    for i in range(d - 1, -1, -1):
        pivot = factor[i, i]
        for j in range(width):
            entry, k = out[i, j], i + 1
            while k + 3 < d:
                a, b, c, e = factor[i, k], factor[i, k + 1], factor[i, k + 2], factor[i, k + 3]
                f, g, h, m = out[k, j], out[k + 1, j], out[k + 2, j], out[k + 3, j]
                for lane in range(lanes):
                    entry[lane] -= (a[lane] * f[lane] + b[lane] * g[lane]) + (c[lane] * h[lane] + e[lane] * m[lane])
                k += 4
            for rest in range(k, d):
                left, right = factor[i, rest], out[rest, j]
                for lane in range(lanes):
                    entry[lane] -= left[lane] * right[lane]
            for lane in range(lanes):
                entry[lane] *= pivot[lane]


@blockwise
def add_up(left: Array, right: Array) -> float:
    """Return the inner product over the lanes, in an order of its own."""
    lanes = left.shape[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for lane in range(0, lanes, 4):
        a += left[lane] * right[lane]
        b += left[lane + 1] * right[lane + 1]
        c += left[lane + 2] * right[lane + 2]
        d += left[lane + 3] * right[lane + 3]
    return (a + b) + (c + d)


@blockwise
def add_products(entry: Array, left: Array, right: Array) -> None:
    """Add products, lane by lane."""
    lanes = left.shape[0]
    for lane in range(lanes):
        entry[lane] += left[lane] * right[lane]


@blockwise
def root_of(matrix: Array, least: Array) -> None:
    """Overwrite upper triangles by their factors U, whose diagonals are roots; ``least`` is (d, lanes) to work in."""
    lanes = matrix.shape[2]
    d = matrix.shape[0]
    for k in range(d):
        for lane in range(lanes):
            least[k, lane] = 1e-15 * matrix[k, k, lane]  # a pivot that is lost in rounding
    for k in range(d):
        pivot, lowest = matrix[k, k], least[k]
        for lane in range(lanes):
            pivot[lane] = 1.0 / math.sqrt(max(pivot[lane], max(lowest[lane], 1e-300)))
        eliminate(matrix, k)
        for lane in range(lanes):
            pivot[lane] = 1.0 / pivot[lane]


@blockwise
def times_root(told: Array, root: Array, out: Array) -> None:
    """Write L U' for L = P^-1 A in the first columns of ``told``."""
    lanes = root.shape[2]
    d = root.shape[0]
    for i in range(d):
        for k in range(d):
            entry, left, right = out[i, k], told[i, k], root[k, k]
            for lane in range(lanes):
                entry[lane] = left[lane] * right[lane]
            for j in range(k + 1, d):
                add_products(entry, told[i, j], root[k, j])
