"""Clicks and purchases: 0 or 1, with the logistic link."""

from __future__ import annotations

import numpy as np

from posse.checks import real_array
from posse.errors import InvalidValue
from posse.families.quantiles import ends
from posse.kernels.binary import SCALES, WEIGHTS
from posse.kernels.sites import BINARY
from posse.types import Array, ArrayLike

EXPECTED = "0 or 1 (False or True)"


class Binary:
    r"""A reward is 1 with probability :math:`1 / (1 + e^{-x^\top\theta})`, else 0.

    Examples
    --------
    >>> family = Binary()
    >>> family.check(True)
    1.0
    >>> low, high = family.interval(-3.0, 1.0)
    >>> [round(float(rate), 3) for rate in (low, family.expected(-3.0, 1.0), high)]
    [0.01, 0.069, 0.205]
    """

    name = "binary"
    code = BINARY

    def check(self, reward: object) -> float:
        """Return a reward as 0.0 or 1.0, or raise one clear error."""
        if isinstance(reward, bool | np.bool_ | int | float | np.integer | np.floating) and reward in (0, 1):
            return float(reward)
        raise InvalidValue(
            f"expected a binary reward of {EXPECTED}, got {reward!r}; pass rewards='number' or 'count' for others"
        )

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as 0.0 and 1.0, or raise one clear error that names the row."""
        checked = real_array(rewards, "rewards")
        wrong = (checked != 0) & (checked != 1)
        if wrong.any():
            row = int(np.flatnonzero(wrong.ravel())[0])
            raise InvalidValue(
                f"expected binary rewards of {EXPECTED}, got {checked.ravel()[row]:g} at row {row}; pass "
                "rewards='number' or 'count' for other rewards"
            )
        return checked

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the probability of a 1."""
        # Clipped where exp would overflow; probabilities beyond are 0 and 1 to the last digit of a sum.
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.asarray(predictor, dtype=np.float64), -700.0, 700.0))))

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the probability of a 1 where the predictor is Gaussian; see :mod:`posse.kernels.binary`."""
        from scipy.special import ndtr

        scales = np.asarray(SCALES)
        at = np.asarray(mean, dtype=np.float64)[..., None]
        variance = np.asarray(sd, dtype=np.float64)[..., None] ** 2
        return np.asarray(ndtr(at * scales / np.sqrt(1.0 + scales**2 * variance)) @ np.asarray(WEIGHTS))

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the probability, both between 0 and 1."""
        low, high = ends(mean, sd, level)
        return self.mean_of(low), self.mean_of(high)
