"""Logs to learn from, and priors away from 0, 1 and the identity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from posse.model import Prior, Statistics


class Log(NamedTuple):
    """Rows of rewards in no particular order."""

    task: np.ndarray
    arm: np.ndarray
    context: np.ndarray
    reward: np.ndarray
    n_tasks: int
    n_arms: int

    def statistics(self) -> Statistics:
        return Statistics.from_data(
            task=self.task,
            arm=self.arm,
            context=self.context,
            reward=self.reward,
            n_tasks=self.n_tasks,
            n_arms=self.n_arms,
        )

    def of_arm(self, arm: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tasks, contexts and rewards of one arm."""
        mine = self.arm == arm
        return self.task[mine], self.context[mine], self.reward[mine]

    def of_task(self, arm: int, task: int) -> tuple[np.ndarray, np.ndarray]:
        """Contexts and rewards of one (arm, task)."""
        mine = (self.arm == arm) & (self.task == task)
        return self.context[mine], self.reward[mine]


@pytest.fixture(scope="session")
def draw_log():
    """Return a function that draws a log with ``counts[arm][task]`` rewards."""

    def draw(counts, n_features, seed, noise_sd=0.8) -> Log:
        rng = np.random.default_rng(seed)
        counts = np.asarray(counts)
        n_arms, n_tasks = counts.shape
        arm, task = (np.repeat(label, counts.ravel()) for label in map(np.ravel, np.indices(counts.shape)))
        order = rng.permutation(arm.size)
        arm, task = arm[order], task[order]
        # Correlated features off zero, on different scales.
        mixing = np.eye(n_features) + 0.4 * rng.standard_normal((n_features, n_features))
        context = rng.standard_normal((arm.size, n_features)) @ mixing + 0.3
        shared = 1.5 * rng.standard_normal((n_arms, 1, n_features))
        coefficients = shared + 0.9 * rng.standard_normal((n_arms, n_tasks, n_features)) @ mixing
        reward = np.einsum("na,na->n", context, coefficients[arm, task])
        reward += noise_sd * rng.standard_normal(arm.size)
        return Log(task, arm, context, reward, n_tasks, n_arms)

    return draw


@pytest.fixture(scope="session")
def draw_prior():
    """Return a function that draws a prior for several arms; ``rank`` below ``n_features`` makes it singular."""

    def draw(n_arms, n_features, seed, rank=None, shared_precision=None) -> Prior:
        rng = np.random.default_rng(seed)
        rank = n_features if rank is None else rank
        root = 0.8 * rng.standard_normal((n_arms, n_features, rank))
        covariance = root @ np.swapaxes(root, 1, 2)
        if rank == n_features:
            covariance += 0.2 * np.eye(n_features)
        return Prior(
            covariance=covariance,
            noise_variance=np.linspace(0.37, 2.6, n_arms),
            shared_precision=np.linspace(3.4, 0.21, n_arms) if shared_precision is None else shared_precision,
        )

    return draw
