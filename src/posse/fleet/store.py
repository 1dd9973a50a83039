"""The arrays of a fleet: they grow with tasks, arms and pairs, and hold what all rewards say."""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from posse.engine.drift import LEAST, scale_sums
from posse.engine.refresh import POPULATION, Live, Refresh
from posse.errors import InvalidValue
from posse.fleet.commit import Step, Steps, commit
from posse.fleet.room import Room, new_room, with_more_arms, with_more_slots, with_more_tasks
from posse.kernels import estimators
from posse.kernels import evidence as evidence_kernels
from posse.kernels.estimators import Memory
from posse.kernels.fleet import (
    add_to_slots,
    claim_rows,
    count_rows,
    list_first,
    observe_one,
    observe_rows,
    sort_by_slots,
)
from posse.kernels.ground import GROUND, Ground, set_roots, set_triangles
from posse.kernels.lanes import Lanes, Pairs, new_lanes, sum_information
from posse.kernels.llvm.handle import Handle
from posse.kernels.passes import unwhiten
from posse.kernels.posterior import Belief, finish_shared, new_buffers, rebuild
from posse.kernels.propensity import score_room
from posse.kernels.replace import exchange_rows, replace_rows
from posse.kernels.rule import Rule
from posse.kernels.select import SAMPLING
from posse.kernels.sums import Sums
from posse.model.belief import prior_of
from posse.model.evidence import STUDENT_FREEDOM, expected_arm
from posse.model.prior import one_arm
from posse.threads import MANY_ROWS, pool, spread, workers
from posse.undisturbed import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from posse.fleet.kept import Kept
    from posse.model.prior import Prior
    from posse.types import Array, IntArray

logger = logging.getLogger("posse")

FIRST_ROOM = 64  # rows and tasks that a new fleet has room for
FIRST_ARMS = 8
BUFFERS = ("estimates", "order", "losses", "evidence")  # of a memory: what the next refresh does not read
NO_FAILURES = {"_failures": 0, "_retry_at": 0.0}  # of refreshes
FEW_PAIRS = 20_000  # whose shared means are computed again when one task starts anew
NEIGHBOURS = 10  # 2**10 slots that are worked on together: half a megabyte at d=10


class Parts(NamedTuple):
    """Rows in an order that suits their slots, and where threads cut it."""

    order: IntArray
    cuts: list[int]


