r"""Intervals by resampling tasks.

Rewards of one task share its coefficients, so rows are not independent but tasks are. Every estimate is a ratio of sums
over tasks, or a difference of two; a resample of tasks is a row of counts, and all resamples are one product of a count
matrix with the tasks' sums. So the interval is about *tasks like these*, each with as many rows as it has: it holds
both the noise within tasks and the differences between them.

The interval is studentised: with the standard error :math:`s` of an estimate :math:`v` over tasks, and :math:`v_b, s_b`
those of a resample,

.. math:: v \pm q\, s, \qquad q \text{ the 95 \% quantile of } |v_b - v| / s_b .

With few tasks, or tasks of very different size, that covers the truth as often as it says; percentiles of :math:`v_b`
do so less often (``docs/offline.md`` has both measured).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posse.offline.estimators import Contributions
from posse.types import Array, IntArray

RESAMPLES = 2000
MOST_UNITS = 5000  # tasks beyond this are bundled: the spread of so many units is known to a percent
ROUNDING = 1e-13
CANCELLED = 1e-11
BLOCK = 4_000_000  # counts that are held at a time
Method = Literal["studentised", "percentile"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty over tasks.

    Parameters
    ----------
    value : float
    se : float
        Standard error; NaN with less than two tasks.
    low, high : float
        Ends of the interval; NaN where there is none.
    positive : float
        How sure the resamples are that it is above zero, from 0 to 1: above 0.975 where the 95 % interval lies above
        zero, below 0.025 where it lies below. NaN where there is no interval.
    """

    value: float
    se: float
    low: float = float("nan")
    high: float = float("nan")
    positive: float = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class TaskSums:
    """An estimate as sums over tasks: a ratio of two, or a difference of such ratios.

    Parameters
    ----------
    numerators, denominators : ndarray of shape (n_tasks, n_ratios)
        One ratio, or two of which the second is subtracted.
    """

    numerators: Array
    denominators: Array

    @classmethod
    def of(cls, tasks: IntArray, rows: Contributions, less: Contributions | None = None) -> TaskSums:
        """Return the sums over tasks of what rows contribute, of one estimate or of the difference of two."""
        parts = [rows] if less is None else [rows, less]
        return cls(
            np.stack([np.bincount(tasks, part.numerator) for part in parts], axis=1),
            np.stack([np.bincount(tasks, part.denominator) for part in parts], axis=1),
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.numerators.shape[0])

    @property
    def ratios(self) -> Array:
        """The ratios as they are, shape (n_ratios,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.numerators.sum(axis=0) / self.denominators.sum(axis=0))

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.signs @ self.ratios)

    @property
    def signs(self) -> Array:
        """1, and -1 for what is subtracted."""
        return np.array([1.0, -1.0])[: self.numerators.shape[1]]


def estimate(sums: TaskSums) -> Estimate:
    """Return the value and its standard error over tasks, without an interval."""
    return Estimate(sums.value, _spread(sums))


def bootstrap(
    many: Sequence[TaskSums],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "studentised",
) -> list[Estimate]:
    """Return estimates with intervals; all are taken over the same resamples of the same tasks.

    Parameters
    ----------
    many : sequence of TaskSums
        Over the same tasks, in the same order.
    confidence : float
    resamples : int
    seed : int
    method : {"studentised", "percentile"}

    Examples
    --------
    Four tasks with means 1, 2, 3 and 4 over ten rows each:

    >>> tasks = np.repeat(np.arange(4), 10)
    >>> rows = Contributions(np.repeat([1.0, 2.0, 3.0, 4.0], 10), np.ones(40))
    >>> found = bootstrap([TaskSums.of(tasks, rows)])[0]
    >>> found.value, round(found.se, 4)
    (2.5, 0.6455)
    """
    if not many:
        return []
    units = [_bundled(sums) for sums in many]
    columns = [np.concatenate([_centred(sums), sums.denominators], axis=1) for sums in units]
    blocks = [np.concatenate([block, _products(block)], axis=1) for block in columns]
    drawn = _resampled_sums(np.concatenate(blocks, axis=1), resamples, seed)
    parts = np.split(drawn, np.cumsum([block.shape[1] for block in blocks])[:-1], axis=1)
    return [
        _interval(sums, part, unit.n_tasks, confidence, method)
        for sums, unit, part in zip(many, units, parts, strict=True)
    ]


def _centred(sums: TaskSums) -> Array:
    """Return numerators relative to the estimate: small numbers, and zeros where all rewards are equal."""
    expected = sums.denominators * sums.ratios
    result = sums.numerators - expected
    # What rounding leaves of equal numbers would be studentised by itself.
    result[np.abs(result) <= ROUNDING * (np.abs(sums.numerators) + np.abs(expected))] = 0.0
    return np.asarray(result)


def _bundled(sums: TaskSums) -> TaskSums:
    """Return sums over bundles of tasks where there are very many of them."""
    if sums.n_tasks <= MOST_UNITS:
        return sums
    bundle = np.arange(sums.n_tasks) % MOST_UNITS

    def added(columns: Array) -> Array:
        return np.stack([np.bincount(bundle, column) for column in columns.T], axis=1)

    return TaskSums(added(sums.numerators), added(sums.denominators))


def _resampled_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Return the sums of the columns over each resample of the rows, shape (resamples, n_columns)."""
    rng = np.random.default_rng(seed)
    n = columns.shape[0]
    result = np.empty((resamples, columns.shape[1]))
    step = max(1, BLOCK // n)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = rng.integers(0, n, (stop - start, n)) + np.arange(stop - start)[:, None] * n
        counts = np.bincount(drawn.reshape(-1), minlength=(stop - start) * n).reshape(stop - start, n)
        result[start:stop] = counts.astype(np.float64) @ columns
    return result


def _interval(sums: TaskSums, drawn: Array, n_units: int, confidence: float, method: Method) -> Estimate:
    value, se = sums.value, _spread(sums)
    if not np.isfinite(se):
        return Estimate(value, se)
    signs, n_ratios = sums.signs, sums.numerators.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = drawn[:, :n_ratios] / drawn[:, n_ratios : 2 * n_ratios]
        moved = ratios @ signs
        gradient = np.concatenate([signs / drawn[:, n_ratios : 2 * n_ratios]] * 2, axis=1)
        gradient[:, n_ratios:] *= -ratios
        terms = _products(gradient) * _twice_off_diagonal(2 * n_ratios) * drawn[:, 2 * n_ratios :]
        variance = terms.sum(axis=1) * _small_sample(n_units)
        variance[variance <= CANCELLED * np.abs(terms).sum(axis=1)] = 0.0
        # Tasks that are all alike but unlike the whole are infinitely far, by their own standard error.
        distance = np.where(moved == 0, 0.0, np.abs(moved) / np.sqrt(variance))
    there = np.isfinite(moved)  # a resample without any weight says nothing
    if there.mean() < 0.9:
        return Estimate(value, se)
    if method == "percentile":
        low, high = np.quantile(value + moved[there], [(1 - confidence) / 2, (1 + confidence) / 2])
        return Estimate(value, se, float(low), float(high), float((value + moved[there] > 0).mean()))
    if se == 0:
        return Estimate(value, se, value, value, float(np.sign(value)) / 2 + 0.5)
    reach = float(np.quantile(distance[there], confidence, method="inverted_cdf")) * se
    if not np.isfinite(reach):
        return Estimate(value, se)
    nearer = float((distance[there] < abs(value) / se).mean())
    return Estimate(value, se, value - reach, value + reach, 0.5 + float(np.sign(value)) * nearer / 2)


def _spread(sums: TaskSums) -> float:
    """Return the standard error over tasks, by the derivative of the estimate with respect to each task."""
    if sums.n_tasks < 2:
        return float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        pulls = _centred(sums) / sums.denominators.sum(axis=0) @ sums.signs
    return float(np.sqrt(pulls @ pulls * _small_sample(sums.n_tasks)))


def _small_sample(n: int) -> float:
    return n / (n - 1)


def _products(columns: Array) -> Array:
    """Return the products of all pairs of columns, each pair once."""
    first, second = np.triu_indices(columns.shape[1])
    return np.asarray(columns[:, first] * columns[:, second])


def _twice_off_diagonal(n_columns: int) -> Array:
    first, second = np.triu_indices(n_columns)
    return np.where(first == second, 1.0, 2.0)
