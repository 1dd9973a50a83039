"""LinUCB and LinTS: one ridge regression for every (arm, task), or for every arm when pooled.

Kernels that are called from Python take the address of a handle of a :class:`Linear`, see
:mod:`posse.kernels.llvm.handle`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.batches import open_reward_batch, open_step_batch
from posse.kernels.compiler import allocating_kernel, inlined_kernel, short_kernel, woven_kernel
from posse.kernels.linalg import add_outer, dot, multiply_symmetric
from posse.kernels.llvm.handle import Layout, floats
from posse.kernels.llvm.stack_array import room
from posse.kernels.select import Exploration, explore
from posse.kernels.sums import Sums, add_reward
from posse.types import Array


class Ridge(NamedTuple):
    """``inverse`` is (ridge I + A)^-1 and ``coefficients`` inverse @ b; both rebuildable from the sums."""

    sums: Sums
    inverse: Array  # (K, N, d, d)
    coefficients: Array  # (K, N, d)


class Linear(NamedTuple):
    """All that a linear policy holds."""

    ridge: Ridge
    exploration: Exploration
    pooled: bool


LINEAR = Layout(
    Linear(
        Ridge(
            sums=Sums(gram=floats(4), moment=floats(3), sum_of_squares=floats(2), counts=floats(2)),
            inverse=floats(4),
            coefficients=floats(3),
        ),
        Exploration(0.0, 0.0, False, False),
        False,
    )
)
open_linear = LINEAR.open


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


@woven_kernel
def choose_arm(linear: Linear, task: int, x: Array, step: int, draws: Array, v: Array, scores: Array) -> int:
    """Return the arm to pull; ``v`` (d,) and ``scores`` (2, K) are room."""
    mean, sd = scores[0], scores[1]
    predict(linear.ridge, 0 if linear.pooled else task, x, v, mean, sd)
    return explore(mean, sd, step, linear.exploration, draws)


@short_kernel
def decide(handle: int, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    linear = open_linear(handle)
    return choose_arm(linear, task, x, step, draws, room(1, x.shape[0])[0], room(2, draws.shape[0]))


@short_kernel
def believe(handle: int, task: int, x: Array, out: Array) -> None:
    """Write x'theta and sqrt(x' V^-1 x) of every arm to the two rows of ``out``."""
    linear = open_linear(handle)
    predict(linear.ridge, 0 if linear.pooled else task, x, room(1, x.shape[0])[0], out[0], out[1])


@short_kernel
def learn(handle: int, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward."""
    linear = open_linear(handle)
    observe(linear.ridge, arm, 0 if linear.pooled else task, x, reward, room(1, x.shape[0])[0])


@allocating_kernel
def play(handle: int, steps: int) -> None:
    """Play a stretch of steps."""
    linear, stretch = open_linear(handle), open_step_batch(steps)
    v, scores = room(1, stretch.contexts.shape[1])[0], room(2, stretch.draws.shape[1])
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        step, x, draws = stretch.first_step + t, stretch.contexts[t], stretch.draws[t]
        arm = 0
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = choose_arm(linear, task, x, step, draws, v, scores)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        observe(linear.ridge, arm, 0 if linear.pooled else stretch.tasks[t], x, stretch.rewards[t, arm], v)


@allocating_kernel
def decide_rows(handle: int, steps: int, first: int, last: int) -> None:
    """Decide steps ``first`` to ``last`` of a stretch, and learn nothing."""
    linear, stretch = open_linear(handle), open_step_batch(steps)
    v, scores = room(1, stretch.contexts.shape[1])[0], room(2, stretch.draws.shape[1])
    for t in range(first, last):
        step = stretch.first_step + t
        stretch.arms[t] = choose_arm(linear, stretch.tasks[t], stretch.contexts[t], step, stretch.draws[t], v, scores)


@allocating_kernel
def learn_rows(handle: int, lesson: int, part: int, parts: int) -> None:
    """Learn the rows of one part of the regressions, in order.

    Regressions share nothing, so threads that take a part each do what one would do.
    """
    linear, rows = open_linear(handle), open_reward_batch(lesson)
    v = room(1, rows.contexts.shape[1])[0]
    for row in range(rows.tasks.shape[0]):
        task, arm = 0 if linear.pooled else rows.tasks[row], rows.arms[row]
        if (task + arm) % parts == part:
            observe(linear.ridge, arm, task, rows.contexts[row], rows.rewards[row], v)
