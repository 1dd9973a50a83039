"""OLSBandit: forced samples and least squares, every task alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posse.checks import number, one_of, whole_number
from posse.kernels import ols_bandit as kernels
from posse.kernels.posterior import new_buffers
from posse.model.statistics import Statistics
from posse.policies.base import Policy

if TYPE_CHECKING:
    from posse.kernels.batches import StepBatch
    from posse.types import Array

_STARTS = {"round-robin": kernels.ROUND_ROBIN, "schedule": kernels.SCHEDULE, "ridge": kernels.RIDGE}


class OLSBandit(Policy):
    """Pull every arm at forced times; otherwise drop clearly worse arms and take the best by least squares.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    gap : float
        Arms that forced samples put more than ``gap / 2`` below the best are dropped. On the scale of the rewards.
    pulls : int
        Forced pulls per arm in each block; the k-th free stretch is twice as long as the one before.
    start : {"round-robin", "schedule", "ridge"}
        What to do until least squares is defined: force the first ``n_arms * n_features`` rounds of a task round-robin,
        or follow the schedule with minimum-norm least squares, or with ridge regression.

    References
    ----------
    Goldenshluger and Zeevi, "A linear response bandit problem" (2013), in the form for many arms.

    Notes
    -----
    Every task runs on its own clock, the rewards it has had so far.
    """

    label = "OLSBandit"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        gap: float = 15.0,
        pulls: int = 1,
        start: Literal["round-robin", "schedule", "ridge"] = "round-robin",
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.gap = number(gap, "gap", at_least=0)
        self.pulls = whole_number(pulls, "pulls", at_least=1)
        self.start = one_of(start, "start", tuple(_STARTS))
        stats = Statistics.zeros(n_tasks=self.n_tasks, n_arms=self.n_arms, n_features=self.n_features)
        self._state = kernels.OlsState(
            sums=stats.sums,
            forced_sums=stats.copy().sums,
            estimates=np.zeros_like(stats.moment),
            forced_estimates=np.zeros_like(stats.moment),
            arrivals=np.zeros(self.n_tasks, dtype=np.int64),
        )
        self._buffers = new_buffers(self.n_features)

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned."""
        return Statistics(*self._state.sums).copy()

    def describe(self) -> str:
        """Return gap and forced pulls."""
        return f"h {self.gap:g}; q {self.pulls}"

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:  # noqa: ARG002
        arm: int = kernels.decide(
            self._state, task, x, self.pulls, self.gap, _STARTS[self.start], draws, np.empty(self.n_arms)
        )
        return arm

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        kernels.learn(self._state, arm, task, x, reward, self.pulls, _STARTS[self.start], self._buffers)

    def _play(self, stretch: StepBatch) -> None:
        kernels.play(
            self._state,
            stretch,
            self.pulls,
            self.gap,
            _STARTS[self.start],
            self._buffers,
            np.empty(self.n_arms),
        )
