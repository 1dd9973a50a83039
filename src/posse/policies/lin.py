"""LinUCB and LinTS: ridge regressions that share nothing between tasks, or everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from posse.checks import number, one_of
from posse.kernels import lin as kernels
from posse.kernels.select import Exploration
from posse.model.statistics import Statistics
from posse.policies.base import Policy, Prediction, exploration_words

if TYPE_CHECKING:
    from posse.kernels.stretch import Stretch
    from posse.types import Array, ArrayLike

Schedule = Literal["constant", "sqrt-log"]


class _Linear(Policy):
    """One ridge regression per (arm, task), or per arm when pooled."""

    sampling: ClassVar[bool]

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
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.exploration = number(exploration, "exploration", at_least=0)
        growing = one_of(schedule, "schedule", ("constant", "sqrt-log")) == "sqrt-log"
        self._exploration = Exploration(self.exploration, growing, self.sampling)
        self.ridge = number(ridge, "ridge", above=0)
        self.pooled = bool(pooled)
        places = 1 if self.pooled else self.n_tasks
        stats = Statistics.zeros(n_tasks=places, n_arms=self.n_arms, n_features=self.n_features)
        inverse = np.zeros_like(stats.gram)
        inverse[...] = np.eye(self.n_features) / self.ridge
        self._ridge = kernels.Ridge(stats.sums, inverse, np.zeros_like(stats.moment))

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of one task when pooled."""
        return Statistics(*self._ridge.sums).copy()

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        r"""Return :math:`x^\top\theta` and :math:`\sqrt{x^\top V^{-1} x}` of every arm."""
        mean, sd = np.empty(self.n_arms), np.empty(self.n_arms)
        place = self._place(self._checked_task(task))
        kernels.predict(self._ridge, place, self._checked_context(context), np.empty(self.n_features), mean, sd)
        return Prediction(mean, sd)

    def describe(self) -> str:
        """Return exploration, ridge and whether tasks are pooled."""
        return exploration_words(self._exploration) + (
            f"; ridge {self.ridge:g}" + ("; tasks pooled" if self.pooled else "")
        )

    def _place(self, task: int) -> int:
        return 0 if self.pooled else task

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        arm: int = kernels.decide(
            self._ridge,
            self._place(task),
            x,
            step,
            self._exploration,
            draws,
            np.empty(self.n_features),
            np.empty(self.n_arms),
            np.empty(self.n_arms),
        )
        return arm

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        kernels.observe(self._ridge, arm, self._place(task), x, reward, np.empty(self.n_features))

    def _play(self, stretch: Stretch) -> None:
        kernels.play(
            self._ridge,
            self.pooled,
            stretch,
            self._exploration,
            np.empty(self.n_features),
            np.empty(self.n_arms),
            np.empty(self.n_arms),
        )


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
    sampling = False


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
    sampling = True
