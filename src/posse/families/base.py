"""What the rest of posse asks of a family of rewards."""

from __future__ import annotations

from typing import Protocol

from posse.types import Array, ArrayLike


class RewardFamily(Protocol):
    r"""A law of rewards given a linear predictor :math:`x^\top\theta`.

    Attributes
    ----------
    name : str
        What ``rewards=`` calls it.
    code : int
        What kernels call it, see :mod:`posse.kernels.sites`.
    """

    name: str
    code: int

    def check(self, reward: object) -> float:
        """Return a reward as a float, or raise one clear error."""

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as floats, or raise one clear error that names the row."""

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the expected reward at a known linear predictor."""

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the expected reward where the predictor is believed to be Gaussian."""

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the expected reward: quantiles through the link."""
