"""What features of a task and of arms add to what is believed about arms: see :mod:`posse.engine.known`."""

from __future__ import annotations

from typing import NamedTuple

from posse.kernels.compiler import inlined_kernel, kernel
from posse.types import Array, BoolArray, IntArray


class KnownSide(NamedTuple):
    """Effects of features of tasks, or of arms, as :class:`posse.model.effects.Effects` has them.

    ``scatter`` is how units that are known differ, ``columns`` the variance of every column's effects before any
    reward; ``learned`` is whether there are effects at all.
    """

    mean: Array  # (n_units, p, d)
    covariance: Array  # (n_units, p d, p d)
    give: Array  # (n_units, d, p d)
    scatter: Array  # (p, p)
    columns: Array  # (p,)
    unit: Array  # (d, d) covariance of effects of size 1 in all standardised columns
    learned: bool


@inlined_kernel
def multiply_triangle(triangle: Array, x: Array, out: Array) -> None:
    """Multiply a symmetric matrix, given as its upper triangle, with a vector."""
    d = x.shape[0]
    for i in range(d):
        out[i] = 0.0
    place = 0
    for i in range(d):
        out[i] += triangle[place] * x[i]
        place += 1
        for j in range(i + 1, d):
            out[i] += triangle[place] * x[j]
            out[j] += triangle[place] * x[i]
            place += 1


@inlined_kernel
def offset_of(side: KnownSide, unit: int, z: Array, x: Array) -> float:
    """Return what the features of a unit say of a reward."""
    total = 0.0
    for p in range(z.shape[0]):
        for i in range(x.shape[0]):
            total += z[p] * side.mean[unit, p, i] * x[i]
    return total


@inlined_kernel
def variance_of(side: KnownSide, unit: int, z: Array, is_known: bool, leaning: Array, direction: Array) -> float:
    """Return the variance that effects add in some direction, and what is not known about the unit."""
    d, n = leaning.shape[0], z.shape[0]
    for p in range(n):
        for i in range(d):
            value = z[p] * leaning[i]
            for j in range(d):
                value -= leaning[j] * side.give[unit, j, p * d + i]
            direction[p * d + i] = value
    total = 0.0
    for i in range(n * d):
        through = 0.0
        for j in range(n * d):
            through += side.covariance[unit, i, j] * direction[j]
        total += direction[i] * through
    if not is_known:
        for p in range(n):
            direction[p] = 0.0
            for i in range(d):
                direction[p] += side.mean[unit, p, i] * leaning[i]
        for p in range(n):
            for q in range(n):
                total += direction[p] * side.scatter[p, q] * direction[q]
    return total


@kernel
def add_known(
    x: Array,
    arms: IntArray,
    rows: IntArray,
    counts: Array,
    gram: Array,
    local: Array,
    shared_covariance: Array,
    shared_precision: Array,
    of_task: KnownSide,
    z: Array,
    task_known: bool,
    of_arms: KnownSide,
    f: Array,
    arm_known: BoolArray,
    room: Array,
    mean: Array,
    sd: Array,
) -> None:
    """Add offsets, and how uncertain they are, to what is believed about arms in one task.

    ``rows`` are the slots of the pairs, negative for those without. ``room`` has four rows, each as long as the
    columns of either side times ``x``, and as ``x``.
    """
    d = x.shape[0]
    leaning, v, through = room[0, :d], room[1, :d], room[2, :d]
    for k in range(arms.shape[0]):
        arm = arms[k]
        row = rows[k] if rows[k] >= 0 and counts[rows[k]] > 0.0 else -1
        # What a task's own rewards say replaces what follows from its features: see posse.kernels.posterior.
        if row >= 0:
            multiply_triangle(local[row], x, through)
            multiply_triangle(gram[row], through, v)
        for i in range(d):
            leaning[i] = x[i] - v[i] if row >= 0 else x[i]
        variance = sd[k] * sd[k]
        if arm < of_task.mean.shape[0]:
            mean[k] += offset_of(of_task, arm, z, x)
            if of_task.learned:
                variance += variance_of(of_task, arm, z, task_known, leaning, room[3])
        elif of_task.learned:
            # Effects on an arm that came after the last refresh may be any.
            of_columns, size = 0.0, 0.0
            for p in range(z.shape[0]):
                of_columns += z[p] * z[p] * of_task.columns[p]
            for i in range(d):
                for j in range(d):
                    size += leaning[i] * of_task.unit[i, j] * leaning[j]
            variance += of_columns * size
        mean[k] += offset_of(of_arms, 0, f[k], x)
        if of_arms.learned:
            # And what all tasks' rewards of an arm say replaces what follows from the features of the arm.
            for i in range(d):
                v[i] = 0.0
                for j in range(d):
                    v[i] += leaning[j] * shared_covariance[arm, j, i]
            for i in range(d):
                through[i] = 0.0
                for j in range(d):
                    through[i] += v[j] * shared_precision[arm, j, i]
            variance += variance_of(of_arms, 0, f[k], arm_known[k], through, room[3])
        sd[k] = max(variance, 0.0) ** 0.5
