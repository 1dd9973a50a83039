"""Logistic (or log-linear) regressions that share nothing between tasks, or everything: one Gaussian belief each.

Kernels that are called from Python take the address of a handle of a :class:`Logistic`, see
:mod:`posse.kernels.llvm.handle`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.batches import open_step_batch
from posse.kernels.compiler import allocating_kernel, inlined_kernel, short_kernel, woven_kernel
from posse.kernels.linalg import add_outer, dot, multiply_symmetric
from posse.kernels.llvm.handle import Layout, floats
from posse.kernels.llvm.stack_array import room
from posse.kernels.select import Exploration, explore
from posse.kernels.sites import CLOSE, site
from posse.types import Array


class Logistic(NamedTuple):
    """All that such a policy holds."""

    mean: Array  # (K, N or 1, d)
    covariance: Array  # (K, N or 1, d, d)
    exploration: Exploration
    pooled: bool
    family: int


LOGISTIC = Layout(Logistic(floats(3), floats(4), Exploration(0.0, 0.0, False, False), False, 0))
open_logistic = LOGISTIC.open


@inlined_kernel
def predict(model: Logistic, task: int, x: Array, v: Array, mean: Array, sd: Array) -> None:
    """Write mean and standard deviation of every arm's linear predictor."""
    for arm in range(mean.shape[0]):
        multiply_symmetric(model.covariance[arm, task], x, v)
        mean[arm] = dot(x, model.mean[arm, task])
        sd[arm] = math.sqrt(max(dot(x, v), 0.0))


@inlined_kernel
def observe(model: Logistic, arm: int, task: int, x: Array, reward: float, v: Array) -> None:
    """Learn the site of one reward."""
    mean, covariance = model.mean[arm, task], model.covariance[arm, task]
    multiply_symmetric(covariance, x, v)
    m, variance = dot(x, mean), dot(x, v)
    if not variance > 0.0:
        return
    w, h = site(model.family, reward, 1.0, m, variance, m, variance, CLOSE)
    gain = 1.0 / (1.0 + w * variance)
    surprise = gain * (h - w * m)
    for i in range(x.shape[0]):
        mean[i] += surprise * v[i]
    add_outer(-w * gain, v, covariance)


@woven_kernel
def choose_arm(model: Logistic, task: int, x: Array, step: int, draws: Array, v: Array, scores: Array) -> int:
    """Return the arm to pull; ``v`` (d,) and ``scores`` (2, K) are room."""
    mean, sd = scores[0], scores[1]
    predict(model, 0 if model.pooled else task, x, v, mean, sd)
    return explore(mean, sd, step, model.exploration, draws)


@short_kernel
def decide(handle: int, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    model = open_logistic(handle)
    return choose_arm(model, task, x, step, draws, room(1, x.shape[0])[0], room(2, draws.shape[0]))


@short_kernel
def believe(handle: int, task: int, x: Array, out: Array) -> None:
    """Write mean and standard deviation of every arm's linear predictor to the two rows of ``out``."""
    model = open_logistic(handle)
    predict(model, 0 if model.pooled else task, x, room(1, x.shape[0])[0], out[0], out[1])


@short_kernel
def learn(handle: int, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward."""
    model = open_logistic(handle)
    observe(model, arm, 0 if model.pooled else task, x, reward, room(1, x.shape[0])[0])


@allocating_kernel
def play(handle: int, steps: int) -> None:
    """Play a stretch of steps."""
    model, stretch = open_logistic(handle), open_step_batch(steps)
    v, scores = room(1, stretch.contexts.shape[1])[0], room(2, stretch.draws.shape[1])
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        step, x, draws = stretch.first_step + t, stretch.contexts[t], stretch.draws[t]
        arm = 0
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = choose_arm(model, task, x, step, draws, v, scores)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        observe(model, arm, 0 if model.pooled else stretch.tasks[t], x, stretch.rewards[t, arm], v)
