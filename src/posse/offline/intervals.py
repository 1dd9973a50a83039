r"""Intervals of off-policy estimates, by one rule in closed form.

An estimate is a ratio of sums over rows, or a difference of two. Rewards of one task share its coefficients, so with
enough tasks **tasks are the units**: the interval is about *tasks like these*, and its standard error :math:`s` is the
jackknife's over tasks. Few tasks cannot say how tasks differ; then **rows within tasks are the units** and the interval
is about *these very tasks*.

The ends are where an estimate :math:`v` would be just as far away as chance allows. How much chance does depends on the
truth :math:`x`: the variance of clicks is proportional to :math:`V(x) = x (1 - x)`, that of counts to
:math:`V(x) = x`, that of numbers, which have no bounds, does not depend on it. So the interval is

.. math:: \{x : (v - x)^2 \le q^2 s^2 \, V(x) / V(v)\},

Wilson's (1927) for clicks that all count once, and never outside the range of the rewards. :math:`q` is a quantile of
Student's distribution: its degrees of freedom are the effective number of rewards that count, or of tasks, less one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from posse.offline.estimators import Contributions
from posse.types import Array, IntArray

ROUNDING = 1e-13
RANGES = {"binary": (0.0, 1.0), "count": (0.0, math.inf), "revenue": (0.0, math.inf), "number": (-math.inf, math.inf)}
"""Where mean rewards of a family can be."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty.

    Parameters
    ----------
    value : float
    se : float
        Standard error; NaN where there is none.
    low, high : float
        Ends of the interval; NaN where there is none.
    positive : float
        How sure it is that the truth is above zero, from 0 to 1: above 0.975 where the 95 % interval lies above zero,
        below 0.025 where it lies below. NaN where there is no interval.
    """

    value: float
    se: float
    low: float = float("nan")
    high: float = float("nan")
    positive: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRule:
    """Make estimates with intervals from what rows contribute.

    Parameters
    ----------
    confidence : float
    family : {"number", "binary", "count", "revenue"}
        Of the rewards: where their means can be.
    over_tasks : bool
        Whether tasks are the units, or rows within tasks.

    Examples
    --------
    Ten tasks with 5 clicks each, 20 decisions in each; all tasks are alike, so only rows tell how uncertain that is:

    >>> tasks, clicks = np.repeat(np.arange(10), 20), np.tile(np.arange(20) < 5, 10)
    >>> rule = IntervalRule(confidence=0.95, family="binary", over_tasks=False)
    >>> found = rule.estimate(tasks, Contributions(clicks * 1.0, np.ones(200)), n_rewards=50.0)
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.25, 0.193, 0.318)
    """

    confidence: float
    family: str
    over_tasks: bool

    def estimate(
        self, tasks: IntArray, rows: Contributions, less: Contributions | None = None, *, n_rewards: float
    ) -> Estimate:
        """Return an estimate, or the difference of two, with its interval.

        Parameters
        ----------
        tasks : int ndarray of shape (n_rows,)
            From 0, none left out.
        rows, less : Contributions
            Of the estimate, and of the one that is subtracted.
        n_rewards : float
            :func:`effective_rewards` behind it.
        """
        parts = [rows] if less is None else [rows, less]
        value = parts[0].value - (parts[1].value if less is not None else 0.0)
        se = jackknife(tasks, parts) if self.over_tasks else _within(tasks, parts)
        if se == 0:
            bottom, top = self._range(less is not None)
            only = min(max(value, bottom), top)
            return Estimate(value, se, only, only, float(np.sign(value)) / 2 + 0.5)
        units = min(n_rewards, effective_size(np.bincount(tasks).astype(np.float64)) if self.over_tasks else math.inf)
        if not (math.isfinite(se) and units > 1):
            return Estimate(value, se)
        paired = less is not None
        ends = self._ends(value, se, units, paired=paired)
        return Estimate(value, se, *ends, self._positive(value, se, units, paired=paired))

    def _ends(self, value: float, se: float, units: float, *, paired: bool) -> tuple[float, float]:
        """Return the roots of (value - x)^2 = k V(x), where k V(value) is the square of Student's reach."""
        bottom, top = self._range(paired)
        reach = float(stdtrit(units - 1, (1 + self.confidence) / 2)) * se
        if math.isinf(bottom):
            return value - reach, value + reach
        value = min(max(value, bottom), top)
        k = reach**2 / _variance(value, se, bottom, top)
        if math.isinf(top):
            middle, reach = value + k / 2, math.sqrt(k * (value - bottom + k / 4))
        else:
            middle = (value + k * (bottom + top) / 2) / (1 + k)
            reach = math.sqrt(k * ((value - bottom) * (top - value) + k * ((top - bottom) / 2) ** 2)) / (1 + k)
        return max(middle - reach, bottom), min(middle + reach, top)

    def _range(self, paired: bool) -> tuple[float, float]:
        bottom, top = RANGES[self.family]
        return (bottom - top, top - bottom) if paired else (bottom, top)

    def _positive(self, value: float, se: float, units: float, *, paired: bool) -> float:
        """Return the confidence at which zero is an end of the interval, as a side."""
        bottom, top = self._range(paired)
        if bottom == 0:
            return float(np.sign(value)) / 2 + 0.5
        if math.isfinite(bottom):
            value = min(max(value, bottom), top)
            se *= math.sqrt(-bottom * top / _variance(value, se, bottom, top))
        return float(stdtr(units - 1, value / se))


