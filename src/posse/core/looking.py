"""What people look at of a core, and what other processes take over: copies in plain NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.contents import slots_of
from posse.core.levels import NOISE, least_noise
from posse.core.state import AT_LAST, NEWS
from posse.core.store import (
    COUNT,
    FRACTIONS,
    LEVERAGE,
    NEGATIVES,
    REWARD,
    REWARDS,
    SQUARES,
    ZEROS,
    n_triangle,
    totals_at,
)
from posse.families.sites import NUMBER
from posse.families.wrong_family import Kinds, groups_of, largest_groups
from posse.model.findings import Unusual

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.core.population import Population
    from posse.types import Array, IntArray

SILENT = 1.5  # times the least noise that an arm is allowed: noise this near to it gets a note
FAR = 3.0  # spreads of the arms: an arm whose shared mean lies further from the others' gets a note
SETTLED = 0.2  # relative move of an estimate that came to rest


class ArmView(NamedTuple):
    """The population of one arm, D = (1 + p) d shared coefficients."""

    noise: float
    covariance: Array  # (d, d) of tasks
    mean: Array  # (D,)
    uncertainty: Array  # (D, D)
    before: Array  # (D, D) the same before the rewards of this arm


def products_of(core: Core, now: float) -> Array:
    """Return sums of products of the columns of contexts and, last, the rewards, over all pairs."""
    d, sums = core.n_features, core.sums(None, now)
    products, upper = np.zeros((d + 1, d + 1)), np.triu_indices(d)
    products[upper] = sums.gram.sum(axis=0)
    products[:d, d] = sums.moment.sum(axis=0)
    products[d, d] = sums.squares.sum()
    whole: Array = products + np.triu(products, 1).T
    return whole


def kinds_of(core: Core, intercept: int | None) -> Kinds:
    """Return what numbers look like; ``intercept`` is the column that is always 1, without which means are unknown.

    Sums are as of when each pair was last aged: what they look like does not depend on that.
    """
    d, pairs, slots = core.n_features, core.state.store.pairs, slots_of(core.state, None)
    at, first = totals_at(d), n_triangle(d)

    def total(column: int) -> float:
        return float(pairs[slots, column].sum())

    counts = pairs[slots, at + COUNT]
    chosen = largest_groups(counts, d)
    some = pairs[slots[chosen]]
    return Kinds(
        rewards=float(counts.sum()), zeros=total(at + ZEROS), fractions=total(at + FRACTIONS),
        negatives=total(at + NEGATIVES), total=None if intercept is None else total(first + intercept),
        squares=total(at + SQUARES),
        groups=groups_of(some[:, :first], some[:, first:at], some[:, at + SQUARES], counts[chosen], intercept),
    )  # fmt: skip


def context_squares_of(core: Core) -> Array:
    """Return the mean squares of the features over all contexts; 1 for one that was always 0."""
    if core.elsewhere is not None:  # those of all cores
        population = core.state.population
        beside = population.feature_square[population.intercept].sum() * population.feature_mean**2
        return np.asarray(population.feature_square + beside)
    if core.state.store.family == NUMBER:
        sums, d = core.sums(), core.n_features
        places = np.cumsum([0, *range(d, 1, -1)])  # of the diagonal
        squares, count = sums.gram[:, places].sum(axis=0), sums.counts.sum()
    else:
        plain = core.plain_sums()
        squares, count = plain.squares.sum(axis=0), plain.counts.sum()
    total = max(float(count), 1.0)
    return np.asarray(np.where(squares > 0, squares, total) / total, dtype=np.float64)


def centring(population: Population) -> Array:
    """Return the matrix that turns coefficients for features less their means into those for features as they came."""
    back = np.eye(population.feature_mean.size)
    back[population.intercept] -= population.feature_mean
    return back


def arm_of(core: Core, arm: int) -> ArmView:
    """Return the population of an arm."""
    store, population, d = core.state.store, core.state.population, core.n_features
    n_shared, back = store.shared.shape[2], centring(population)
    before = np.zeros((n_shared, n_shared))
    before[:d, :d] = np.linalg.pinv(population.prior_precision[arm], hermitian=True)
    unit = (back / population.feature_square) @ back.T
    for column, group in enumerate(population.groups.tolist(), 1):
        at = slice(column * d, (column + 1) * d)
        before[at, at] = np.nan_to_num(population.effects[group]) * unit
    shared = store.shared[arm]
    return ArmView(
        float(store.noise[arm]), store.prior[arm, d + 1 :].copy(), shared[n_shared].copy(), shared[:n_shared].copy(),
        before,
    )  # fmt: skip


def through(known: Array, d: int) -> Array:
    """Return the matrix (D, d) by which shared coefficients become those of a task with these features."""
    matrix: Array = np.asarray(np.kron(known[:, None], np.eye(d)), dtype=np.float64)
    return matrix


def _known(core: Core) -> Array:
    """Return the features of tasks about which something is known."""
    store = core.state.store
    rows: Array = store.known[:-1][store.given[:-1]][:, 1:]
    return rows


def known_scatter(core: Core) -> Array:
    """Return how the features of tasks about which something is known scatter around their average, (p, p)."""
    rows = _known(core)
    apart = rows - (rows.mean(axis=0) if len(rows) else 0.0)
    scatter: Array = apart.T @ apart / max(len(rows), 1)
    return scatter


def effects_of(core: Core) -> tuple[Array, Array]:
    """Return the standard deviations of the effects of every feature of tasks and of arms.

    Over the tasks, or arms, about which something is known, where every column of the context has mean square 1.
    """
    population, features = core.state.population, core.state.arm_features
    found = []
    for rows, groups, variance in (
        (_known(core), population.groups, population.effects),
        (features[~np.isnan(features).any(axis=1)], population.arm_groups, population.arm_effects),
    ):
        squares = (rows**2).mean(axis=0) if len(rows) else np.zeros(groups.size)
        sizes = np.bincount(groups, weights=squares, minlength=variance.size)
        found.append(np.sqrt(np.nan_to_num(variance) * sizes))
    return found[0], found[1]


def unusual_of(core: Core) -> Unusual | None:
    """Return which arms the population hardly holds for, and where noise, coefficients and tails are hard to tell.

    None before the first estimate.
    """
    population, store, d = core.state.population, core.state.store, core.n_features
    if not (population.at_last[0] > 0 and population.steps[0] > 0):
        return None
    rewards, centre = population.summaries[:, REWARDS], float(population.centre[NOISE])
    over = float(population.overdispersion[NOISE])
    least = least_noise(centre, rewards / over, float(population.reward_scatter[0]), population.constant)
    quiet = (rewards > 0) & (population.noise <= SILENT * np.exp(least))
    quiet &= population.constant | (population.noise < 0.5 * np.exp(centre))
    features = np.nan_to_num(core.state.arm_features)
    expected = np.column_stack([np.ones(len(features)), features]) @ population.common_mean
    spread = 1.0 / np.sqrt(population.scale[0] * population.feature_square)
    apart = np.linalg.solve(centring(population), (store.shared[:, -1, :d] - expected).T).T / spread
    far = (rewards > 0) & (np.abs(apart).max(axis=1) > FAR)
    total = float(rewards.sum())
    return Unusual(
        quiet=tuple(np.flatnonzero(quiet).tolist()),
        far=tuple(np.flatnonzero(far).tolist()),
        coefficient_share=float(population.summaries[:, LEVERAGE].sum()) / total if total > 0 else 0.0,
        overdispersion=over,
        converged=bool(population.last_move[0] < SETTLED),
    )


def is_late(core: Core, times: float) -> bool:
    """Return whether an estimate has been due for long: rewards have grown by so many times the growth."""
    numbers = core.state.numbers
    return bool(numbers[NEWS] >= max(1.0, times * core.growth * numbers[AT_LAST]))


def estimated_at(core: Core) -> float:
    """Return how many rewards the population in force was estimated from."""
    return float(core.state.population.at_last[0])


# Rows of clicks and counts.


def rows_of(core: Core) -> IntArray:
    """Return the rows that are in use, the oldest capacity first."""
    store = core.state.store
    n_back, n_used = int(store.free_rows[0]), int(store.free_rows[1])
    return np.setdiff1d(np.arange(n_used), store.free_rows[2 : 2 + n_back])


def some_contexts(core: Core, most: int) -> Array:
    """Return contexts of clicks or counts that were learned, at most this many, evenly spread."""
    rows = rows_of(core)
    chosen = rows[np.linspace(0, rows.size - 1, min(most, rows.size)).astype(np.int64)]
    contexts: Array = core.state.store.row_context[chosen]
    return contexts


def last_rewards(core: Core) -> Array:
    """Return the last rewards of all pairs of clicks or counts."""
    rewards: Array = core.state.store.row_values[rows_of(core), REWARD]
    return rewards
