"""The hierarchical posterior, carried from reward to reward by exact rank-one updates.

Symbols, for one arm and one task, with the prior (Sigma, s2, Lambda, l) held fixed between two refreshes::

    Ct  = (A + s2 Sigma^-1)^-1        local covariance over s2; Sigma / s2 before the first reward
    m   = Ct b                        local mean, if the shared mean were zero
    H   = I - Ct A                    how much of the shared mean the task still leans on
    Phi = (Lambda + sum_j G_j)^-1     covariance of the shared mean,  G_j = (A - A Ct A) / s2
    r   = Lambda l + sum_j g_j        g_j = (b - A m) / s2, l is where the shared mean was believed to lie
    m0  = Phi r                       shared mean

A prediction at x has mean ``x'm + w'm0`` and variance ``s2 x'Ct x + w'Phi w`` with ``w = H'x = x - A Ct x``. No line
inverts Sigma, so a singular one is as good as any other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posse.kernels.compiler import inner_kernel, kernel, woven_kernel
from posse.kernels.lanes import Lanes, new_lanes
from posse.kernels.linalg import (
    EPSILON,
    add_outer,
    copy_symmetric,
    cross_product,
    dot,
    factor_at_least,
    factor_semidefinite,
    invert,
    mirror_upper,
    multiply_symmetric,
    multiply_upper,
    solve_transposed,
    whole,
)
from posse.kernels.llvm.handle import floats, ints
from posse.kernels.sums import Sums, add_reward_at
from posse.types import Array, IntArray

PLENTY = 1e5  # data over prior at which G is computed without cancellation


class Belief(NamedTuple):
    """What all rewards so far say about every coefficient, under the prior in force.

    What belongs to one (arm, task) stands in one row of the arrays over rows, its slot. Only pairs with rewards need
    one, so a fleet of many tasks takes the room of what it has seen.

    ``sums`` is what was learned; ``covariance, noise_variance, shared_precision, shared_location`` is the prior;
    ``seen[k, :n_seen[k]]`` lists the slots with rewards of arm k in the order of their first one; the rest can be
    rebuilt from these. Rows of ``local_covariance`` and ``local_mean`` mean something only for pairs that were seen.
    Symmetric matrices over slots may also be kept as their upper triangles, row after row, shape (S, d (d + 1) / 2).
    """

    sums: Sums  # over (S,) slots
    slot: IntArray  # (N, K or more) the row of every (task, arm), negative for none
    task_of: IntArray  # (S,) the task of every row
    seen: IntArray  # (K, N or more)
    n_seen: IntArray  # (K,)
    rewards: Array  # (K,) rewards of the arm in all tasks
    covariance: Array  # (K, d, d)
    noise_variance: Array  # (K,)
    shared_precision: Array  # (K, d, d) of the shared means before any reward
    shared_location: Array  # (K, d) where they are believed to lie then
    task_weight: Array  # (N,) the task's own covariance is Sigma / weight; 1 unless outliers are modelled
    local_covariance: Array  # (S, d, d)
    local_mean: Array  # (S, d)
    shared_covariance: Array  # (K, d, d)
    shared_moment: Array  # (K, d)
    shared_mean: Array  # (K, d)


def belief_layout(n_axes: int) -> Belief:
    """Return a belief that stands for all whose matrices over slots have so many axes: 3 whole ones, 2 triangles."""
    return Belief(
        sums=Sums(gram=floats(n_axes), moment=floats(2), sum_of_squares=floats(1), counts=floats(1)),
        slot=ints(2),
        task_of=ints(1),
        seen=ints(2),
        n_seen=ints(1),
        rewards=floats(1),
        covariance=floats(3),
        noise_variance=floats(1),
        shared_precision=floats(3),
        shared_location=floats(2),
        task_weight=floats(1),
        local_covariance=floats(n_axes),
        local_mean=floats(2),
        shared_covariance=floats(3),
        shared_moment=floats(2),
        shared_mean=floats(2),
    )


class Buffers(NamedTuple):
    """Room to work in, so that no step allocates."""

    matrices: Array  # (8, d, d)
    vectors: Array  # (4, d)
    lanes: Lanes


def new_buffers(n_features: int) -> Buffers:
    """Buffers for one thread."""
    return Buffers(np.empty((8, n_features, n_features)), np.empty((4, n_features)), new_lanes(n_features))


@woven_kernel
def predict_arm(belief: Any, task: int, arm: int, x: Array, vectors: Array) -> tuple[float, float]:
    """Return mean and standard deviation of the expected reward of one arm; a negative task is one never seen.

    ``belief`` is a Belief, or anything that has the fields used here.
    """
    v, w, p = vectors[0], vectors[1], vectors[2]
    d = x.shape[0]
    row = belief.slot[task, arm] if task >= 0 else -1
    if row >= 0 and belief.sums.counts[row] > 0.0:
        multiply_symmetric(belief.local_covariance[row], x, v)
        multiply_symmetric(belief.sums.gram[row], v, w)
        for i in range(d):
            w[i] = x[i] - w[i]
        own_mean = dot(x, belief.local_mean[row])
        own_variance = belief.noise_variance[arm] * dot(x, v)
    else:
        multiply_symmetric(belief.covariance[arm], x, v)
        for i in range(d):
            w[i] = x[i]
        own_mean = 0.0
        own_variance = dot(x, v) / (belief.task_weight[task] if task >= 0 else 1.0)
    multiply_symmetric(belief.shared_covariance[arm], w, p)
    mean = own_mean + dot(w, belief.shared_mean[arm])
    return mean, math.sqrt(max(own_variance + dot(w, p), 0.0))


@woven_kernel
def predict(belief: Belief, task: int, x: Array, buffers: Buffers, mean: Array, sd: Array) -> None:
    """Write mean and standard deviation of the expected reward of every arm."""
    for arm in range(mean.shape[0]):
        mean[arm], sd[arm] = predict_arm(belief, task, arm, x, buffers.vectors)


@woven_kernel
def observe(belief: Any, arm: int, task: int, x: Array, reward: float, buffers: Any) -> None:
    """Learn one reward: exact, O(d^2), whatever the number of tasks. The pair must have a slot."""
    v, w, p = buffers.vectors[0], buffers.vectors[1], buffers.vectors[2]
    d = x.shape[0]
    s2 = belief.noise_variance[arm]
    row = belief.slot[task, arm]
    local_covariance = belief.local_covariance[row]
    local_mean = belief.local_mean[row]
    if not belief.sums.counts[row] > 0.0:
        belief.seen[arm, belief.n_seen[arm]] = row
        belief.n_seen[arm] += 1
        for i in range(d):
            local_mean[i] = 0.0
        copy_symmetric(belief.covariance[arm], s2 * belief.task_weight[task], local_covariance)

    multiply_symmetric(local_covariance, x, v)
    multiply_symmetric(belief.sums.gram[row], v, w)
    for i in range(d):
        w[i] = (x[i] - w[i]) / s2
    # Squared lengths cannot be negative, whatever rounding says.
    gain = 1.0 / (1.0 + max(dot(x, v), 0.0))
    surprise = gain * (reward - dot(x, local_mean))
    add_outer(-gain, v, local_covariance)
    shared_moment = belief.shared_moment[arm]
    for i in range(d):
        local_mean[i] += surprise * v[i]
        shared_moment[i] += surprise * w[i]
    # One reward adds the rank-one matrix (s2 gain) w w' to the precision of the shared mean.
    multiply_symmetric(belief.shared_covariance[arm], w, p)
    weight = s2 * gain
    add_outer(-weight / (1.0 + weight * max(dot(w, p), 0.0)), p, belief.shared_covariance[arm])
    multiply_symmetric(belief.shared_covariance[arm], shared_moment, belief.shared_mean[arm])
    add_reward_at(belief.sums, row, x, reward)
    belief.rewards[arm] += 1.0


@kernel
def rebuild(belief: Belief, arm: int, buffers: Buffers) -> None:
    """Recompute everything about one arm from its sums, under the prior in force."""
    precision = buffers.matrices[5]
    moment = belief.shared_moment[arm]
    d = moment.shape[0]
    for i in range(d):
        moment[i] = 0.0
        for j in range(d):
            precision[i, j] = 0.0
    sum_over_tasks(belief, arm, 0, belief.n_seen[arm], buffers, precision, moment)
    finish(belief, arm, precision, buffers)


@inner_kernel
def whiten(gram: Array, root: Array, lower: Array, s2: float, middle: Array, whitened: Array, explained: Array) -> None:
    """Condition one task: with Sigma = R'R, write M, Y and Y A such that M'M = s2 I + R A R' and Ct = Y'Y.

    ``root`` is the upper R and ``lower`` its transpose; M goes to ``middle``, Y = M'^-1 R to ``whitened`` and Y A to
    ``explained``. Then A Ct A = (Y A)'(Y A).
    """
    d = gram.shape[0]
    # explained = R A and middle = s2 I + R A R', upper triangle.
    multiply_upper(root, gram, explained)
    for i in range(d):
        for j in range(i, d):
            middle[i, j] = 0.0
        middle[i, i] = s2
        for k in range(i, d):
            weight = explained[i, k]
            for j in range(i, k + 1):
                middle[i, j] += weight * lower[k, j]
    # The factor is built in `whitened` and moved.
    factor_at_least(middle, s2, whitened)
    for i in range(d):
        for j in range(d):
            middle[i, j] = whitened[i, j]
            whitened[i, j] = root[i, j]
    solve_transposed(middle, whitened)
    solve_transposed(middle, explained)


@inner_kernel
def sum_over_tasks(
    belief: Belief, arm: int, first: int, last: int, buffers: Buffers, precision: Array, moment: Array
) -> None:
    """Rebuild the local part of seen tasks ``first`` to ``last``; add their G to ``precision`` and g to ``moment``."""
    root, lower, middle = buffers.matrices[0], buffers.matrices[1], buffers.matrices[2]
    half, whitened = buffers.matrices[3], buffers.matrices[4]
    work = buffers.vectors[0]
    d = moment.shape[0]
    s2 = belief.noise_variance[arm]
    # Sigma = R'R with R upper; `lower` is R'.
    factor_semidefinite(belief.covariance[arm], root)
    for i in range(d):
        for j in range(d):
            lower[i, j] = root[j, i]
    for position in range(first, last):
        row = belief.seen[arm, position]
        task = belief.task_of[row]
        gram = whole(belief.sums.gram[row], buffers.matrices[6])
        # Ct = (A + s2 (Sigma / weight)^-1)^-1: the weight acts as if on the noise.
        whiten(gram, root, lower, s2 * belief.task_weight[task], middle, whitened, half)
        local_covariance = belief.local_covariance[row]
        cross_product(whitened, buffers.matrices[7])
        copy_symmetric(buffers.matrices[7], 1.0, local_covariance)
        local_mean = belief.local_mean[row]
        multiply_symmetric(local_covariance, belief.sums.moment[row], local_mean)
        size = 0.0
        for i in range(d):
            size = max(size, middle[i, i] * middle[i, i])
        weight_of_task = belief.task_weight[task]
        if size > PLENTY * s2 * weight_of_task:
            own_moment = belief.sums.moment[row]
            add_information(
                gram, own_moment, lower, s2, weight_of_task, middle, whitened, half, work, precision, moment
            )
            continue
        multiply_symmetric(gram, local_mean, work)
        for i in range(d):
            moment[i] += (belief.sums.moment[row, i] - work[i]) / s2
        for k in range(d):
            for i in range(d):
                weight = half[k, i] / s2
                for j in range(i, d):
                    precision[i, j] -= weight * half[k, j]
        for i in range(d):
            for j in range(i, d):
                precision[i, j] += gram[i, j] / s2


@inner_kernel
def add_information(
    gram: Array,
    own_moment: Array,
    lower: Array,
    s2: float,
    task_weight: float,
    middle: Array,
    work: Array,
    half: Array,
    solution: Array,
    precision: Array,
    moment: Array,
) -> None:
    """Add G to ``precision`` and g to ``moment`` of a task whose data outweigh its prior by far.

    With A = B'B, G = B' (s2 I + B Sigma B' / weight)^-1 B: no difference of large numbers, which is what
    (A - A Ct A) / s2 is then. ``lower`` is R' of Sigma = R'R; ``middle``, ``work``, ``half`` and ``solution`` are
    buffers.
    """
    d = gram.shape[0]
    factor_semidefinite(gram, half)
    multiply_upper(half, lower, work)
    for i in range(d):
        for j in range(i, d):
            middle[i, j] = dot(work[i], work[j]) / task_weight
        middle[i, i] += s2
    factor_at_least(middle, s2, work)
    # b = B'z, and g = B' (s2 I + B Sigma B')^-1 z.
    for i in range(d):
        solution[i] = own_moment[i] if half[i, i] > 0.0 else 0.0
        if half[i, i] > 0.0:
            for k in range(i):
                solution[i] -= half[k, i] * solution[k]
            solution[i] /= half[i, i]
    for i in range(d):
        for k in range(i):
            solution[i] -= work[k, i] * solution[k]
        solution[i] /= work[i, i]
    solve_transposed(work, half)
    for k in range(d):
        for i in range(d):
            weight = half[k, i]
            moment[i] += weight * solution[k]
            for j in range(i, d):
                precision[i, j] += weight * half[k, j]


@woven_kernel
def finish(belief: Belief, arm: int, precision: Array, buffers: Buffers) -> None:
    """Turn the sums over tasks into the shared mean and its covariance: add its prior; ``precision`` is overwritten."""
    finish_shared(
        belief.shared_precision[arm], belief.shared_location[arm], precision, belief.shared_moment[arm],
        belief.shared_covariance[arm], belief.shared_mean[arm], buffers.matrices,
    )  # fmt: skip


@kernel
def finish_shared(
    prior: Array, location: Array, precision: Array, moment: Array, covariance: Array, mean: Array, matrices: Array
) -> None:
    """Add the prior of a shared mean to what its tasks say; ``precision`` is overwritten."""
    d = precision.shape[0]
    largest = 0.0
    for i in range(d):
        for j in range(i, d):
            precision[i, j] += prior[i, j]
        moment[i] += dot(prior[i], location)
        largest = max(largest, abs(precision[i, i]))
    mirror_upper(precision)
    # G = (A - A Ct A) / s2 cancels when a task has far more data than its prior is worth; what the rounding takes from
    # the diagonal is given back, a little more at each try.
    jitter = EPSILON * largest
    for _attempt in range(20):
        if invert(precision, matrices[0], matrices[1], covariance):
            break
        for i in range(d):
            precision[i, i] += jitter
        jitter *= 10.0
    multiply_symmetric(covariance, moment, mean)


@inner_kernel
def residual_sum_of_squares(belief: Belief, arm: int, buffers: Buffers) -> float:
    """Return the squared residuals of all rewards of one arm around the posterior means of their tasks."""
    leaning, coefficients = buffers.vectors[0], buffers.vectors[1]
    shared_mean = belief.shared_mean[arm]
    d = shared_mean.shape[0]
    total = 0.0
    for position in range(belief.n_seen[arm]):
        row = belief.seen[arm, position]
        gram = belief.sums.gram[row]
        multiply_symmetric(gram, shared_mean, leaning)
        multiply_symmetric(belief.local_covariance[row], leaning, coefficients)
        for i in range(d):
            coefficients[i] = belief.local_mean[row, i] + shared_mean[i] - coefficients[i]
        multiply_symmetric(gram, coefficients, leaning)
        total += belief.sums.sum_of_squares[row]
        for i in range(d):
            total += coefficients[i] * (leaning[i] - 2.0 * belief.sums.moment[row, i])
    return max(total, 0.0)