def effective_size(weights: Array) -> float:
    """Return the effective number of rows (or tasks) behind a weighted sum.

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 1.0, 1.0])), effective_size(np.array([3.0, 0.0, 1.0, 0.0]))
    (4.0, 1.6)
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def effective_rewards(weights: Array, rewards: Array, usual: float) -> float:
    """Return the effective number of rewards that differ from the usual one: of clicks, where clicks are rare.

    The smaller of two numbers: by the weights of these rewards, and by their share of the effective rows.

    Examples
    --------
    >>> effective_rewards(np.ones(100), np.repeat([0.0, 1.0], [97, 3]), usual=0.0)
    3.0
    """
    distance = weights * np.abs(rewards - usual)
    total = float(weights.sum())
    share = float(weights[distance > 0].sum()) / total if total > 0 else 0.0
    return min(effective_size(distance), share * effective_size(weights))


def _variance(value: float, se: float, bottom: float, top: float) -> float:
    """Return V(value), at least a standard error inside: weighted means without such a range come near its ends."""
    nearest = min(se, (top - bottom) / 2)
    inside = min(max(value, bottom + nearest), top - nearest)
    return (inside - bottom) * (1.0 if math.isinf(top) else top - inside)


def jackknife(tasks: IntArray, parts: list[Contributions]) -> float:
    """Return the standard error over tasks, each left out once; NaN if one of them makes the estimate."""
    moved: Array = np.zeros(int(tasks.max()) + 1)
    if moved.size < 2:
        return math.nan
    for sign, part in zip((1.0, -1.0), parts, strict=False):
        own, over = np.bincount(tasks, part.numerator), np.bincount(tasks, part.denominator)
        expected = part.value * over
        pulls = _without_rounding(own - expected, np.abs(own) + np.abs(expected))
        with np.errstate(divide="ignore", invalid="ignore"):
            moved -= sign * pulls / (over.sum() - over)
    return math.sqrt(float(moved @ moved) * (moved.size - 1) / moved.size)


def _within(tasks: IntArray, parts: list[Contributions]) -> float:
    """Return the standard error over rows, given their tasks: what differs between tasks does not count."""
    pulls: Array = np.zeros(tasks.size)
    for sign, part in zip((1.0, -1.0), parts, strict=False):
        expected = part.value * part.denominator
        pull = _without_rounding(part.numerator - expected, np.abs(part.numerator) + np.abs(expected))
        with np.errstate(divide="ignore", invalid="ignore"):
            pulls += sign * pull / part.denominator.sum()
    count = np.bincount(tasks)
    inner = pulls - (np.bincount(tasks, pulls) / np.maximum(count, 1))[tasks]
    many = count > 1
    squares = np.bincount(tasks, inner**2)[many] * (count[many] / (count[many] - 1))
    return math.sqrt(float(squares.sum())) if many.any() else math.nan


def _without_rounding(differences: Array, sizes: Array) -> Array:
    """Return differences, zero where only rounding made them."""
    return np.where(np.abs(differences) <= ROUNDING * sizes, 0.0, differences)
