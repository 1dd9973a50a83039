r"""Sites: one reward of a family as a Gaussian factor on its linear predictor.

Before the reward :math:`\eta = x^\top\theta` is believed to be :math:`\mathcal N(m, v)`; after it,
:math:`\mathcal N(e, q)` with

.. math:: e = m + v\,(y - \operatorname{E}\mu(\eta)), \qquad 1/q = 1/v + \operatorname{E}\mu'(\eta),

expectations under :math:`\mathcal N(e, q)` itself: the Gaussian nearest to the true belief in the variational sense.
The site is what took the one to the other: precision ``w = E mu'`` and moment ``h = y - E mu + w e``. So a reward
counts as a number ``h / sqrt(w)`` with noise variance 1, seen at ``sqrt(w) x``, and everything that knows how to learn
numbers learns it.

Families say what their link is; what is compiled here is made of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import real_array
from posse.core.compiler import made
from posse.errors import InvalidValue
from posse.types import Array, ArrayLike, BoolArray

if TYPE_CHECKING:
    from posse.families.base import LinkedFamily


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


ROUNDS = 50  # at most
FARTHEST = 4.0  # of a move of the predictor in one round: the logistic curve is flat beyond
FAINTEST = 1e-12  # a site of less precision says nothing

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Linked:
    """Parts that families with a link share; the rest is as :class:`posse.families.base.LinkedFamily` says."""

    name: str
    code = -1  # until it has its place among families
    reward_words: tuple[str, str]
    """The name of one reward, and the values there are."""
    other_families: str

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are rewards of the family."""
        raise NotImplementedError

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the expected reward at a known linear predictor."""
        raise NotImplementedError

    def check(self, reward: object) -> float:
        """Return a reward as a float, or raise one clear error."""
        if isinstance(reward, bool | np.bool_ | int | float | np.integer | np.floating):
            value = float(reward)
            if self.takes(np.float64(value)).all():
                return value
        one, which = self.reward_words
        raise InvalidValue(f"expected a {one} of {which}, got {reward!r}; pass {self.other_families} for other rewards")

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as floats, or raise one clear error that names the row."""
        checked = real_array(rewards, "rewards")
        wrong = np.flatnonzero(~self.takes(checked).ravel())
        if wrong.size:
            one, which = self.reward_words
            raise InvalidValue(
                f"expected {one}s of {which}, got {checked.ravel()[wrong[0]]:g} at row {wrong[0]}; pass "
                f"{self.other_families} for other rewards"
            )
        return checked

    def interval(self, mean: ArrayLike, sd: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the expected reward: quantiles through the link."""
        low, high = ends(mean, sd, level)
        return self.mean_of(low), self.mean_of(high)


def newton_site(expectations: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function that finds sites under a link, given its expectations.

    The function takes ``reward``, ``weight``, ``m``, ``v``, ``e``, ``q`` and ``close``, and returns precision and
    moment of the site of a reward under the belief N(m, v). It is Newton's method in e and log q, from N(e, q) on, with
    limited steps, until a step is shorter than ``close`` standard deviations. ``weight`` is what the reward still
    counts for, from 0 to 1: its likelihood is raised to that power, which makes reward and expectations smaller by it.
    """

    @made
    def site(reward: float, weight: float, m: float, v: float, e: float, q: float, close: float) -> tuple[float, float]:
        reward *= weight
        w, h = 0.0, 0.0
        for _round in range(ROUNDS):
            value, first, second, third = expectations(e, q)
            value, first, second, third = weight * value, weight * first, weight * second, weight * third
            left, right = e - m - v * (reward - value), 1.0 - q / v - q * first
            # Slopes of both by e and by log q. What a wide belief makes of the last one may not change its sign.
            left_e, left_q, right_e = 1.0 + v * first, 0.5 * v * q * second, -q * second
            right_q = -max(1.0 + 0.5 * q * q * third, 0.5)
            determinant = left_e * right_q - left_q * right_e
            if determinant < 0.25 * left_e * right_q:
                move = (left_q * right - right_q * left) / determinant
                growth = (right_e * left - left_e * right) / determinant
            else:
                move, growth = -left / left_e, -right / right_q
            move = min(max(move, -FARTHEST), FARTHEST)
            growth = min(max(growth, -1.0), 1.0)
            size = math.sqrt(q)
            change = q * (math.exp(growth) - 1.0)
            e, q = e + move, q + change
            w = max(first + second * move + 0.5 * third * change, FAINTEST)
            h = reward - (value + first * move + 0.5 * second * change) + w * e
            if abs(move) < close * size and abs(growth) < close:
                break
        return w, h

    return site


def quadrature_spread(rate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function of mean and sd of a predictor that gives the sd of its rate, by quadrature."""

    @made
    def spread(mean: float, sd: float) -> float:
        # Around the rate in the middle, so that nothing cancels where the belief is narrow.
        at = rate(mean)
        centre, square = 0.0, 0.0
        for node in range(NODES.shape[0]):
            away = rate(mean + sd * NODES[node]) - at
            centre += WEIGHTS[node] * away
            square += WEIGHTS[node] * away * away
        return math.sqrt(max(square - centre * centre, 0.0))

    return spread


NEWTON_ROUNDS = 100  # at most, of Newton's method
CLOSE = 1e-3  # of a move, in standard deviations: the place of the nodes need not be exact
NARROWEST = 1e-12  # a variance: of a context of zeros, say
LOG_WEIGHTS = np.log(WEIGHTS) + 0.5 * NODES**2


class Predicted(NamedTuple):
    """A reward under several beliefs about its predictor."""

    log_likelihood: Array  # up to what does not depend on the belief
    precision: Array  # of the site that it is
    moment: Array


def predicted(family: LinkedFamily, reward: float, mean: Array, variance: Array, dispersion: float = 0.0) -> Predicted:
    """Return how probable a reward was under every belief N(mean, variance), and its site there.

    Examples
    --------
    >>> from posse.families import linked_family_of
    >>> clicks = linked_family_of("binary")
    >>> found = predicted(clicks, 1.0, np.array([-3.0]), np.array([1.0]))
    >>> print(f"{np.exp(found.log_likelihood[0]):.3f}, as expected: {clicks.expected(-3.0, 1.0):.3f}")
    0.069, as expected: 0.069
    """
    variance = np.maximum(variance, NARROWEST)
    centre, width = _highest(family, reward, mean, variance, dispersion)
    at = centre[:, None] + width[:, None] * NODES
    likelihood, rate, slope, _ = family.curve(np.asarray(reward), at, dispersion)
    away = at - mean[:, None]
    height = LOG_WEIGHTS + likelihood - 0.5 * away * away / variance[:, None]
    top = height.max(axis=1, keepdims=True)
    share = np.exp(height - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    left = reward - (share * rate).sum(axis=1)
    precision = (share * slope).sum(axis=1)
    return Predicted(
        np.log(total) + top[:, 0] + np.log(width) - 0.5 * np.log(variance),
        precision,
        left + precision * (mean + variance * left),
    )


def _highest(
    family: LinkedFamily, reward: float, mean: Array, variance: Array, dispersion: float
) -> tuple[Array, Array]:
    """Return where likelihood times belief is highest, and how wide it is there."""
    centre, width = mean.copy(), np.sqrt(variance)
    for _ in range(NEWTON_ROUNDS):
        _, rate, slope, _ = family.curve(np.asarray(reward), centre, dispersion)
        precision = slope + 1.0 / variance
        width = 1.0 / np.sqrt(precision)
        move = (reward - rate - (centre - mean) / variance) / precision
        centre = centre + np.clip(move, -FARTHEST, FARTHEST)
        if (np.abs(move) < CLOSE * width).all():
            break
    return centre, width
