"""The stream that everyone sees: tasks, contexts and what every arm would pay, drawn once from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.environments.base import Draw
from posse.environments.synthetic import SyntheticWorld
from posse.types import Array, IntArray
from posse_lab.benchmarks.workload import Rows, Size

TUNING_SEED = 1_000_003  # settings are tuned on this stream; reported seeds count from 0


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Steps that are the same for every library, whatever it decides.

    Parameters
    ----------
    size : Size
    tasks : list of int
    contexts : list of ndarray of shape (n_features,)
        Each an array of its own, as it would come from a request.
    expected, rewards : ndarray of shape (n_steps, n_arms)
        What every arm pays on average, and what it would pay in this step.
    """

    size: Size
    tasks: list[int]
    contexts: list[Array]
    expected: Array
    rewards: Array

    def __len__(self) -> int:
        return len(self.tasks)

    def head(self, n_steps: int) -> Stream:
        """Return the first steps."""
        rows = slice(n_steps)
        return Stream(self.size, self.tasks[rows], self.contexts[rows], self.expected[rows], self.rewards[rows])

    def regret(self, arms: IntArray) -> Array:
        """Return cumulative regret of the arms of the first steps, from the true means."""
        rows = self.expected[: len(arms)]
        return np.cumsum(rows.max(axis=1) - rows[np.arange(len(arms)), arms])

    @property
    def random_regret(self) -> float:
        """What pulling any arm, each as likely as the others, costs on average."""
        return float((self.expected.max(axis=1) - self.expected.mean(axis=1)).sum())


def world_of(size: Size) -> SyntheticWorld:
    """Return the law of the worlds: the paper's, with tasks that arrive equally often."""
    return SyntheticWorld(**size._asdict())


def draw_stream(size: Size, seed: int, n_steps: int) -> Stream:
    """Return the stream of a seed; a longer one only has more steps at its end.

    Examples
    --------
    >>> stream = draw_stream(Size(n_tasks=4, n_arms=2, n_features=3), seed=0, n_steps=5)
    >>> len(stream), stream.contexts[0].shape, stream.rewards.shape
    (5, (3,), (5, 2))
    >>> bool((stream.regret(stream.expected.argmax(axis=1)) == 0).all())
    True
    """
    draw = world_of(size).draw(seed, n_steps)
    return Stream(
        size=size,
        tasks=draw.tasks.tolist(),
        contexts=[context.copy() for context in draw.contexts],
        expected=draw.expected,
        rewards=draw.rewards,
    )


def lessons(size: Size, seed: int, per_pair: int) -> Rows:
    """Return rewards of the world of this seed, ``per_pair`` of every arm in every task, to begin with them known."""
    n_tasks, n_arms, _ = size
    n_rows = n_tasks * n_arms * per_pair
    draw: Draw = world_of(size).draw(seed, n_rows)
    assert draw.coefficients is not None
    tasks = np.tile(np.arange(n_tasks), n_arms * per_pair)
    arms = np.repeat(np.arange(n_arms), n_tasks * per_pair)
    noise = draw.rewards[:, 0] - draw.expected[:, 0]  # the world's, of the only standard deviation it has
    rewards = np.einsum("nd,nd->n", draw.contexts, draw.coefficients[arms, tasks]) + noise
    return Rows(tasks, arms, draw.contexts, rewards)
