"""The additive statistics of every (arm, task), as compiled functions see them."""

from __future__ import annotations

from typing import NamedTuple

from posse.core.compiler import compiled
from posse.model.dense import add_outer
from posse.types import Array, IntArray


class Sums(NamedTuple):
    """Arrays over (arm, task): gram (K, N, d, d), moment (K, N, d), sum_of_squares (K, N), counts (K, N)."""

    gram: Array
    moment: Array
    sum_of_squares: Array
    counts: Array


@compiled
def add_reward(sums: Sums, arm: int, task: int, x: Array, reward: float) -> None:
    """Add one reward."""
    add_outer(1.0, x, sums.gram[arm, task])
    moment = sums.moment[arm, task]
    for i in range(x.shape[0]):
        moment[i] += x[i] * reward
    sums.sum_of_squares[arm, task] += reward * reward
    sums.counts[arm, task] += 1.0


@compiled
def add_rows(sums: Sums, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
    """Add rewards, in order."""
    for row in range(tasks.shape[0]):
        add_reward(sums, arms[row], tasks[row], contexts[row], rewards[row])
