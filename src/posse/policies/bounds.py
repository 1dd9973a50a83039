"""Simple ends of every comparison: pulling blindly, counting clicks without contexts, and knowing the coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number, real_array
from posse.errors import ShapeError
from posse.policies.base import FamilyPolicy, Policy, Prediction

if TYPE_CHECKING:
    from posse.policies.playing import RewardBatch, StepBatch
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

    def _play(self, batch: StepBatch) -> None:
        batch.arms[:] = batch.draws.argmax(axis=1)
        if batch.everywhere.shape[0]:
            batch.everywhere[:] = batch.arms[:, None]

    def _choose_many(self, batch: StepBatch) -> None:
        self._play(batch)

    def _learn_many(self, batch: RewardBatch) -> None:
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

    def _play(self, batch: StepBatch) -> None:
        for task in range(self.n_tasks):
            own = self._coefficients[:, task].T
            rows = np.flatnonzero(batch.tasks == task)
            batch.arms[rows] = (batch.contexts[rows] @ own).argmax(axis=1)
            if batch.everywhere.shape[0]:
                batch.everywhere[:, task] = (batch.contexts @ own).argmax(axis=1)

    def _learn_many(self, batch: RewardBatch) -> None:
        """Learn nothing: it knows."""


class BetaBernoulli(FamilyPolicy):
    r"""Beta-Bernoulli Thompson sampling: the best arm of a draw from every arm's Beta belief.

    .. math:: \text{Beta}(a + \text{clicks}, b + \text{rewards of 0})

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
        Contexts are checked and not used.
    successes, failures : float, default 1.0
        :math:`a` and :math:`b`: clicks and other rewards that are imagined for every arm before the first.
    pooled : bool, default False
        One belief per arm for all tasks together.

    References
    ----------
    Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence of two samples"
    (1933).

    Examples
    --------
    >>> policy = BetaBernoulli(n_tasks=1, n_arms=2, n_features=1)
    >>> policy.update(task=0, arm=0, context=[1.0], reward=True)
    >>> policy.predict(task=0, context=[1.0]).mean.round(3)
    array([0.667, 0.5  ])
    """

    label = "Beta-Bernoulli"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        successes: float = 1.0,
        failures: float = 1.0,
        pooled: bool = False,
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, rewards="binary")
        self.successes = number(successes, "successes", above=0)
        self.failures = number(failures, "failures", above=0)
        self.pooled = bool(pooled)
        places = 1 if self.pooled else self.n_tasks
        self._seen = np.empty((places, 2, self.n_arms))
        self._seen[:, 0], self._seen[:, 1] = self.successes, self.failures

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return mean and standard deviation of every arm's click rate."""
        self._checked_context(context)
        a, b = self._seen[self._place(self._checked_task(task))]
        mean = a / (a + b)
        return Prediction(mean, np.sqrt(mean * (1 - mean) / (a + b + 1)))

    def describe(self) -> str:
        """Return what is imagined at the start and whether tasks are pooled."""
        return f"Beta({self.successes:g}, {self.failures:g})" + ("; tasks pooled" if self.pooled else "")

    def _place(self, task: int) -> int:
        return 0 if self.pooled else task

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:  # noqa: ARG002
        from scipy.special import betaincinv, ndtr

        # A quantile of the belief at a uniform number is a draw from it; one normal per arm, as in every policy.
        clicks, rest = self._seen[self._place(task)]
        scores: Array = np.asarray(betaincinv(clicks, rest, np.asarray(ndtr(draws))))
        return int(np.lexsort((draws, scores))[-1])

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:  # noqa: ARG002
        self._seen[self._place(task), 0 if reward else 1, arm] += 1.0
