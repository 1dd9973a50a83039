"""Sums over all pairs, between which an estimate of the population knows arms only.

Pairs are listed arm by arm and cut into parts; each part is summed for itself, on any thread, and the parts of an arm
are added in their order. So the result does not depend on the number of threads, and shards can sum apart.

Symbols are those of :mod:`posse.core.store`. With ``z z'`` the products of known features, Z = (1 + p)(2 + p) / 2 of
them, those with the constant first, a pair tells its arm ``w z z' (x) Q P^-1 A`` and ``w z (x) Q P^-1 b``. Its
deviation from the centre ``W z`` has the mean ``P^-1 b - L W z`` and the covariance ``s2 P^-1 + L Phi_z L'`` with
``L = P^-1 A``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.core.blocks import (
    FEWEST_LANES,
    MOST_LANES,
    add_products,
    add_up,
    blockwise,
    condition,
    load,
    root_of,
    solve,
    times_root,
)
from posse.core.compiler import compiled
from posse.core.dispersion import believed_rows
from posse.core.pair import age_silently, new_work
from posse.core.rows import remake_slots
from posse.core.store import COUNT, N_TOTALS, SQUARES, n_triangle, totals_at
from posse.threads import spread_parts, workers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from posse.core.store import Store
    from posse.model.statistics import Statistics
    from posse.types import Array, IntArray

    Keys = Callable[[], npt.NDArray[np.uint64]]

PART = 1024  # pairs that are summed together
MANY = 2000  # pairs from which on threads are worth their start

# Columns of what is counted about the pairs of an arm. The last four say how unevenly squared residuals fall on pairs:
# sums of the degrees of freedom f of every pair, of its squared residuals r squared, of r f and of f squared.
LEVERAGE, SQUARED_LEVERAGE, RESIDUAL, LENGTH, FREEDOM, RESIDUAL_SQUARE, CROSS, FREEDOM_SQUARE = range(8)
N_COUNTS = 8
ROUNDING = 1e-13  # share of a pair's sum of squares below which residuals are rounding, whose scatter says nothing


@compiled
def lanes_for(parts: IntArray, begin: int, end: int) -> int:
    """Return how many pairs a block of some parts has: no more than the largest part needs."""
    most = 0
    for part in range(begin, end):
        most = max(most, parts[part, 2] - parts[part, 1])
    return min(MOST_LANES, FEWEST_LANES * ((most + FEWEST_LANES - 1) // FEWEST_LANES))


@blockwise
def load_products(
    known: Array, weight: Array, owner: IntArray, slots: IntArray, first: int, z: Array, products: Array, weights: Array
) -> None:
    """Write known features of some pairs, their products times the weight of the task, and that weight."""
    lanes = weights.shape[0]
    p1, n = known.shape[1], min(lanes, slots.shape[0] - first)
    for lane in range(lanes):
        task = owner[slots[first + lane], 0] if lane < n else -1
        weights[lane] = weight[task] if lane < n else 1.0
        place = 0
        for a in range(p1):
            z[a, lane] = known[task, a] if lane < n else 0.0
        for a in range(p1):
            for c in range(a, p1):
                products[place, lane] = weights[lane] * z[a, lane] * z[c, lane]
                place += 1


@blockwise
def sum_pairs(
    parts: IntArray, begin: int, end: int, slots: IntArray, pairs: Array, owner: IntArray, known: Array,
    weight: Array, noise: Array, prior: Array, shared: Array, messages: Array, moments: Array, leaning: Array,
    counts: Array, distance: Array,
) -> None:  # fmt: skip
    """Write, by part, what pairs tell their arms if ``messages`` is there, or else what a step needs.

    ``messages`` gets sums of ``w z z' (x) P^-1 [A, b]``: shape (parts, Z, d, d + 1).

    ``moments`` gets sums of w (delta delta' + L Phi_z L'), upper triangles, ``leaning`` those of L, ``counts`` the
    rest, and ``distance``, by place in ``slots``, how far each pair is from its centre; it may be empty. ``shared`` has
    Phi and, below it, m of every arm.
    """
    d, p1, lanes = prior.shape[2], known.shape[1], lanes_for(parts, begin, end)
    robust, tells = distance.shape[0] > 0, messages.shape[0] > 0
    data, factor, told = np.zeros((d, d + 1, lanes)), np.empty((d, d, lanes)), np.empty((d, d + 1, lanes))
    root, work = np.empty((d, d, lanes)), np.empty((d, d, lanes))
    centre, delta, gradient = np.empty((d, lanes)), np.empty((d, lanes)), np.empty((d, lanes))
    z, products = np.empty((p1, lanes)), np.empty((p1 * (p1 + 1) // 2, lanes))
    weights, levels, value = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    squares, length, explained, trace = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    stretch = np.empty(lanes)
    for part in range(begin, end):
        arm, rows = parts[part, 0], slots[parts[part, 1] : parts[part, 2]]
        n_shared, inverse = shared.shape[2], prior[arm]
        phi, mean = shared[arm], shared[arm, n_shared]
        if tells:
            messages[part] = 0.0
        else:
            moments[part], leaning[part], counts[part] = 0.0, 0.0, 0.0
        for first in range(0, rows.shape[0], lanes):
            n = min(lanes, rows.shape[0] - first)
            load(pairs, rows, first, data)
            load_products(known, weight, owner, rows, first, z, products, weights)
            for lane in range(lanes):
                levels[lane] = noise[arm] * weights[lane]
            condition(data, inverse, levels, factor)
            solve(factor, data, told)
            if tells:
                for i in range(d):
                    for j in range(d + 1):
                        for place in range(messages.shape[1]):
                            messages[part, place, i, j] += add_up(told[i, j], products[place])
                continue
            if first == 0 or p1 > 1:
                # The root of Phi_z, the uncertainty of the centre; without features it is the same for all pairs.
                for i in range(d):
                    for j in range(i, d):
                        entry = root[i, j]
                        for lane in range(lanes):
                            entry[lane] = phi[i, j]
                        for a in range(p1):
                            for c in range(p1):
                                if a + c > 0:
                                    both = phi[a * d + i, c * d + j]
                                    for lane in range(lanes):
                                        entry[lane] += z[a, lane] * z[c, lane] * both
                root_of(root, delta)
            for i in range(d):
                entry, target = centre[i], delta[i]
                for lane in range(lanes):
                    entry[lane] = 0.0
                    target[lane] = told[i, d, lane]
                for a in range(p1):
                    feature, at = z[a], mean[a * d + i]
                    for lane in range(lanes):
                        entry[lane] += feature[lane] * at
            for lane in range(lanes):
                squares[lane], length[lane], explained[lane], trace[lane], stretch[lane] = 0.0, 0.0, 0.0, 0.0, 0.0
            # delta = P^-1 b - L W z, and gradient = b - A W z.
            for i in range(d):
                target, slope = delta[i], gradient[i]
                for lane in range(lanes):
                    slope[lane] = data[i, d, lane]
                    trace[lane] += told[i, i, lane]
                for j in range(d):
                    entry, left, right = centre[j], told[i, j], data[i, j]
                    for lane in range(lanes):
                        target[lane] -= left[lane] * entry[lane]
                        slope[lane] -= right[lane] * entry[lane]
                for lane in range(lanes):  # around the centre: c - 2 b'm + m'A m
                    squares[lane] -= centre[i, lane] * (slope[lane] + data[i, d, lane])
                add_products(explained, target, slope)
            times_root(told, root, work)
            for i in range(d):
                for j in range(i, d):
                    left, right = delta[i], delta[j]
                    for lane in range(lanes):
                        value[lane] = left[lane] * right[lane]
                        length[lane] += (1.0 + (j > i)) * inverse[i, j] * value[lane]
                    k = 0
                    while k + 1 < d:
                        a, b, c, e = work[i, k], work[j, k], work[i, k + 1], work[j, k + 1]
                        for lane in range(lanes):
                            value[lane] += a[lane] * b[lane] + c[lane] * e[lane]
                        k += 2
                    if k < d:
                        add_products(value, work[i, k], work[j, k])
                    if robust:
                        for lane in range(lanes):
                            stretch[lane] += (1.0 + (j > i)) * inverse[i, j] * value[lane]
                    if n < lanes:  # lanes that are left over have no task, and a centre nevertheless
                        for lane in range(n, lanes):
                            value[lane] = 0.0
                    moments[part, i, j] += add_up(value, weights)
                    both = add_up(told[i, j], told[j, i])
                    counts[part, SQUARED_LEVERAGE] += both if i == j else 2.0 * both
                for j in range(d):
                    for lane in range(n):
                        leaning[part, i, j] += told[i, j, lane]
            for lane in range(n):
                totals = pairs[rows[first + lane], totals_at(d) :]
                whole = totals[SQUARES]
                own = whole + squares[lane] - explained[lane] - levels[lane] * length[lane]
                if not own > ROUNDING * whole:
                    own = 0.0
                free = max(totals[COUNT] - trace[lane], 0.0)
                counts[part, LEVERAGE] += trace[lane]
                counts[part, RESIDUAL] += own
                counts[part, LENGTH] += weights[lane] * length[lane]
                counts[part, FREEDOM] += free
                counts[part, RESIDUAL_SQUARE] += own * own
                counts[part, CROSS] += own * free
                counts[part, FREEDOM_SQUARE] += free * free
                if robust:
                    distance[parts[part, 1] + first + lane] = (d - trace[lane]) / weights[lane] + stretch[lane]


@blockwise
def measure_numbers(parts: IntArray, begin: int, end: int, slots: IntArray, pairs: Array, d: int, out: Array) -> None:
    """Write, by part, sums of A, b and totals, and of squared mean squares of the features, weighted by rewards."""
    n = totals_at(d) + N_TOTALS
    for part in range(begin, end):
        out[part] = 0.0
        total, squares = out[part, :n], out[part, n:]
        for place in range(parts[part, 1], parts[part, 2]):
            pair, at = pairs[slots[place]], 0
            for column in range(n):
                total[column] += pair[column]
            each = 1.0 / pair[totals_at(d) + COUNT]
            for i in range(d):
                squares[i] += pair[at] * pair[at] * each
                at += d - i


@compiled
def age_all(pairs: Array, factors: Array, n_slots: int, d: int, age: float) -> None:
    """Bring the sums of all pairs to the present; their messages are summed afterwards."""
    for slot in range(n_slots):
        age_silently(pairs, factors, slot, d, age)


@compiled
def list_pairs(owner: IntArray, pairs: Array, n_slots: int, d: int, slots: IntArray, starts: IntArray) -> None:
    """List the slots that have rewards, arm by arm; those of an arm begin at ``starts[arm]``."""
    starts[:] = 0
    for slot in range(n_slots):
        if owner[slot, 1] >= 0 and pairs[slot, totals_at(d) + COUNT] > 0.0:
            starts[owner[slot, 1] + 1] += 1
    for arm in range(starts.shape[0] - 1):
        starts[arm + 1] += starts[arm]
    at = starts.copy()
    for slot in range(n_slots):
        if owner[slot, 1] >= 0 and pairs[slot, totals_at(d) + COUNT] > 0.0:
            slots[at[owner[slot, 1]]] = slot
            at[owner[slot, 1]] += 1


class Moments(NamedTuple):
    """Sums over pairs by arm, under a population and the posterior of the arms' shared coefficients."""

    n_pairs: Array  # (K,)
    second_moment: Array  # (K, d, d) of deviations from the centres
    stretch: Array  # (K,) sum of w tr(Q L Phi_z L')
    prior: Array  # (K, 2d + 1, d) as in the store
    covariance: Array  # (K, D, D) Phi
    leverage: Array  # (K,) sum of tr L
    squared_leverage: Array  # (K,) sum of tr L L
    residual: Array  # (K,) squared residuals around the tasks' own coefficients
    freedom: Array  # (K,)
    residual_square: Array  # (K,)
    cross: Array  # (K,)
    freedom_square: Array  # (K,)
    distance: Array  # (pairs,) from the centres, empty if nobody asked


