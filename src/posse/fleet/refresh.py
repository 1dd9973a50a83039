"""Estimating the evidence prior of a fleet, apart from the fleet: it goes on deciding under the old one meanwhile.

A refresh works on copies of the population and reads sums in blocks of rows. What it finds is put in place at once, by
whoever holds the fleet's lock. Sums over blocks are added in the order of the blocks, whoever took them: the result
does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from posse.kernels import evidence as kernels
from posse.kernels.arms import pool_arms, share_arms
from posse.kernels.kept import Block, new_block
from posse.kernels.lanes import N_COUNTS, Pairs, sum_information, sum_moments
from posse.kernels.passes import finish_moments, prepare_moments, unwhiten
from posse.kernels.posterior import Belief, Buffers, new_buffers
from posse.threads import pool, workers

if TYPE_CHECKING:
    from posse.types import Array, IntArray

BLOCK = 1024  # rows that are worked on at a time
MANY = 2000  # pairs with rewards from which on threads are worth their start
LAST_STEPS = 4  # at most, over all pairs, once those of some have settled
COARSE = 8192  # pairs of an arm that are enough to come close; with several times as many, these go first
POPULATION = (
    "rewards", "covariance", "noise_variance", "shared_precision", "shared_location", "shared_covariance",
    "shared_moment", "shared_mean",
)  # fmt: skip


class Room(NamedTuple):
    """What one thread works in."""

    buffers: Buffers
    block: Block
    distance: Array


class Source(Protocol):
    """Where a refresh reads sums."""

    def pairs(self, rows: IntArray, weight: Array, room: Room) -> Pairs:
        """Return some slots as pairs of one arm; ``weight`` is that of the tasks."""


class Live:
    """Reads the fleet's own arrays, which nobody changes meanwhile."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief

    def pairs(self, rows: IntArray, weight: Array, room: Room) -> Pairs:  # noqa: ARG002 -- others copy into it
        """Return the slots as they are."""
        return Pairs(self.belief.sums, rows, self.belief.task_of, weight)


