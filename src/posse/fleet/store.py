"""The arrays of a fleet: they grow with tasks, arms and pairs, and hold what all rewards say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.fleet.refresh import new_rooms, refresh_evidence
from posse.fleet.threads import MANY_ROWS, pool, workers
from posse.kernels import estimators
from posse.kernels import evidence as evidence_kernels
from posse.kernels.estimators import Memory
from posse.kernels.fleet import Sight, add_to_slots, claim_rows, count_rows, list_first, observe_rows, sight_of
from posse.kernels.posterior import Belief, Buffers, new_buffers, observe, rebuild
from posse.kernels.sums import Sums
from posse.model.belief import prior_of
from posse.model.evidence import STUDENT_FREEDOM

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.model.prior import Prior
    from posse.types import Array, IntArray

FIRST_ROOM = 64  # rows and tasks that a new fleet has room for
FIRST_ARMS = 8


class Store:
    """What a fleet has learned, and what it believes because of it.

    Everything is by number: arms, tasks, and slots (rows of one (arm, task) each). Nothing is checked here, and
    nothing locked.

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
    """The arrays in use, cut to the arms and tasks that there are."""

    sight: Sight
    """What decisions read of it."""

    memory: Memory

    def __init__(self, *, start: Prior, method: int, robust: bool = False, extendable: bool = False) -> None:
        self.method = method
        self.robust = robust
        self.extendable = extendable
        self.start = start
        d = self.n_features = start.n_features
        self.n_arms, self.n_tasks, self.n_slots = start.n_arms, 0, 0
        self._start_precisions = start.shared_precisions
        self.experience = 0
        self.stale = False  # sums were added that the posterior does not know of
        self.free_slots: list[int] = []
        self.free_tasks: list[int] = []
        self.buffers = new_buffers(d)
        arms = max(FIRST_ARMS, start.n_arms)
        self._room = _new_room(arms, FIRST_ROOM, FIRST_ROOM, d)
        self._cut()
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
        self.experience = int(self.belief.rewards.sum())

    def reserve_tasks(self, count: int) -> list[int]:
        """Make room for so many new tasks and return the numbers they will have; forgotten ones' come first."""
        reused = self.free_tasks[len(self.free_tasks) - min(count, len(self.free_tasks)) :][::-1]
        last = self.n_tasks + count - len(reused)
        self._fit_memory(n_tasks=last)
        if last > self._room.task_weight.size:
            self._room = _with_more_tasks(self._room, last)
            self._cut()
        return [*reused, *range(self.n_tasks, last)]

    def take_tasks(self, count: int) -> None:
        """Take the numbers that were reserved last; cannot fail."""
        reused = min(count, len(self.free_tasks))
        del self.free_tasks[len(self.free_tasks) - reused :]
        self.n_tasks += count - reused
        self._cut()

    def add_tasks(self, count: int) -> list[int]:
        """Return the numbers of so many new tasks."""
        numbers = self.reserve_tasks(count)
        self.take_tasks(count)
        return numbers

    @property
    def n_live_tasks(self) -> int:
        """Tasks that there are, forgotten ones not counted."""
        return self.n_tasks - len(self.free_tasks)

    def add_arm(self) -> int:
        """Return the number of a new arm; it starts from what the others have in common."""
        if self.method == estimators.KNOWN and not self.extendable:
            raise InvalidValue(
                "this fleet's population was given and not learned, so nothing is known about a new arm; "
                "make a fleet with a Prior that has it"
            )
        arm = self.n_arms
        room = self._room
        if arm == room.n_seen.size:
            room = _with_more_arms(room, arm + 1)
        memory = _with_one_arm_more(self.memory, self._new_memory(self.n_arms + 1))
        evidence = memory.evidence
        learned = self.method == estimators.EVIDENCE and evidence.refreshed_at[0] > 0
        covariance = evidence.target.copy() if learned and evidence.target.any() else self.start.covariance[0].copy()
        evidence.inverse[arm] = np.linalg.inv(covariance)
        noise = 1 / (1 / self.belief.noise_variance).mean() if learned else self.start.noise_variance[0]
        precision = evidence.shared_scale[0] * evidence.feature_square if learned else self.start.shared_precisions[0]
        # From here on nothing can fail.
        self._room, self.memory = room, memory
        self.n_arms += 1
        self._cut()
        self.belief.covariance[arm] = covariance
        self.belief.noise_variance[arm] = noise
        self.belief.shared_precision[arm] = precision
        rebuild(self.belief, arm, self.buffers)
        return arm

    def shrink(self, n_arms: int, memory: Memory) -> None:
        """Take back arms that were added and have no rewards yet; ``memory`` is that of before."""
        # The buffers may have grown since.
        now = self.memory
        evidence = memory.evidence._replace(distance=now.evidence.distance)
        self.memory = memory._replace(evidence=evidence, estimates=now.estimates, order=now.order)
        self.n_arms = n_arms
        self._cut()

    def learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        """Learn one reward of a pair that has a slot."""
        observe(self.belief, arm, task, x, reward, self.buffers)
        self.count_rewards()

    def learn_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
        """Learn rows of pairs that have slots, one by one: exact under the prior in force."""
        observe_rows(self.belief, tasks, arms, contexts, rewards, self.buffers)
        self.count_rewards()

    def add_rows(self, slots: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
        """Add rows to the sums of their slots only; the posterior must be refreshed before it is used."""
        belief = self.belief
        parts = workers() if slots.size >= MANY_ROWS else 1

        def add_part(part: int) -> None:
            add_to_slots(belief.sums, slots, contexts, rewards, part, parts)

        self.stale = True
        list_first(belief.sums.counts, slots, arms, belief.seen, belief.n_seen)
        if parts == 1:
            add_part(0)
        else:
            list(pool().map(add_part, range(parts)))
        count_rows(arms, belief.rewards)
        self.count_rewards()

    def add_sums(self, slots: IntArray, arms: IntArray, sums: Sums) -> None:
        """Add sums of pairs, no pair twice; the posterior must be refreshed before it is used."""
        belief = self.belief
        self.stale = True
        list_first(belief.sums.counts, slots, arms, belief.seen, belief.n_seen)
        for mine, others in zip(belief.sums, sums, strict=True):
            mine[slots] += others
        for arm in range(self.n_arms):
            belief.rewards[arm] = belief.sums.counts[belief.seen[arm, : belief.n_seen[arm]]].sum()
        self.count_rewards()

    def drop_tasks(self, tasks: IntArray, fresh: Memory) -> None:
        """Forget tasks and the prior that they helped to learn; ``fresh`` is a new memory.

        The posterior must be refreshed before it is used.
        """
        belief = self.belief
        slots = belief.slot[tasks, : self.n_arms].ravel()
        slots = slots[slots >= 0]
        lost = np.zeros(self._room.task_of.size, dtype=np.bool_)
        lost[slots] = True
        seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
        kept = [rows[~lost[rows]] for rows in seen]
        rewards = [belief.sums.counts[rows].sum() for rows in kept]
        free_slots, free_tasks = slots.tolist(), tasks.tolist()
        # From here on nothing can fail.
        for field in belief.sums:
            field[slots] = 0.0
        belief.slot[tasks] = -1
        for arm in range(self.n_arms):
            belief.seen[arm, : kept[arm].size] = kept[arm]
            belief.n_seen[arm] = kept[arm].size
            belief.rewards[arm] = rewards[arm]
        self.count_rewards()
        self.free_slots.extend(free_slots)
        self.free_tasks.extend(free_tasks)
        self.reset_prior(fresh)

    def refresh_due(self, growth: float, new_rewards: float = 0.0) -> bool:
        """Whether rewards have grown enough since the last refresh, or would have with some more."""
        if self.method == estimators.EVIDENCE:
            at = float(self.memory.evidence.refreshed_at[0])
            return self.n_rewards + new_rewards - at >= max(1.0, growth * at)
        at = float(self.memory.refreshed_at.sum())
        growth = 1.0 if self.method == estimators.KNOWN else growth
        return self.n_rewards + new_rewards - at >= max(1.0, growth * at)

    def new_rooms(self) -> list[Buffers]:
        """Return what a refresh works in; one that is given these cannot fail."""
        return new_rooms(self.belief)

    def refresh(
        self,
        rooms: list[Buffers] | None = None,
        *,
        steps: int = evidence_kernels.STEPS,
        settled: float = evidence_kernels.SETTLED,
    ) -> None:
        """Estimate the prior anew and rebuild every posterior."""
        rooms = self.new_rooms() if rooms is None else rooms
        if self.method == estimators.EVIDENCE:
            refresh_evidence(self.belief, self.memory.evidence, rooms, rebuild=self.stale, steps=steps, settled=settled)
        else:
            for arm in range(self.n_arms):
                if self.stale:
                    rebuild(self.belief, arm, self.buffers)
                estimators.refresh(self.belief, self.memory, arm, self.method, self.buffers, self.n_live_tasks)
        self.stale = False

    def rebuild(self) -> None:
        """Compute every posterior again from the sums, under the prior in force."""
        learned = self.method == estimators.EVIDENCE and self.memory.evidence.refreshed_at[0] > 0
        for arm in range(self.n_arms):
            if learned:
                evidence_kernels.rebuild_arm(self.belief, self.memory.evidence, arm, self.buffers)
            else:
                rebuild(self.belief, arm, self.buffers)

    def reset_prior(self, fresh: Memory | None = None) -> None:
        """Go back to the start, as if no refresh had ever been; the sums stay."""
        self.memory = self.new_memory() if fresh is None else fresh
        belief, n = self.belief, self.start.n_arms
        belief.task_weight[:] = 1.0
        for mine, given in (
            (belief.covariance, self.start.covariance),
            (belief.noise_variance, self.start.noise_variance),
            (belief.shared_precision, self._start_precisions),
        ):
            # Arms that came later start as the first one did.
            mine[:n], mine[n:] = given, given[0]
        for arm in range(self.n_arms):
            rebuild(self.belief, arm, self.buffers)
        self.stale = False

    def copy_of_sums(self) -> tuple[IntArray, IntArray, Sums]:
        """Return tasks, arms and sums of every pair with rewards, in the order of their slots."""
        seen = [self.belief.seen[arm, : self.belief.n_seen[arm]] for arm in range(self.n_arms)]
        slots = np.concatenate(seen)
        arms = np.repeat(np.arange(self.n_arms), [rows.size for rows in seen])
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        return self.belief.task_of[slots], arms[order], Sums(*(field[slots] for field in self.belief.sums))

    def claim(self, tasks: IntArray, arms: IntArray) -> IntArray:
        """Return the slot of every row; pairs that have none get one, in the order of their rows.

        A slot without rewards is as good as none, so this may be done before something that can still fail. Tasks may
        be such that have only been reserved.
        """
        slots = np.empty(tasks.size, dtype=np.int64)
        new = np.empty((2, min(tasks.size, self._room.slot.size)), dtype=np.int64)
        free = np.array(self.free_slots[::-1], dtype=np.int64)
        count = claim_rows(self._room.slot, tasks, arms, free, self.n_slots, slots, new)
        if not count:
            return slots
        fresh = max(count - free.size, 0)
        try:
            if self.n_slots + fresh > self._room.task_of.size:
                room = _with_more_slots(self._room, self.n_slots + fresh)
                self._fit_memory(n_slots=room.task_of.size)
                self._room = room
        except MemoryError:
            self._room.slot[new[0, :count], new[1, :count]] = -1
            raise
        if count <= free.size:
            del self.free_slots[len(self.free_slots) - count :]
        else:
            self.free_slots.clear()
        self.n_slots += fresh
        self._cut()
        taken = self._room.slot[new[0, :count], new[1, :count]]
        self.belief.task_of[taken] = new[0, :count]
        return slots

    def _cut(self) -> None:
        """Take the arms and tasks that there are out of the room that there is."""
        room, arms, tasks = self._room, slice(self.n_arms), slice(self.n_tasks)
        self.belief = Belief(
            sums=room.sums,
            slot=room.slot[tasks],
            task_of=room.task_of,
            seen=room.seen[arms],
            n_seen=room.n_seen[arms],
            rewards=room.rewards[arms],
            covariance=room.covariance[arms],
            noise_variance=room.noise_variance[arms],
            shared_precision=room.shared_precision[arms],
            task_weight=room.task_weight[tasks],
            local_covariance=room.local_covariance,
            local_mean=room.local_mean,
            shared_covariance=room.shared_covariance[arms],
            shared_moment=room.shared_moment[arms],
            shared_mean=room.shared_mean[arms],
        )
        self.sight = sight_of(self.belief)

    def new_memory(self) -> Memory:
        """Return the memory of a store that has never been refreshed."""
        return self._new_memory(self.n_arms)

    def _new_memory(self, n_arms: int) -> Memory:
        # Least squares of every task is a buffer of the paper's methods and of moments only.
        tasks = 0 if self.method in (estimators.KNOWN, estimators.EVIDENCE) else self._room.task_weight.size
        freedom = STUDENT_FREEDOM if self.robust else 0.0
        memory = estimators.new_memory(n_arms, tasks, self.n_features, freedom)
        if self.robust:
            distance = np.zeros(self._room.task_of.size)
            memory = memory._replace(evidence=memory.evidence._replace(distance=distance))
        return memory

    def _fit_memory(self, *, n_tasks: int = 0, n_slots: int = 0) -> None:
        """Give the memory's buffers room for so many tasks and slots."""
        if self.robust and self.memory.evidence.distance.size < n_slots:
            evidence = self.memory.evidence._replace(distance=np.zeros(n_slots))
            self.memory = self.memory._replace(evidence=evidence)
        if self.method not in (estimators.KNOWN, estimators.EVIDENCE) and self.memory.order.size < n_tasks:
            room = 2 * n_tasks
            estimates, order = np.empty((room, self.n_features)), np.empty(room, dtype=np.int64)
            self.memory = self.memory._replace(estimates=estimates, order=order)


def _new_room(n_arms: int, n_tasks: int, n_slots: int, d: int) -> Belief:
    return Belief(
        sums=Sums(np.zeros((n_slots, d, d)), np.zeros((n_slots, d)), np.zeros(n_slots), np.zeros(n_slots)),
        slot=np.full((n_tasks, n_arms), -1, dtype=np.int64),
        task_of=np.zeros(n_slots, dtype=np.int64),
        seen=np.zeros((n_arms, n_tasks), dtype=np.int64),
        n_seen=np.zeros(n_arms, dtype=np.int64),
        rewards=np.zeros(n_arms),
        covariance=np.zeros((n_arms, d, d)),
        noise_variance=np.ones(n_arms),
        shared_precision=np.ones((n_arms, d)),
        task_weight=np.ones(n_tasks),
        local_covariance=np.zeros((n_slots, d, d)),
        local_mean=np.zeros((n_slots, d)),
        shared_covariance=np.zeros((n_arms, d, d)),
        shared_moment=np.zeros((n_arms, d)),
        shared_mean=np.zeros((n_arms, d)),
    )


def _longer(array: npt.NDArray[Any], size: int, fill: float = 0) -> npt.NDArray[Any]:
    """Return the array with room for ``size`` rows, the new ones filled."""
    # Untouched zeros cost no memory.
    shape = (size, *array.shape[1:])
    result = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    result[: len(array)] = array
    return result


def _with_more_slots(room: Belief, at_least: int) -> Belief:
    size = max(at_least, 2 * room.task_of.size)
    return room._replace(
        sums=Sums(*(_longer(field, size) for field in room.sums)),
        task_of=_longer(room.task_of, size),
        local_covariance=_longer(room.local_covariance, size),
        local_mean=_longer(room.local_mean, size),
    )


def _with_more_tasks(room: Belief, at_least: int) -> Belief:
    size = max(at_least, 2 * room.task_weight.size)
    seen = np.zeros((room.seen.shape[0], size), dtype=np.int64)
    seen[:, : room.seen.shape[1]] = room.seen
    return room._replace(slot=_longer(room.slot, size, -1), task_weight=_longer(room.task_weight, size, 1), seen=seen)


def _with_more_arms(room: Belief, at_least: int) -> Belief:
    size = max(at_least, 2 * room.n_seen.size)
    slot = np.full((room.slot.shape[0], size), -1, dtype=np.int64)
    slot[:, : room.slot.shape[1]] = room.slot
    names = (
        "seen", "n_seen", "rewards", "covariance", "noise_variance", "shared_precision", "shared_covariance",
        "shared_moment", "shared_mean",
    )  # fmt: skip
    longer: dict[str, Any] = {name: _longer(getattr(room, name), size) for name in names}
    return room._replace(slot=slot, **longer)


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
