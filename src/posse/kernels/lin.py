"""LinUCB and LinTS: one ridge regression for every (arm, task), or for every arm when pooled."""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.linalg import add_outer, dot, multiply_symmetric
from posse.kernels.select import Exploration, explore
from posse.kernels.stretch import Stretch
from posse.kernels.sums import Sums, add_reward
from posse.types import Array


class Ridge(NamedTuple):
    """``inverse`` is (ridge I + A)^-1 and ``coefficients`` inverse @ b; both rebuildable from the sums."""

    sums: Sums
    inverse: Array  # (K, N, d, d)
    coefficients: Array  # (K, N, d)


@inlined_kernel
def predict(ridge: Ridge, task: int, x: Array, v: Array, mean: Array, sd: Array) -> None:
    """Write x'theta and sqrt(x' V^-1 x) of every arm."""
    for arm in range(mean.shape[0]):
        multiply_symmetric(ridge.inverse[arm, task], x, v)
        mean[arm] = dot(x, ridge.coefficients[arm, task])
        sd[arm] = math.sqrt(max(dot(x, v), 0.0))


@inlined_kernel
def observe(ridge: Ridge, arm: int, task: int, x: Array, reward: float, v: Array) -> None:
    """Learn one reward by Sherman and Morrison's formula."""
    coefficients = ridge.coefficients[arm, task]
    multiply_symmetric(ridge.inverse[arm, task], x, v)
    gain = 1.0 / (1.0 + dot(x, v))
    surprise = gain * (reward - dot(x, coefficients))
    add_outer(-gain, v, ridge.inverse[arm, task])
    for i in range(x.shape[0]):
        coefficients[i] += surprise * v[i]
    add_reward(ridge.sums, arm, task, x, reward)


@inlined_kernel
def decide(
    ridge: Ridge,
    task: int,
    x: Array,
    step: int,
    exploration: Exploration,
    draws: Array,
    v: Array,
    mean: Array,
    sd: Array,
) -> int:
    """Return the arm to pull."""
    predict(ridge, task, x, v, mean, sd)
    return explore(mean, sd, step, exploration, draws)


@kernel
def play(
    ridge: Ridge, pooled: bool, stretch: Stretch, exploration: Exploration, v: Array, mean: Array, sd: Array
) -> None:
    """Play a stretch of steps."""
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        step, x, draws = stretch.first_step + t, stretch.contexts[t], stretch.draws[t]
        arm = 0
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = decide(ridge, 0 if pooled else task, x, step, exploration, draws, v, mean, sd)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        observe(ridge, arm, 0 if pooled else stretch.tasks[t], x, stretch.rewards[t, arm], v)
