"""LinUCB, LinTS and LogisticTS: regressions that share nothing between tasks, or everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from posse.checks import number, one_of
from posse.kernels import lin, logistic
from posse.kernels.batches import REWARD_BATCH
from posse.kernels.llvm.handle import Handle
from posse.kernels.select import OPTIMISTIC, SAMPLING, Exploration
from posse.model.statistics import Statistics
from posse.policies.base import CompiledPolicy, FamilyPolicy, exploration_words
from posse.threads import spread

if TYPE_CHECKING:
    from posse.kernels.batches import RewardBatch, StepBatch

Schedule = Literal["constant", "sqrt-log"]


class _Ridge(CompiledPolicy):
    """One ridge regression per (arm, task), or per arm when pooled."""

    def __init__(
        self, *, n_tasks: int, n_arms: int, n_features: int, explores: Exploration, exploration: float, ridge: float,
        pooled: bool, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, **settings)
        self.exploration = number(exploration, "exploration", at_least=0)
        self._exploration = explores.scaled(self.exploration)
        self.ridge = number(ridge, "ridge", above=0)
        self.pooled = bool(pooled)
        places = 1 if self.pooled else self.n_tasks
        self._mean = np.zeros((self.n_arms, places, self.n_features))
        self._inverse = np.zeros((self.n_arms, places, self.n_features, self.n_features))
        self._inverse[...] = np.eye(self.n_features) / self.ridge

    def describe(self) -> str:
        """Return exploration, ridge and whether tasks are pooled."""
        words = f"{exploration_words(self._exploration)}; ridge {self.ridge:g}"
        return words + ("; tasks pooled" if self.pooled else "")


class _Linear(_Ridge):
    """Ridge regressions of rewards that are numbers."""

    explores: ClassVar[Exploration]
    _kernels: ClassVar[Any] = lin

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
        self._statistics = Statistics.zeros(n_tasks=self._mean.shape[1], n_arms=self.n_arms, n_features=self.n_features)
        self._link()

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of one task when pooled."""
        return self._statistics.copy()

    def _link(self) -> None:
        ridge = lin.Ridge(self._statistics.sums, self._inverse, self._mean)
        self._handle = Handle(lin.LINEAR, lin.Linear(ridge, self._exploration, self.pooled))

    def _choose_many(self, batch: StepBatch) -> None:
        self._choose_on_threads(batch)

    def _learn_many(self, batch: RewardBatch) -> None:
        handle, rows = self._handle, Handle(REWARD_BATCH, batch)

        def learn(part: int, parts: int) -> None:
            lin.learn_rows(handle.address, rows.address, part, parts)

        spread(learn, batch.tasks.size)


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
    :mod:`posse.kernels.sites` after every reward in place of a Laplace approximation after every batch. Both help it.

    Examples
    --------
    >>> policy = LogisticTS(n_tasks=1, n_arms=2, n_features=1)
    >>> policy.update(task=0, arm=0, context=[1.0], reward=1)
    >>> policy.predict(task=0, context=[1.0]).mean.round(3)
    array([0.413, 0.   ])
    """

    label = "LogisticTS"
    _kernels: ClassVar[Any] = logistic

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
        )  # fmt: skip
        self._link()

    def _link(self) -> None:
        model = logistic.Logistic(self._mean, self._inverse, self._exploration, self.pooled, self.family.code)
        self._handle = Handle(logistic.LOGISTIC, model)
