"""Forced samples and least squares: OLSBandit, every task alone, and RMBandit, tasks that differ in few coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posse.checks import number, one_of, whole_number
from posse.errors import InvalidValue
from posse.model.statistics import Statistics
from posse.policies import forced
from posse.policies.base import Policy
from posse.policies.playing import StepBatch

if TYPE_CHECKING:
    from posse.types import Array

_STARTS = {"round-robin": forced.ROUND_ROBIN, "schedule": forced.SCHEDULE, "ridge": forced.RIDGE}
_VARIANTS = {"batched": forced.BATCHED, "scheduled": forced.SCHEDULED}


class _Forced(Policy):
    """Least squares with forced samples."""

    _model: forced.Model

    def _begin(self, clocks: int, **settings: Any) -> None:
        K, N, d = self.n_arms, self.n_tasks, self.n_features
        sums = [Statistics.zeros(n_tasks=N, n_arms=K, n_features=d).sums for _ in range(3)]
        self._model = forced.Model(
            sums[0], sums[1], sums[2], np.zeros((K, N, d)), np.zeros((K, N, d)), np.zeros(clocks, dtype=np.int64),
            np.empty((3, d, d)), np.empty((2, d)), np.empty((N, d)), **settings,
        )  # fmt: skip

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned."""
        return Statistics(*self._model.sums).copy()


class OLSBandit(_Forced):
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
        self._begin(
            self.n_tasks, gap=self.gap, pulls=self.pulls, variant=_STARTS[self.start], forced_penalty=0.0, penalty=0.0,
            trim=0.0, accumulate=False, refresh_every=1,
        )  # fmt: skip

    def describe(self) -> str:
        """Return gap and forced pulls."""
        return f"h {self.gap:g}; q {self.pulls}"

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        return int(forced.choose_ols(self._model, task, x, step, draws))

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        forced.learn_ols(self._model, task, arm, x, reward)

    def _play(self, batch: StepBatch) -> None:
        forced.play_ols(self._model, batch)


class RMBandit(_Forced):
    """Trimmed mean of the tasks' least squares, then a lasso that draws each task to it.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    variant : {"batched", "scheduled"}
        ``"batched"``: one exploration batch, then batches of doubling length, estimates from the last batch alone.
        ``"scheduled"``: forced samples on the global clock as in OLSBandit, estimates from all samples.
    gap : float
        Arms that forced samples put more than ``gap / 2`` below the best are dropped.
    pulls : int
        Forced pulls per arm (and per task if ``pulls_per_task``): the length of the exploration batch, or of each
        forced block, in units of ``n_arms``.
    pulls_per_task : bool
    forced_penalty, penalty : float
        Lasso penalties of the forced-sample estimate (constant) and of the other one, which falls like
        ``sqrt((log t + log n_features) / count)``.
    trim : float
        Share cut off either end before averaging, in [0, 0.5).
    accumulate : bool
        Batched only: estimate from all samples so far in place of the last batch.
    refresh_every : int
        Scheduled only: rewards between two estimates.

    References
    ----------
    Xu and Bastani, "Multitask Learning and Bandits via Robust Statistics".

    Notes
    -----
    No public code exists; gap, pulls and penalties are those that the ebm paper quotes, the trimming share and the
    batches are a reconstruction. The clock is the number of rewards so far. ``pulls=50`` means hundreds of rounds of
    pure exploration, which is most of this method's regret at short horizons: show a smaller value next to it.
    """

    label = "RMBandit"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        variant: Literal["batched", "scheduled"] = "batched",
        gap: float = 15.0,
        pulls: int = 50,
        pulls_per_task: bool = False,
        forced_penalty: float = 0.2,
        penalty: float = 0.2,
        trim: float = 0.2,
        accumulate: bool = False,
        refresh_every: int = 1,
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.variant = one_of(variant, "variant", tuple(_VARIANTS))
        self.pulls = whole_number(pulls, "pulls", at_least=1)
        trim = number(trim, "trim", at_least=0)
        if trim >= 0.5:
            raise InvalidValue(f"expected trim to be below 0.5, got {trim:g}: nothing would be left to average")
        self._begin(
            1,
            gap=number(gap, "gap", at_least=0),
            pulls=self.pulls * (self.n_tasks if pulls_per_task else 1),
            variant=_VARIANTS[self.variant],
            forced_penalty=number(forced_penalty, "forced_penalty", at_least=0),
            penalty=number(penalty, "penalty", at_least=0),
            trim=trim,
            accumulate=bool(accumulate),
            refresh_every=whole_number(refresh_every, "refresh_every", at_least=1),
        )

    def describe(self) -> str:
        """Return variant, gap, forced pulls, penalties and trimming share."""
        s = self._model
        per_task = " per task" if s.pulls != self.pulls else ""
        penalties = f"η {s.forced_penalty:g}, {s.penalty:g}"
        return f"{self.variant}; h {s.gap:g}; q {self.pulls}{per_task}; {penalties}; trim {s.trim:g}"

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        return int(forced.choose_rm(self._model, task, x, step, draws))

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        forced.learn_rm(self._model, task, arm, x, reward)

    def _play(self, batch: StepBatch) -> None:
        forced.play_rm(self._model, batch)
