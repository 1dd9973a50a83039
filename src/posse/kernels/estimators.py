"""Estimating one arm's prior from the sums of its tasks: what the paper does, as printed and repaired, and moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inner_kernel, woven_kernel
from posse.kernels.evidence import Evidence, evidence_due, new_evidence
from posse.kernels.levels import QUIET
from posse.kernels.linalg import (
    least_squares,
    ordinary_least_squares,
    raise_eigenvalues,
    whole,
)
from posse.kernels.posterior import Belief, Buffers, rebuild, residual_sum_of_squares
from posse.model.thresholding import GRID, apply_threshold, choose_threshold, sample_covariance
from posse.types import Array, BoolArray, IntArray

KNOWN, PAPER, PAPER_LITERAL, MOMENTS, EVIDENCE, PAPER_UNTHRESHOLDED = 0, 1, 2, 3, 4, 5

POLICY_METHODS = {
    "paper": PAPER, "paper-literal": PAPER_LITERAL, "paper-unthresholded": PAPER_UNTHRESHOLDED, "moments": MOMENTS,
    "evidence": EVIDENCE,
}  # fmt: skip

CONDITION_LIMIT = 1e8  # a task whose Gram matrix is worse than this has no OLS estimate worth using
NOISE_FLOOR = 1e-6
ENOUGH_FREEDOM = 10.0  # degrees of freedom from which on residuals alone say what the noise is
EIGENVALUE_FLOOR = 1e-6  # of the mean diagonal entry


class Memory(NamedTuple):
    """What the estimators remember from one refresh to the next, and report.

    The paper's threshold is chosen anew only when tasks have become usable or N rewards have come since.
    """

    threshold: Array  # (K,)
    threshold_tasks: IntArray  # (K,) usable tasks when the threshold was chosen
    threshold_rewards: Array  # (K,) rewards of the arm then
    tasks_used: IntArray  # (K,)
    eigenvalues_floored: IntArray  # (K,)
    covariance_learned: BoolArray  # (K,)
    noise_learned: BoolArray  # (K,)
    refreshed_at: Array  # (K,) rewards of the arm at its last refresh
    estimates: Array  # (N, d) per-task least squares, a buffer
    order: IntArray  # (N,) a buffer
    losses: Array  # (GRID,) a buffer
    evidence: Evidence


def new_memory(n_arms: int, n_tasks: int, n_features: int, robust: float = 0.0) -> Memory:
    """Memory of estimators that have seen nothing."""
    return Memory(
        threshold=np.zeros(n_arms),
        threshold_tasks=np.full(n_arms, -1, dtype=np.int64),
        threshold_rewards=np.zeros(n_arms),
        tasks_used=np.zeros(n_arms, dtype=np.int64),
        eigenvalues_floored=np.zeros(n_arms, dtype=np.int64),
        covariance_learned=np.zeros(n_arms, dtype=np.bool_),
        noise_learned=np.zeros(n_arms, dtype=np.bool_),
        refreshed_at=np.zeros(n_arms),
        estimates=np.empty((n_tasks, n_features)),
        order=np.empty(n_tasks, dtype=np.int64),
        losses=np.empty(GRID),
        evidence=new_evidence(n_arms, n_tasks, n_features, robust),
    )


@inner_kernel
def floor_eigenvalues(matrix: Array, scale: float, buffers: Buffers) -> int:
    """Raise eigenvalues below a millionth of ``scale`` to that; return how many there were."""
    return raise_eigenvalues(
        matrix, EIGENVALUE_FLOOR * scale, buffers.vectors[0], buffers.matrices[0], buffers.matrices[1]
    )


@inner_kernel
def mean_diagonal(matrix: Array) -> float:
    """Return trace / d."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i]
    return total / matrix.shape[0]


@inner_kernel
def estimate_paper(
    belief: Belief, memory: Memory, arm: int, literal: bool, thresholded: bool, buffers: Buffers, n_tasks: int
) -> None:
    """Re-estimate noise and covariance of one arm as the paper does.

    Faithful: tasks whose OLS estimate exists, divisor m - 1, diagonal kept, start values until they can be replaced.
    Literal: minimum-norm OLS of every task (zero where nothing was seen), no divisor, diagonal thresholded as well.
    Not thresholded: the sample covariance as it is, to see what the threshold is worth.
    """
    d = belief.covariance.shape[1]
    rewards = belief.rewards[arm]
    if literal or rewards > d + 1:
        squares = residual_sum_of_squares(belief, arm, buffers)
        belief.noise_variance[arm] = max(squares / max(rewards - d - 1.0, 1.0), NOISE_FLOOR)
        memory.noise_learned[arm] = True

    used = 0
    root, inverse_root = buffers.matrices[0], buffers.matrices[1]
    for position in range(belief.n_seen[arm]):
        row = belief.seen[arm, position]
        gram, moment = whole(belief.sums.gram[row], buffers.matrices[6]), belief.sums.moment[row]
        if belief.sums.counts[row] >= d:
            condition = ordinary_least_squares(
                gram, moment, memory.estimates[used], root, inverse_root, CONDITION_LIMIT
            )
            if condition < CONDITION_LIMIT:
                used += 1
                continue
        if literal:
            least_squares(gram, moment, memory.estimates[used], root, buffers.vectors[0], inverse_root)
            used += 1
    if literal:
        for position in range(used, n_tasks):
            for i in range(d):
                memory.estimates[position, i] = 0.0
        used = n_tasks
    memory.tasks_used[arm] = used
    if used < 2:
        return

    for position in range(used):
        memory.order[position] = position
    covariance = belief.covariance[arm]
    sample_covariance(memory.estimates, memory.order, 0, used, buffers.vectors[0], covariance)
    stale = used != memory.threshold_tasks[arm] or rewards - memory.threshold_rewards[arm] >= n_tasks
    if thresholded and stale:
        memory.threshold[arm] = choose_threshold(
            memory.estimates,
            used,
            covariance,
            memory.order,
            memory.losses,
            buffers.vectors[0],
            buffers.matrices[0],
            buffers.matrices[1],
        )
        memory.threshold_tasks[arm] = used
        memory.threshold_rewards[arm] = rewards
    if thresholded:
        apply_threshold(covariance, memory.threshold[arm], not literal)
    if literal:
        # The printed S is a sum, not an average; the threshold was chosen on the scale of the average.
        for i in range(d):
            for j in range(d):
                covariance[i, j] *= used - 1
    memory.eigenvalues_floored[arm] = floor_eigenvalues(covariance, mean_diagonal(covariance), buffers)
    memory.covariance_learned[arm] = True


