"""Whole runs of the hierarchical policies: decide, observe, refresh, without leaving compiled code."""

from __future__ import annotations

from posse.kernels.compiler import kernel, woven_kernel
from posse.kernels.estimators import Memory, refresh, refresh_due
from posse.kernels.posterior import Belief, Buffers, observe, predict
from posse.kernels.select import Exploration, explore
from posse.kernels.stretch import Stretch
from posse.types import Array


@woven_kernel
def decide(
    belief: Belief,
    task: int,
    x: Array,
    step: int,
    exploration: Exploration,
    first_pulls: bool,
    draws: Array,
    buffers: Buffers,
    mean: Array,
    sd: Array,
) -> int:
    """Return the arm that Algorithm 1 of the paper pulls."""
    if first_pulls and step <= mean.shape[0]:
        return step - 1
    predict(belief, task, x, buffers, mean, sd)
    return explore(mean, sd, step, exploration, draws)


@woven_kernel
def learn(
    belief: Belief,
    memory: Memory,
    arm: int,
    task: int,
    x: Array,
    reward: float,
    method: int,
    refresh_growth: float,
    buffers: Buffers,
) -> None:
    """Learn one reward, and re-estimate the arm's prior when that is due."""
    observe(belief, arm, task, x, reward, buffers)
    if refresh_due(belief, memory, arm, method, refresh_growth):
        refresh(belief, memory, arm, method, buffers, belief.task_weight.shape[0])


@kernel
def play(
    belief: Belief,
    memory: Memory,
    stretch: Stretch,
    exploration: Exploration,
    first_pulls: bool,
    method: int,
    refresh_growth: float,
    buffers: Buffers,
    mean: Array,
    sd: Array,
) -> None:
    """Play a stretch of steps."""
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        step, x, draws = stretch.first_step + t, stretch.contexts[t], stretch.draws[t]
        arm = 0
        # Every task that is asked, and last the one that is here.
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = decide(belief, task, x, step, exploration, first_pulls, draws, buffers, mean, sd)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        reward = stretch.rewards[t, arm]
        learn(belief, memory, arm, stretch.tasks[t], x, reward, method, refresh_growth, buffers)
