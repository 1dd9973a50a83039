"""Learning and forgetting: how rewards enter the sums of an engine and leave them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.engine.capacity import with_more_arms
from posse.engine.commit import Step, Steps, commit
from posse.engine.drift import LEAST, WORTH, scaling
from posse.engine.overdue import Overdue
from posse.engine.posteriors import Posteriors
from posse.errors import InvalidValue
from posse.kernels import estimators
from posse.kernels.fading import age_counts
from posse.kernels.fleet import add_to_slots, count_rows, list_first, observe_one, observe_rows, sort_by_slots
from posse.kernels.propensity import score_room
from posse.kernels.replace import exchange_rows, replace_rows
from posse.model.prior import one_arm
from posse.model.refresh import expected_arm
from posse.threads import MANY_ROWS, pool, workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from posse.kernels.estimators import Memory
    from posse.kernels.sums import Sums
    from posse.types import Array, IntArray

FEW_PAIRS = 20_000  # whose shared means are computed again when one task starts anew
NEIGHBOURS = 10  # 2**10 slots that are worked on together: half a megabyte at d=10


class Parts(NamedTuple):
    """Rows in an order that suits their slots, and where threads cut it."""

    order: IntArray
    cuts: list[int]


class Store(Posteriors):
    """What an engine has learned and believes; rewards are added to its sums, replaced and taken away.

    Parameters are those of :class:`posse.engine.posteriors.Posteriors`.
    """

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
            partial(exchange_rows, self.belief.sums, self._capacity.settled, slots, contexts, old, new),
        ]

    def exchange_rows(self, slots: IntArray, contexts: Array, old: Array, new: Array) -> None:
        """Replace rewards in the sums of their slots only."""
        commit(self.exchanging_rows(slots, contexts, old, new))

    def adding_rows(self, slots: IntArray, arms: IntArray, contexts: Array, rewards: Array, parts: Parts) -> Steps:
        """Add rows to the sums of their slots only; the posterior must be refreshed before it is used.

        ``parts`` are those of :meth:`parts_of`.
        """
        belief = self.belief
        pieces: list[Step] = [
            partial(
                add_to_slots, belief.sums, self._capacity.settled, slots, contexts, rewards, parts.order[first:last]
            )
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
            partial(self._capacity.settled.__setitem__, slots, -1),
            partial(belief.rewards.__setitem__, ..., rewards),
        ]

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
        raised: Callable[[IntArray, Sums, float], Sums] | None = None,
        more: Steps | None = None,
    ) -> None:
        """Let sums count less, those of some slots or of the first so many, and compute what follows from them.

        All sums fade or none, and ``more`` goes with them. If what follows cannot be computed now, whoever looks next
        does it.

        Parameters
        ----------
        factor : ndarray
            What sums are multiplied by, above 0 and at most 1.
        squares : ndarray of shape (n_features,)
            As in :func:`posse.engine.drift.scaling`.
        slots : ndarray, optional
        raised : callable, optional
            As there.
        more : list of steps, optional
        """
        belief = self.belief
        self.fade_overdue(slots)
        if self.frozen:
            seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
            everyone, arms = np.concatenate(seen), np.repeat(np.arange(self.n_arms), [rows.size for rows in seen])
            for kept in self.frozen:
                kept.keep(belief.sums, everyone, arms)
        steps = scaling(belief.sums, factor, squares, slots, raised)
        counts = belief.sums.counts[: self.n_slots].copy()
        counts[slice(factor.size) if slots is None else slots] *= factor
        rewards = np.array(
            [counts[belief.seen[arm, : belief.n_seen[arm]]].sum() for arm in range(self.n_arms)], dtype=np.float64
        )
        # Else the next estimate takes notice: one task more or less hardly moves the shared means of very many.
        rebuilds = not self.stale and (slots is None or not self.has_many_pairs)
        commit(
            [
                *steps,
                partial(self._capacity.settled.__setitem__, slice(self.n_slots), -1),
                *self._counting_less(rewards, stale=self.stale or rebuilds),
                *(more or ()),
            ]
        )
        if rebuilds:
            self.rebuild()

    def fade_later(self, elapsed: float, half_life: float, squares: Array, more: Steps) -> None:
        """Let all sums count less after some time, each when it is next looked at; counts do so now.

        What follows for the shared means is left to whoever sees that they are behind. ``more`` goes with it.
        """
        belief, n, generation = self.belief, self.n_slots, self._capacity.generation
        counts, share, rewards = np.zeros(n), np.ones(n), np.empty(self.n_arms)
        if self.overdue is not None:
            share[: self.overdue.share.size] = self.overdue.share
        stays = float(np.exp2(-2.0 * elapsed / half_life))
        age_counts(belief.sums.counts, share, belief.seen, belief.n_seen, stays, WORTH, LEAST, counts, rewards)
        commit(
            [
                partial(belief.sums.counts.__setitem__, slice(n), counts),
                partial(generation.__setitem__, 0, generation[0] + 1),  # no pair is settled
                *self._counting_less(rewards, shared_behind=True, overdue=Overdue(share, squares.copy())),
                *more,
            ]
        )

    @property
    def has_many_pairs(self) -> bool:
        """Whether there are so many that nobody should wait for all of them."""
        return int(self.belief.n_seen.sum()) > FEW_PAIRS

    def _counting_less(self, rewards: Array, **others: Any) -> Steps:
        """Note that arms have fewer rewards, so that a refresh is due when these have grown by as much."""
        belief, memory, before = self.belief, self.memory, self.belief.rewards
        share, total = rewards / np.maximum(before, LEAST), float(rewards.sum())
        left, at = total / max(float(before.sum()), LEAST), memory.evidence.refreshed_at
        return [
            partial(belief.rewards.__setitem__, ..., rewards),
            partial(memory.refreshed_at.__setitem__, ..., memory.refreshed_at * share),
            partial(memory.threshold_rewards.__setitem__, ..., memory.threshold_rewards * share),
            partial(at.__setitem__, 0, min(at[0] * left, total)),
            self._counting(
                total,
                looked_at=self.looked_at * left,
                _retry_at=self._retry_at * left,
                version=self.version + 1,  # an estimate under way is of sums that are no more
                **others,
            ),
        ]

    def adding_arm(self) -> Steps:
        """Add an arm, which has the next number; it starts from what the others have in common."""
        if self.method == estimators.KNOWN and not self.extendable:
            raise InvalidValue(
                "this fleet's population was given and not learned, so nothing is known about a new arm; "
                "make a fleet with a Prior that has it"
            )
        arm = self.n_arms
        capacity = self._capacity
        if arm == capacity.belief.n_seen.size:
            capacity = with_more_arms(capacity, arm + 1)
        scores = np.empty((5, score_room(capacity.belief.n_seen.size)))
        memory = _with_one_arm_more(self.memory, self._new_memory(self.n_arms + 1))
        evidence = memory.evidence
        learned = self.method == estimators.EVIDENCE and evidence.refreshed_at[0] > 0
        newcomer = expected_arm(evidence) if learned else one_arm(self.start)
        evidence.inverse[arm] = np.linalg.inv(newcomer.covariance[0])
        ground = self._ground(capacity, scores)
        belief = self._views(capacity, arm + 1, self.n_tasks)
        # Nobody reads these rows before there is such an arm.
        belief.covariance[arm] = newcomer.covariance[0]
        belief.noise_variance[arm] = newcomer.noise_variance[0]
        belief.shared_precision[arm] = newcomer.shared_precisions[0]
        belief.shared_location[arm] = newcomer.shared_location[0]
        self._rebuild_arm(arm, belief, memory, capacity)
        version = self.version + 1
        arrays = {"_capacity": capacity, "memory": memory, "_scores": scores, "ground": ground, "belief": belief}
        return [partial(self.__dict__.update, arrays, version=version, n_arms=arm + 1)]

    def add_arm(self) -> int:
        """Return the number of a new arm."""
        commit(self.adding_arm())
        return self.n_arms - 1

    def shrink(self, n_arms: int, memory: Memory) -> None:
        """Take back arms that were added and have no rewards yet; ``memory`` is that of before."""
        # The buffers may have grown since.
        memory = memory._replace(estimates=self.memory.estimates, order=self.memory.order)
        belief = self._views(self._capacity, n_arms, self.n_tasks)
        self.__dict__.update(memory=memory, version=self.version + 1, n_arms=n_arms, belief=belief)


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
