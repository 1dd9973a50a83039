"""Policies of revenue: purchases and amounts as two populations, one expectation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from posse.checks import number
from posse.core.revenue import Revenue
from posse.core.rule import Rule
from posse.core.select import OPTIMISTIC, RANDOMISED, SAMPLING, Exploration
from posse.families import FAMILIES
from posse.policies.base import Policy, Prediction, exploration_words
from posse.policies.hierarchical import EVIDENCE_REFRESH, forgetting_of

if TYPE_CHECKING:
    from typing import Any

    from posse.types import Array, ArrayLike, IntArray


class _OfRevenue(Policy):
    """A policy that decides as a fleet of revenue does."""

    explores: ClassVar[Exploration]
    usual_exploration: ClassVar[float]

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float | None = None,
        refresh_growth: float = EVIDENCE_REFRESH,
        drift: float | Literal["learn"] | None = None,
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        given = self.usual_exploration if exploration is None else exploration
        self._exploration = self.explores.scaled(number(given, "exploration", at_least=0))
        self.family, self.rewards = FAMILIES["revenue"], "revenue"
        both = [
            forgetting_of(drift, n_tasks, n_arms, d, FAMILIES[part])
            for part, d in (("binary", n_features), ("number", n_features + 1))
        ]
        self._core = Revenue(
            self.n_arms, self.n_features, family=self.family, rule=Rule(self._exploration, 0.0, 0.0),
            growth=number(refresh_growth, "refresh_growth", at_least=0), forgetting=(both[0], both[1]),
        )  # fmt: skip
        self._core.take_tasks(self._core.reserve_tasks(self.n_tasks))
        self._clock, self._arms, self._out = 0.0, np.arange(self.n_arms), np.empty((3, self.n_arms))

    def describe(self) -> str:
        """Return exploration, what rewards are, and the refresh schedule."""
        return f"{exploration_words(self._exploration)}; revenue rewards; refresh at +{self._core.growth:.0%}"

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return mean and standard deviation of the logarithm of every arm's expected revenue."""
        out, x = np.empty((2, self.n_arms)), self._checked_context(context)
        self._core.predict(self._checked_task(task), x, self._clock + 1.0, self._arms, out)
        return Prediction(out[0], out[1])

    def expected(self, task: int, context: ArrayLike) -> Array:
        """Return the expected revenue of every arm."""
        believed = self.predict(task, context)
        return self.family.expected(believed.mean, believed.sd)

    def interval(self, task: int, context: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of every arm's expected revenue."""
        believed = self.predict(task, context)
        return self.family.interval(believed.mean, believed.sd, level)

    def update(self, task: int, arm: int, context: ArrayLike, reward: float) -> None:
        """Learn the reward of one arm in one task. Nothing changes if anything is wrong with the input."""
        super().update(task, arm, context, self.family.check(reward))

    def update_many(self, tasks: ArrayLike, arms: ArrayLike, contexts: ArrayLike, rewards: ArrayLike) -> None:
        """Learn rewards row after row, as ``update`` would. Nothing changes if anything is wrong with the input."""
        super().update_many(tasks, arms, contexts, self.family.check_many(rewards))

    def _checked_batch(
        self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike
    ) -> tuple[IntArray, Array, Array]:
        return super()._checked_batch(tasks, contexts, self.family.check_many(rewards))

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        uniform = 0.5 * math.erfc(-math.sqrt(0.5) * float(draws[0]))
        among: Any = self._arms
        return self._core.decide(task, x, self._clock + 1.0, among, step, True, uniform, self._out)

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        self._clock += 1.0
        self._core.learn(task, arm, x, reward, self._clock)
        self._core.estimate_if_due()


class RevenueUCB(_OfRevenue):
    r"""Pull the arm with the highest optimistic logarithm of the expected revenue, learned as purchase x amount.

    Optimism is multiplicative, as revenue is positive; see :mod:`posse.families.revenue`.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    exploration : float, default 0.4
    refresh_growth : float, default 0.3
        Each population is refreshed when its rewards have grown by this fraction.
    drift : None, "learn" or float, default None
        As in :class:`posse.policies.EbmUCB`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = RevenueUCB(n_tasks=3, n_arms=2, n_features=1)
    >>> for arm, revenue in ((0, 0.0), (0, 12.5), (1, 0.0)):
    ...     policy.update(task=0, arm=arm, context=[1.0], reward=revenue)
    >>> policy.expected(task=0, context=[1.0]).argmax()
    np.int64(0)
    """

    label = "revenueUCB"
    explores = OPTIMISTIC
    usual_exploration = 0.4


class RevenueTS(_OfRevenue):
    """Thompson sampling of the logarithm of the expected revenue; parameters are those of :class:`RevenueUCB`."""

    label = "revenueTS"
    explores = SAMPLING
    usual_exploration = 0.15


class RevenueRandUCB(_OfRevenue):
    """RandUCB on the logarithm of the expected revenue, as in a fleet; parameters are those of :class:`RevenueUCB`."""

    label = "revenueRandUCB"
    explores = RANDOMISED
    usual_exploration = 0.4
