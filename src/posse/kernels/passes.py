"""The two passes of a refresh over an arm's pairs: what they say about the shared mean, and about the population.

Each pass is a sum over pairs, which may be taken block by block and in any place, between a *prepare* and a *finish*
that only know the arm.
"""

from __future__ import annotations

from posse.kernels import lanes
from posse.kernels.compiler import inlined_kernel, inner_kernel, kernel
from posse.kernels.linalg import factor, solve_transposed
from posse.kernels.posterior import Buffers
from posse.types import Array

# Columns of a summary.
TASKS, REWARDS, RESIDUAL, LEVERAGE, SQUARED_LEVERAGE, SCATTER, GAUSSIAN_SCATTER = range(7)
N_SUMMARIES = 7

NOTHING = 1e-300  # added to a number, it changes none


@inlined_kernel
def transpose(matrix: Array) -> None:
    """Swap rows and columns of a square matrix in place."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j], matrix[j, i] = matrix[j, i], matrix[i, j]


@inlined_kernel
def divide_rows(upper: Array, rhs: Array) -> None:
    """Replace ``rhs`` by the solution X of ``upper X = rhs``."""
    d = upper.shape[0]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            weight = upper[i, k]
            for j in range(rhs.shape[1]):
                rhs[i, j] -= weight * rhs[k, j]
        for j in range(rhs.shape[1]):
            rhs[i, j] /= upper[i, i]


@kernel
def unwhiten(root: Array, information: Array, precision: Array, moment: Array) -> None:
    """Bring the sum of [V, z] over all pairs of an arm to the features' units: G and g of its shared mean."""
    d = root.shape[0]
    for i in range(d):
        for j in range(d):
            precision[i, j] = 0.5 * (information[i, j] + information[j, i])
    # G = R^-1 V R'^-1, and g = R^-1 z.
    divide_rows(root, precision)
    transpose(precision)
    divide_rows(root, precision)
    for i in range(d - 1, -1, -1):
        moment[i] = information[i, d]
        for k in range(i + 1, d):
            moment[i] -= root[i, k] * moment[k]
        moment[i] /= root[i, i]


@inner_kernel
def prepare_moments(
    shared_covariance: Array, shared_mean: Array, root: Array, shared_root: Array, start: Array
) -> None:
    """Write what :func:`posse.kernels.lanes.sum_moments` wants to know about the shared mean.

    That is the upper H with ``H'H = R'^-1 Phi R^-1``, and ``R'^-1 m0``.
    """
    d = root.shape[0]
    # Phi = F'F gives H = F R^-1, the solution of R'H' = F'.
    factor(shared_covariance, shared_root)
    transpose(shared_root)
    solve_transposed(root, shared_root)
    transpose(shared_root)
    for i in range(d):
        start[i] = shared_mean[i]
        for k in range(i):
            start[i] -= root[k, i] * start[k]
        start[i] /= root[i, i]


@inlined_kernel
def scatter_of_squares(counts: Array) -> tuple[float, float]:
    """Return how far the squared residuals of pairs are from their share, squared, and what that is for Gaussian noise.

    With s the mean square per degree of freedom, (r / s - f)^2 is 2 f on average then. No residuals, no answer.
    """
    if not (counts[lanes.RESIDUAL] > 0.0 and counts[lanes.FREEDOM] > 0.0):
        return 0.0, 0.0
    mean = counts[lanes.RESIDUAL] / counts[lanes.FREEDOM]
    scatter = (counts[lanes.RESIDUAL_SQUARE] / mean - 2.0 * counts[lanes.CROSS]) / mean
    return max(scatter + counts[lanes.FREEDOM_SQUARE], 0.0), 2.0 * counts[lanes.FREEDOM]


@inlined_kernel
def is_silent(summary: Array) -> bool:
    """Whether the rewards of an arm have shown no noise: they were all the same so far."""
    return summary[GAUSSIAN_SCATTER] < 0.0


@inlined_kernel
def mark_silent(summary: Array) -> None:
    """Note that the rewards of an arm were all the same so far.

    The sign says so: files of fleets have the columns that they always had.
    """
    summary[GAUSSIAN_SCATTER] = -max(summary[GAUSSIAN_SCATTER], NOTHING)


@inner_kernel
def finish_moments(
    rewards: float,
    noise_variance: float,
    root: Array,
    moments: Array,
    counts: Array,
    n_pairs: int,
    second_moment: Array,
    summary: Array,
    buffers: Buffers,
) -> None:
    """Turn the sums over all pairs of an arm into the second moment in the features' units, and the arm's summary."""
    d = root.shape[0]
    half = buffers.matrices[0]
    for i in range(d):
        for j in range(d):
            half[i, j] = 0.0
            second_moment[i, j] = 0.0
    # R' S R, with S symmetric.
    for i in range(d):
        for k in range(d):
            weight = moments[i, k]
            for j in range(k, d):
                half[i, j] += weight * root[k, j]
    for k in range(d):
        for i in range(k, d):
            weight = root[k, i]
            for j in range(i, d):
                second_moment[i, j] += weight * half[k, j]
    for i in range(d):
        for j in range(i):
            second_moment[i, j] = second_moment[j, i]
    summary[TASKS] = n_pairs
    summary[REWARDS] = rewards
    leverage = counts[lanes.LEVERAGE]
    spread = max(counts[lanes.SPREAD], 0.0)  # tr(A H Phi H') / s2 of all pairs
    summary[RESIDUAL] = counts[lanes.RESIDUAL] + noise_variance * (leverage + spread)
    summary[LEVERAGE] = leverage
    summary[SQUARED_LEVERAGE] = counts[lanes.SQUARED_LEVERAGE]
    summary[SCATTER], summary[GAUSSIAN_SCATTER] = scatter_of_squares(counts)
