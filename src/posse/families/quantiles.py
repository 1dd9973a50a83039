"""Quantiles of a Gaussian belief."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from posse.errors import InvalidValue
from posse.types import Array, ArrayLike


def ends(mean: ArrayLike, sd: ArrayLike, level: float) -> tuple[Array, Array]:
    """Return the ends of the central interval of a Gaussian.

    Parameters
    ----------
    mean, sd : array
    level : float
        Its probability, above 0 and below 1.

    Raises
    ------
    InvalidValue
        If the level is not a probability.
    """
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"expected an interval's level between 0 and 1, got {level!r}; pass 0.9 for 90 %")
    width = NormalDist().inv_cdf(0.5 + 0.5 * level) * np.asarray(sd, dtype=np.float64)
    centre = np.asarray(mean, dtype=np.float64)
    return np.asarray(centre - width), np.asarray(centre + width)
