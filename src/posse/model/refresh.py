"""Estimating the evidence prior apart from whoever goes on deciding under the old one meanwhile.

The loop itself is :mod:`posse.kernels.refresh`. Here somebody takes the sums that it wants: over blocks of rows, on as
many threads as there are. Sums over blocks are added in the order of the blocks, whoever took them: the result does not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from posse.kernels import evidence as kernels
from posse.kernels import levels
from posse.kernels import refresh as loops
from posse.kernels.changed_sums import Block, new_block
from posse.kernels.lanes import N_COUNTS, Pairs, sum_information, sum_moments
from posse.kernels.llvm.handle import Handle
from posse.kernels.passes import GAUSSIAN_SCATTER, LEVERAGE, REWARDS
from posse.kernels.posterior import Belief, Buffers, new_buffers
from posse.kernels.refresh import ADVANCE, IMPROVE, IMPROVE_AT, LOOP, Population, new_loop
from posse.model.findings import Unusual
from posse.model.posterior import symmetric
from posse.model.prior import Prior
from posse.threads import pool, workers

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array, IntArray

BLOCK = 1024  # rows that are worked on at a time
MANY = 2000  # pairs with rewards from which on threads are worth their start
LAST_STEPS = 4  # at most, over all pairs, once those of some have settled
SILENT = 1.5  # times the least noise that an arm is allowed
FAR = 3.0  # spreads of the arms
COARSE = 8192  # pairs of an arm that are enough to come close; with several times as many, these go first
POPULATION = tuple(name for name in Population._fields if name not in ("n_seen", "task_weight"))
"""Arrays of a belief that a refresh replaces."""


class Scratch(NamedTuple):
    """Arrays that one thread works in."""

    buffers: Buffers
    block: Block
    distance: Array


class Source(Protocol):
    """Where a refresh reads sums."""

    def pairs(self, rows: IntArray, weight: Array, scratch: Scratch) -> Pairs:
        """Return some slots as pairs of one arm; ``weight`` is that of the tasks."""


class LiveReader:
    """Reads a belief's own arrays, which nobody changes meanwhile."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief

    def pairs(self, rows: IntArray, weight: Array, scratch: Scratch) -> Pairs:  # noqa: ARG002 -- others copy into it
        """Return the slots as they are."""
        return Pairs(self.belief.sums, rows, self.belief.task_of, weight)


