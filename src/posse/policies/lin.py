"""LinUCB and LinTS: ridge regressions that share nothing between tasks, or everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from posse.checks import number, one_of
from posse.kernels import lin as kernels
from posse.kernels.batches import REWARD_BATCH, STEP_BATCH
from posse.kernels.llvm.handle import Handle
from posse.kernels.select import OPTIMISTIC, SAMPLING, Exploration
from posse.model.statistics import Statistics
from posse.policies.base import Policy, Prediction, exploration_words
from posse.threads import spread

if TYPE_CHECKING:
    from posse.kernels.batches import RewardBatch, StepBatch
    from posse.types import Array, ArrayLike

Schedule = Literal["constant", "sqrt-log"]


class _Linear(Policy):
    """One ridge regression per (arm, task), or per arm when pooled."""

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
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.exploration = number(exploration, "exploration", at_least=0)
        growing = one_of(schedule, "schedule", ("constant", "sqrt-log")) == "sqrt-log"
        self._exploration = self.explores.scaled(self.exploration)._replace(growing=growing)
        self.ridge = number(ridge, "ridge", above=0)
        self.pooled = bool(pooled)
        places = 1 if self.pooled else self.n_tasks
        stats = Statistics.zeros(n_tasks=places, n_arms=self.n_arms, n_features=self.n_features)
        inverse = np.zeros_like(stats.gram)
        inverse[...] = np.eye(self.n_features) / self.ridge
        self._ridge = kernels.Ridge(stats.sums, inverse, np.zeros_like(stats.moment))
        self._link()

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of one task when pooled."""
        return Statistics(*self._ridge.sums).copy()

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        r"""Return :math:`x^\top\theta` and :math:`\sqrt{x^\top V^{-1} x}` of every arm."""
        out = np.empty((2, self.n_arms))
        kernels.believe(self._handle.address, self._checked_task(task), self._checked_context(context), out)
        return Prediction(out[0], out[1])

    def describe(self) -> str:
        """Return exploration, ridge and whether tasks are pooled."""
        return exploration_words(self._exploration) + (
            f"; ridge {self.ridge:g}" + ("; tasks pooled" if self.pooled else "")
        )

    def _link(self) -> None:
        self._handle = Handle(kernels.LINEAR, kernels.Linear(self._ridge, self._exploration, self.pooled))

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        arm: int = kernels.decide(self._handle.address, task, x, step, draws)
        return arm

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        kernels.learn(self._handle.address, task, arm, x, reward)

    def _play(self, stretch: StepBatch) -> None:
        steps = Handle(STEP_BATCH, stretch)
        kernels.play(self._handle.address, steps.address)

    def _choose_many(self, stretch: StepBatch) -> None:
        handle, steps, n_rows = self._handle, Handle(STEP_BATCH, stretch), stretch.tasks.size

        def decide(part: int, parts: int) -> None:
            first, last = n_rows * part // parts, n_rows * (part + 1) // parts
            kernels.decide_rows(handle.address, steps.address, first, last)

        spread(decide, n_rows)

    def _learn_many(self, lesson: RewardBatch) -> None:
        handle, rows = self._handle, Handle(REWARD_BATCH, lesson)

        def learn(part: int, parts: int) -> None:
            kernels.learn_rows(handle.address, rows.address, part, parts)

        spread(learn, lesson.tasks.size)


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
