"""A policy over the hierarchical posterior: tasks that are all known, and the decisions made from what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from posse.checks import number, one_of
from posse.errors import InvalidValue
from posse.kernels import ebm as kernels
from posse.kernels import estimators
from posse.kernels.batches import REWARD_BATCH
from posse.kernels.evidence import SETTLED
from posse.kernels.llvm.handle import Handle
from posse.kernels.posterior import new_buffers
from posse.kernels.refresh import ADVANCE, IMPROVE, IMPROVE_AT, LOOP, new_loop, population_of
from posse.model import Prior, Statistics, log_evidence
from posse.model.belief import put_prior
from posse.model.borrowing import Borrowing, borrowing_of
from posse.model.estimation import POLICY_METHODS, PriorMethod, given_report, least_squares_report
from posse.model.evidence import STUDENT_FREEDOM, evidence_report
from posse.model.prior import PriorReport
from posse.policies.base import Policy, exploration_words
from posse.policies.fading import Fading, PopulationPolicy, drift_words
from posse.threads import MANY_ROWS, spread

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.kernels.batches import RewardBatch, StepBatch
    from posse.kernels.llvm.callback import CompiledCallback
    from posse.types import Array


PAPER_EXPLORATION = 0.1
PAPER_SHARED_PRECISION = 1e-3
PriorEstimator: TypeAlias = Callable[[Statistics], Prior]
"""A prior of one's own: what was learned in, the population out."""
EVIDENCE_REFRESH = 0.3  # at 0.1 a step takes twice as long, and regret is the same within 1 % (docs/performance.md)


