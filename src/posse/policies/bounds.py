"""The two ends of every comparison: pulling blindly, and knowing the coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.checks import real_array
from posse.errors import ShapeError
from posse.policies.base import Policy

if TYPE_CHECKING:
    from posse.kernels.batches import RewardBatch, StepBatch
    from posse.types import Array, ArrayLike


class Random(Policy):
    """Pull any arm, each as likely as the others."""

    label = "Random"

    def describe(self) -> str:
        """Return nothing: there are no settings."""
        return ""

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:  # noqa: ARG002
        return int(draws.argmax())

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        """Learn nothing."""

    def _play(self, stretch: StepBatch) -> None:
        stretch.arms[:] = stretch.draws.argmax(axis=1)
        if stretch.everywhere.shape[0]:
            stretch.everywhere[:] = stretch.arms[:, None]

    def _choose_many(self, stretch: StepBatch) -> None:
        self._play(stretch)

    def _learn_many(self, lesson: RewardBatch) -> None:
        """Learn nothing."""


class Oracle(Policy):
    """Pull the best arm, knowing every coefficient.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    coefficients : array of shape (n_arms, n_tasks, n_features)
    """

    label = "Oracle"

    def __init__(self, *, n_tasks: int, n_arms: int, n_features: int, coefficients: ArrayLike) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self._coefficients = real_array(coefficients, "coefficients")
        expected = (self.n_arms, self.n_tasks, self.n_features)
        if self._coefficients.shape != expected:
            raise ShapeError(f"expected coefficients to have shape {expected}, got {self._coefficients.shape}")

    def describe(self) -> str:
        """Return what it knows."""
        return "knows every coefficient"

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:  # noqa: ARG002
        return int((self._coefficients[:, task] @ x).argmax())

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        """Learn nothing: it knows."""

    def _play(self, stretch: StepBatch) -> None:
        for task in range(self.n_tasks):
            own = self._coefficients[:, task].T
            rows = np.flatnonzero(stretch.tasks == task)
            stretch.arms[rows] = (stretch.contexts[rows] @ own).argmax(axis=1)
            if stretch.everywhere.shape[0]:
                stretch.everywhere[:, task] = (stretch.contexts @ own).argmax(axis=1)

    def _learn_many(self, lesson: RewardBatch) -> None:
        """Learn nothing: it knows."""
