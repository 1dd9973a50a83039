"""LinUCB, LinTS and LogisticTS: regressions that share nothing between tasks, or everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from posse.checks import number, one_of
from posse.core.select import OPTIMISTIC, SAMPLING, Exploration
from posse.families import linked_family_of
from posse.families.sites import NUMBER
from posse.model.statistics import Statistics
from posse.policies import regressions
from posse.policies.base import FamilyPolicy, Policy, Prediction, exploration_words
from posse.policies.playing import RewardBatch, StepBatch
from posse.threads import spread

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike

Schedule = Literal["constant", "sqrt-log"]


class _Ridge(Policy):
    """One ridge regression per (arm, task), or per arm when pooled."""

    def __init__(
        self, *, n_tasks: int, n_arms: int, n_features: int, explores: Exploration, exploration: float, ridge: float,
        pooled: bool, family: int = NUMBER, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, **settings)
        self.exploration = number(exploration, "exploration", at_least=0)
        self.ridge = number(ridge, "ridge", above=0)
        self.pooled = bool(pooled)
        K, places, d = self.n_arms, 1 if self.pooled else self.n_tasks, self.n_features
        start = np.tile(np.eye(d) / self.ridge, (K, places, 1, 1))
        self._model = regressions.Learner(
            regressions.Regressions(np.zeros((K, places, d)), start, explores.scaled(self.exploration), family),
            Statistics.zeros(n_tasks=places if family == NUMBER else 1, n_arms=K, n_features=d).sums,
        )

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return mean and standard deviation of every arm's linear predictor, without exploration.

        For rewards that are numbers that is the expected reward.
        """
        mean, sd = np.empty(self.n_arms), np.empty(self.n_arms)
        x = self._checked_context(context)
        regressions.predict(self._model.regressions, self._checked_task(task), x, mean, sd)
        return Prediction(mean, sd)

    def describe(self) -> str:
        """Return exploration, ridge and whether tasks are pooled."""
        words = f"{exploration_words(self._model.regressions.exploration)}; ridge {self.ridge:g}"
        return words + ("; tasks pooled" if self.pooled else "")

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        return int(regressions.choose(self._model.regressions, task, x, step, draws))

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        regressions.learn(self._model, task, arm, x, reward)

    def _play(self, batch: StepBatch) -> None:
        regressions.play(self._model, batch)

    def _choose_many(self, batch: StepBatch) -> None:
        n_rows = batch.tasks.size

        def choose(part: int, parts: int) -> None:
            first, last = n_rows * part // parts, n_rows * (part + 1) // parts
            regressions.choose_rows(self._model.regressions, batch, first, last)

        spread(choose, n_rows)

    def _learn_many(self, batch: RewardBatch) -> None:
        def learn(part: int, parts: int) -> None:
            regressions.learn_rows(self._model, batch, part, parts)

        spread(learn, batch.tasks.size)


class _Linear(_Ridge):
    """Ridge regressions of rewards that are numbers."""

    explores: ClassVar[Exploration]

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float = 1.0,
        schedule: Schedule = "constant",
        ridge: float = 1.0,
        pooled: bool = False,
    ) -> None:
        growing = one_of(schedule, "schedule", ("constant", "sqrt-log")) == "sqrt-log"
        super().__init__(
            n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, explores=self.explores._replace(growing=growing),
            exploration=exploration, ridge=ridge, pooled=pooled,
        )  # fmt: skip

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of one task when pooled."""
        return Statistics(*self._model.sums).copy()


class LinUCB(_Linear):
    r"""Disjoint LinUCB: the highest :math:`x^\top\theta + \alpha \sqrt{x^\top V^{-1} x}`.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    exploration : float
        :math:`\alpha`; 1 is what most libraries ship. The outcome depends on it more than on anything else.
    schedule : {"constant", "sqrt-log"}
        ``"sqrt-log"`` multiplies by :math:`\sqrt{\log t}`, as ebmUCB does.
    ridge : float
    pooled : bool
        One regression per arm for all tasks together.

    References
    ----------
    Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation" (2010).

    Examples
    --------
    >>> policy = LinUCB(n_tasks=1, n_arms=2, n_features=1, exploration=1.0, ridge=1.0)
    >>> policy.update(task=0, arm=0, context=[1.0], reward=4.0)
    >>> policy.predict(task=0, context=[1.0])
    Prediction(mean=array([2., 0.]), sd=array([0.70710678, 1.        ]))
    """

    label = "LinUCB"
    explores = OPTIMISTIC


class LinTS(_Linear):
    r"""Linear Thompson sampling: the best arm of a draw from :math:`\mathcal N(\theta, v^2 V^{-1})`.

    Parameters
    ----------
    n_tasks, n_arms, n_features, schedule, ridge, pooled
        As in :class:`LinUCB`.
    exploration : float
        :math:`v`.

    References
    ----------
    Agrawal and Goyal, "Thompson sampling for contextual bandits with linear payoffs" (2013).
    """

    label = "LinTS"
    explores = SAMPLING


class LogisticTS(_Ridge, FamilyPolicy):
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
    :mod:`posse.families.sites` after every reward in place of a Laplace approximation after every batch. Both help it.

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
        super().__init__(
            n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, rewards=rewards,
            explores=SAMPLING._replace(growing=False), exploration=exploration, ridge=ridge, pooled=pooled,
            family=linked_family_of(rewards).code,
        )  # fmt: skip