@inner_kernel
def estimate_moments(belief: Belief, memory: Memory, arm: int, buffers: Buffers) -> None:
    """Swamy's estimate: covariance of the OLS estimates less what their noise explains.

    The noise variance is the residual variance within tasks, held by one pseudo-residual of the size of the rewards
    while there are few degrees of freedom.
    """
    d = belief.covariance.shape[1]
    root, inverse_root = buffers.matrices[0], buffers.matrices[1]
    inverse_sum = buffers.matrices[2]
    solution = buffers.vectors[0]
    for i in range(d):
        for j in range(d):
            inverse_sum[i, j] = 0.0
    squares = 0.0
    freedom = 0.0
    reward_squares = 0.0
    used = 0
    for position in range(belief.n_seen[arm]):
        row = belief.seen[arm, position]
        gram, moment = whole(belief.sums.gram[row], buffers.matrices[6]), belief.sums.moment[row]
        count = belief.sums.counts[row]
        reward_squares += belief.sums.sum_of_squares[row]
        if count >= d:
            condition = ordinary_least_squares(
                gram, moment, memory.estimates[used], root, inverse_root, CONDITION_LIMIT
            )
            if condition < CONDITION_LIMIT:
                residual = belief.sums.sum_of_squares[row]
                for i in range(d):
                    residual -= memory.estimates[used, i] * moment[i]
                squares += max(residual, 0.0)
                freedom += count - d
                for k in range(d):
                    for i in range(k + 1):
                        weight = inverse_root[k, i]
                        for j in range(k + 1):
                            inverse_sum[i, j] += weight * inverse_root[k, j]
                used += 1
                continue
        rank = least_squares(gram, moment, solution, root, buffers.vectors[1], inverse_root)
        if count > rank:
            residual = belief.sums.sum_of_squares[row]
            for i in range(d):
                residual -= solution[i] * moment[i]
            squares += max(residual, 0.0)
            freedom += count - rank
    if reward_squares > 0.0:
        size = reward_squares / belief.rewards[arm]
        noise = squares / freedom if freedom >= ENOUGH_FREEDOM else (size + squares) / (1.0 + freedom)
        belief.noise_variance[arm] = max(noise, QUIET * size)
    memory.noise_learned[arm] = reward_squares > 0.0
    memory.tasks_used[arm] = used
    if used < 2:
        return
    for position in range(used):
        memory.order[position] = position
    covariance = belief.covariance[arm]
    sample_covariance(memory.estimates, memory.order, 0, used, buffers.vectors[0], covariance)
    scale = mean_diagonal(covariance)
    for i in range(d):
        for j in range(d):
            covariance[i, j] -= belief.noise_variance[arm] / used * inverse_sum[i, j]
    memory.eigenvalues_floored[arm] = floor_eigenvalues(covariance, scale, buffers)
    memory.covariance_learned[arm] = True


@woven_kernel
def refresh(belief: Belief, memory: Memory, arm: int, method: int, buffers: Buffers, n_tasks: int) -> None:
    """Re-estimate the prior of one arm, which is not the evidence prior, and rebuild the posterior.

    ``n_tasks`` is how many tasks there are, with or without rewards.
    """
    literal = method == PAPER_LITERAL
    if method in (PAPER, PAPER_LITERAL, PAPER_UNTHRESHOLDED):
        estimate_paper(belief, memory, arm, literal, method != PAPER_UNTHRESHOLDED, buffers, n_tasks)
    elif method == MOMENTS:
        estimate_moments(belief, memory, arm, buffers)
    rebuild(belief, arm, buffers)
    memory.refreshed_at[arm] = belief.rewards[arm]


@woven_kernel
def refresh_due(belief: Belief, memory: Memory, arm: int, method: int, growth: float) -> bool:
    """Whether the arm's rewards (of all arms under the evidence prior) have grown enough since its last refresh.

    A known prior is never re-estimated; its posterior is rebuilt when the rewards have doubled, which bounds the
    rounding that rank-one steps gather.
    """
    if method == EVIDENCE:
        return evidence_due(belief, memory.evidence, growth)
    if method == KNOWN:
        growth = 1.0
    at = memory.refreshed_at[arm]
    return belief.rewards[arm] - at >= max(1.0, growth * at)
