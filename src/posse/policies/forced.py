"""Least squares with forced samples, compiled: OLSBandit, every task alone, and RMBandit, tasks around a centre."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled
from posse.core.select import best
from posse.model.dense import dot, least_squares, ordinary_least_squares
from posse.model.sums import Sums, add_reward
from posse.policies.playing import StepBatch, player
from posse.types import Array, IntArray

ROUND_ROBIN, SCHEDULE, RIDGE = 0, 1, 2
BATCHED, SCHEDULED = 0, 1

OLS_CONDITION_LIMIT = 1e12
RM_CONDITION_LIMIT = 1e8
LASSO_SWEEPS = 2_000  # hardly ever more than 20; a nearly singular Gram matrix creeps
LASSO_TOLERANCE = 1e-8  # of the largest offset


class Model(NamedTuple):
    """Sums and coefficients from all samples and from forced samples only, and clocks."""

    sums: Sums
    forced_sums: Sums
    batch_sums: Sums  # of the current batch; OLSBandit has none
    estimates: Array  # (K, N, d)
    forced_estimates: Array  # (K, N, d)
    clock: IntArray  # rewards so far: (N,) of every task for OLSBandit, (1,) for RMBandit
    matrices: Array  # (3, d, d) buffers of learning
    vectors: Array  # (2, d)
    rows: Array  # (N, d)
    gap: float
    pulls: int
    variant: int  # ROUND_ROBIN, SCHEDULE, RIDGE; or BATCHED, SCHEDULED
    # Of RMBandit alone.
    forced_penalty: float
    penalty: float
    trim: float
    accumulate: bool
    refresh_every: int


@compiled
def forced_arm(clock: int, n_arms: int, pulls: int) -> int:
    """Return the arm that round ``clock`` (from 1) must pull, or -1 if it is free.

    Blocks of ``n_arms * pulls`` forced rounds begin after rounds 0, 1, 3, 7, ... times their own length.
    """
    block = n_arms * pulls
    start = 0
    while start < clock:
        if clock <= start + block:
            return (clock - start - 1) // pulls
        start = 2 * start + block
    return -1


@compiled
def prune_then_pick(model: Model, task: int, x: Array, draws: Array) -> int:
    """Drop arms that forced samples put more than half a gap below the best, then pick by all samples."""
    n_arms = draws.shape[0]
    scores, top = np.empty(n_arms), -math.inf
    for arm in range(n_arms):
        scores[arm] = dot(x, model.forced_estimates[arm, task])
        top = max(top, scores[arm])
    for arm in range(n_arms):
        scores[arm] = dot(x, model.estimates[arm, task]) if scores[arm] >= top - model.gap / 2.0 else -math.inf
    return int(best(scores, draws))


# OLSBandit


@compiled
def forced_at(model: Model, clock: int) -> int:
    """Return the arm a task must pull at its own round ``clock``, or -1."""
    n_arms, _, d = model.estimates.shape
    if model.variant == ROUND_ROBIN and clock <= n_arms * d:
        return int((clock - 1) % n_arms)
    return forced_arm(clock, n_arms, model.pulls)


@compiled
def fit(model: Model, sums: Sums, arm: int, task: int, out: Array) -> None:
    """Write least-squares coefficients; the variant says which stand in while the Gram matrix is singular."""
    d, gram, moment = out.shape[0], sums.gram[arm, task], sums.moment[arm, task]
    root, other, regularised = model.matrices[0], model.matrices[1], model.matrices[2]
    if sums.counts[arm, task] >= d:
        if ordinary_least_squares(gram, moment, out, root, other, OLS_CONDITION_LIMIT) < OLS_CONDITION_LIMIT:
            return
    elif model.variant == ROUND_ROBIN:
        out[:] = 0.0
        return
    if model.variant == RIDGE:
        regularised[:] = gram
        for i in range(d):
            regularised[i, i] += 1.0
        ordinary_least_squares(regularised, moment, out, root, other, 1e300)
        return
    least_squares(gram, moment, out, root, model.vectors[0], other)


@compiled
def choose_ols(model: Model, task: int, x: Array, _step: int, draws: Array) -> int:
    """Return the arm that OLSBandit pulls."""
    forced = forced_at(model, model.clock[task] + 1)
    return forced if forced >= 0 else prune_then_pick(model, task, x, draws)


@compiled
def learn_ols(model: Model, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward; it counts as forced if the task's clock asked for this arm."""
    model.clock[task] += 1
    add_reward(model.sums, arm, task, x, reward)
    fit(model, model.sums, arm, task, model.estimates[arm, task])
    if forced_at(model, model.clock[task]) == arm:
        add_reward(model.forced_sums, arm, task, x, reward)
        fit(model, model.forced_sums, arm, task, model.forced_estimates[arm, task])


_play_ols = player(choose_ols, learn_ols)


@compiled
def play_ols(model: Model, batch: StepBatch) -> None:
    """Play a batch of steps."""
    _play_ols(model, batch)


# RMBandit


@compiled
def trimmed_mean(rows: Array, count: int, trim: float, out: Array) -> None:
    """Write the coordinate-wise mean of ``count`` rows without the ``floor(trim * count)`` ends on either side."""
    cut = int(trim * count)
    while 2 * cut >= count:
        cut -= 1
    for i in range(rows.shape[1]):
        total = 0.0
        for value in np.sort(rows[:count, i])[cut : count - cut]:
            total += value
        out[i] = total / (count - 2 * cut)


