"""The arrays of an engine: rows for tasks, arms and pairs that are numbered, and that grow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from posse.engine.capacity import Capacity, new_capacity, with_more_slots, with_more_tasks
from posse.engine.commit import Step, Steps, commit
from posse.interrupts import defer_interrupts
from posse.kernels.decision_arrays import DECISION_ARRAYS, DecisionArrays
from posse.kernels.fleet import claim_rows
from posse.kernels.lanes import new_lanes
from posse.kernels.llvm.handle import Handle
from posse.kernels.posterior import Belief, new_buffers
from posse.kernels.propensity import score_room
from posse.kernels.rule import Rule
from posse.kernels.select import SAMPLING
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.engine.overdue import Overdue
    from posse.engine.sums_snapshot import ChangedSums
    from posse.types import Array, IntArray

FIRST_ROOM = 64  # rows and tasks that a new engine has room for
FIRST_ARMS = 8
FADING_ROWS = 4096  # pairs that are brought up to date at a time


class Arrays:
    """Arms, tasks, and slots (rows of one (arm, task) each) by number, in arrays that grow in place.

    Nothing is checked here, and nothing locked. Methods named after what is being done (``taking_tasks``) do all of it
    that can fail and return the steps that are left, for :func:`posse.engine.commit.commit`; nothing else may change
    between the two.

    Parameters
    ----------
    n_arms, n_features : int
    rule : Rule, optional
        What turns beliefs into probabilities.
    """

    belief: Belief
    """The arrays in use, cut to the arms and tasks that there are; symmetric matrices over slots are triangles."""

    kept: ChangedSums | None
    """Where sums are copied before they change, while a refresh reads them as they were."""

    def __init__(self, n_arms: int, n_features: int, rule: Rule | None = None) -> None:
        d = self.n_features = n_features
        self.n_arms, self.n_tasks, self.n_slots = n_arms, 0, 0
        self.experience, self._total = 0, 0.0
        self.free_slots: list[int] = []
        self.free_tasks: list[int] = []
        self.buffers = new_buffers(d)
        self.rule = Rule(SAMPLING, 0.0, 0.0) if rule is None else rule
        self.kept = None
        self.fades = False  # whether old rewards count less with time
        self.overdue: Overdue | None = None  # sums that have yet to fade
        self.frozen: WeakSet[ChangedSums] = WeakSet()  # the same for snapshots, until they are written
        arms = max(FIRST_ARMS, n_arms)
        self._capacity = new_capacity(arms, FIRST_ROOM, FIRST_ROOM, d)
        self._one, self._lanes = np.zeros(1, dtype=np.int64), new_lanes(d)
        self._scores = np.empty((5, score_room(arms)))
        self.ground = self._ground(self._capacity, self._scores)
        self.belief = self._views(self._capacity, self.n_arms, self.n_tasks)

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return float(self.belief.rewards.sum())

    def count_rewards(self) -> None:
        """Note how many rewards there are, for those who ask at every decision."""
        self._total = float(self.belief.rewards.sum())
        self.experience = int(self._total)

    def _counting(self, total: float, **others: Any) -> Step:
        """Note that there are so many rewards."""
        return partial(self.__dict__.update, _total=total, experience=int(total), **others)

    def reserve_tasks(self, count: int) -> list[int]:
        """Make room for so many new tasks and return the numbers they will have; forgotten ones' come first."""
        reused = self.free_tasks[len(self.free_tasks) - min(count, len(self.free_tasks)) :][::-1]
        last = self.n_tasks + count - len(reused)
        if last > self._capacity.belief.task_weight.size:
            self._use_arrays(with_more_tasks(self._capacity, last))
        return [*reused, *range(self.n_tasks, last)]

    def taking_tasks(self, count: int) -> Steps:
        """Take the numbers that were reserved last."""
        reused = min(count, len(self.free_tasks))
        n_tasks = self.n_tasks + count - reused
        belief = self._views(self._capacity, self.n_arms, n_tasks)
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

    def claim(self, tasks: IntArray, arms: IntArray) -> IntArray:
        """Return the slot of every row; pairs that have none get one, in the order of their rows.

        A slot without rewards is as good as none, so this may be done before something that can still fail. Tasks may
        be such that have only been reserved.
        """
        slots = np.empty(tasks.size, dtype=np.int64)
        index = self._capacity.belief.slot
        new = np.empty((2, min(tasks.size, index.size)), dtype=np.int64)
        # No more than could be taken: after many tasks were forgotten, the list is long.
        free = np.array(self.free_slots[max(len(self.free_slots) - tasks.size, 0) :][::-1], dtype=np.int64)
        with defer_interrupts():
            count = claim_rows(index, tasks, arms, free, self.n_slots, slots, new)
            if not count:
                return slots
            fresh = max(count - free.size, 0)
            try:
                taken = index[new[0, :count], new[1, :count]]
                if self.n_slots + fresh > self._capacity.settled.size:
                    self._use_arrays(with_more_slots(self._capacity, self.n_slots + fresh))
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

    def arm_of(self, slots: IntArray) -> IntArray:
        """Return the arms of slots that have rewards."""
        arms = (self.belief.slot[self.belief.task_of[slots]] == slots[:, None]).argmax(axis=1)
        return np.asarray(arms, dtype=np.int64)

    def slot_of(self, task: int, arm: int) -> int:
        """Return the slot of a pair, negative if it has none; the task may only have been reserved."""
        return int(self._capacity.belief.slot[task, arm])

    def keep(self, slots: IntArray, arms: IntArray) -> None:
        """Bring sums that are about to change up to date, and copy them if someone reads them as they were."""
        self.fade_overdue(slots)
        for kept in (self.kept, *self.frozen) if self.is_read else ():
            if kept is not None:
                kept.keep(self.belief.sums, slots, arms)

    def fade_overdue(self, slots: IntArray | None = None) -> None:
        """Let the sums of some slots, or of all, fade that have yet to; what they say stays what it was."""
        overdue = self.overdue
        if overdue is None:
            return
        behind = overdue.share != 1.0 if slots is None else overdue.of(slots) != 1.0
        rows = np.flatnonzero(behind) if slots is None else np.unique(slots[behind])
        for first in range(0, rows.size, FADING_ROWS):
            some = rows[first : first + FADING_ROWS]
            for kept in self.frozen:  # which knows what was due when it was made
                kept.keep(self.belief.sums, some, self.arm_of(some))
            commit([overdue.fading(self.belief.sums, some)])
        if slots is None:
            self.overdue = None

    def fade_overdue_tasks(self, tasks: IntArray) -> None:
        """Let the sums of some tasks fade that have yet to; negative ones are no tasks."""
        if self.overdue is not None:
            slots = self.belief.slot[tasks[tasks >= 0], : self.n_arms].ravel()
            self.fade_overdue(slots[slots >= 0])

    @property
    def is_read(self) -> bool:
        """Whether someone reads sums as they were."""
        return self.kept is not None or len(self.frozen) > 0

    def copy_of_sums(self) -> tuple[IntArray, IntArray, Sums]:
        """Return tasks, arms and sums of every pair with rewards, in the order of their slots."""
        self.fade_overdue()
        seen = [self.belief.seen[arm, : self.belief.n_seen[arm]] for arm in range(self.n_arms)]
        slots = np.concatenate(seen)
        arms = np.repeat(np.arange(self.n_arms), [rows.size for rows in seen])
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        return self.belief.task_of[slots], arms[order], Sums(*(field[slots] for field in self.belief.sums))

    def copy_of_contexts(self, sums: Sums) -> Array:
        """Return the sums of the contexts of every pair of :meth:`copy_of_sums`, where there is an intercept."""
        return sums.gram[:, : self.n_features]  # its row of the Gram matrix

    @property
    def silent(self) -> Array:
        """What every arm is kept at whose rewards were all the same so far, 0 for others."""
        return self._capacity.silent[: self.n_arms]

    @property
    def address(self) -> int:
        """Where compiled code finds the arrays."""
        return self.ground.address

    def _ground(self, capacity: Capacity, scores: Array) -> Handle[DecisionArrays]:
        """Return what compiled code opens to decide and to learn."""
        return Handle(
            DECISION_ARRAYS,
            DecisionArrays(
                belief=capacity.belief,
                root=capacity.root,
                triangle=capacity.triangle,
                silent=capacity.silent,
                settled=capacity.settled,
                generation=capacity.generation,
                rule=self.rule,
                lanes=self._lanes,
                vectors=self.buffers.vectors,
                scores=scores,
                one=self._one,
            ),
        )

    def _use_arrays(self, capacity: Capacity) -> None:
        """Work in other arrays from now on."""
        ground, belief = self._ground(capacity, self._scores), self._views(capacity, self.n_arms, self.n_tasks)
        # All at once: compiled code and plain code must look at the same arrays.
        self.__dict__.update(_capacity=capacity, ground=ground, belief=belief)

    def _views(self, whole: Capacity, n_arms: int, n_tasks: int) -> Belief:
        """Return so many arms and tasks of the capacity that there is."""
        everything, arms, tasks = whole.belief, slice(n_arms), slice(n_tasks)
        return Belief(
            sums=everything.sums,
            slot=everything.slot[tasks],
            task_of=everything.task_of,
            seen=everything.seen[arms],
            n_seen=everything.n_seen[arms],
            rewards=everything.rewards[arms],
            covariance=everything.covariance[arms],
            noise_variance=everything.noise_variance[arms],
            shared_precision=everything.shared_precision[arms],
            shared_location=everything.shared_location[arms],
            task_weight=everything.task_weight[tasks],
            local_covariance=everything.local_covariance,
            local_mean=everything.local_mean,
            shared_covariance=everything.shared_covariance[arms],
            shared_moment=everything.shared_moment[arms],
            shared_mean=everything.shared_mean[arms],
        )