class Store:
    """What a fleet has learned, and what it believes because of it.

    Everything is by number: arms, tasks, and slots (rows of one (arm, task) each). Nothing is checked here, and
    nothing locked. Methods named after what is being done (``adding_rows``) do all of it that can fail and return the
    steps that are left, for :func:`posse.fleet.commit.commit`; nothing else may change between the two.

    Parameters
    ----------
    n_arms : int
    start : Prior
        What stands until rewards say otherwise, or for good if the method is "known".
    method : int
        One of the codes in :mod:`posse.kernels.estimators`.
    robust : bool
    extendable : bool
        Whether an arm may be added under a known prior; it then has that of the first.
    """

    belief: Belief
    """The arrays in use, cut to the arms and tasks that there are; symmetric matrices over slots are triangles."""

    memory: Memory

    kept: Kept | None
    """Where sums are copied before they change, while a refresh reads them as they were."""

    task_keys: Callable[[], npt.NDArray[np.uint64]] | None = None
    """Returns the key of every task (:mod:`posse.fleet.task_keys`) by its number, for those who know names."""

    def __init__(
        self,
        *,
        start: Prior,
        method: int,
        robust: bool = False,
        extendable: bool = False,
        rule: Rule | None = None,
    ) -> None:
        self.method = method
        self.robust = robust
        self.extendable = extendable
        self.start = start
        d = self.n_features = start.n_features
        self.n_arms, self.n_tasks, self.n_slots = start.n_arms, 0, 0
        self._start_precisions = start.shared_precisions
        self.experience, self._total = 0, 0.0
        self.stale = False  # sums were added that the posterior does not know of
        self.shared_behind = False  # sums have faded, and what they say about shared means is computed beside decisions
        self.looked_at = 0.0  # rewards at the last refresh, whether or not they had a population to show
        self.replaced = 0  # rewards that were replaced since then
        self.free_slots: list[int] = []
        self.free_tasks: list[int] = []
        self.buffers = new_buffers(d)
        self._information = np.empty((d, d + 1))
        self.rule = Rule(SAMPLING, 0.0, 0.0) if rule is None else rule
        self.kept = None
        self.frozen: WeakSet[Kept] = WeakSet()  # the same for snapshots, until they are written
        self.version = 0  # counts changes that a refresh under way does not know of
        self.problem: str | None = None  # why the last refresh failed, if it did
        self._failures, self._retry_at = 0, 0.0
        arms = max(FIRST_ARMS, start.n_arms)
        self._room = new_room(arms, FIRST_ROOM, FIRST_ROOM, d)
        self._one, self._scores, self._lanes = (
            np.zeros(1, dtype=np.int64),
            np.empty((5, score_room(arms))),
            new_lanes(d),
        )
        self.ground = self._ground(self._room, self._scores)
        self.belief = self._cut(self._room, self.n_arms, self.n_tasks)
        self.reset_prior()

    @property
    def prior(self) -> Prior:
        """The prior in force, as a value of its own."""
        return prior_of(self.belief)

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return float(self.belief.rewards.sum())

    def count_rewards(self) -> None:
        """Note how many rewards there are, for those who ask at every decision."""
        self._total = float(self.belief.rewards.sum())
        self.experience = int(self._total)

    def reserve_tasks(self, count: int) -> list[int]:
        """Make room for so many new tasks and return the numbers they will have; forgotten ones' come first."""
        reused = self.free_tasks[len(self.free_tasks) - min(count, len(self.free_tasks)) :][::-1]
        last = self.n_tasks + count - len(reused)
        self._fit_memory(n_tasks=last)
        if last > self._room.belief.task_weight.size:
            self._show(with_more_tasks(self._room, last))
        return [*reused, *range(self.n_tasks, last)]

    def taking_tasks(self, count: int) -> Steps:
        """Take the numbers that were reserved last."""
        reused = min(count, len(self.free_tasks))
        n_tasks = self.n_tasks + count - reused
        belief = self._cut(self._room, self.n_arms, n_tasks)
        return [
            partial(self.free_tasks.__delitem__, slice(len(self.free_tasks) - reused, None)),
            partial(self.__dict__.update, n_tasks=n_tasks, belief=belief),
        ]

    def take_tasks(self, count: int) -> None:
        """Take the numbers that were reserved last."""
        commit(self.taking_tasks(count))

    def add_tasks(self, count: int) -> list[int]:
        """Return the numbers of so many new tasks."""
        numbers = self.reserve_tasks(count)
        self.take_tasks(count)
        return numbers

    @property
    def n_live_tasks(self) -> int:
        """Tasks that there are, forgotten ones not counted."""
        return self.n_tasks - len(self.free_tasks)

    def adding_arm(self) -> Steps:
        """Add an arm, which has the next number; it starts from what the others have in common."""
        if self.method == estimators.KNOWN and not self.extendable:
            raise InvalidValue(
                "this fleet's population was given and not learned, so nothing is known about a new arm; "
                "make a fleet with a Prior that has it"
            )
        arm = self.n_arms
        room = self._room
        if arm == room.belief.n_seen.size:
            room = with_more_arms(room, arm + 1)
        scores = np.empty((5, score_room(room.belief.n_seen.size)))
        memory = _with_one_arm_more(self.memory, self._new_memory(self.n_arms + 1))
        evidence = memory.evidence
        learned = self.method == estimators.EVIDENCE and evidence.refreshed_at[0] > 0
        newcomer = expected_arm(evidence) if learned else one_arm(self.start)
        evidence.inverse[arm] = np.linalg.inv(newcomer.covariance[0])
        ground = self._ground(room, scores)
        belief = self._cut(room, arm + 1, self.n_tasks)
        # Nobody reads these rows before there is such an arm.
        belief.covariance[arm] = newcomer.covariance[0]
        belief.noise_variance[arm] = newcomer.noise_variance[0]
        belief.shared_precision[arm] = newcomer.shared_precisions[0]
        belief.shared_location[arm] = newcomer.shared_location[0]
        self._rebuild_arm(arm, belief, memory, room)
        version = self.version + 1
        arrays = {"_room": room, "memory": memory, "_scores": scores, "ground": ground, "belief": belief}
        return [partial(self.__dict__.update, arrays, version=version, n_arms=arm + 1)]

    def add_arm(self) -> int:
        """Return the number of a new arm."""
        commit(self.adding_arm())
        return self.n_arms - 1

    def shrink(self, n_arms: int, memory: Memory) -> None:
        """Take back arms that were added and have no rewards yet; ``memory`` is that of before."""
        # The buffers may have grown since.
        memory = memory._replace(estimates=self.memory.estimates, order=self.memory.order)
        belief = self._cut(self._room, n_arms, self.n_tasks)
        self.__dict__.update(memory=memory, version=self.version + 1, n_arms=n_arms, belief=belief)

    def learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        """Learn one reward of a pair that has a slot."""
        commit(self.learning_one(task, arm, x, reward))

    def learning_one(self, task: int, arm: int, x: Array, reward: float) -> Steps:
        """Learn one reward of a pair that has a slot: exact under the prior in force."""
        return [partial(observe_one, self.ground.address, arm, task, x, reward), self._counting(self._total + 1.0)]

    def learning_waiting(self, task: int, arm: int, x: Array, reward: float) -> Steps:
        """Learn what a decision counts as until its reward comes; its pair has a slot."""
        return self.learning_one(task, arm, x, reward)

    def learning_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> Steps:
        """Learn rows of pairs that have slots, one by one: exact under the prior in force."""
        return [
            partial(observe_rows, self.address, tasks, arms, contexts, rewards),
            self._counting(self._total + rewards.size),
        ]

    def arm_of(self, slots: IntArray) -> IntArray:
        """Return the arms of slots that have rewards."""
        arms = (self.belief.slot[self.belief.task_of[slots]] == slots[:, None]).argmax(axis=1)
        return np.asarray(arms, dtype=np.int64)

    def slot_of(self, task: int, arm: int) -> int:
        """Return the slot of a pair, negative if it has none; the task may only have been reserved."""
        return int(self._room.belief.slot[task, arm])

    def learn_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
        """Learn rows of pairs that have slots, one by one."""
        commit(self.learning_rows(tasks, arms, contexts, rewards))

    def replacing_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, old: Array, new: Array) -> Steps:
        """Put rewards in the place of those that were learned before, one by one: exact under the prior in force."""
        return [
            partial(replace_rows, self.address, tasks, arms, contexts, old, new),
            partial(self.__dict__.update, replaced=self.replaced + tasks.size),
        ]

    def replace_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, old: Array, new: Array) -> None:
        """Put rewards in the place of those that were learned before, one by one."""
        commit(self.replacing_rows(tasks, arms, contexts, old, new))

    def exchanging_rows(self, slots: IntArray, contexts: Array, old: Array, new: Array) -> Steps:
        """Replace rewards in the sums of their slots only; the posterior must be refreshed before it is used."""
        done = {"stale": True, "version": self.version + 1, "replaced": self.replaced + slots.size}
        return [
            partial(self.__dict__.update, done),
            partial(exchange_rows, self.belief.sums, self._room.settled, slots, contexts, old, new),
        ]

    def exchange_rows(self, slots: IntArray, contexts: Array, old: Array, new: Array) -> None:
        """Replace rewards in the sums of their slots only."""
        commit(self.exchanging_rows(slots, contexts, old, new))

    def _counting(self, total: float, **others: Any) -> Step:
        """Note that there are so many rewards."""
        return partial(self.__dict__.update, _total=total, experience=int(total), **others)

    def keep(self, slots: IntArray, arms: IntArray) -> None:
        """Copy the sums of slots that are about to change, if someone reads them as they were."""
        for kept in (self.kept, *self.frozen) if self.is_read else ():
            if kept is not None:
                kept.keep(self.belief.sums, slots, arms)

    @property
    def is_read(self) -> bool:
        """Whether someone reads sums as they were."""
        return self.kept is not None or len(self.frozen) > 0

    def adding_rows(self, slots: IntArray, arms: IntArray, contexts: Array, rewards: Array, parts: Parts) -> Steps:
        """Add rows to the sums of their slots only; the posterior must be refreshed before it is used.

        ``parts`` are those of :meth:`parts_of`.
        """
        belief = self.belief
        pieces: list[Step] = [
            partial(add_to_slots, belief.sums, self._room.settled, slots, contexts, rewards, parts.order[first:last])
            for first, last in pairwise(parts.cuts)
        ]
        return [
            self._counting(self._total + rewards.size, stale=True, version=self.version + 1),
            partial(list_first, belief.sums.counts, slots, arms, belief.seen, belief.n_seen),
            pieces[0] if len(pieces) == 1 else pieces,
            partial(count_rows, arms, belief.rewards),
        ]

    def add_rows(self, slots: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
        """Add rows to the sums of their slots only."""
        commit(self.adding_rows(slots, arms, contexts, rewards, self.parts_of(slots)))

    def parts_of(self, slots: IntArray) -> Parts:
        """Return an order of rows in which slots that are neighbours come together, and where to cut it for threads.

        Every slot is in one part and gets its rows in their order. What a thread works on fits its cache.
        """
        if slots.size < MANY_ROWS:
            return Parts(np.arange(slots.size), [0, slots.size])
        first = np.empty((self.n_slots >> NEIGHBOURS) + 2, dtype=np.int64)
        order = np.empty(slots.size, dtype=np.int64)
        sort_by_slots(slots, NEIGHBOURS, first, order)
        pool()  # if there are no threads to be had, that is found out here
        even = np.linspace(0, slots.size, 4 * workers() + 1)
        return Parts(order, np.unique(first[np.searchsorted(first, even)]).tolist())

    def adding_sums(self, slots: IntArray, arms: IntArray, sums: Sums) -> Steps:
        """Add sums of pairs, no pair twice; the posterior must be refreshed before it is used."""
        belief = self.belief
        self.keep(slots, arms)
        rewards = belief.rewards + np.bincount(arms, weights=sums.counts, minlength=self.n_arms)
        return [
            self._counting(float(rewards.sum()), stale=True, version=self.version + 1),
            partial(list_first, belief.sums.counts, slots, arms, belief.seen, belief.n_seen),
            *(
                partial(mine.__setitem__, slots, mine[slots] + others)
                for mine, others in zip(belief.sums, sums, strict=True)
            ),
            partial(self._room.settled.__setitem__, slots, -1),
            partial(belief.rewards.__setitem__, ..., rewards),
        ]

    def add_sums(self, slots: IntArray, arms: IntArray, sums: Sums) -> None:
        """Add sums of pairs, no pair twice."""
        commit(self.adding_sums(slots, arms, sums))

    def dropping_tasks(self, tasks: IntArray, fresh: Memory) -> Steps:
        """Forget tasks and the prior that they helped to learn; ``fresh`` is a new memory.

        The posterior must be refreshed before it is used.
        """
        belief = self.belief
        slots = belief.slot[tasks, : self.n_arms].ravel()
        taken = slots >= 0
        slots = slots[taken]
        self.keep(slots, np.tile(np.arange(self.n_arms), len(tasks))[taken])
        lost = np.zeros(belief.task_of.size, dtype=np.bool_)
        lost[slots] = True
        seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
        kept = [rows[~lost[rows]] for rows in seen]
        rewards = np.array([belief.sums.counts[rows].sum() for rows in kept])
        steps: Steps = [partial(field.__setitem__, slots, 0.0) for field in belief.sums]
        steps.append(partial(belief.slot.__setitem__, tasks, -1))
        for arm, rows in enumerate(kept):
            steps.append(partial(belief.seen.__setitem__, (arm, slice(rows.size)), rows))
        return [
            *steps,
            partial(belief.n_seen.__setitem__, ..., np.array([rows.size for rows in kept])),
            partial(belief.rewards.__setitem__, ..., rewards),
            self._counting(float(rewards.sum())),
            partial(self.free_slots.extend, slots.tolist()),
            partial(self.free_tasks.extend, tasks.tolist()),
            *self._resetting(fresh),
        ]

    def drop_tasks(self, tasks: IntArray, fresh: Memory) -> None:
        """Forget tasks and the prior that they helped to learn."""
        commit(self.dropping_tasks(tasks, fresh))
        self._rebuild_unless_estimated()

    def fade(
        self,
        factor: Array,
        squares: Array,
        slots: IntArray | None = None,
        raise_rows: Callable[[IntArray, float], None] | None = None,
        later: bool = False,
    ) -> None:
        """Let sums count less, those of some slots or of the first so many, and compute what follows from them.

        What follows for the shared means is left to whoever asked for ``later``, where there are many pairs.

        Parameters
        ----------
        factor : ndarray
            What sums are multiplied by, above 0 and at most 1.
        squares : ndarray of shape (n_features,)
            As in :func:`posse.engine.drift.scale_sums`.
        slots : ndarray, optional
        raise_rows : callable, optional
            As there.
        """
        belief = self.belief
        if self.frozen:
            seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
            everyone, arms = np.concatenate(seen), np.repeat(np.arange(self.n_arms), [rows.size for rows in seen])
            for kept in self.frozen:
                kept.keep(belief.sums, everyone, arms)
        with undisturbed():
            scale_sums(belief.sums, factor, squares, slots, raise_rows)
            before = belief.rewards.copy()
            for arm in range(self.n_arms):
                belief.rewards[arm] = belief.sums.counts[belief.seen[arm, : belief.n_seen[arm]]].sum()
            # So that a refresh is due when rewards have grown by as much beside those that still count.
            share = belief.rewards / np.maximum(before, LEAST)
            self.memory.refreshed_at[:] *= share
            self.memory.threshold_rewards[:] *= share
            total = float(belief.rewards.sum())
            left, at = total / max(float(before.sum()), LEAST), self.memory.evidence.refreshed_at
            at[0] = min(at[0] * left, total)
            self._room.settled[: self.n_slots] = -1
            self.__dict__.update(
                _total=total,
                experience=int(total),
                looked_at=self.looked_at * left,
                _retry_at=self._retry_at * left,
                version=self.version + 1,  # an estimate under way is of sums that are no more
            )
            few = belief.n_seen.sum() <= FEW_PAIRS
            if later and slots is None and not few and not self.stale:
                self.shared_behind = True
            elif not self.stale and (slots is None or few):
                self.rebuild()
            # Else the next estimate takes notice: one task more or less hardly moves the shared means of very many.

    def refresh_due(self, growth: float, new_rewards: float = 0.0, *, provisional: bool = False) -> bool:
        """Whether rewards have grown enough since the last refresh, or would have with some more.

        A reward that replaces another is as much news as one that is added. While all rewards are zero there is no
        population to estimate, so the next reward is always due to bring one; decisions that count as zero until
        their reward comes (``provisional``) only bring one when they are many beside those before.
        """
        news = self._news + new_rewards
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

    def new_refresh(self, slots: IntArray | None = None, arms: IntArray | None = None) -> Refresh | None:
        """Return all that a refresh needs after rewards of these slots; one that is given this cannot fail."""
        if self.method != estimators.EVIDENCE:
            return None
        more = None
        if slots is not None and arms is not None:
            first = self.belief.sums.counts[slots] == 0
            more = np.bincount(arms[first], minlength=self.n_arms)
        n_tasks = self._room.belief.task_weight.size
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
        if self.method == estimators.EVIDENCE:
            refresh = self.new_refresh() if refresh is None else refresh
            assert refresh is not None
            refresh.look_again(self.belief, self.memory.evidence)
            refresh.run(Live(self.belief), steps=steps, settled=settled, sample=sample)
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
            with undisturbed():
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
            self._stay(refresh, looked)
            return
        belief, room, steps = self.belief, self._room, Steps()
        for name in POPULATION:
            if name != "rewards":
                steps.append(partial(getattr(belief, name).__setitem__, ..., getattr(refresh.population, name)))
        if refresh.robust:
            weight = refresh.population.task_weight
            steps.append(partial(belief.task_weight.__setitem__, slice(weight.size), weight))
        for mine, new in zip(self.memory.evidence, refresh.evidence, strict=True):
            if isinstance(mine, np.ndarray):
                steps.append(partial(mine.__setitem__, ..., new))
        steps.append(partial(room.root.__setitem__, slice(self.n_arms), refresh.root))
        steps.append(partial(set_triangles, belief.covariance, room.triangle[: self.n_arms]))
        steps.append(partial(room.generation.__setitem__, 0, room.generation[0] + 1))
        steps.append(
            partial(
                self.__dict__.update, looked, version=self.version + 1, stale=False, shared_behind=False, problem=None,
                **NO_FAILURES,
            )
        )  # fmt: skip
        commit(steps)

    def _stay(self, refresh: Refresh, looked: dict[str, float]) -> None:
        """Keep the population in force, and try again when rewards have grown."""
        logger.warning(
            "the population could not be estimated, since values of too different size were learned (1e20 beside 1, "
            "say), and stays as it is; find such rows, forget their tasks and learn them again without"
        )
        with undisturbed():
            self.__dict__.update(looked, **NO_FAILURES)
            if self.memory.evidence.refreshed_at[0] > 0:
                self.memory.evidence.refreshed_at[0] = refresh.evidence.refreshed_at[0]
            if self.stale:
                self.rebuild()

    def rebuild(self) -> None:
        """Compute every posterior again from the sums, under the prior in force."""
        for arm in range(self.n_arms):
            self._rebuild_arm(arm, self.belief, self.memory, self._room)
        self._all_settled()
        self.stale = self.shared_behind = False

    def _rebuild_arm(self, arm: int, belief: Belief, memory: Memory, room: Room) -> None:
        learned = self.method == estimators.EVIDENCE and memory.evidence.refreshed_at[0] > 0
        root = room.root[arm]
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
        set_triangles(belief.covariance, room.triangle[: belief.n_seen.size])

    def _add_elsewhere(self, arm: int, information: Array) -> None:
        """Add what tasks that are not here say about the shared mean of an arm; here are all."""

    def settle(self, tasks: Sequence[int] | None = None) -> None:
        """Bring what all pairs, or those of some tasks, believe to the population in force; for those who look."""
        now, settled = self._room.generation[0], self._room.settled
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
            with undisturbed():
                spread(work, rows.size)
                settled[rows] = now

    def _settle_rows(self, arm: int, rows: IntArray, lanes: Lanes | None = None) -> None:
        if rows.size:
            out = np.empty((self.n_features, self.n_features + 1))
            self._sum(self.belief, arm, self._room.root[arm], rows, out, lanes)

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
            self._room.settled[: self.n_slots] = -1
        elif not beliefs:
            self.rebuild()  # other methods read what pairs believe

    def _all_settled(self) -> None:
        """Note that the posterior of every pair is the one that the population in force implies."""
        set_roots(self.belief.covariance, self._room.root[: self.n_arms])
        set_triangles(self.belief.covariance, self._room.triangle[: self.n_arms])
        self._room.settled[: self.n_slots] = self._room.generation[0]

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

    def copy_of_sums(self) -> tuple[IntArray, IntArray, Sums]:
        """Return tasks, arms and sums of every pair with rewards, in the order of their slots."""
        seen = [self.belief.seen[arm, : self.belief.n_seen[arm]] for arm in range(self.n_arms)]
        slots = np.concatenate(seen)
        arms = np.repeat(np.arange(self.n_arms), [rows.size for rows in seen])
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        return self.belief.task_of[slots], arms[order], Sums(*(field[slots] for field in self.belief.sums))

    def copy_of_contexts(self, sums: Sums) -> Array:
        """Return the sums of the contexts of every pair of :meth:`copy_of_sums`, where there is an intercept."""
        return sums.gram[:, : self.n_features]  # its row of the Gram matrix

    def claim(self, tasks: IntArray, arms: IntArray) -> IntArray:
        """Return the slot of every row; pairs that have none get one, in the order of their rows.

        A slot without rewards is as good as none, so this may be done before something that can still fail. Tasks may
        be such that have only been reserved.
        """
        slots = np.empty(tasks.size, dtype=np.int64)
        index = self._room.belief.slot
        new = np.empty((2, min(tasks.size, index.size)), dtype=np.int64)
        # No more than could be taken: after many tasks were forgotten, the list is long.
        free = np.array(self.free_slots[max(len(self.free_slots) - tasks.size, 0) :][::-1], dtype=np.int64)
        with undisturbed():
            count = claim_rows(index, tasks, arms, free, self.n_slots, slots, new)
            if not count:
                return slots
            fresh = max(count - free.size, 0)
            try:
                taken = index[new[0, :count], new[1, :count]]
                if self.n_slots + fresh > self._room.settled.size:
                    self._show(with_more_slots(self._room, self.n_slots + fresh))
            except BaseException:
                index[new[0, :count], new[1, :count]] = -1
                raise
            if count <= free.size:
                del self.free_slots[len(self.free_slots) - count :]
            else:
                self.free_slots.clear()
            self.n_slots += fresh
            self.belief.task_of[taken] = new[0, :count]
        return slots

    @property
    def address(self) -> int:
        """Where compiled code finds the arrays."""
        return self.ground.address

    def _ground(self, room: Room, scores: Array) -> Handle[Ground]:
        """Return what compiled code opens to decide and to learn."""
        return Handle(
            GROUND,
            Ground(
                belief=room.belief,
                root=room.root,
                triangle=room.triangle,
                settled=room.settled,
                generation=room.generation,
                rule=self.rule,
                lanes=self._lanes,
                vectors=self.buffers.vectors,
                scores=scores,
                one=self._one,
            ),
        )

    def _show(self, room: Room) -> None:
        """Work in another room from now on."""
        ground, belief = self._ground(room, self._scores), self._cut(room, self.n_arms, self.n_tasks)
        # All at once: compiled code and plain code must look at the same arrays.
        self.__dict__.update(_room=room, ground=ground, belief=belief)

    def _cut(self, whole: Room, n_arms: int, n_tasks: int) -> Belief:
        """Return so many arms and tasks of the room that there is."""
        room, arms, tasks = whole.belief, slice(n_arms), slice(n_tasks)
        return Belief(
            sums=room.sums,
            slot=room.slot[tasks],
            task_of=room.task_of,
            seen=room.seen[arms],
            n_seen=room.n_seen[arms],
            rewards=room.rewards[arms],
            covariance=room.covariance[arms],
            noise_variance=room.noise_variance[arms],
            shared_precision=room.shared_precision[arms],
            shared_location=room.shared_location[arms],
            task_weight=room.task_weight[tasks],
            local_covariance=room.local_covariance,
            local_mean=room.local_mean,
            shared_covariance=room.shared_covariance[arms],
            shared_moment=room.shared_moment[arms],
            shared_mean=room.shared_mean[arms],
        )

    def new_memory(self) -> Memory:
        """Return the memory of a store that has never been refreshed."""
        return self._new_memory(self.n_arms)

    def _new_memory(self, n_arms: int) -> Memory:
        # Least squares of every task is a buffer of the paper's methods and of moments only.
        tasks = 0 if self.method in (estimators.KNOWN, estimators.EVIDENCE) else self._room.belief.task_weight.size
        freedom = STUDENT_FREEDOM if self.robust else 0.0
        memory = estimators.new_memory(n_arms, tasks, self.n_features, freedom)
        # Distances from the shared means are taken apart from the fleet.
        return memory._replace(evidence=memory.evidence._replace(distance=np.zeros((n_arms, 0))))

    def _fit_memory(self, *, n_tasks: int) -> None:
        """Give the memory's buffers room for so many tasks."""
        if self.method not in (estimators.KNOWN, estimators.EVIDENCE) and self.memory.order.size < n_tasks:
            room = 2 * n_tasks
            estimates, order = np.empty((room, self.n_features)), np.empty(room, dtype=np.int64)
            self.memory = self.memory._replace(estimates=estimates, order=order)


def _with_one_arm_more(old: Memory, new: Memory) -> Memory:
    """Return the memory ``new`` with what ``old`` remembers about one arm less."""
    parts: tuple[tuple[Any, Any], ...] = ((new, old), (new.evidence, old.evidence))
    for mine, theirs in parts:
        for array, source in zip(mine, theirs, strict=True):
            if not isinstance(array, np.ndarray):
                continue
            if array.shape == source.shape:
                array[...] = source
            elif array.shape[0] == source.shape[0] + 1:
                array[:-1] = source
    return new