@compiled
def lasso_towards(
    gram: Array, moment: Array, count: float, penalty: float, centre: Array, out: Array, pull: Array
) -> None:
    """Write argmin (1/n) |y - X beta|^2 + penalty |beta - centre|_1 from the sums, by coordinate descent.

    ``out`` holds the offset from the centre while the sweeps run; ``pull`` is a buffer for b - A centre.
    """
    d = centre.shape[0]
    for i in range(d):
        out[i] = 0.0
        pull[i] = moment[i] - dot(gram[i], centre)
    cut = count * penalty / 2.0
    for _sweep in range(LASSO_SWEEPS):
        largest_change, largest = 0.0, 0.0
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


@compiled
def robust_estimate(
    model: Model, sums: Sums, arm: int, constant_penalty: float, decaying_penalty: float, out: Array
) -> None:
    """Write the two-stage estimate of one arm in every task to ``out[arm]``.

    A task's penalty is ``constant_penalty`` plus ``decaying_penalty`` times the square root of (log of the clock and of
    the features) over its rewards. An arm without any sample (in this batch) keeps the estimate it had.
    """
    n_tasks, d = model.rows.shape
    root, other, pooled = model.matrices[0], model.matrices[1], model.matrices[2]
    centre, pull = model.vectors[0], model.vectors[1]
    level = math.log(max(model.clock[0], 2)) + math.log(d)
    if not sums.counts[arm].sum() > 0.0:
        return
    used = 0
    for task in range(n_tasks):
        if sums.counts[arm, task] >= d:
            condition = ordinary_least_squares(
                sums.gram[arm, task], sums.moment[arm, task], model.rows[used], root, other, RM_CONDITION_LIMIT
            )
            used += condition < RM_CONDITION_LIMIT
    if used > 0:
        trimmed_mean(model.rows, used, model.trim, centre)
    else:
        for i in range(d):
            pull[i] = 0.0
            for j in range(d):
                pooled[i, j] = 1.0 if i == j else 0.0
        for task in range(n_tasks):
            for i in range(d):
                pull[i] += sums.moment[arm, task, i]
                for j in range(d):
                    pooled[i, j] += sums.gram[arm, task, i, j]
        ordinary_least_squares(pooled, pull, centre, root, other, 1e300)
    for task in range(n_tasks):
        count = sums.counts[arm, task]
        if count > 0.0:
            penalty = constant_penalty + decaying_penalty * math.sqrt(level / count)
            gram, moment = sums.gram[arm, task], sums.moment[arm, task]
            lasso_towards(gram, moment, count, penalty, centre, out[arm, task], pull)
        else:
            out[arm, task] = centre


@compiled
def choose_rm(model: Model, task: int, x: Array, _step: int, draws: Array) -> int:
    """Return the arm that RMBandit pulls."""
    n_arms, clock = draws.shape[0], model.clock[0] + 1
    if model.variant == BATCHED:
        if clock <= n_arms * model.pulls:
            return best(draws, draws)
    else:
        forced = forced_arm(clock, n_arms, model.pulls)
        if forced >= 0:
            return forced
    return prune_then_pick(model, task, x, draws)


@compiled
def learn_rm(model: Model, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward; re-estimate when a batch ends (batched) or every few rewards (scheduled)."""
    n_arms = model.estimates.shape[0]
    model.clock[0] += 1
    clock, exploration = model.clock[0], n_arms * model.pulls
    add_reward(model.sums, arm, task, x, reward)
    if model.variant == SCHEDULED:
        forced = forced_arm(clock, n_arms, model.pulls) == arm
        if forced:
            add_reward(model.forced_sums, arm, task, x, reward)
        if clock % model.refresh_every != 0:
            return
        every = model.refresh_every > 1  # with a refresh after every reward only the pulled arm has anything new
        for k in range(n_arms):
            if k == arm or every:
                robust_estimate(model, model.sums, k, 0.0, model.penalty, model.estimates)
                if forced or every:
                    robust_estimate(model, model.forced_sums, k, model.forced_penalty, 0.0, model.forced_estimates)
        return
    add_reward(model.batch_sums, arm, task, x, reward)
    if clock <= exploration:
        add_reward(model.forced_sums, arm, task, x, reward)
    end = exploration
    while end < clock:
        end *= 2
    if clock < end:
        return
    for k in range(n_arms):
        if clock == exploration:
            robust_estimate(model, model.forced_sums, k, model.forced_penalty, 0.0, model.forced_estimates)
        sums = model.sums if model.accumulate else model.batch_sums
        robust_estimate(model, sums, k, 0.0, model.penalty, model.estimates)
    model.batch_sums.gram[:] = 0.0
    model.batch_sums.moment[:] = 0.0
    model.batch_sums.sum_of_squares[:] = 0.0
    model.batch_sums.counts[:] = 0.0


_play_rm = player(choose_rm, learn_rm)


@compiled
def play_rm(model: Model, batch: StepBatch) -> None:
    """Play a batch of steps."""
    _play_rm(model, batch)
