"""Thompson sampling with a logistic regression per task, or one for all: what most libraries offer for clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posse.checks import number
from posse.kernels import logistic as kernels
from posse.kernels.batches import STEP_BATCH
from posse.kernels.llvm.handle import Handle
from posse.kernels.select import SAMPLING
from posse.policies.base import Prediction, exploration_words
from posse.policies.clicks import FamilyPolicy

if TYPE_CHECKING:
    from posse.kernels.batches import StepBatch
    from posse.types import Array, ArrayLike


class LogisticTS(FamilyPolicy):
    r"""Logistic Thompson sampling: the best arm of a draw from a Gaussian belief about every arm's coefficients.

    .. math:: \theta_{kj} \sim \mathcal N(0, I / r), \qquad P(y = 1) = 1 / (1 + e^{-x^\top\theta_{kj}})

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    exploration : float, default 1.0
        Times the standard deviation of the belief; 1 is Thompson sampling proper.
    ridge : float, default 1.0
        :math:`r`, the precision of every coefficient before any reward.
    pooled : bool, default False
        One regression per arm for all tasks together.
    rewards : {"binary", "count"}, default "binary"
        With "count" the link is the logarithm and the law Poisson's.

    References
    ----------
    Chapelle and Li, "An empirical evaluation of Thompson sampling" (2011).

    Notes
    -----
    Departures from the paper: the whole covariance in place of its diagonal, and the site of
    :mod:`posse.kernels.sites` after every reward in place of a Laplace approximation after every batch. Both help it.

    Examples
    --------
    >>> policy = LogisticTS(n_tasks=1, n_arms=2, n_features=1)
    >>> policy.update(task=0, arm=0, context=[1.0], reward=1)
    >>> policy.predict(task=0, context=[1.0]).mean.round(3)
    array([0.413, 0.   ])
    """

    label = "LogisticTS"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float = 1.0,
        ridge: float = 1.0,
        pooled: bool = False,
        rewards: Literal["binary", "count"] = "binary",
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, rewards=rewards)
        self.exploration = number(exploration, "exploration", at_least=0)
        self._exploration = SAMPLING.scaled(self.exploration)._replace(growing=False)
        self.ridge = number(ridge, "ridge", above=0)
        self.pooled = bool(pooled)
        places = 1 if self.pooled else self.n_tasks
        self._mean = np.zeros((self.n_arms, places, self.n_features))
        self._covariance = np.zeros((self.n_arms, places, self.n_features, self.n_features))
        self._covariance[...] = np.eye(self.n_features) / self.ridge
        self._link()

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return what is believed about every arm's linear predictor."""
        out = np.empty((2, self.n_arms))
        kernels.believe(self._handle.address, self._checked_task(task), self._checked_context(context), out)
        return Prediction(out[0], out[1])

    def describe(self) -> str:
        """Return exploration, ridge and whether tasks are pooled."""
        words = f"{exploration_words(self._exploration)}; ridge {self.ridge:g}"
        return words + ("; tasks pooled" if self.pooled else "")

    def _link(self) -> None:
        model = kernels.Logistic(self._mean, self._covariance, self._exploration, self.pooled, self.family.code)
        self._handle = Handle(kernels.LOGISTIC, model)

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        arm: int = kernels.decide(self._handle.address, task, x, step, draws)
        return arm

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        kernels.learn(self._handle.address, task, arm, x, reward)

    def _play(self, stretch: StepBatch) -> None:
        steps = Handle(STEP_BATCH, stretch)
        kernels.play(self._handle.address, steps.address)
