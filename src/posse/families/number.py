"""Numbers: the linear predictor is the expected reward."""

from __future__ import annotations

import numpy as np

from posse.checks import number, real_array
from posse.errors import NotFinite
from posse.families.quantiles import ends
from posse.kernels.linalg import LARGEST
from posse.kernels.sites import NUMBER
from posse.types import Array, ArrayLike


class Number:
    """Any real number, with noise of a constant variance that is learned.

    Examples
    --------
    >>> Number().check(2.5)
    2.5
    """

    name = "number"
    code = NUMBER

    def check(self, reward: object) -> float:
        """Return a reward as a float, or raise one clear error."""
        checked = number(reward, "reward")
        if abs(checked) > LARGEST:
            raise NotFinite(f"reward {checked:g} is too large: sums of squares would overflow; rescale the rewards")
        return checked

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as floats, or raise one clear error."""
        checked = real_array(rewards, "rewards")
        if checked.size and abs(checked).max() > LARGEST:
            raise NotFinite(f"rewards are too large: sums of squares would overflow; keep them below {LARGEST:g}")
        return checked

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the predictor itself."""
        return np.asarray(predictor, dtype=np.float64)

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:  # noqa: ARG002 -- other families need it
        """Return the mean of the predictor."""
        return np.asarray(mean, dtype=np.float64)

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the expected reward."""
        return ends(mean, sd, level)