class TaskSums(NamedTuple):
    """Sums over tasks with rewards of what is known about them."""

    number: IntArray  # (2,) tasks, and those about which something is known
    total: Array  # (p,) of features
    products: Array  # (p, p)

    @property
    def average(self) -> Array:
        """Features of those about which something is known, the first is 1; only that if there are none."""
        return np.concatenate([[1.0], self.total / max(self.number[1], 1)])

    @property
    def scatter(self) -> Array:
        """How they differ from their average, (p, p)."""
        average = self.average[1:]
        return np.asarray(self.products / max(self.number[1], 1) - np.outer(average, average))

    @property
    def sizes(self) -> Array:
        """Mean squares of the features of all, those at the average too."""
        there, known = self.number
        squares = np.diagonal(self.products) + (there - known) * self.average[1:] ** 2
        return np.asarray(squares / max(there, 1))


class Pairs:
    """Pairs of a store that have rewards, and sums over them.

    Parameters
    ----------
    store : Store
        Whose sums nobody changes meanwhile.
    slots, starts : ndarrays
        Slots, those of an arm from ``starts[arm]`` on.
    """

    def __init__(self, store: Store, slots: IntArray, starts: IntArray) -> None:
        self.store, self.slots, self.starts = store, slots, starts
        self.d = store.prior.shape[2]
        parts = [
            (arm, first, min(first + PART, last))
            for arm, (begin, last) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
            for first in range(begin, last, PART)
        ]
        self.parts = np.array(parts, dtype=np.int64).reshape(-1, 3)
        self.n_pairs = np.diff(starts).astype(np.int64)
        self._arms, self._first = np.unique(self.parts[:, 0], return_index=True)

    @classmethod
    def of(cls, store: Store, n_slots: int) -> Pairs:
        """Return all pairs that have rewards."""
        slots, starts = np.empty(n_slots, dtype=np.int64), np.empty(store.noise.size + 1, dtype=np.int64)
        list_pairs(store.owner, store.pairs, n_slots, store.prior.shape[2], slots, starts)
        return cls(store, slots[: starts[-1]], starts)

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return int(self.n_pairs.sum())

    def sample(self, every: IntArray, keys: Keys | None) -> Pairs:
        """Return one in this many pairs of every arm, evenly spread: those of the tasks with the lowest keys."""
        key = None if keys is None else keys()

        def chosen(arm: int, slots: IntArray) -> IntArray:
            one_in = int(every[arm])
            if key is None or one_in == 1:
                return np.arange(0, slots.size, one_in)
            return np.flatnonzero(key[self.store.owner[slots, 0]] < np.uint64(2**64 // one_in))

        places = [self.starts[arm] + chosen(arm, self.of_arm(arm)) for arm in range(self.n_pairs.size)]
        starts = np.concatenate([[0], np.cumsum([part.size for part in places])]).astype(np.int64)
        where = np.concatenate(places)
        return Pairs(self.store, self.slots[where], starts)

    def of_arm(self, arm: int) -> IntArray:
        """Return the slots of an arm."""
        return self.slots[self.starts[arm] : self.starts[arm + 1]]

    def only(self, arm: int) -> Pairs:
        """Return the pairs of one arm."""
        slots = self.of_arm(arm)
        return Pairs(self.store, slots, np.where(np.arange(self.starts.size) > arm, slots.size, 0))

    @property
    def counts(self) -> Array:
        """Rewards of every pair."""
        return np.asarray(self.store.pairs[self.slots, totals_at(self.d) + COUNT])

    def rewards(self) -> Array:
        """Return the rewards of every arm."""
        arms = np.repeat(np.arange(self.n_pairs.size), self.n_pairs)
        return np.asarray(np.bincount(arms, weights=self.counts, minlength=self.n_pairs.size), dtype=np.float64)

    def about_tasks(self) -> TaskSums:
        """Return sums over the tasks of these pairs of what is known about them."""
        tasks = np.unique(self.store.owner[self.slots, 0])
        rows = self.store.known[tasks[self.store.given[tasks]], 1:]
        return TaskSums(np.array([tasks.size, len(rows)]), rows.sum(axis=0), rows.T @ rows)

    def _run(self, work: Callable[[int, int], object]) -> None:
        """Call ``work(begin, end)`` for all parts, on several threads if there are many pairs."""
        n, threads = len(self.parts), workers() if self.slots.size >= MANY else 1
        if threads == 1:
            work(0, n)
            return
        cuts = np.linspace(0, n, 4 * threads + 1).astype(int).tolist()

        def one(begin: int, end: int) -> Callable[[], object]:
            return lambda: work(begin, end)

        spread_parts([one(begin, end) for begin, end in pairwise(cuts) if begin < end])

    def _by_arm(self, parts: Array) -> Array:
        """Return sums over the parts of every arm, in their order."""
        result = np.zeros((self.starts.size - 1, *parts.shape[1:]))
        if len(parts) == len(self._arms):
            result[self._arms] = parts
        else:
            result[self._arms] = np.add.reduceat(parts, self._first, axis=0)
        return result

    def _sum(
        self, noise: Array, prior: Array, known: Array, weight: Array, shared: Array, messages: Array, out: Any
    ) -> None:
        """Write what pairs tell their arms, or else what a step needs."""
        given = self.slots, self.store.pairs, self.store.owner, known, weight, noise, prior, shared, messages
        self._run(lambda begin, end: sum_pairs(self.parts, begin, end, *given, *out))

    def messages(self, noise: Array, prior: Array, known: Array, weight: Array) -> tuple[Array, Array]:
        """Return what pairs tell the shared coefficients of their arms: precision (K, D, D) and moment (K, D)."""
        d, p1 = self.d, known.shape[1]
        out, nothing = np.empty((len(self.parts), p1 * (p1 + 1) // 2, d, d + 1)), np.empty((0, 0, 0))
        empty = nothing, nothing, np.empty((0, 0)), np.empty(0)
        self._sum(noise, prior, known, weight, prior, out, empty)
        told = prior[:, None, :d] @ self._by_arm(out)
        n_arms = noise.size
        precision, moment = np.empty((n_arms, p1, d, p1, d)), np.empty((n_arms, p1, d))
        place = 0
        for a in range(p1):
            moment[:, a] = told[:, a, :, d]
            for c in range(a, p1):
                block = told[:, place, :, :d]
                precision[:, a, :, c] = precision[:, c, :, a] = 0.5 * (block + block.swapaxes(1, 2))
                place += 1
        return precision.reshape(n_arms, p1 * d, p1 * d), moment.reshape(n_arms, p1 * d)

    def moments(
        self, noise: Array, prior: Array, shared: Array, known: Array, weight: Array, *, distances: bool
    ) -> Moments:
        """Return what a step needs to know of the pairs, under this population and posterior of the arms."""
        d, n = self.d, len(self.parts)
        moments, leaning, counts = np.empty((n, d, d)), np.empty((n, d, d)), np.empty((n, N_COUNTS))
        distance = np.empty(self.slots.size if distances else 0)
        out = moments, leaning, counts, distance
        self._sum(noise, prior, known, weight, shared, np.empty((0, 0, 0, 0)), out)
        upper, lean, totals = self._by_arm(moments), self._by_arm(leaning), self._by_arm(counts)
        whole, covariance = upper + np.triu(upper, 1).swapaxes(1, 2), prior[:, d + 1 :]
        settled = lean @ covariance
        size = shared.shape[2]
        return Moments(
            n_pairs=self.n_pairs.astype(np.float64),
            # Sigma less what rewards have settled, and what they say.
            second_moment=self.n_pairs[:, None, None] * covariance - 0.5 * (settled + settled.swapaxes(1, 2)) + whole,
            stretch=(prior[:, :d] * whole).sum(axis=(1, 2)) - totals[:, LENGTH],
            prior=prior,
            covariance=shared[:, :size],
            leverage=totals[:, LEVERAGE],
            squared_leverage=totals[:, SQUARED_LEVERAGE],
            residual=totals[:, RESIDUAL],
            freedom=totals[:, FREEDOM],
            residual_square=totals[:, RESIDUAL_SQUARE],
            cross=totals[:, CROSS],
            freedom_square=totals[:, FREEDOM_SQUARE],
            distance=distance,
        )

    def measures(self) -> Array:
        """Return products of all features and, last, rewards of every arm: upper triangles, shape (K, d + 1, d + 1).

        The last row has sums of squared mean squares of the features, weighted by rewards: where all pairs have the
        same mean square of a feature, it is constant.
        """
        d, at = self.d, totals_at(self.d)
        out = np.empty((len(self.parts), at + N_TOTALS + d))
        self._run(
            lambda begin, end: measure_numbers(self.parts, begin, end, self.slots, self.store.pairs, d, out)
        )  # fmt: skip
        sums, measures = self._by_arm(out), np.zeros((self.starts.size - 1, d + 1, d + 1))
        measures[:, *np.triu_indices(d)] = sums[:, : n_triangle(d)]
        measures[:, :d, d], measures[:, d, :d] = sums[:, n_triangle(d) : at], sums[:, at + N_TOTALS :]
        measures[:, d, d] = sums[:, at + SQUARES]
        return measures

    def plain_measures(self) -> Array:
        """Return sums of contexts and, below, of their squares, of clicks or counts; last, how many there were.

        Where rewards count for less by now, so do their contexts.
        """
        plain = self.store.plain[self.slots]
        left = self.counts / np.maximum(plain[:, -1], 1.0)
        sums = left @ plain
        ends = np.full((2, 1), sums[-1])
        return np.concatenate([sums[: 2 * self.d].reshape(2, self.d), ends], axis=1)

    def believed_rows(self, store: Store, arm: int) -> Array:
        """Return the rows of an arm that are kept, as :func:`posse.core.dispersion.believed_rows` does."""
        return believed_rows(store, self.of_arm(arm))

    def remake(self, store: Store, arm: int, passes: int, turns: int) -> Array:
        """Make the sites of one pair of an arm in ``turns`` again, given that store's population and arms.

        Return how what they tell the arm has changed; of infinite precisions it is nothing.
        """
        slots, before = self.of_arm(arm), store.told[arm].copy()
        work = new_work(self.d, before.shape[1])
        remake_slots(store, work, slots[(np.arange(slots.size) + passes) % turns == 0])
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(store.told[arm] - before))

    def statistics(self) -> Statistics:
        """Return sums of all arms and tasks, those without rewards too."""
        from posse.model.statistics import Statistics

        tasks, arms = self.store.owner[self.slots].T
        stats = Statistics.zeros(n_tasks=int(tasks.max(initial=0)) + 1, n_arms=self.n_pairs.size, n_features=self.d)
        rows, upper, at = self.store.pairs[self.slots], np.triu_indices(self.d), totals_at(self.d)
        gram = np.zeros((tasks.size, self.d, self.d))
        gram[:, *upper] = gram[:, upper[1], upper[0]] = rows[:, : n_triangle(self.d)]
        stats.gram[arms, tasks], stats.moment[arms, tasks] = gram, rows[:, n_triangle(self.d) : at]
        stats.sum_of_squares[arms, tasks], stats.count[arms, tasks] = rows[:, at + SQUARES], rows[:, at + COUNT]
        return stats
