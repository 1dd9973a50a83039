"""Families of rewards, as the rest of posse uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from posse.types import Array, ArrayLike

if TYPE_CHECKING:
    import numpy as np

    from posse.types import BoolArray


class RewardFamily(Protocol):
    r"""A law of rewards given a linear predictor :math:`x^\top\theta`.

    Attributes
    ----------
    name : str
        What ``rewards=`` calls it.
    code : int
        What kernels call it: its place in :data:`posse.families.FAMILIES`.
    words : str
        Which rewards there are, for errors and findings.
    predictor : str
        What the linear predictor is, to be put behind "coefficients of the"; empty if it is the expected reward.
    """

    name: str
    code: int
    words: str
    predictor: str

    def check(self, reward: object) -> float:
        """Return a reward as a float, or raise one clear error."""

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as floats, or raise one clear error that names the row."""

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are rewards of the family."""

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the expected reward at a known linear predictor."""

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the expected reward where the predictor is believed to be Gaussian."""

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the expected reward: quantiles through the link."""

    def show(self, mean: float) -> str:
        """Return an expected reward as people read it."""


class LinkedFamily(RewardFamily, Protocol):
    r"""A family with a canonical link: noise follows from the mean, and rewards are learned as their sites.

    The log likelihood is :math:`y\,\eta - b(\eta)` plus what does not depend on the predictor :math:`\eta`, with
    :math:`b' = \mu` the expected reward. Its compiled functions become part of the kernels that need them
    (:mod:`posse.families.sites`).

    Attributes
    ----------
    size : float
        How much predictors differ before any reward, arms and tasks taken together: a variance.
    expectations : compiled function
        Of mean and variance of a Gaussian predictor: the expectations of :math:`\mu` and of its first three
        derivatives.
    spread : compiled function
        Of mean and standard deviation of a Gaussian predictor: the standard deviation of :math:`\mu`.
    site : compiled function
        What a reward says about the predictor; :func:`posse.families.links.newton_site` makes one of ``expectations``.
    """

    size: float
    expectations: Callable[..., Any]
    spread: Callable[..., Any]
    site: Callable[..., Any]

    def variance_of(self, mean: float) -> float:
        """Return the variance of rewards with this mean."""

    def predictor_of(self, rate: float) -> float:
        """Return the predictor at which this reward is expected, or raise one clear error."""

    def draw(self, rng: np.random.Generator, expected: Array) -> Array:
        """Return rewards with these expectations, of shape (n, n_arms)."""

    def curve(self, rewards: Array, predictor: Array, dispersion: float = 0.0) -> tuple[Array, Array, Array, Array]:
        """Return log likelihoods up to a constant, expected rewards, and their two derivatives by the predictor."""

    def constant(self, rewards: Array) -> float:
        """Return the part of the log likelihood that does not depend on the predictor."""