class Hierarchical(PopulationPolicy):
    """The hierarchical posterior and the decisions made from it; subclasses say how to explore."""

    _kernels: ClassVar[Any] = kernels
    evidence_exploration: ClassVar[float]

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float | None = None,
        shared_precision: float = PAPER_SHARED_PRECISION,
        prior: PriorMethod | Prior | PriorEstimator = "paper",
        refresh_growth: float | None = None,
        first_pulls: bool = True,
        robust: bool = False,
        drift: float | Literal["learn"] | None = None,
        rewards: Rewards = "number",
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.rewards = rewards  # others never come here: they are learned by the policies of their families
        evidence = isinstance(prior, str) and prior == "evidence"
        learned = evidence or callable(prior)
        if exploration is None:
            exploration = self.evidence_exploration if learned else PAPER_EXPLORATION
        if refresh_growth is None:
            refresh_growth = EVIDENCE_REFRESH if learned else 0.0
        self._refresh_growth = np.empty(1)
        self.refresh_growth = refresh_growth
        self.robust = bool(robust)
        if self.robust and not evidence:
            raise InvalidValue("expected prior='evidence' with robust=True, got another prior; leave robust out")
        self.shared_precision = number(shared_precision, "shared_precision", above=0)
        self._estimate: PriorEstimator | None = None
        self._estimated_at = 0.0
        self._method = estimators.KNOWN
        start = Prior.isotropic(n_arms=self.n_arms, n_features=self.n_features, shared_precision=self.shared_precision)
        if isinstance(prior, Prior):
            prior.require_shape(n_arms=self.n_arms, n_features=self.n_features)
            self.prior_method, start = "known", prior
        elif isinstance(prior, str):
            self.prior_method = one_of(prior, "prior", tuple(POLICY_METHODS))
            self._method = POLICY_METHODS[prior]
        elif callable(prior):
            if drift is not None:
                raise InvalidValue("expected prior='evidence' with drift, got a function; leave one of them out")
            self.prior_method, self._estimate = getattr(prior, "__name__", "own"), prior
        else:
            raise InvalidValue(
                f"expected prior to be a Prior, a function of statistics or one of "
                f"{', '.join(map(repr, POLICY_METHODS))}, got {type(prior).__name__}"
            )
        self._begin(exploration, first_pulls, start, drift)
        self._memory = estimators.new_memory(
            self.n_arms, self.n_tasks, self.n_features, STUDENT_FREEDOM if self.robust else 0.0
        )
        if drift is not None:
            self._fading = Fading(drift, self._belief, self._memory.evidence, self._buffers, memory=self._memory)
        self._link()

    @property
    def refresh_growth(self) -> float:
        """By what fraction an arm's rewards grow between two estimates of its prior."""
        return float(self._refresh_growth[0])

    @refresh_growth.setter
    def refresh_growth(self, growth: float) -> None:
        self._refresh_growth[0] = number(growth, "refresh_growth", at_least=0)

    @property
    def prior_report(self) -> PriorReport:
        """How the prior in force came about."""
        stats = self.statistics
        if self._method == estimators.EVIDENCE:
            return evidence_report(
                self._belief,
                self._memory.evidence,
                stats,
                iterations=int(self._memory.evidence.steps[0]),
                converged=bool(self._memory.evidence.last_move[0] < SETTLED),
                log_evidence=float(log_evidence(stats, self.prior, self._belief.task_weight).sum()),
            )
        if self._method == estimators.KNOWN:
            return given_report(self._belief)
        return least_squares_report(self._belief, self._memory, self.prior_method, stats)

    def borrowing(self, task: int) -> Borrowing:
        """Return, for every arm, how much this task leans on its own rewards and how much on the other tasks."""
        return borrowing_of(self._belief, self._checked_task(task))

    def describe(self) -> str:
        """Return exploration, prior, refresh schedule and what else is not as in the paper."""
        words = [exploration_words(self._exploration), f"{self.prior_method} prior"]
        if self.robust:
            words.append("robust")
        if self.drift is not None:
            words.append(drift_words(self.drift))
        if self.refresh_growth > 0 and (self._method != estimators.KNOWN or self._estimate is not None):
            words.append(f"refresh at +{self.refresh_growth:.0%}")
        if not self.first_pulls and self.explores.growing:
            words.append("no first pulls")
        if self.shared_precision != PAPER_SHARED_PRECISION and self._method not in (
            estimators.KNOWN,
            estimators.EVIDENCE,
        ):
            words.append(f"shared precision {self.shared_precision:g}")
        return "; ".join(words)

    def _link(self) -> None:
        state = kernels.State(
            belief=self._belief, memory=self._memory, buffers=self._buffers, exploration=self._exploration,
            first_pulls=self._first_pulls, method=self._method, refresh_growth=self._refresh_growth, loop_at=0,
            advance_at=0,
        )  # fmt: skip
        if self._method == estimators.EVIDENCE:
            loop = new_loop(population_of(self._belief), self._memory.evidence, self._buffers)
            loop.now[IMPROVE_AT] = IMPROVE.address
            self._loop = Handle(LOOP, loop)
            state = state._replace(loop_at=self._loop.address, advance_at=ADVANCE.address)
        self._handle = Handle(kernels.STATE, state)

    @property
    def _refresh(self) -> CompiledCallback:  # type: ignore[override]  # of the method
        return kernels.REFRESH[self._method]

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        super()._learn(task, arm, x, reward)
        if self._estimate is not None and self._belief.rewards.sum() >= (1 + self.refresh_growth) * self._estimated_at:
            self._refresh_by(self._estimate)

    def _refresh_by(self, estimate: PriorEstimator) -> None:
        """Put in force what a function makes of all that was learned."""
        prior = estimate(self.statistics)
        if not isinstance(prior, Prior):
            raise InvalidValue(f"expected {self.prior_method} to return a Prior, got {type(prior).__name__}")
        prior.require_shape(n_arms=self.n_arms, n_features=self.n_features)
        put_prior(self._belief, prior, self._buffers)
        self._estimated_at = float(self._belief.rewards.sum())

    def _play(self, batch: StepBatch) -> None:
        if self._estimate is not None:
            Policy._play(self, batch)
        else:
            super()._play(batch)

    def _choose_many(self, batch: StepBatch) -> None:
        self._choose_on_threads(batch)

    def _learn_many(self, batch: RewardBatch) -> None:
        if self._fading is not None or self._estimate is not None:
            super()._learn_many(batch)
            return
        handle, rows, n_rows = self._handle, Handle(REWARD_BATCH, batch), batch.tasks.size
        refresh = self._refresh
        first = 0
        while first < n_rows:
            # As far as the next rows that go without a refresh and are worth threads; mostly, that is to the end.
            first = kernels.learn_rows(handle.address, rows.address, first, MANY_ROWS, refresh.address)
            if first == n_rows:
                return
            last = kernels.next_refresh(handle.address, rows.address, first)
            end = abs(last)

            def learn(part: int, parts: int, first: int = first, end: int = end) -> None:
                own = Handle(kernels.BUFFERS, new_buffers(self.n_features))
                kernels.learn_arms(handle.address, rows.address, own.address, first, end, part, parts)

            spread(learn, end - first)
            if last > 0:
                refresh(handle.address, int(batch.arms[end - 1]))
            first = end
