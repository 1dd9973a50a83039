"""A policy over the hierarchical posterior: tasks that are all known, and the decisions made from what they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from posse.checks import number, one_of
from posse.core.core import Core
from posse.core.decide import Buffers
from posse.core.forgetting import Forgetting, HalfLife, Learned, Never
from posse.core.noticing import ALL_TASKS
from posse.core.pair import new_work
from posse.core.rule import Rule
from posse.core.select import Exploration
from posse.core.state import State
from posse.core.store import beliefs_of
from posse.errors import InvalidValue
from posse.families import FAMILIES, LINKED, RewardFamily, Rewards
from posse.model import Prior, Statistics
from posse.model.borrowing import Borrowing, mean_squares, task_borrowing
from posse.model.estimation import PriorMethod, given_report, least_squares_report
from posse.model.least_squares import METHODS, new_memory
from posse.model.prior import PriorReport
from posse.policies import paper, stepping
from posse.policies.base import Policy, Prediction, exploration_words
from posse.policies.playing import RewardBatch, StepBatch
from posse.threads import spread
from posse.types import Array, ArrayLike

PAPER_EXPLORATION = 0.1
PAPER_SHARED_PRECISION = 1e-3
PriorEstimator: TypeAlias = Callable[[Statistics], Prior]
"""A prior of one's own: what was learned in, the population out."""
EVIDENCE_REFRESH = 0.3  # at 0.1 a step takes twice as long, and regret is the same within 1 % (docs/performance.md)
VISITS = (25, 50, 100, 200, 400, 800, 1600)
"""Half-lives that are compared, in visits of a task."""
LINKED_REFRESH = 0.1  # of clicks and counts, whose sites are made again then


