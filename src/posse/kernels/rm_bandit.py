"""RMBandit: a trimmed mean of the tasks' least squares, then each task drawn to it by a lasso."""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.batches import StepBatch
from posse.kernels.compiler import allocating_inner_kernel, inner_kernel, kernel, woven_kernel
from posse.kernels.forced import forced_arm, prune_then_pick
from posse.kernels.linalg import ordinary_least_squares
from posse.kernels.posterior import Buffers
from posse.kernels.select import best
from posse.kernels.sums import Sums, add_reward
from posse.types import Array, IntArray

BATCHED, SCHEDULED = 0, 1

CONDITION_LIMIT = 1e8
LASSO_SWEEPS = 2_000  # hardly ever more than 20; a nearly singular Gram matrix creeps
LASSO_TOLERANCE = 1e-8  # of the largest offset


class RmState(NamedTuple):
    """Sums of all, forced and current-batch samples; coefficients from them; ``clock[0]`` counts rewards."""

    sums: Sums
    forced_sums: Sums
    batch_sums: Sums
    estimates: Array  # (K, N, d)
    forced_estimates: Array  # (K, N, d)
    clock: IntArray  # (1,)
    task_estimates: Array  # (N, d) a buffer
    column: Array  # (N,) a buffer
    centre: Array  # (d,) a buffer


class RmSettings(NamedTuple):
    """Settings as the kernels take them."""

    variant: int
    pulls: int
    gap: float
    forced_penalty: float
    penalty: float
    trim: float
    accumulate: bool
    refresh_every: int


@allocating_inner_kernel
def trimmed_mean(rows: Array, count: int, trim: float, column: Array, out: Array) -> None:
    """Write the coordinate-wise mean of ``count`` rows without the ``floor(trim * count)`` ends on either side."""
    cut = int(trim * count)
    while 2 * cut >= count:
        cut -= 1
    values = column[:count]
    for i in range(rows.shape[1]):
        for row in range(count):
            values[row] = rows[row, i]
        values.sort()
        total = 0.0
        for row in range(cut, count - cut):
            total += values[row]
        out[i] = total / (count - 2 * cut)


@inner_kernel
def lasso_towards(
    gram: Array, moment: Array, count: float, penalty: float, centre: Array, out: Array, pull: Array
) -> None:
    """Write argmin (1/n) |y - X beta|^2 + penalty |beta - centre|_1 from the sums, by coordinate descent.

    ``out`` holds the offset from the centre while the sweeps run; ``pull`` is a buffer for b - A centre.
    """
    d = centre.shape[0]
    for i in range(d):
        out[i] = 0.0
        pull[i] = moment[i]
        for j in range(d):
            pull[i] -= gram[i, j] * centre[j]
    cut = count * penalty / 2.0
    for _sweep in range(LASSO_SWEEPS):
        largest_change = 0.0
        largest = 0.0
        for i in range(d):
            if gram[i, i] > 0.0:
                remainder = pull[i]
                for j in range(d):
                    if j != i:
                        remainder -= gram[i, j] * out[j]
                size = max(abs(remainder) - cut, 0.0)
                value = math.copysign(size, remainder) / gram[i, i]
                largest_change = max(largest_change, abs(value - out[i]))
                largest = max(largest, abs(value))
                out[i] = value
        if largest_change <= LASSO_TOLERANCE * largest:
            break
    for i in range(d):
        out[i] += centre[i]


