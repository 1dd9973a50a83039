"""Counts: 0, 1, 2, ..., with the log link."""

from __future__ import annotations

import numpy as np

from posse.checks import real_array
from posse.errors import InvalidValue
from posse.families.quantiles import ends
from posse.kernels.count import LARGEST_EXPONENT
from posse.kernels.sites import COUNT
from posse.types import Array, ArrayLike

LARGEST_COUNT = 2.0**53  # whole numbers beyond it are not exact


class Count:
    r"""A reward is a count with rate :math:`e^{x^\top\theta}` (Poisson).

    Examples
    --------
    >>> family = Count()
    >>> family.check(3)
    3.0
    >>> low, high = family.interval(0.5, 0.4)
    >>> [round(float(rate), 3) for rate in (low, family.expected(0.5, 0.4), high)]
    [0.854, 1.786, 3.183]
    """

    name = "count"
    code = COUNT

    def check(self, reward: object) -> float:
        """Return a count as a float, or raise one clear error."""
        if isinstance(reward, bool | np.bool_ | int | float | np.integer | np.floating):
            value = float(reward)
            if 0 <= value <= LARGEST_COUNT and value == int(value):
                return value
        raise InvalidValue(f"expected a count of 0, 1, 2, ..., got {reward!r}; pass rewards='number' for other rewards")

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return counts as floats, or raise one clear error that names the row."""
        checked = real_array(rewards, "rewards")
        wrong = (checked < 0) | (checked > LARGEST_COUNT) | (checked != np.floor(checked))
        if wrong.any():
            row = int(np.flatnonzero(wrong.ravel())[0])
            raise InvalidValue(
                f"expected counts of 0, 1, 2, ..., got {checked.ravel()[row]:g} at row {row}; pass rewards='number' "
                "for other rewards"
            )
        return checked

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the rate."""
        return np.asarray(np.exp(np.minimum(np.asarray(predictor, dtype=np.float64), LARGEST_EXPONENT)))

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the expected rate where the predictor is Gaussian."""
        return self.mean_of(np.asarray(mean, dtype=np.float64) + 0.5 * np.asarray(sd, dtype=np.float64) ** 2)

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the rate, both above 0."""
        low, high = ends(mean, sd, level)
        return self.mean_of(low), self.mean_of(high)
