"""What a log in which every arm's reward is known says about the population, before a run."""

from __future__ import annotations

import numpy as np

from posse.model.statistics import Statistics
from posse.types import Array, IntArray


def full_information(contexts: Array, tasks: IntArray, rewards: Array, n_tasks: int) -> Statistics:
    """Sum up rows of which each tells the reward of every arm.

    Parameters
    ----------
    contexts : ndarray of shape (n_rows, n_features)
    tasks : ndarray of shape (n_rows,)
    rewards : ndarray of shape (n_rows, n_arms)
    n_tasks : int
    """
    n_rows, n_arms = rewards.shape
    return Statistics.from_data(
        task=np.tile(tasks, n_arms),
        arm=np.repeat(np.arange(n_arms), n_rows),
        context=np.tile(contexts, (n_arms, 1)),
        reward=rewards.T.reshape(-1),
        n_tasks=n_tasks,
        n_arms=n_arms,
    )
