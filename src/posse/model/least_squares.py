"""Estimating an arm's prior from the tasks' own least squares: the paper, as printed and repaired, and moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled
from posse.model.dense import cross_product, least_squares, ordinary_least_squares, raise_eigenvalues
from posse.model.thresholding import GRID, apply_threshold, choose_threshold, sample_covariance
from posse.types import Array, BoolArray, IntArray

PAPER, PAPER_LITERAL, PAPER_UNTHRESHOLDED, MOMENTS = range(4)
METHODS = {
    "paper": PAPER, "paper-literal": PAPER_LITERAL, "paper-unthresholded": PAPER_UNTHRESHOLDED, "moments": MOMENTS,
}  # fmt: skip
"""By name: how compiled code calls a method."""

CONDITION_LIMIT = 1e8  # a task whose Gram matrix is worse than this has no least-squares estimate worth using
NOISE_FLOOR = 1e-6
QUIET = 1e-9  # likewise, as a share of the rewards' mean square
ENOUGH_FREEDOM = 10.0  # degrees of freedom from which on residuals alone say how large the noise is
EIGENVALUE_FLOOR = 1e-6  # of the mean diagonal entry


class Memory(NamedTuple):
    """Least squares of every (arm, task), and what the estimators remember and report.

    The paper's threshold is chosen anew only when tasks have become usable or N rewards have come since.
    """

    # Of every pair; a new reward changes those of its own pair alone.
    estimates: Array  # (K, N, d)
    seen: BoolArray  # (K, N)
    usable: BoolArray  # (K, N) whether the Gram matrix can be inverted
    inverses: Array  # (K, N, d, d) of it
    residuals: Array  # (K, N, 3) squares, degrees of freedom and squares of the rewards
    order: IntArray  # (K, N) tasks in the order of their first reward
    n_seen: IntArray  # (K,)
    # Of every arm.
    threshold: Array  # (K,)
    threshold_tasks: IntArray  # (K,) usable tasks when the threshold was chosen
    threshold_rewards: Array  # (K,) rewards of the arm then
    tasks_used: IntArray  # (K,)
    eigenvalues_floored: IntArray  # (K,)
    covariance_learned: BoolArray  # (K,)
    noise_learned: BoolArray  # (K,)
    # Buffers.
    rows: Array  # (N, d)
    places: IntArray  # (N,)
    losses: Array  # (GRID,)
    matrices: Array  # (2, d, d)
    vectors: Array  # (d,)


def new_memory(n_arms: int, n_tasks: int, d: int) -> Memory:
    """Return the memory of estimators that have seen nothing."""
    return Memory(
        estimates=np.zeros((n_arms, n_tasks, d)),
        seen=np.zeros((n_arms, n_tasks), dtype=np.bool_),
        usable=np.zeros((n_arms, n_tasks), dtype=np.bool_),
        inverses=np.zeros((n_arms, n_tasks, d, d)),
        residuals=np.zeros((n_arms, n_tasks, 3)),
        order=np.zeros((n_arms, n_tasks), dtype=np.int64),
        n_seen=np.zeros(n_arms, dtype=np.int64),
        threshold=np.zeros(n_arms),
        threshold_tasks=np.full(n_arms, -1, dtype=np.int64),
        threshold_rewards=np.zeros(n_arms),
        tasks_used=np.zeros(n_arms, dtype=np.int64),
        eigenvalues_floored=np.zeros(n_arms, dtype=np.int64),
        covariance_learned=np.zeros(n_arms, dtype=np.bool_),
        noise_learned=np.zeros(n_arms, dtype=np.bool_),
        rows=np.empty((n_tasks, d)),
        places=np.arange(n_tasks),
        losses=np.empty(GRID),
        matrices=np.empty((2, d, d)),
        vectors=np.empty(d),
    )


@compiled
def fit_pair(
    memory: Memory, method: int, arm: int, task: int, gram: Array, moment: Array, squares: float, count: float
) -> None:
    """Compute the least squares of a pair from its sums; minimum-norm ones where the method looks at them."""
    d, estimate = moment.shape[0], memory.estimates[arm, task]
    root, inverse_root = memory.matrices[0], memory.matrices[1]
    if not memory.seen[arm, task]:
        memory.seen[arm, task] = True
        memory.order[arm, memory.n_seen[arm]] = task
        memory.n_seen[arm] += 1
    memory.usable[arm, task] = False
    rank = 0
    if count >= d:
        condition = ordinary_least_squares(gram, moment, estimate, root, inverse_root, CONDITION_LIMIT)
        memory.usable[arm, task] = condition < CONDITION_LIMIT
    if memory.usable[arm, task]:
        rank = d
        if method == MOMENTS:
            cross_product(inverse_root, memory.inverses[arm, task])
    elif method in (PAPER_LITERAL, MOMENTS):
        rank = least_squares(gram, moment, estimate, root, memory.vectors, inverse_root)
    residual = squares
    for i in range(d):
        residual -= estimate[i] * moment[i]
    memory.residuals[arm, task, 0] = max(residual, 0.0) if count > rank else 0.0
    memory.residuals[arm, task, 1] = max(count - rank, 0.0)
    memory.residuals[arm, task, 2] = squares


@compiled
def estimate_arm(
    memory: Memory, method: int, arm: int, rewards: float, residual: float, noise: Array, covariance: Array
) -> None:
    """Re-estimate ``noise[arm]`` and ``covariance``; both stay as they are while data do not suffice.

    ``residual`` are the squared residuals of the arm's rewards around the posterior means of their tasks.

    The paper, faithfully: tasks whose least squares exist, divisor m - 1, diagonal kept, start values until they can be
    replaced. Literally: minimum-norm least squares of every task (zero where nothing was seen), no divisor, diagonal
    thresholded as well. Moments are Swamy's: covariance of the least squares less what their noise explains; the noise
    variance is the residual variance within tasks, held by one pseudo-residual of the size of the rewards while there
    are few degrees of freedom.
    """
    n_tasks, d = memory.rows.shape
    literal, moments = method == PAPER_LITERAL, method == MOMENTS
    if moments:
        squares, freedom, size = 0.0, 0.0, 0.0
        for task in range(n_tasks):
            squares += memory.residuals[arm, task, 0]
            freedom += memory.residuals[arm, task, 1]
            size += memory.residuals[arm, task, 2] / rewards
        if size > 0.0:
            own = squares / freedom if freedom >= ENOUGH_FREEDOM else (size + squares) / (1.0 + freedom)
            noise[arm] = max(own, QUIET * size)
        memory.noise_learned[arm] = size > 0.0
    elif literal or rewards > d + 1:
        noise[arm] = max(residual / max(rewards - d - 1.0, 1.0), NOISE_FLOOR)
        memory.noise_learned[arm] = True

    used = 0
    for place in range(memory.n_seen[arm]):
        task = memory.order[arm, place]
        if memory.usable[arm, task] or literal:
            for i in range(d):
                memory.rows[used, i] = memory.estimates[arm, task, i]
            used += 1
    if literal:
        memory.rows[used:] = 0.0
        used = n_tasks
    memory.tasks_used[arm] = used
    if used < 2:
        return
    for place in range(used):
        memory.places[place] = place
    sample_covariance(memory.rows, memory.places, 0, used, memory.vectors, covariance)
    if moments:
        scale = _mean_diagonal(covariance)
        for task in range(n_tasks):
            if memory.usable[arm, task]:
                for i in range(d):
                    for j in range(d):
                        covariance[i, j] -= noise[arm] / used * memory.inverses[arm, task, i, j]
    else:
        stale = used != memory.threshold_tasks[arm] or rewards - memory.threshold_rewards[arm] >= n_tasks
        if method != PAPER_UNTHRESHOLDED and stale:
            memory.threshold[arm] = choose_threshold(
                memory.rows, used, covariance, memory.places, memory.losses, memory.vectors, memory.matrices[0],
                memory.matrices[1],
            )  # fmt: skip
            memory.threshold_tasks[arm], memory.threshold_rewards[arm] = used, rewards
        if method != PAPER_UNTHRESHOLDED:
            apply_threshold(covariance, memory.threshold[arm], not literal)
        if literal:
            # The printed S is a sum, not an average; the threshold was chosen on the scale of the average.
            covariance *= used - 1
        scale = _mean_diagonal(covariance)
    memory.eigenvalues_floored[arm] = raise_eigenvalues(
        covariance, EIGENVALUE_FLOOR * scale, memory.vectors, memory.matrices[0], memory.matrices[1]
    )
    memory.covariance_learned[arm] = True


@compiled
def _mean_diagonal(matrix: Array) -> float:
    """Return trace / d."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i]
    return float(total / matrix.shape[0])