class Refresh:
    """One estimation of the evidence prior; all arrays are made beforehand, so that it cannot fail half way.

    Parameters
    ----------
    belief : Belief
        Of the fleet, as it is now; only read.
    memory : Evidence
        What it remembers; copied.
    threads : int
        How many work side by side.
    copied : bool
        Whether rows are copied out before they are worked on.
    executor : ThreadPoolExecutor, optional
        Whose threads they are. Default: the common ones.
    more : ndarray of shape (n_arms,), optional
        How many pairs of every arm may get their first reward before :meth:`look_again`.
    n_tasks : int, optional
        How many tasks there may be then.
    """

    def __init__(
        self,
        belief: Belief,
        memory: kernels.Evidence,
        *,
        threads: int | None = None,
        copied: bool = False,
        executor: ThreadPoolExecutor | None = None,
        more: IntArray | None = None,
        n_tasks: int | None = None,
    ) -> None:
        n_arms, d = belief.shared_mean.shape
        self.n_arms, self.n_features = n_arms, d
        self.population = belief._replace(**{name: getattr(belief, name).copy() for name in POPULATION})
        self.robust = memory.robust > 0
        n_tasks = max(belief.task_weight.size, n_tasks or 0) if self.robust else 0
        self._weights = np.ones(n_tasks)
        copies: Any = (array.copy() if isinstance(array, np.ndarray) else array for array in memory)
        self.evidence = kernels.Evidence(*copies)
        most = belief.n_seen + (0 if more is None else more)
        self.root = np.empty((n_arms, d, d))
        self.information = np.zeros((n_arms, d, d + 1))
        threads = workers() if threads is None else threads
        self.threads = threads if most.sum() >= MANY else 1
        if self.threads > 1 and executor is None:
            pool()  # if there are no threads to be had, that is found out here
        self._executor = executor
        rooms = [
            Room(new_buffers(d), new_block(BLOCK if copied else 0, d), np.zeros(BLOCK if self.robust else 0))
            for _ in range(self.threads)
        ]
        self._rooms: SimpleQueue[Room] = SimpleQueue()
        for room in rooms:
            self._rooms.put(room)
        n_blocks = int((-(-most // BLOCK)).sum())
        self._information = np.empty((n_blocks, d, d + 1))
        self._moments, self._counts = np.empty((n_blocks, d, d)), np.empty((n_blocks, N_COUNTS))
        self._measures = np.empty((n_blocks, d + 1, d + 1))
        self._freedom, self._distance = np.empty(n_tasks), np.empty(n_tasks)
        self._distances = [np.empty(size if self.robust else 0) for size in most.tolist()]
        self._nowhere, self._no_mean = np.empty((0, 0)), np.empty((0, d))
        self._coarse = [np.empty(2 * COARSE if size > COARSE else 0, dtype=np.int64) for size in most.tolist()]
        self._shared_root, self._start = np.empty((n_arms, d, d)), np.empty((n_arms, d))
        self.look_again(belief, memory)

    def look_again(self, belief: Belief, memory: kernels.Evidence) -> None:
        """Take notice of all that changed since this was made."""
        for name in POPULATION:
            getattr(self.population, name)[...] = getattr(belief, name)
        for mine, array in zip(self.evidence, memory, strict=True):
            if isinstance(mine, np.ndarray):
                mine[...] = array
        self.rows = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
        if self.robust:
            n_tasks = belief.task_weight.size
            self._weights[:n_tasks] = belief.task_weight
            self.population = self.population._replace(task_weight=self._weights[:n_tasks])
        else:
            self.population = self.population._replace(task_weight=belief.task_weight)

    def run(self, source: Source, *, steps: int, settled: float, sample: int | None = None) -> None:
        """Improve the prior by warm-started steps until nothing moves by more than ``settled``.

        The steps are those of :func:`posse.kernels.evidence.refresh_evidence`. With very many tasks, the first steps
        look at some thousands of them, which is enough to come close, and only the last ones at all. ``sample`` leaves
        it at so many tasks of every arm; the shared means are those of all tasks in any case.
        """
        population, evidence = self.population, self.evidence
        total = float(population.rewards.sum())
        everyone = self.rows
        scatter = float(evidence.reward_scatter[0])
        self._measure(source, everyone, total)
        evidence.steps[0] = 0.0
        if not evidence.reward_square[0] > 0.0:
            # Nothing but zeros so far: no scale to learn. Any size will do, as long as features are standardised.
            evidence.reward_square[0], evidence.reward_scatter[0] = 1.0, 1.0
            kernels.admit_features(population, evidence)
            kernels.set_start(population, evidence)
            self._rebuild(source, everyone)
            evidence.reward_square[0], evidence.reward_scatter[0] = 0.0, 0.0
            return
        fresh = kernels.starts_again(population, evidence, scatter)
        evidence.refreshed_at[0] = total
        news = kernels.admit_features(population, evidence) or fresh
        if fresh:
            kernels.set_start(population, evidence)
        if fresh and total < self.n_arms:
            self._rebuild(source, everyone)
            return
        some = self._some(sample or COARSE)
        if sample is not None or any(4 * part.size < rows.size for part, rows in zip(some, everyone, strict=True)):
            rewards = population.rewards.copy()
            self._count_rewards(source, some)
            self._rebuild(source, some, shared=news)
            news = True
            self._climb(source, some, steps, settled)
            population.rewards[:] = rewards
            steps = min(steps, LAST_STEPS)
        self._rebuild(source, everyone, shared=news)
        if sample is None:
            self._climb(source, everyone, steps, settled)
        elif self.robust:
            self._weigh(everyone, self._summarise(source, everyone))
            self._rebuild(source, everyone)

    def look_from(self, source: Source) -> None:
        """Compute what follows from the population at hand, which was estimated elsewhere."""
        self._rebuild(source, self.rows, shared=False)

    def is_finite(self) -> bool:
        """Whether what was estimated is a number throughout."""
        arrays = (getattr(self.population, name) for name in POPULATION)
        return all(np.isfinite(array).all() for array in (*arrays, self.root, self.evidence.inverse))

    def _climb(self, source: Source, rows: list[IntArray], steps: int, settled: float) -> None:
        evidence = self.evidence
        for _ in range(steps):
            distance = self._summarise(source, rows)
            with self._room() as room:
                move = kernels.improve(self.population, evidence, room.buffers)
            if self.robust:
                move = max(move, self._weigh(rows, distance))
            evidence.steps[0] += 1.0
            evidence.last_move[0] = move
            self._rebuild(source, rows)
            if move < settled:
                break

    def _some(self, count: int) -> list[IntArray]:
        """Return about so many rows of every arm, evenly spread over those that there are."""
        some = []
        for rows, room in zip(self.rows, self._coarse, strict=True):
            every = max(1, rows.size // count)
            part = rows[::every]
            if every > 1:
                room = room if room.size >= part.size else np.empty(part.size, dtype=np.int64)
                room[: part.size] = part
                part = room[: part.size]
            some.append(part)
        return some

    def _measure(self, source: Source, rows: list[IntArray], total: float) -> None:
        def work(_arm: int, pairs: Pairs, room: Room, index: int) -> None:
            self._measures[index] = 0.0
            kernels.measure_rows(pairs.sums, pairs.rows, room.buffers.matrices[0], self._measures[index])

        blocks = self._each(source, rows, work)
        self.evidence.measures[:] = self._measures[:blocks].sum(axis=0)
        kernels.set_measures(self.evidence.measures, total, self.evidence)

    def _count_rewards(self, source: Source, rows: list[IntArray]) -> None:
        def work(_arm: int, pairs: Pairs, _room: Room, index: int) -> None:
            self._counts[index, 0] = pairs.sums.counts[pairs.rows].sum()

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            self.population.rewards[arm] = self._counts[part, 0].sum()

    def _rebuild(self, source: Source, rows: list[IntArray], *, shared: bool = True) -> None:
        """Compute what follows from the prior alone, and from the pairs of these rows about the shared means.

        Unless ``shared``, the priors of the shared means stay those in force: the first step starts from the posterior
        as it is.
        """
        with self._room() as room:
            for arm in range(self.n_arms):
                kernels.set_population(self.population, self.evidence, arm, self.root[arm], room.buffers)
        self.sum_information(source, rows, self.information)
        self._unwhiten()
        with self._room() as room:
            if shared:
                pool_arms(self.evidence, room.buffers)
                share_arms(self.population, self.evidence, room.buffers)
            kernels.finish_arms(self.population, self.evidence, room.buffers)

    def _unwhiten(self) -> None:
        """Bring what pairs say about the shared means to the features' units."""
        for arm in range(self.n_arms):
            unwhiten(self.root[arm], self.information[arm], self.evidence.information[arm], self.evidence.moment[arm])

    def sum_information(self, source: Source, rows: list[IntArray], out: Array) -> None:
        """Write what the pairs of these rows say about the shared means, shape (n_arms, d, d + 1)."""

        def work(arm: int, pairs: Pairs, room: Room, index: int) -> None:
            sum_information(
                pairs, self.root[arm], self.population.noise_variance[arm], self._nowhere, self._no_mean, False,
                room.buffers.lanes, self._information[index],
            )  # fmt: skip

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            out[arm] = self._information[part].sum(axis=0)

    def make_room(self, rows: list[IntArray], weight: Array) -> None:
        """Make room for other rows than those that were counted on; ``weight`` is that of all tasks by now."""
        if self.robust:
            old, weight = self.population.task_weight, np.ones(weight.size)
            weight[: old.size] = old
        self.population = self.population._replace(task_weight=weight)
        n_blocks = sum(-(-part.size // BLOCK) for part in rows)
        if n_blocks > len(self._information):
            self._information = np.empty((n_blocks, self.n_features, self.n_features + 1))

    def finish(self) -> None:
        """Compute the shared means again from the information at hand, under their priors in force."""
        self._unwhiten()
        with self._room() as room:
            kernels.finish_arms(self.population, self.evidence, room.buffers)

    def _summarise(self, source: Source, rows: list[IntArray]) -> list[Array]:
        """Take the second moments of all pairs; return, if outliers are modelled, their distances by arm."""
        population, evidence = self.population, self.evidence
        for arm in range(self.n_arms):
            prepare_moments(population, arm, self.root[arm], self._shared_root[arm], self._start[arm])
        distance = [room[: part.size] for room, part in zip(self._distances, rows, strict=True)]
        first = {arm: part.start for arm, part in self._parts(rows)}

        def work(arm: int, pairs: Pairs, room: Room, index: int) -> None:
            sum_moments(
                pairs, self.root[arm], population.noise_variance[arm], population.shared_mean[arm],
                self._shared_root[arm], self._start[arm], room.distance, room.buffers.lanes, self._moments[index],
                self._counts[index],
            )  # fmt: skip
            if self.robust:
                begin = (index - first[arm]) * BLOCK
                distance[arm][begin : begin + pairs.rows.size] = room.distance[: pairs.rows.size]

        self._each(source, rows, work)
        with self._room() as room:
            for arm, part in self._parts(rows):
                moments, counts = self._moments[part].sum(axis=0), self._counts[part].sum(axis=0)
                finish_moments(
                    population, arm, self.root[arm], moments, counts, rows[arm].size, evidence.second_moment[arm],
                    evidence.summaries[arm], room.buffers,
                )  # fmt: skip
        return distance

    def _weigh(self, rows: list[IntArray], distance: list[Array]) -> float:
        population, weight = self.population, self.population.task_weight
        freedom, total = self._freedom[: weight.size], self._distance[: weight.size]
        freedom[:], total[:] = 0.0, 0.0
        for arm, part in enumerate(rows):
            pairs = Pairs(population.sums, part, population.task_of, weight)
            kernels.add_distances(pairs, distance[arm], self.n_features, freedom, total)
        move: float = kernels.set_weights(freedom, total, self.evidence.robust, weight)
        return move

    @contextmanager
    def _room(self) -> Iterator[Room]:
        room = self._rooms.get()
        try:
            yield room
        finally:
            self._rooms.put(room)

    def _parts(self, rows: list[IntArray]) -> Iterator[tuple[int, slice]]:
        """Yield every arm with where its blocks stand."""
        first = 0
        for arm in range(self.n_arms):
            count = -(-rows[arm].size // BLOCK)
            yield arm, slice(first, first + count)
            first += count

    def _each(self, source: Source, rows: Sequence[IntArray], work: Callable[[int, Pairs, Room, int], None]) -> int:
        """Do some work for every block of rows; return how many there are."""
        blocks = [(arm, first) for arm in range(self.n_arms) for first in range(0, rows[arm].size, BLOCK)]

        def one(index: int) -> None:
            arm, first = blocks[index]
            with self._room() as room:
                pairs = source.pairs(rows[arm][first : first + BLOCK], self.population.task_weight, room)
                work(arm, pairs, room, index)

        if self.threads == 1:
            for index in range(len(blocks)):
                one(index)
        else:
            list((self._executor or pool()).map(one, range(len(blocks))))
        return len(blocks)
