"""Bootstrap over seeds for numbers that are not a ratio of two means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posse.types import Array

RESAMPLES = 2_000
LEVEL = 0.95


def interval(statistic: Callable[..., float], *columns: Array) -> tuple[float, tuple[float, float]]:
    """Return a statistic of columns with one row per seed, and its 95 % interval; rows are resampled together.

    Examples
    --------
    >>> interval(lambda a, b: a.mean() / b.mean(), np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    (0.5, (0.5, 0.5))
    """
    count = columns[0].shape[0]
    rng = np.random.default_rng(0)
    draws = np.empty(RESAMPLES)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(RESAMPLES):
            rows = rng.integers(0, count, count)
            draws[i] = statistic(*(column[rows] for column in columns))
        value = float(statistic(*columns))
    # With very few seeds a draw may be 0 / 0, which says nothing; infinite ones do count, as in compare_paired.
    draws = draws[~np.isnan(draws)]
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(draws, tails, method="inverted_cdf") if draws.size else (value, value)
    return value, (float(low), float(high))


def ratio_of_means(a: Array, b: Array) -> float:
    """Return the ratio of two means."""
    return float(a.mean() / b.mean())


def ratio_of_ratios(a: Array, b: Array, c: Array, d: Array) -> float:
    """Return by how much one ratio of means is larger than another."""
    return float((a.mean() / b.mean()) / (c.mean() / d.mean()))


def mean_of(values: Array) -> float:
    """Return a mean."""
    return float(values.mean())
