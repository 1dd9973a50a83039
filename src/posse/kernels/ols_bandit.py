"""OLSBandit: every task alone, forced samples on a doubling schedule, least squares."""

from __future__ import annotations

from typing import NamedTuple

from posse.kernels.batches import StepBatch
from posse.kernels.compiler import inner_kernel, kernel, woven_kernel
from posse.kernels.forced import forced_arm, prune_then_pick
from posse.kernels.linalg import least_squares, ordinary_least_squares
from posse.kernels.posterior import Buffers
from posse.kernels.sums import Sums, add_reward
from posse.types import Array, IntArray

ROUND_ROBIN, SCHEDULE, RIDGE = 0, 1, 2

CONDITION_LIMIT = 1e12


class OlsState(NamedTuple):
    """Sums and coefficients from all samples and from forced samples only; ``arrivals`` is each task's own clock."""

    sums: Sums
    forced_sums: Sums
    estimates: Array  # (K, N, d)
    forced_estimates: Array  # (K, N, d)
    arrivals: IntArray  # (N,)


@kernel
def forced_at(clock: int, n_arms: int, n_features: int, pulls: int, start: int) -> int:
    """Return the arm a task must pull at its own round ``clock``, or -1."""
    if start == ROUND_ROBIN and clock <= n_arms * n_features:
        return (clock - 1) % n_arms
    return forced_arm(clock, n_arms, pulls)


@inner_kernel
def fit(gram: Array, moment: Array, count: float, start: int, buffers: Buffers, out: Array) -> None:
    """Write least-squares coefficients; what stands in for them while the Gram matrix is singular is ``start``."""
    d = moment.shape[0]
    root, other = buffers.matrices[0], buffers.matrices[1]
    if count >= d:
        if ordinary_least_squares(gram, moment, out, root, other, CONDITION_LIMIT) < CONDITION_LIMIT:
            return
    elif start == ROUND_ROBIN:
        for i in range(d):
            out[i] = 0.0
        return
    if start == RIDGE:
        regularised = buffers.matrices[2]
        for i in range(d):
            for j in range(d):
                regularised[i, j] = gram[i, j]
            regularised[i, i] += 1.0
        ordinary_least_squares(regularised, moment, out, root, other, 1e300)
        return
    least_squares(gram, moment, out, root, buffers.vectors[0], other)


@woven_kernel
def decide(
    state: OlsState, task: int, x: Array, pulls: int, gap: float, start: int, draws: Array, scores: Array
) -> int:
    """Return the arm to pull."""
    forced = forced_at(state.arrivals[task] + 1, scores.shape[0], x.shape[0], pulls, start)
    if forced >= 0:
        return forced
    return prune_then_pick(state.forced_estimates, state.estimates, task, x, gap, draws, scores)


@woven_kernel
def learn(
    state: OlsState, arm: int, task: int, x: Array, reward: float, pulls: int, start: int, buffers: Buffers
) -> None:
    """Learn one reward; it counts as forced if the task's clock asked for this arm."""
    n_arms = state.estimates.shape[0]
    clock = state.arrivals[task] + 1
    state.arrivals[task] = clock
    add_reward(state.sums, arm, task, x, reward)
    fit(
        state.sums.gram[arm, task],
        state.sums.moment[arm, task],
        state.sums.counts[arm, task],
        start,
        buffers,
        state.estimates[arm, task],
    )
    if forced_at(clock, n_arms, x.shape[0], pulls, start) == arm:
        add_reward(state.forced_sums, arm, task, x, reward)
        fit(
            state.forced_sums.gram[arm, task],
            state.forced_sums.moment[arm, task],
            state.forced_sums.counts[arm, task],
            start,
            buffers,
            state.forced_estimates[arm, task],
        )


@kernel
def play(
    state: OlsState, stretch: StepBatch, pulls: int, gap: float, start: int, buffers: Buffers, scores: Array
) -> None:
    """Play a stretch of steps."""
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        x, draws = stretch.contexts[t], stretch.draws[t]
        arm = 0
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = decide(state, task, x, pulls, gap, start, draws, scores)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        learn(state, arm, stretch.tasks[t], x, stretch.rewards[t, arm], pulls, start, buffers)