@inner_kernel
def robust_estimate(
    sums: Sums,
    arm: int,
    constant_penalty: float,
    decaying_penalty: float,
    level: float,
    trim: float,
    state: RmState,
    buffers: Buffers,
    out: Array,
) -> None:
    """Write the two-stage estimate of one arm in every task to ``out[arm]``.

    A task's penalty is ``constant_penalty + decaying_penalty * sqrt(level / max(count, 1))``. An arm without any
    sample (in this batch) keeps the estimate it had.
    """  # fmt: skip
    n_tasks, d = state.task_estimates.shape
    root, other, pooled = buffers.matrices[0], buffers.matrices[1], buffers.matrices[2]
    centre = state.centre
    used = 0
    anything = False
    for task in range(n_tasks):
        anything = anything or sums.counts[arm, task] > 0.0
        if sums.counts[arm, task] >= d:
            condition = ordinary_least_squares(
                sums.gram[arm, task],
                sums.moment[arm, task],
                state.task_estimates[used],
                root,
                other,
                CONDITION_LIMIT,
            )
            if condition < CONDITION_LIMIT:
                used += 1
    if not anything:
        return
    if used > 0:
        trimmed_mean(state.task_estimates, used, trim, state.column, centre)
    else:
        total = buffers.vectors[0]
        for i in range(d):
            total[i] = 0.0
            for j in range(d):
                pooled[i, j] = 1.0 if i == j else 0.0
        for task in range(n_tasks):
            for i in range(d):
                total[i] += sums.moment[arm, task, i]
                for j in range(d):
                    pooled[i, j] += sums.gram[arm, task, i, j]
        ordinary_least_squares(pooled, total, centre, root, other, 1e300)
    for task in range(n_tasks):
        count = sums.counts[arm, task]
        if count > 0.0:
            penalty = constant_penalty + decaying_penalty * math.sqrt(level / max(count, 1.0))
            lasso_towards(
                sums.gram[arm, task],
                sums.moment[arm, task],
                count,
                penalty,
                centre,
                out[arm, task],
                buffers.vectors[1],
            )
        else:
            for i in range(d):
                out[arm, task, i] = centre[i]


@woven_kernel
def decide(state: RmState, settings: RmSettings, task: int, x: Array, draws: Array, scores: Array) -> int:
    """Return the arm to pull."""
    n_arms = scores.shape[0]
    clock = state.clock[0] + 1
    if settings.variant == BATCHED:
        if clock <= n_arms * settings.pulls:
            return best(draws, draws)
    else:
        forced = forced_arm(clock, n_arms, settings.pulls)
        if forced >= 0:
            return forced
    return prune_then_pick(state.forced_estimates, state.estimates, task, x, settings.gap, draws, scores)


@woven_kernel
def learn(state: RmState, settings: RmSettings, arm: int, task: int, x: Array, reward: float, buffers: Buffers) -> None:
    """Learn one reward; re-estimate when a batch ends (batched) or every few rewards (scheduled)."""
    n_arms, _, d = state.estimates.shape
    clock = state.clock[0] + 1
    state.clock[0] = clock
    level = math.log(max(clock, 2)) + math.log(d)
    add_reward(state.sums, arm, task, x, reward)
    if settings.variant == SCHEDULED:
        forced = forced_arm(clock, n_arms, settings.pulls) == arm
        if forced:
            add_reward(state.forced_sums, arm, task, x, reward)
        if clock % settings.refresh_every == 0:
            for k in range(n_arms):
                # With a refresh after every reward only the pulled arm has anything new.
                if k == arm or settings.refresh_every > 1:
                    robust_estimate(
                        state.sums,
                        k,
                        0.0,
                        settings.penalty,
                        level,
                        settings.trim,
                        state,
                        buffers,
                        state.estimates,
                    )
                    if forced or settings.refresh_every > 1:
                        robust_estimate(
                            state.forced_sums, k, settings.forced_penalty, 0.0, level, settings.trim, state, buffers,
                            state.forced_estimates,
                        )  # fmt: skip
        return

    exploration = n_arms * settings.pulls
    add_reward(state.batch_sums, arm, task, x, reward)
    if clock <= exploration:
        add_reward(state.forced_sums, arm, task, x, reward)
    end = exploration
    while end < clock:
        end *= 2
    if clock < end:
        return
    for k in range(n_arms):
        if clock == exploration:
            robust_estimate(
                state.forced_sums, k, settings.forced_penalty, 0.0, level, settings.trim, state, buffers,
                state.forced_estimates,
            )  # fmt: skip
        robust_estimate(
            state.sums if settings.accumulate else state.batch_sums, k, 0.0, settings.penalty, level, settings.trim,
            state, buffers, state.estimates,
        )  # fmt: skip
    state.batch_sums.gram[:] = 0.0
    state.batch_sums.moment[:] = 0.0
    state.batch_sums.sum_of_squares[:] = 0.0
    state.batch_sums.counts[:] = 0.0


@kernel
def play(state: RmState, settings: RmSettings, stretch: StepBatch, buffers: Buffers, scores: Array) -> None:
    """Play a stretch of steps."""
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        x, draws = stretch.contexts[t], stretch.draws[t]
        arm = 0
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = decide(state, settings, task, x, draws, scores)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        learn(state, settings, arm, stretch.tasks[t], x, stretch.rewards[t, arm], buffers)
