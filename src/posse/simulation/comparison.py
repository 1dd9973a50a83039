"""How much better one policy is than another on the same seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from posse.checks import number
from posse.errors import InvalidValue
from posse.types import Array

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference and ratio of mean regret, with bootstrap intervals over seeds.

    Parameters
    ----------
    first, second : str
    difference : float
        Mean regret of the first less that of the second.
    difference_interval : tuple of two floats
    ratio : float
        Mean regret of the first over that of the second.
    ratio_interval : tuple of two floats
    wins : float
        Share of seeds in which the first has the lower regret.
    seeds : int
    level : float
        Coverage of the intervals.
    """

    first: str
    second: str
    difference: float
    difference_interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    wins: float
    seeds: int
    level: float

    def __str__(self) -> str:
        low, high = self.difference_interval
        ratio_low, ratio_high = self.ratio_interval
        return (
            f"{self.first} - {self.second}: {self.difference:+.1f} ({low:+.1f} to {high:+.1f}), "
            f"ratio {self.ratio:.3f} ({ratio_low:.3f} to {ratio_high:.3f}), "
            f"lower in {self.wins:.0%} of {self.seeds} seeds"
        )


@lru_cache(maxsize=4)
def resampled(size: int) -> Array:
    """Return how often each seed occurs in each bootstrap sample, shape (RESAMPLES, size); the same for every pair."""
    rows = np.random.default_rng(0).integers(0, size, (RESAMPLES, size))
    places = np.arange(RESAMPLES)[:, None] * size + rows
    counts = np.bincount(places.reshape(-1), minlength=RESAMPLES * size)
    return counts.reshape(RESAMPLES, size).astype(np.float64)


def compare_paired(first: str, second: str, a: Array, b: Array, *, level: float = 0.95) -> Comparison:
    """Compare paired values; seeds are resampled as pairs.

    Examples
    --------
    >>> compare_paired("a", "b", np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).ratio_interval
    (0.5, 0.5)
    """
    level = number(level, "level", above=0)
    if level >= 1:
        raise InvalidValue(f"expected level to be between 0 and 1, got {level:g}")
    counts = resampled(a.size)
    means_a, means_b = counts @ a / a.size, counts @ b / a.size
    tails = [(1 - level) / 2, (1 + level) / 2]
    difference = np.quantile(means_a - means_b, tails)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means_a / means_b
        # A resample of seeds without any regret is 0 / 0 and says nothing; infinite ones do count.
        ratios = ratios[~np.isnan(ratios)]
        ratio = np.quantile(ratios, tails, method="inverted_cdf") if ratios.size else np.full(2, np.nan)
        middle = float(np.divide(a.mean(), b.mean()))
    return Comparison(
        first=first,
        second=second,
        difference=float(a.mean() - b.mean()),
        difference_interval=(float(difference[0]), float(difference[1])),
        ratio=middle,
        ratio_interval=(float(ratio[0]), float(ratio[1])),
        wins=float((a < b).mean()),
        seeds=int(a.size),
        level=level,
    )