class _Quick:
    """The few arrays that a decision needs, as long as the state that they are from stands."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.arrays: tuple[Array, ...] = ()


class Hierarchical(Policy):
    """The hierarchical posterior and the decisions made from it; subclasses say how to explore."""

    explores: ClassVar[Exploration]
    evidence_exploration: ClassVar[float]
    usual_prior: ClassVar[PriorMethod] = "paper"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float | None = None,
        shared_precision: float = PAPER_SHARED_PRECISION,
        prior: PriorMethod | Prior | PriorEstimator | Literal["default"] = "default",
        refresh_growth: float | None = None,
        first_pulls: bool = True,
        robust: bool = False,
        drift: float | Literal["learn"] | None = None,
        rewards: Rewards = "number",
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.rewards = one_of(rewards, "rewards", ("number", *LINKED))
        linked = self.rewards != "number"
        if isinstance(prior, str) and prior == "default":
            prior = "evidence" if linked else self.usual_prior
        evidence = isinstance(prior, str) and prior == "evidence"
        if linked:
            self._require_standard(
                prior=(prior, evidence),
                robust=(robust, robust is False),
                shared_precision=(shared_precision, shared_precision == PAPER_SHARED_PRECISION),
            )
        learned = evidence or callable(prior)
        if exploration is None:
            exploration = self.evidence_exploration if learned else PAPER_EXPLORATION
        if refresh_growth is None:
            refresh_growth = LINKED_REFRESH if linked else EVIDENCE_REFRESH if learned else 0.0
        self.exploration = number(exploration, "exploration", at_least=0)
        self._exploration = self.explores.scaled(self.exploration)
        self._first_pulls = bool(first_pulls)
        self.robust = bool(robust)
        if self.robust and not evidence:
            raise InvalidValue("expected prior='evidence' with robust=True, got another prior; leave robust out")
        self.shared_precision = number(shared_precision, "shared_precision", above=0)
        self._growth = np.array([number(refresh_growth, "refresh_growth", at_least=0)])
        self.prior_method = self._method_of(prior)
        self._estimate = prior if callable(prior) else None
        self.drift = drift
        if self._estimate is not None and drift is not None:
            raise InvalidValue("expected prior='evidence' with drift, got a function; leave one of them out")
        self._start = Prior.isotropic(
            n_arms=self.n_arms, n_features=self.n_features, shared_precision=self.shared_precision
        )
        if isinstance(prior, Prior):
            prior.require_shape(n_arms=self.n_arms, n_features=self.n_features)
            self._start = prior
        self._estimated_at = np.zeros(self.n_arms)  # rewards of every arm; of all arms, but for the paper's estimators
        self._memory = new_memory(self.n_arms, self.n_tasks, self.n_features)
        self._blocks = paper.new_blocks(self.n_tasks, self.n_features)
        self._core = self._new_core(evidence)
        self._clock, self._arms = np.zeros(1), np.arange(self.n_arms)
        self._quick = _Quick()
        self._work = new_work(self.n_features, self.n_features)
        if not evidence:
            self._put(self._start)

    def _require_standard(self, **settings: tuple[Any, bool]) -> None:
        """Raise unless all settings are those that clicks and counts have anyway."""
        for name, (value, is_standard) in settings.items():
            if not is_standard:
                shown = type(value).__name__ if isinstance(value, Prior) else repr(value)
                raise InvalidValue(
                    "expected prior='evidence', robust=False and no shared_precision for "
                    f"rewards={self.rewards!r}, got {name}={shown}; leave it out, or take rewards='number'"
                )

    def _method_of(self, prior: Any) -> str:
        if isinstance(prior, Prior):
            return "known"
        if isinstance(prior, str):
            return one_of(prior, "prior", (*METHODS, "evidence"))
        if callable(prior):
            return getattr(prior, "__name__", "own")
        raise InvalidValue(
            f"expected prior to be a Prior, a function of statistics or one of "
            f"{', '.join(map(repr, (*METHODS, 'evidence')))}, got {type(prior).__name__}"
        )

    def _new_core(self, evidence: bool) -> Core:
        """Return a core of all tasks, every pair of which has its slot."""
        core = Core(
            self.n_arms, self.n_features, family=self.family, rule=Rule(self._exploration, 0.0, 0.0),
            method="evidence" if evidence else "known", start=None if evidence else self._start,
            growth=self.refresh_growth, robust=self.robust,
            forgetting=forgetting_of(self.drift, self.n_tasks, self.n_arms, self.n_features, self.family),
        )  # fmt: skip
        core.take_tasks(core.reserve_tasks(self.n_tasks))
        tasks, arms = np.divmod(np.arange(self.n_tasks * self.n_arms), self.n_arms)
        core.prepare(tasks, arms)
        return core

    # Settings.

    @property
    def family(self) -> RewardFamily:
        """The family of the rewards."""
        return FAMILIES[self.rewards]

    @property
    def refresh_growth(self) -> float:
        """By what fraction rewards grow between two estimates of the prior."""
        return float(self._growth[0])

    @refresh_growth.setter
    def refresh_growth(self, growth: float) -> None:
        self._growth[0] = self._core.growth = number(growth, "refresh_growth", at_least=0)

    @property
    def first_pulls(self) -> bool:
        """Whether arm t is pulled at step t for the first ``n_arms`` steps."""
        return self._first_pulls

    def describe(self) -> str:
        """Return exploration, prior, refresh schedule and what else is not as in the paper."""
        words = [exploration_words(self._exploration), f"{self.prior_method} prior"]
        if self.rewards != "number":
            words[1] = f"{self.rewards} rewards"
        if self.robust:
            words.append("robust")
        if self.drift is not None:
            words.append("drift learned" if self.drift == "learn" else f"half-life {self.drift:g} steps")
        if self.refresh_growth > 0 and self.prior_method != "known":
            words.append(f"refresh at +{self.refresh_growth:.0%}")
        if not self.first_pulls and self.explores.growing:
            words.append("no first pulls")
        if self.shared_precision != PAPER_SHARED_PRECISION and self.prior_method not in ("known", "evidence"):
            words.append(f"shared precision {self.shared_precision:g}")
        return "; ".join(words)

    # What was learned.

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return mean and standard deviation of every arm's linear predictor, without exploration.

        For rewards that are numbers that is the expected reward.
        """
        out = np.empty((2, self.n_arms))
        x, now = self._checked_context(context), self._now
        self._core.predict(self._checked_task(task), x, now, self._arms, out)
        return Prediction(out[0], out[1])

    def expected(self, task: int, context: ArrayLike) -> Array:
        """Return the expected reward of every arm: a number, a probability, or a rate."""
        believed = self.predict(task, context)
        return self.family.expected(believed.mean, believed.sd)

    def interval(self, task: int, context: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of every arm's expected reward."""
        believed = self.predict(task, context)
        return self.family.interval(believed.mean, believed.sd, level)

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of clicks and counts the sums over their sites."""
        stats = Statistics.zeros(n_tasks=self.n_tasks, n_arms=self.n_arms, n_features=self.n_features)
        tasks, arms, grams, moments, squares, counts = self._core.sums(now=float(self._clock[0]))
        rows, columns = np.triu_indices(self.n_features)
        stats.gram[arms[:, None], tasks[:, None], rows, columns] = grams
        stats.gram[arms[:, None], tasks[:, None], columns, rows] = grams
        stats.moment[arms, tasks], stats.sum_of_squares[arms, tasks] = moments, squares
        stats.count[arms, tasks] = counts
        return stats

    @property
    def prior(self) -> Prior:
        """The prior in force, on the scale of the linear predictor."""
        if self.prior_method == "evidence":
            return self._core.prior
        store, d = self._core.state.store, self.n_features
        return Prior(
            covariance=store.prior[:, d + 1 :].copy(), noise_variance=store.noise.copy(),
            shared_precision=self._start.shared_precision, shared_location=self._start.shared_location,
        )  # fmt: skip

    @property
    def prior_report(self) -> PriorReport:
        """How the prior in force came about."""
        stats, prior = self.statistics, self.prior
        if self.prior_method in METHODS:
            return least_squares_report(prior.covariance, self._memory, self.prior_method, stats)
        if self.prior_method != "evidence":
            return given_report(prior, (stats.count > 0).sum(axis=1))
        from posse.model.evidence import core_report

        return core_report(self._core, stats)

    @property
    def half_life(self) -> float:
        """Steps after which half of what differs in a task is believed to have changed; infinite without drift."""
        return self._core.half_life

    @property
    def changes(self) -> list[tuple[int, int | None]]:
        """The changes that were noticed: after how many rewards, and in which task, or None for all at once."""
        return [(int(change.time), None if change.task == ALL_TASKS else change.task) for change in self._core.changes]

    def borrowing(self, task: int) -> Borrowing:
        """Return, for every arm, how much this task leans on its own rewards and how much on the other tasks."""
        task, stats, store = self._checked_task(task), self.statistics, self._core.state.store
        squares = mean_squares(np.einsum("knii->i", stats.gram), float(stats.count.sum()))
        return task_borrowing(
            stats.gram[:, task], stats.count[:, task], self.prior, store.shared[:, : self.n_features],
            float(store.weight[task]), squares,
        )  # fmt: skip

    # Deciding and learning.

    @property
    def _now(self) -> float:
        """The time of the next reward: rewards are the clock."""
        return float(self._clock[0]) + 1.0

    def update(self, task: int, arm: int, context: ArrayLike, reward: float) -> None:
        """Learn the reward of one arm in one task. Nothing changes if anything is wrong with the input."""
        if self.rewards != "number":
            reward = self.family.check(reward)
        super().update(task, arm, context, reward)

    def update_many(self, tasks: ArrayLike, arms: ArrayLike, contexts: ArrayLike, rewards: ArrayLike) -> None:
        """Learn rewards row after row, as ``update`` would. Nothing changes if anything is wrong with the input."""
        if self.rewards != "number":
            rewards = self.family.check_many(rewards)
        super().update_many(tasks, arms, contexts, rewards)

    def _checked_batch(self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike) -> Any:
        if self.rewards != "number":
            rewards = self.family.check_many(rewards)
        return super()._checked_batch(tasks, contexts, rewards)

    def _model(self) -> stepping.Model:
        """Return all that compiled steps work on, with buffers of one thread."""
        state, work = self._core.state, new_work(self.n_features, self.n_features)
        return stepping.Model(
            beliefs_of(state.store), Buffers(*work[:3]), self._arms, np.empty((4, self.n_arms)), state.silent,
            self._exploration, self._first_pulls, state.store, work, state.numbers, self._clock,
        )  # fmt: skip

    def _paper(self) -> paper.PaperModel:
        shared = np.concatenate([self._start.shared_precisions, self._start.shared_location[:, None]], axis=1)
        return paper.PaperModel(
            self._model(), self._memory, self._blocks, METHODS[self.prior_method], self._growth, self._estimated_at,
            shared,
        )  # fmt: skip

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        if self._first_pulls and step <= self.n_arms:
            return step - 1
        choose: Any = stepping.choose
        state, quick = self._core.state, self._quick
        if state is not quick.state:
            store, quick.state = state.store, state
            constants = stepping.constants_of(state, self._exploration)
            quick.arrays = store.pairs, store.factors, store.prior, store.shared, constants
        arm: int = choose(*quick.arrays, task, x, step, draws, 0.0 if self.drift is None else self._now)
        return arm

    def _choose_many(self, batch: StepBatch) -> None:
        n_rows, chosen = batch.tasks.size, self._model

        def choose(part: int, parts: int) -> None:
            stepping.choose_rows(chosen(), batch, n_rows * part // parts, n_rows * (part + 1) // parts)

        spread(choose, n_rows)

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        self._clock += 1.0
        self._core.learn(task, arm, x, reward, float(self._clock[0]))
        if self.prior_method in METHODS:
            paper.estimate_if_due(self._paper(), task, arm)
            self._quick.state = None
        else:
            self._estimate_if_due()

    def _learn_many(self, batch: RewardBatch) -> None:
        if self.prior_method != "evidence":
            super()._learn_many(batch)
            return
        times = self._clock[0] + np.arange(1.0, batch.tasks.size + 1.0)
        self._core.learn_rows(batch.tasks, batch.arms, batch.contexts, batch.rewards, times)
        self._clock += batch.tasks.size

    def _play(self, batch: StepBatch) -> None:
        if self._estimate is not None or self.drift == "learn":
            super()._play(batch)
            return
        if self.prior_method in METHODS:
            paper.play(self._paper(), batch)
            self._quick.state = None
            return
        first, n_steps = 0, batch.tasks.size
        while first < n_steps:
            last = min(n_steps, first + self._until_due(n_steps))
            self._core.prepare(batch.tasks[first:last], np.zeros(last - first, dtype=np.int64))
            stepping.play(self._model(), batch.part(first, last))
            self._estimate_if_due()
            first = last

    def _until_due(self, at_most: int) -> int:
        """Return how many rewards may come before something is to be computed anew."""
        left = self._core.until_due()
        if self.prior_method != "evidence":
            left = 2.0 * self._estimated_at[0] - self._core.n_rewards
        return max(1, math.ceil(min(left, at_most)))

    def _estimate_if_due(self) -> None:
        """Estimate the prior if that is due.

        Under a prior that is known beliefs are computed anew when rewards have doubled, which bounds the rounding that
        rank-one steps gather.
        """
        if self.prior_method == "evidence":
            self._core.estimate_if_due()
        elif self._estimate is not None:
            if self._core.n_rewards >= (1 + self.refresh_growth) * self._estimated_at[0]:
                self._refresh_by(self._estimate)
        elif self._core.n_rewards >= max(1.0, 2.0 * self._estimated_at[0]):
            self._put(self._start)

    def _refresh_by(self, estimate: PriorEstimator) -> None:
        """Put in force the prior that a function makes of all that was learned."""
        prior = estimate(self.statistics)
        if not isinstance(prior, Prior):
            raise InvalidValue(f"expected {self.prior_method} to return a Prior, got {type(prior).__name__}")
        prior.require_shape(n_arms=self.n_arms, n_features=self.n_features)
        self._put(prior)

    def _put(self, prior: Prior) -> None:
        """Put a prior in force, and compute all that is believed under it."""
        store, precisions, self._quick.state = self._core.state.store, prior.shared_precisions, None
        self._start, self._estimated_at[0] = prior, self._core.n_rewards
        for arm in range(self.n_arms):
            stepping.put_prior(
                store, self._work, arm, prior.noise_variance[arm], prior.covariance[arm], precisions[arm],
                prior.shared_location[arm],
            )  # fmt: skip


def forgetting_of(drift: Any, n_tasks: int, n_arms: int, n_features: int, family: RewardFamily) -> Forgetting:
    """Return how a policy forgets; a step is a reward that was learned."""
    if drift is None:
        return Never()
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(f"expected drift to be None, 'learn' or a half-life, got {drift!r}; pass one of these")
        return Learned([visits * n_tasks for visits in VISITS], n_arms, n_features, family)
    return HalfLife(number(drift, "drift", above=0))
