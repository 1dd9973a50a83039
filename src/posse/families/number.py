"""Numbers: the linear predictor is the expected reward."""

from __future__ import annotations

import numpy as np

from posse.checks import number, real_array
from posse.core.size import LARGEST
from posse.errors import NotFinite
from posse.families.links import ends
from posse.types import Array, ArrayLike, BoolArray


class Number:
    """Any real number, with noise of a constant variance that is learned.

    Examples
    --------
    >>> Number().check(2.5)
    2.5
    """

    name = "number"
    code = -1  # until it has its place among families
    words = "numbers"
    predictor = ""

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

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are finite."""
        return np.isfinite(rewards)

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the predictor itself."""
        return np.asarray(predictor, dtype=np.float64)

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:  # noqa: ARG002 -- other families need it
        """Return the mean of the predictor."""
        return np.asarray(mean, dtype=np.float64)

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the expected reward."""
        return ends(mean, sd, level)

    def show(self, mean: float) -> str:
        """Return an expected reward with three digits."""
        return f"{mean:.3g}"
