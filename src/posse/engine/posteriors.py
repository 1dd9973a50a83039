"""What the sums of an engine say: posteriors of all pairs, and the population that they share."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.engine.arrays import Arrays
from posse.engine.commit import Steps, commit
from posse.interrupts import defer_interrupts
from posse.kernels import estimators
from posse.kernels import evidence as evidence_kernels
from posse.kernels.decision_arrays import set_kept, set_roots, set_triangles
from posse.kernels.estimators import Memory
from posse.kernels.lanes import Lanes, Pairs, new_lanes, sum_information
from posse.kernels.passes import unwhiten
from posse.kernels.posterior import Belief, finish_shared, rebuild
from posse.model.belief import prior_of
from posse.model.evidence import STUDENT_FREEDOM
from posse.model.refresh import POPULATION, LiveReader, Refresh
from posse.threads import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from posse.engine.capacity import Capacity
    from posse.kernels.rule import Rule
    from posse.model.prior import Prior
    from posse.types import Array, IntArray

logger = logging.getLogger("posse")

BUFFERS = ("estimates", "order", "losses", "evidence")  # of a memory: what the next refresh does not read
NO_FAILURES = {"_failures": 0, "_retry_at": 0.0}  # of refreshes


class Posteriors(Arrays):
    """Arrays that believe what follows from their sums, and estimate the population.

    Parameters
    ----------
    start : Prior
        What stands until rewards say otherwise, or for good if the method is "known".
    method : int
        One of the codes in :mod:`posse.kernels.estimators`.
    robust : bool, default False
    extendable : bool, default False
        Whether an arm may be added under a known prior; it then has that of the first.
    rule : Rule, optional
    """

    memory: Memory

    task_keys: Callable[[], npt.NDArray[np.uint64]] | None = None
    """Returns the key of every task (:mod:`posse.fleet.task_keys`) by its number, for those who know names."""

    def __init__(
        self, *, start: Prior, method: int, robust: bool = False, extendable: bool = False, rule: Rule | None = None
    ) -> None:
        super().__init__(start.n_arms, start.n_features, rule)
        self.method, self.robust, self.extendable, self.start = method, robust, extendable, start
        self._start_precisions = start.shared_precisions
        self.stale = False  # sums were added that the posterior does not know of
        self.shared_behind = False  # sums have faded, and what they say about shared means is computed beside decisions
        self.looked_at = 0.0  # rewards at the last refresh, whether or not they had a population to show
        self.replaced = 0  # rewards that were replaced since then
        self._information = np.empty((self.n_features, self.n_features + 1))
        self.version = 0  # counts changes that a refresh under way does not know of
        self.problem: str | None = None  # why the last refresh failed, if it did
        self._failures, self._retry_at = 0, 0.0
        self.reset_prior()

    @property
    def prior(self) -> Prior:
        """The prior in force, as a value of its own."""
        return prior_of(self.belief)

    # When the population is estimated.

    def refresh_due(self, growth: float, new_rewards: float = 0.0, *, provisional: bool = False) -> bool:
        """Whether rewards have grown enough since the last refresh, or would have with some more.

        A reward that replaces another is as much news as one that is added. While all rewards are zero there is no
        population to estimate, so the next reward is always due to bring one; decisions that count as zero until
        their reward comes (``provisional``) only bring one when they are many beside those before.
        """
        news = self._total + self.replaced + new_rewards  # as in _news, which every reward would ask
        if news < self._retry_at:
            return False
        if self.method == estimators.EVIDENCE:
            at = float(self.memory.evidence.refreshed_at[0])
        else:
            at = float(self.memory.refreshed_at.sum())
            growth = 1.0 if self.method == estimators.KNOWN else growth
        if provisional:
            at = max(at, self.looked_at)
        return news - at >= max(1.0, growth * at)

    @property
    def _news(self) -> float:
        """Rewards learned, and those among them that have replaced another since the last refresh once more."""
        return self._total + self.replaced

    def postpone(self, error: BaseException) -> None:
        """Remember that a refresh failed: the next one is due after twice as many further rewards as the last time."""
        failures = self._failures + 1
        pause = min(2.0**failures, max(2.0, self._total))
        self.__dict__.update(
            _failures=failures, _retry_at=self._news + pause, problem=f"{type(error).__name__}: {error}"
        )

    @property
    def postponed(self) -> bool:
        """Whether a refresh failed not long ago."""
        return self._news < self._retry_at

    # Estimating it.

    def new_refresh(self, slots: IntArray | None = None, arms: IntArray | None = None) -> Refresh | None:
        """Return all that a refresh needs after rewards of these slots; one that is given this cannot fail."""
        if self.method != estimators.EVIDENCE:
            return None
        more = None
        if slots is not None and arms is not None:
            first = self.belief.sums.counts[slots] == 0
            more = np.bincount(arms[first], minlength=self.n_arms)
        n_tasks = self._capacity.belief.task_weight.size
        return Refresh(self.belief, self.memory.evidence, more=more, n_tasks=n_tasks, keys=self.task_keys)

    def refresh(
        self,
        refresh: Refresh | None = None,
        *,
        steps: int = evidence_kernels.STEPS,
        settled: float = evidence_kernels.SETTLED,
        sample: int | None = None,
    ) -> None:
        """Estimate the prior anew; ``refresh`` was made before the last sums came."""
        self.fade_overdue()
        if self.method == estimators.EVIDENCE:
            refresh = self.new_refresh() if refresh is None else refresh
            assert refresh is not None
            refresh.sync_from(self.belief, self.memory.evidence)
            refresh.run(LiveReader(self.belief), steps=steps, settled=settled, sample=sample)
            self.install(refresh)
            return
        self._refresh_in_place()

    def _refresh_in_place(self) -> None:
        """Estimate the prior of every arm where it stands; if that fails, it is again what it was."""
        belief, memory, was_stale = self.belief, self.memory, self.stale
        arrays = [getattr(belief, name) for name in POPULATION if name != "rewards"]
        arrays += [array for name, array in zip(memory._fields, memory, strict=True) if name not in BUFFERS]
        before = [array.copy() for array in arrays]
        self.stale = True  # until all of it is done: whoever looks computes the posterior again
        try:
            for arm in range(self.n_arms):
                if was_stale:
                    rebuild(belief, arm, self.buffers)
                estimators.refresh(belief, memory, arm, self.method, self.buffers, self.n_live_tasks)
            self._all_settled()
        except BaseException:
            with defer_interrupts():
                for array, old in zip(arrays, before, strict=True):
                    array[...] = old
                self.version += 1
            raise
        self.__dict__.update(
            version=self.version + 1, stale=False, looked_at=self._total, replaced=0, problem=None, **NO_FAILURES
        )

    def install(self, refresh: Refresh, replaced: int | None = None) -> None:
        """Put a population that was estimated apart in the place of the old one.

        ``replaced`` is how many rewards had been replaced when the estimate began; default: all. A population that is
        no population stays out: a row of a size beyond all others must not silence every task.
        """
        looked = {
            "looked_at": float(refresh.population.rewards.sum()),
            "replaced": 0 if replaced is None else self.replaced - replaced,
        }
        if not refresh.is_sound():
            self._reject_estimate(refresh, looked)
            return
        belief, capacity, steps = self.belief, self._capacity, Steps()
        for name in POPULATION:
            if name != "rewards":
                steps.append(partial(getattr(belief, name).__setitem__, ..., getattr(refresh.population, name)))
        if refresh.robust:
            weight = refresh.population.task_weight
            steps.append(partial(belief.task_weight.__setitem__, slice(weight.size), weight))
        for mine, new in zip(self.memory.evidence, refresh.evidence, strict=True):
            if isinstance(mine, np.ndarray):
                steps.append(partial(mine.__setitem__, ..., new))
        steps.append(partial(capacity.root.__setitem__, slice(self.n_arms), refresh.root))
        steps.append(partial(set_triangles, belief.covariance, capacity.triangle[: self.n_arms]))
        steps.append(partial(set_kept, refresh.evidence.summaries, capacity.silent[: self.n_arms]))
        steps.append(partial(capacity.generation.__setitem__, 0, capacity.generation[0] + 1))
        steps.append(
            partial(
                self.__dict__.update, looked, version=self.version + 1, stale=False, shared_behind=False, problem=None,
                **NO_FAILURES,
            )
        )  # fmt: skip
        commit(steps)

    def _reject_estimate(self, refresh: Refresh, looked: dict[str, float]) -> None:
        """Keep the population in force, and try again when rewards have grown."""
        logger.warning(
            "the population could not be estimated, since values of too different size were learned (1e20 beside 1, "
            "say), and stays as it is; find such rows, forget their tasks and learn them again without"
        )
        with defer_interrupts():
            self.__dict__.update(looked, **NO_FAILURES)
            if self.memory.evidence.refreshed_at[0] > 0:
                self.memory.evidence.refreshed_at[0] = refresh.evidence.refreshed_at[0]
            if self.stale:
                self.rebuild()

    # What follows from it.

    def rebuild(self) -> None:
        """Compute every posterior again from the sums, under the prior in force."""
        self.fade_overdue()
        for arm in range(self.n_arms):
            self._rebuild_arm(arm, self.belief, self.memory, self._capacity)
        self._all_settled()
        self.stale = self.shared_behind = False

    def _rebuild_arm(self, arm: int, belief: Belief, memory: Memory, capacity: Capacity) -> None:
        learned = self.method == estimators.EVIDENCE and memory.evidence.refreshed_at[0] > 0
        root = capacity.root[arm]
        information = self._information
        if learned:
            evidence_kernels.set_population(
                belief.covariance[arm], memory.evidence.inverse[arm], root, self.buffers.matrices[0]
            )
        else:
            set_roots(belief.covariance[arm : arm + 1], root[None])
        if self.method == estimators.EVIDENCE:
            precision, moment = self.buffers.matrices[5], belief.shared_moment[arm]
            self._sum(belief, arm, root, belief.seen[arm, : belief.n_seen[arm]], information)
            self._add_elsewhere(arm, information)
            unwhiten(root, information, precision, moment)
            finish_shared(
                belief.shared_precision[arm], belief.shared_location[arm], precision, moment,
                belief.shared_covariance[arm], belief.shared_mean[arm], self.buffers.matrices,
            )  # fmt: skip
        else:
            rebuild(belief, arm, self.buffers)  # which allows for a covariance that is singular
        set_triangles(belief.covariance, capacity.triangle[: belief.n_seen.size])

    def _add_elsewhere(self, arm: int, information: Array) -> None:
        """Add what tasks that are not here say about the shared mean of an arm; here are all."""

    def settle(self, tasks: Sequence[int] | None = None) -> None:
        """Bring what all pairs, or those of some tasks, believe to the population in force; for those who look."""
        if tasks is None:
            self.fade_overdue()
        else:
            self.fade_overdue_tasks(np.asarray(tasks, dtype=np.int64))
        now, settled = self._capacity.generation[0], self._capacity.settled
        for arm in range(self.n_arms):
            if tasks is None:
                rows = self.belief.seen[arm, : self.belief.n_seen[arm]]
            else:
                rows = self.belief.slot[np.asarray(tasks, dtype=np.int64), arm]
                rows = rows[rows >= 0]
                rows = rows[self.belief.sums.counts[rows] > 0]
            rows = rows[settled[rows] != now]

            def work(part: int, parts: int, arm: int = arm, rows: IntArray = rows) -> None:
                first, last = rows.size * part // parts, rows.size * (part + 1) // parts
                self._settle_rows(arm, rows[first:last], self.buffers.lanes if parts == 1 else None)

            # If one part fails, all others have ended before the lock is let go.
            with defer_interrupts():
                spread(work, rows.size)
                settled[rows] = now

    def _settle_rows(self, arm: int, rows: IntArray, lanes: Lanes | None = None) -> None:
        if rows.size:
            out = np.empty((self.n_features, self.n_features + 1))
            self._sum(self.belief, arm, self._capacity.root[arm], rows, out, lanes)

    def _sum(
        self, belief: Belief, arm: int, root: Array, rows: IntArray, out: Array, lanes: Lanes | None = None
    ) -> None:
        """Settle pairs of an arm, and write what they say about the shared mean to ``out``."""
        sum_information(
            Pairs(belief.sums, rows, belief.task_of, belief.task_weight), root, belief.noise_variance[arm],
            belief.local_covariance, belief.local_mean, True,
            new_lanes(self.n_features) if lanes is None else lanes, out,
        )  # fmt: skip

    def take_over(self, *, beliefs: bool = True) -> None:
        """Believe what was written to the arrays from outside; without ``beliefs``, pairs settle when asked for."""
        self._all_settled()
        if not beliefs and self.method == estimators.EVIDENCE:
            self._capacity.settled[: self.n_slots] = -1
        elif not beliefs:
            self.rebuild()  # other methods read what pairs believe

    def _all_settled(self) -> None:
        """Note that the posterior of every pair is the one that the population in force implies."""
        set_roots(self.belief.covariance, self._capacity.root[: self.n_arms])
        set_triangles(self.belief.covariance, self._capacity.triangle[: self.n_arms])
        set_kept(self.memory.evidence.summaries, self._capacity.silent[: self.n_arms])
        self._capacity.settled[: self.n_slots] = self._capacity.generation[0]

    def reset_prior(self, fresh: Memory | None = None) -> None:
        """Go back to the start, as if no refresh had ever been; the sums stay."""
        commit(self._resetting(self.new_memory() if fresh is None else fresh))
        self._rebuild_unless_estimated()

    def _rebuild_unless_estimated(self) -> None:
        if self.method != estimators.EVIDENCE or not self.experience:
            self.rebuild()
        # Else a refresh follows, and starts from the sums.

    def _resetting(self, fresh: Memory) -> Steps:
        belief, n = self.belief, self.start.n_arms
        steps: Steps = [partial(belief.task_weight.__setitem__, ..., 1.0)]
        for mine, given in (
            (belief.covariance, self.start.covariance),
            (belief.noise_variance, self.start.noise_variance),
            (belief.shared_precision, self._start_precisions),
            (belief.shared_location, self.start.shared_location),
        ):
            # Arms that came later start as the first one did.
            steps += [
                partial(mine.__setitem__, slice(n), given),
                partial(mine.__setitem__, slice(n, None), given[0]),
            ]
        done = {"memory": fresh, "version": self.version + 1, "stale": True, "looked_at": 0.0, "replaced": 0}
        return [*steps, partial(self.__dict__.update, done, problem=None, **NO_FAILURES)]

    # What an estimate remembers.

    def new_memory(self) -> Memory:
        """Return the memory of a store that has never been refreshed."""
        return self._new_memory(self.n_arms)

    def _new_memory(self, n_arms: int) -> Memory:
        # Least squares of every task is a buffer of the paper's methods and of moments only.
        tasks = 0 if self.method in (estimators.KNOWN, estimators.EVIDENCE) else self._capacity.belief.task_weight.size
        freedom = STUDENT_FREEDOM if self.robust else 0.0
        memory = estimators.new_memory(n_arms, tasks, self.n_features, freedom)
        # Distances from the shared means are taken apart from the fleet.
        return memory._replace(evidence=memory.evidence._replace(distance=np.zeros((n_arms, 0))))

    def reserve_tasks(self, count: int) -> list[int]:
        """Make room for so many new tasks and return the numbers they will have; forgotten ones' come first."""
        numbers = super().reserve_tasks(count)
        room = max(numbers, default=-1) + 1
        # Least squares of every task is a buffer of the paper's methods and of moments only.
        if self.method not in (estimators.KNOWN, estimators.EVIDENCE) and self.memory.order.size < room:
            estimates, order = np.empty((2 * room, self.n_features)), np.empty(2 * room, dtype=np.int64)
            self.memory = self.memory._replace(estimates=estimates, order=order)
        return numbers
