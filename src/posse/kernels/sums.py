"""The additive statistics of every (arm, task), as the kernels see them."""

from __future__ import annotations

from typing import NamedTuple

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.linalg import add_outer
from posse.types import Array, IntArray


class Sums(NamedTuple):
    """Arrays over (arm, task): gram (K, N, d, d), moment (K, N, d), sum_of_squares (K, N), counts (K, N).

    Or over slots, one row for every pair that has one: gram (S, d, d), moment (S, d), and so on.
    """

    gram: Array
    moment: Array
    sum_of_squares: Array
    counts: Array


@inlined_kernel
def add_reward(sums: Sums, arm: int, task: int, context: Array, reward: float) -> None:
    """Add one reward."""
    add_outer(1.0, context, sums.gram[arm, task])
    moment = sums.moment[arm, task]
    for i in range(context.shape[0]):
        moment[i] += context[i] * reward
    sums.sum_of_squares[arm, task] += reward * reward
    sums.counts[arm, task] += 1.0


@inlined_kernel
def add_reward_at(sums: Sums, row: int, context: Array, reward: float) -> None:
    """Add one reward to a slot."""
    add_outer(1.0, context, sums.gram[row])
    moment = sums.moment[row]
    for i in range(context.shape[0]):
        moment[i] += context[i] * reward
    sums.sum_of_squares[row] += reward * reward
    sums.counts[row] += 1.0


@kernel
def add_rows(sums: Sums, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
    """Add many rewards, in order."""
    for row in range(tasks.shape[0]):
        add_reward(sums, arms[row], tasks[row], contexts[row], rewards[row])
