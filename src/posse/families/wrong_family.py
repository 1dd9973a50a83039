"""Which family rewards that are learned as numbers look like: clicks, counts, or amounts of money.

A family is told from a few sums: how many rewards are 0, have a fraction or are below 0, and how noise grows with the
mean, over groups of rewards that have one mean but for features (a task and an arm each).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.types import Array, IntArray

# The first values that were tried: no false alarm in 1,680 worlds, and of 40 wrong families 39 found at 1,500 rows.
FEWEST, FEWEST_ABOVE = 50, 5  # rewards, and those that are not 0
MOSTLY = 0.5  # share of zeros from which on rewards are mostly 0
NO_COUNT = 0.6  # share of the rewards above 0 that counts of such a variance would have: fewer are amounts
NEAR = 0.7  # of variance over mean: counts have 1 or more
SMALL = 2.0  # a mean up to which counts are seen to be counts by their zeros
GROWS, SURELY = 0.7, 4.0  # power of the mean with which noise variance grows, in itself and in standard errors
FEWEST_GROUPS, WIDE = 8, 0.25  # groups, and the standard deviation of the logarithms of their means
FREE = 5.0  # degrees of freedom of a group
MOST_GROUPS = 2000
ROUNDS, LARGEST_POWER = 30, 6.0
EXACT, NO_NOISE = 1e-6, 1e-9  # shares of the rewards, and of their squares
LARGEST = 1e60  # of a sum: squares of larger ones are no numbers


class Groups(NamedTuple):
    """Rewards by task and arm."""

    mean: Array
    variance: Array  # around what features explain
    freedom: Array
    rewards: Array


class Kinds(NamedTuple):
    """Sums over rewards.

    Parameters
    ----------
    rewards, zeros, fractions, negatives : float
        How many there are, are 0, are not whole, are below 0.
    total : float or None
        Their sum, where it is known.
    squares : float
    groups : Groups
    """

    rewards: float
    zeros: float
    fractions: float
    negatives: float
    total: float | None
    squares: float
    groups: Groups


class WrongFamily(NamedTuple):
    """A family that fits rewards better than numbers do.

    Parameters
    ----------
    family : str
        What ``rewards=`` calls it.
    seen : str
        What the rewards look like.
    change : str
        What the family would change.
    """

    family: str
    seen: str
    change: str

    def __str__(self) -> str:
        return f'{self.seen}: rewards="{self.family}" fits them, and {self.change}'


def wrong_family(kinds: Kinds) -> WrongFamily | None:
    """Return the family that rewards look like which are learned as numbers; None if numbers are right.

    Examples
    --------
    >>> nothing = np.zeros(0)
    >>> print(wrong_family(Kinds(900, 855, 0, 0, 45.0, 45.0, Groups(nothing, nothing, nothing, nothing))))
    all rewards are 0 or 1, 5.0% of them 1: rewards="binary" fits them, and ...
    """
    n, above = kinds.rewards, kinds.rewards - kinds.zeros
    if n < FEWEST or above < FEWEST_ABOVE or kinds.negatives > EXACT * n:
        return None
    zeros, whole = kinds.zeros / n, kinds.fractions <= EXACT * n
    if whole and abs(kinds.squares - above) <= EXACT * n:
        if kinds.zeros < FEWEST_ABOVE:
            return None
        return WrongFamily(
            "binary",
            f"all rewards are 0 or 1, {1.0 - zeros:.1%} of them 1",
            "makes them probabilities: noise that follows from the mean, and intervals between 0 and 1",
        )
    power, surely = growth(kinds.groups)
    grows = power > GROWS and surely
    if whole and kinds.total is not None and _is_count(kinds, zeros, grows):
        ratio = _ratio(kinds)
        return WrongFamily(
            "count",
            f"all rewards are whole numbers from 0 on, {zeros:.1%} of them 0, with a variance of {ratio:.2g} times "
            "their mean",
            "makes them rates: noise that grows with the mean, and intervals above 0",
        )
    if zeros >= MOSTLY:
        size = "" if kinds.total is None else f" ({kinds.total / above:.3g} on average)"
        return WrongFamily(
            "revenue",
            f"{zeros:.1%} of the rewards are 0 and the others amounts{size}",
            "learns how often there is an amount apart from how large it is: fewer rewards tell arms apart, and "
            "intervals stay above 0",
        )
    if grows:
        return WrongFamily(
            "count" if whole else "revenue",
            f"no reward is below 0, and their variance grows with their mean (as its power {power:.1f}, from "
            f"{_middle(kinds.groups.mean, 10):.3g} to {_middle(kinds.groups.mean, 90):.3g})",
            "has noise that grows with the mean: small rewards say more, and intervals stay above 0",
        )
    return None


def _is_count(kinds: Kinds, zeros: float, grows: bool) -> bool:
    """Return whether whole numbers scatter as counts do, and not as amounts that are mostly 0."""
    assert kinds.total is not None
    mean = kinds.total / kinds.rewards
    if not grows and (mean > SMALL or zeros < 0.5 * math.exp(-mean)):
        return False
    if _ratio(kinds) < NEAR:
        return False
    # As many rewards above 0 as counts with this mean and variance have (negative binomial).
    scatter = max((kinds.squares / kinds.rewards - mean * mean) / mean - 1.0, 1e-6) / mean
    expected = -math.expm1(-math.log1p(scatter * mean) / scatter)
    return zeros < MOSTLY or 1.0 - zeros >= NO_COUNT * expected


def _ratio(kinds: Kinds) -> float:
    """Return variance over mean of rewards, within groups where there are any."""
    groups = kinds.groups
    if groups.freedom.sum() >= FEWEST:
        return float(groups.freedom @ groups.variance) / max(float(groups.freedom @ groups.mean), 1e-300)
    assert kinds.total is not None
    mean = kinds.total / kinds.rewards
    return (kinds.squares / kinds.rewards - mean * mean) / mean


def _middle(values: Array, percent: float) -> float:
    return float(np.percentile(values, percent))


def growth(groups: Groups) -> tuple[float, bool]:
    """Return the power of the mean with which variances grow over groups, and whether that is sure.

    Variances are means of squares, so they are fitted on their own scale (a gamma regression with a log link): groups
    of few rewards of heavy tails mostly show too little, which logarithms of them would take for a small variance.
    """
    some = (groups.mean > 0) & (groups.freedom >= FREE)
    mean, variance = groups.mean[some], groups.variance[some]
    freedom, rewards = groups.freedom[some], groups.rewards[some]
    if mean.size < FEWEST_GROUPS or not bool((variance > 0).all()):
        return 0.0, False
    x = np.log(mean)
    x -= np.average(x, weights=freedom)
    wide = float(np.average(x * x, weights=freedom))
    # Means that differ by their own noise alone tell nothing, and skewed noise moves them together with variances.
    if wide < WIDE**2 or wide < 2.0 * float(np.average(variance / rewards / mean**2, weights=freedom)):
        return 0.0, False
    design, beta = np.column_stack([np.ones(x.size), x]), np.zeros(2)
    beta[0] = math.log(float(np.average(variance, weights=freedom)))
    information = design.T @ (freedom[:, None] * design)
    for _ in range(ROUNDS):
        left = variance / np.exp(design @ beta) - 1.0
        move = np.linalg.solve(information, design.T @ (freedom * np.minimum(left, 3.0)))
        beta = beta + np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < 1e-4:
            break
    scores = design * (freedom * (variance / np.exp(design @ beta) - 1.0))[:, None]
    inverse = np.linalg.inv(information)
    error = math.sqrt(max(float((inverse @ scores.T @ scores @ inverse)[1, 1]), 0.0))
    power = min(max(float(beta[1]), -LARGEST_POWER), LARGEST_POWER)
    return power, power > SURELY * error


def largest_groups(counts: Array, d: int) -> IntArray:
    """Return which groups have enough rewards to tell a variance; of very many, those with the most."""
    chosen = np.flatnonzero(counts >= d + FREE)
    if chosen.size > MOST_GROUPS:
        chosen = chosen[np.argpartition(-counts[chosen], MOST_GROUPS)[:MOST_GROUPS]]
    return np.sort(chosen)


def groups_of(gram: Array, moment: Array, squares: Array, counts: Array, intercept: int | None) -> Groups:
    """Return groups, of :func:`largest_groups`, from sums of products of contexts and rewards.

    Parameters
    ----------
    gram : ndarray of shape (n, d (d + 1) / 2)
        Upper triangles, row after row.
    moment : ndarray of shape (n, d)
    squares, counts : ndarrays of shape (n,)
    intercept : int or None
        The column that is always 1. Without one, means are not known.
    """
    nothing = np.zeros(0)
    d = moment.shape[1]
    if intercept is None or not counts.size:
        return Groups(nothing, nothing, nothing, nothing)
    sizes = np.maximum(np.maximum(np.abs(gram).max(axis=1), np.abs(moment).max(axis=1)), squares)
    chosen = np.flatnonzero(sizes < LARGEST)
    moment, squares, counts = moment[chosen], squares[chosen], counts[chosen]
    whole, upper = np.zeros((chosen.size, d, d)), np.triu_indices(d)
    whole[:, *upper] = whole[:, upper[1], upper[0]] = gram[chosen]
    fitted = (np.linalg.pinv(whole, hermitian=True, rcond=1e-10) @ moment[:, :, None])[:, :, 0]
    left = squares - (fitted * moment).sum(axis=1)
    freedom = counts - d
    variance = left / freedom
    there = left > NO_NOISE * squares
    mean = moment[:, intercept] / counts
    return Groups(mean[there], variance[there], freedom[there], counts[there])