class Refresh:
    """One estimation of the evidence prior; all arrays are made beforehand, so that it cannot fail half way.

    :attr:`population` and :attr:`evidence` are what it found, :attr:`root` the upper R of every arm with R'R its
    covariance, and :attr:`information` what pairs say about the shared means, shape (n_arms, d, d + 1).

    Parameters
    ----------
    belief : Belief
        As it is now; only read.
    memory : Evidence
        What it remembers; copied.
    threads : int, optional
        How many work side by side. Default: as many as there are cores.
    copied : bool, default False
        Whether rows are copied out before they are worked on.
    executor : ThreadPoolExecutor, optional
        Whose threads they are. Default: the common ones.
    more : ndarray of shape (n_arms,), optional
        How many pairs of every arm may get their first reward before :meth:`sync_from`.
    n_tasks : int, optional
        How many tasks there may be then.
    in_place : bool, default False
        Work on the arrays of ``belief`` and ``memory`` themselves, and keep the posterior of every pair up to date.
    keys : callable, optional
        Returns a number of 64 bits for every task, evenly spread, by which some of very many tasks are chosen: the same
        ones wherever they are. Default: every so many rows.
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
        in_place: bool = False,
        keys: Callable[[], npt.NDArray[np.uint64]] | None = None,
    ) -> None:
        self._keys = keys
        n_arms, d = belief.shared_mean.shape
        self.n_arms, self.n_features = n_arms, d
        self.robust = memory.robust > 0
        self._in_place = in_place
        most = belief.n_seen + (0 if more is None else more)
        threads = workers() if threads is None else threads
        self.threads = threads if most.sum() >= MANY else 1
        if self.threads > 1 and executor is None:
            pool()  # if there are no threads to be had, that is found out here
        self._executor = executor
        scratches = [
            Scratch(new_buffers(d), new_block(BLOCK if copied else 0, d), np.zeros(BLOCK if self.robust else 0))
            for _ in range(self.threads)
        ]
        self._scratches: SimpleQueue[Scratch] = SimpleQueue()
        for scratch in scratches:
            self._scratches.put(scratch)
        n_tasks = max(belief.task_weight.size, n_tasks or 0) if self.robust else 0
        self._weights = belief.task_weight if in_place else np.ones(n_tasks)
        copies: dict[str, Any] = {}
        if not in_place:
            copies = {name: getattr(belief, name).copy() for name in (*POPULATION, "n_seen")}
        parts: Any = (array.copy() if isinstance(array, np.ndarray) else array for array in memory)
        self.population = loops.population_of(belief)._replace(**copies)
        self._loop = new_loop(
            self.population._replace(task_weight=self._weights),
            memory if in_place else kernels.Evidence(*parts),
            new_buffers(d),
        )
        # The first few rewards move nothing yet, so they do not wait until this is compiled.
        if belief.rewards.sum() >= n_arms - 1 or (more is not None and more.sum() > 1):
            self._loop.now[IMPROVE_AT] = IMPROVE.address
        self._handle = Handle(LOOP, self._loop)
        self.evidence, self.root, self.information = self._loop.evidence, self._loop.root, self._loop.information
        n_blocks = int((-(-most // BLOCK)).sum())
        self._information = np.empty((n_blocks, d, d + 1))
        self._moments, self._counts = np.empty((n_blocks, d, d)), np.empty((n_blocks, N_COUNTS))
        self._measures = np.empty((n_blocks, d + 1, d + 1))
        self._distances = [np.empty(size if self.robust else 0) for size in most.tolist()]
        self._nowhere, self._no_mean = np.empty((0, 0)), np.empty((0, d))
        self._coarse = [np.empty(2 * COARSE if size > COARSE else 0, dtype=np.int64) for size in most.tolist()]
        self.sync_from(belief, memory)

    def sync_from(self, belief: Belief, memory: kernels.Evidence) -> None:
        """Take notice of all that changed since this was made."""
        if not self._in_place:
            for name in (*POPULATION, "n_seen"):
                getattr(self.population, name)[...] = getattr(belief, name)
            for mine, array in zip(self.evidence, memory, strict=True):
                if isinstance(mine, np.ndarray):
                    mine[...] = array
        self._belief = belief
        self.rows = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)]
        weight = belief.task_weight
        if self.robust and not self._in_place:
            self._weights[: weight.size] = weight
            weight = self._weights[: weight.size]
        self.population = self.population._replace(task_weight=weight)

    def run(
        self, source: Source, *, steps: int, settled: float, sample: int | None = None, exact: bool = False
    ) -> None:
        """Improve the prior by warm-started steps until nothing moves by more than ``settled``.

        With very many tasks, the first steps look at some thousands of them, which is enough to come close, and only
        the last ones at all. ``sample`` leaves it at so many tasks of every arm; the shared means are those of all
        tasks in any case. ``exact`` says that the posterior is that of all sums already.
        """
        now, everyone = self._loop.now, self.rows
        self.begin(source, steps=steps, settled=settled, exact=exact)
        if now[loops.LAST] or now[loops.WANTED] == loops.DONE:
            self.proceed(source, everyone)
            return
        some = self._some(sample or COARSE)
        if sample is not None or self._is_few(some):
            rewards = self.population.rewards.copy()
            self._count_rewards(source, some)
            self.proceed(source, some)
            self.population.rewards[:] = rewards
            # All pairs go a few steps more, or none; then only their weights are left to learn.
            steps = min(steps, LAST_STEPS) if sample is None else 0
            weights = sample is not None and self.robust
            self._again(steps=steps, shared=True, last=steps == 0 and not weights, fixed=weights)
        self.proceed(source, everyone)

    def begin(self, source: Source, *, steps: int, settled: float, exact: bool = False) -> None:
        """Begin an estimate: measure rewards and features, and see where to start."""
        now = self._loop.now
        now[loops.STEPS_LEFT], now[loops.EXACT], now[loops.FIXED] = steps, exact, 0
        self._loop.numbers[loops.SETTLED_AT] = settled
        self._advance(loops.BEGIN)
        self._sum(source, self.rows)
        self._advance(loops.SUMMED)

    def proceed(self, source: Source, rows: list[IntArray], until: int = loops.DONE) -> None:
        """Take the sums that are wanted, over the pairs of these rows, up to one of them or to the end."""
        while self._loop.now[loops.WANTED] not in (until, loops.DONE):
            self._sum(source, rows)
            self._advance(loops.SUMMED)

    def look_from(self, source: Source, *, shared: bool = False, steps: int = 0) -> None:
        """Compute what follows from the population at hand, which was found elsewhere.

        The priors of the shared means are learned if ``shared``; with ``steps``, what follows is wanted for a step.
        """
        self._again(steps=steps, shared=shared, last=steps == 0, fixed=False)
        self.proceed(source, self.rows, until=loops.SECOND_MOMENTS)

    @property
    def move(self) -> float:
        """By how much the last step moved anything."""
        return float(self._loop.numbers[loops.MOVE])

    def finish(self) -> None:
        """Compute the shared means again from the information at hand, under their priors in force."""
        self._advance(loops.FINISH)

    def is_sound(self) -> bool:
        """Whether what was estimated is finite throughout, and every covariance is positive definite."""
        arrays = (getattr(self.population, name) for name in POPULATION)
        finite = all(np.isfinite(array).all() for array in (*arrays, self.root, self.evidence.inverse))
        # A factor that could not be finished has a pivot that is not positive.
        return finite and bool((np.diagonal(self.root, axis1=1, axis2=2) > 0).all())

    def sum_information(self, source: Source, rows: list[IntArray], out: Array) -> None:
        """Write what the pairs of these rows say about the shared means, shape (n_arms, d, d + 1)."""
        belief, keep = self._belief, self._in_place
        covariance, mean = (belief.local_covariance, belief.local_mean) if keep else (self._nowhere, self._no_mean)

        def work(arm: int, pairs: Pairs, scratch: Scratch, index: int) -> None:
            sum_information(
                pairs, self.root[arm], self.population.noise_variance[arm], covariance, mean, keep,
                scratch.buffers.lanes, self._information[index],
            )  # fmt: skip

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            out[arm] = self._information[part].sum(axis=0)

    def make_room(self, rows: list[IntArray], weight: Array) -> None:
        """Make scratch for other rows than those that were counted on; ``weight`` is that of all tasks by now."""
        if self.robust:
            old, weight = self.population.task_weight, np.ones(weight.size)
            weight[: old.size] = old
        self.population = self.population._replace(task_weight=weight)
        n_blocks = sum(-(-part.size // BLOCK) for part in rows)
        if n_blocks > len(self._information):
            self._information = np.empty((n_blocks, self.n_features, self.n_features + 1))

    def _advance(self, what: int) -> None:
        now = self._loop.now
        if now[loops.WANTED] == loops.SECOND_MOMENTS and not now[IMPROVE_AT]:
            now[IMPROVE_AT] = IMPROVE.address
        ADVANCE(self._handle.address, what)

    def _again(self, *, steps: int, shared: bool, last: bool, fixed: bool) -> None:
        """Begin again under the population at hand: more steps, or only what follows from it."""
        now = self._loop.now
        now[loops.STEPS_LEFT], now[loops.SHARED], now[loops.LAST] = steps, shared, last
        now[loops.FIXED], now[loops.ZEROS] = fixed, 0
        self._advance(loops.REBUILD)

    def _sum(self, source: Source, rows: list[IntArray]) -> None:
        """Take the sum that the loop wants over the pairs of these rows."""
        wanted = self._loop.now[loops.WANTED]
        if wanted == loops.MEASURES:
            self._measure(source, rows)
        elif wanted == loops.INFORMATION:
            self.sum_information(source, rows, self.information)
        elif wanted == loops.SECOND_MOMENTS:
            self._sum_moments(source, rows)
        else:
            self._sum_distances(rows)

    def _is_few(self, some: list[IntArray]) -> bool:
        """Whether to look at these rows first is worth it."""
        return any(4 * part.size < rows.size for part, rows in zip(some, self.rows, strict=True))

    def _some(self, count: int) -> list[IntArray]:
        """Return about so many rows of every arm, evenly spread over those that there are."""
        shares = [max(1, rows.size // count) for rows in self.rows]
        if self._keys is not None and max(shares) > 1:
            return chosen_rows(self.rows, shares, self._belief.task_of, self._keys())
        some = []
        for rows, buffer, every in zip(self.rows, self._coarse, shares, strict=True):
            part = rows[::every]
            if every > 1:
                buffer = buffer if buffer.size >= part.size else np.empty(part.size, dtype=np.int64)
                buffer[: part.size] = part
                part = buffer[: part.size]
            some.append(part)
        return some

    def _measure(self, source: Source, rows: list[IntArray]) -> None:
        def work(_arm: int, pairs: Pairs, scratch: Scratch, index: int) -> None:
            self._measures[index] = 0.0
            kernels.measure_rows(pairs.sums, pairs.rows, scratch.buffers.matrices[0], self._measures[index])

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            self.evidence.arm_measures[arm] = self._measures[part].sum(axis=0)

    def _count_rewards(self, source: Source, rows: list[IntArray]) -> None:
        def work(_arm: int, pairs: Pairs, _scratch: Scratch, index: int) -> None:
            self._counts[index, 0] = pairs.sums.counts[pairs.rows].sum()

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            self.population.rewards[arm] = self._counts[part, 0].sum()

    def _sum_moments(self, source: Source, rows: list[IntArray]) -> None:
        """Take the second moments of all pairs and, if outliers are modelled, note their distances by arm."""
        loop, population = self._loop, self.population
        first = {arm: part.start for arm, part in self._parts(rows)}

        def work(arm: int, pairs: Pairs, scratch: Scratch, index: int) -> None:
            sum_moments(
                pairs, loop.root[arm], population.noise_variance[arm], population.shared_mean[arm],
                loop.shared_root[arm], loop.start[arm], scratch.distance, scratch.buffers.lanes, self._moments[index],
                self._counts[index],
            )  # fmt: skip
            if self.robust:
                begin = (index - first[arm]) * BLOCK
                self._distances[arm][begin : begin + pairs.rows.size] = scratch.distance[: pairs.rows.size]

        self._each(source, rows, work)
        for arm, part in self._parts(rows):
            loop.moments[arm], loop.counts[arm] = self._moments[part].sum(axis=0), self._counts[part].sum(axis=0)
            loop.n_pairs[arm] = rows[arm].size

    def _sum_distances(self, rows: list[IntArray]) -> None:
        loop, belief = self._loop, self._belief
        loop.freedom[:], loop.distance[:] = 0.0, 0.0
        for arm, part in enumerate(rows):
            pairs = Pairs(belief.sums, part, belief.task_of, self.population.task_weight)
            kernels.add_distances(pairs, self._distances[arm], self.n_features, loop.freedom, loop.distance)

    @contextmanager
    def _borrowed_scratch(self) -> Iterator[Scratch]:
        scratch = self._scratches.get()
        try:
            yield scratch
        finally:
            self._scratches.put(scratch)

    def _parts(self, rows: list[IntArray]) -> Iterator[tuple[int, slice]]:
        """Yield every arm with where its blocks stand."""
        first = 0
        for arm in range(self.n_arms):
            count = -(-rows[arm].size // BLOCK)
            yield arm, slice(first, first + count)
            first += count

    def _each(self, source: Source, rows: Sequence[IntArray], work: Callable[[int, Pairs, Scratch, int], None]) -> int:
        """Do some work for every block of rows; return how many there are."""
        blocks = [(arm, first) for arm in range(self.n_arms) for first in range(0, rows[arm].size, BLOCK)]

        def one(index: int) -> None:
            arm, first = blocks[index]
            with self._borrowed_scratch() as scratch:
                pairs = source.pairs(rows[arm][first : first + BLOCK], self.population.task_weight, scratch)
                work(arm, pairs, scratch, index)

        if self.threads == 1:
            for index in range(len(blocks)):
                one(index)
        else:
            list((self._executor or pool()).map(one, range(len(blocks))))
        return len(blocks)


def chosen_rows(
    rows: list[IntArray], every: Sequence[int], task_of: IntArray, keys: npt.NDArray[np.uint64]
) -> list[IntArray]:
    """Return one in ``every`` so many rows of each arm: those of the tasks with the lowest keys."""
    return [
        part if one_in == 1 else part[keys[task_of[part]] < np.uint64(2**64 // one_in)]
        for part, one_in in zip(rows, every, strict=True)
    ]


def expected_arm(evidence: kernels.Evidence) -> Prior:
    """Return the prior of an arm that nothing is known about: arms are a population, and it is one of them."""
    back = centring(evidence)
    spread = np.diag(1 / (evidence.shared_scale[0] * evidence.feature_square)) + evidence.arm_covariance
    return Prior(
        covariance=np.exp(evidence.centre[levels.LEVEL]) * symmetric(back @ evidence.target @ back.T)[None],
        noise_variance=np.exp(evidence.centre[levels.NOISE]),
        shared_precision=symmetric(np.asarray(np.linalg.inv(back @ spread @ back.T), dtype=np.float64))[None],
        shared_location=(back @ evidence.arm_mean)[None],
    )


def centring(evidence: kernels.Evidence) -> Array:
    """Return the matrix that turns coefficients for centred columns into those for features as they came."""
    back = np.eye(evidence.feature_mean.size)
    back[evidence.intercept] -= evidence.feature_mean
    return back


def unusual(belief: Belief, evidence: kernels.Evidence, *, converged: bool) -> Unusual:
    """Return which arms the population hardly holds for, and where noise, coefficients and tails are hard to tell."""
    size, counts = float(evidence.reward_scatter[0]), belief.rewards / evidence.overdispersion[levels.NOISE]
    centre = float(evidence.centre[levels.NOISE])
    constant_rewards = evidence.summaries[:, GAUSSIAN_SCATTER] < 0  # posse.kernels.passes.is_silent
    least = [
        levels.least_noise(centre, float(count), size, bool(constant))
        for count, constant in zip(counts, constant_rewards, strict=True)
    ]
    quiet = (belief.rewards > 0) & (belief.noise_variance <= SILENT * np.exp(least))
    quiet &= constant_rewards | (belief.noise_variance < 0.5 * np.exp(centre))
    spread = 1 / np.sqrt(evidence.shared_scale[0] * evidence.feature_square)
    centred = np.linalg.solve(centring(evidence), belief.shared_mean.T).T
    apart = np.abs(centred - evidence.arm_mean) / spread
    far = (belief.rewards > 0) & (apart.max(axis=1) > FAR)
    rewards, leverage = evidence.summaries[:, REWARDS].sum(), evidence.summaries[:, LEVERAGE].sum()
    return Unusual(
        quiet=tuple(np.flatnonzero(quiet).tolist()),
        far=tuple(np.flatnonzero(far).tolist()),
        coefficient_share=float(leverage / rewards) if rewards > 0 else 0.0,
        overdispersion=float(evidence.overdispersion[levels.NOISE]),
        converged=converged,
    )
