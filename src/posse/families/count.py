r"""Counts: 0, 1, 2, ..., with the log link.

.. math:: \operatorname{E} e^\eta = \exp(e + q / 2), \qquad \eta \sim \mathcal N(e, q)

which is the expectation of all its derivatives too.
"""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled
from posse.families.binary import site as click_site
from posse.families.links import FAINTEST, Linked
from posse.types import Array, ArrayLike, BoolArray

LARGEST_EXPONENT = 300.0  # of a rate whose square is still a number
ROUNDS = 100  # at most: halvings of the widest bracket end before
NEARLY_POISSON = 1e-3  # of a dispersion times a rate, below which counts are Poisson's
LARGEST_COUNT = 2.0**53  # whole numbers beyond it are not exact


@compiled
def expectations(mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expected rate, which is the expectation of its first three derivatives too."""
    rate = math.exp(min(mean + 0.5 * variance, LARGEST_EXPONENT))
    return rate, rate, rate, rate


@compiled
def log_rate(reward: float, m: float, v: float, start: float, close: float) -> tuple[float, float]:
    r"""Return u = e + q / 2, the logarithm of the expected rate after a count, and q; before it N(m, v) was believed.

    With the rate :math:`r = e^u` it is the root of

    .. math:: u - m - v\,(y - r) - \frac{v}{2\,(1 + v r)}

    which rises from minus to plus infinity, so a bracket never loses it: however wide the belief was (a rate of e^300
    may be its mean), nothing overshoots. Newton's method from ``start``, halving where it would leave the bracket,
    until a step is shorter than ``close`` standard deviations.
    """
    low = min(-math.log(v), m + v * reward - 1.0)
    high = min(m + v * reward + 0.5 * v, math.log(reward + 0.5 + (max(m, 0.0) + 1.0) / v))
    low = min(low, high)
    u = min(max(start, low), high)
    q = v
    for _round in range(ROUNDS):
        rate = math.exp(u)
        q = v / (1.0 + v * rate)
        left = u - m - v * (reward - rate) - 0.5 * q
        if left > 0.0:
            high = u
        else:
            low = u
        new = u - left / (1.0 + v * rate + 0.5 * q * q * rate)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        move = abs(new - u)
        u = new
        if move * move <= close * close * min(q, 1.0):
            break
    return u, v / (1.0 + v * math.exp(u))


@compiled
def site(reward: float, weight: float, m: float, v: float, e: float, q: float, close: float) -> tuple[float, float]:
    """Return precision and moment of the site of a count, as :func:`posse.families.links.newton_site` says."""
    # A rate that is smaller by the weight is a predictor that is lower by its logarithm.
    less = math.log(weight)
    reward *= weight
    u, q = log_rate(reward, m + less, v, e + 0.5 * q + less, close)
    rate = math.exp(u)
    w = max(rate, FAINTEST)
    return w, reward - rate + w * (u - less - 0.5 * q)


@compiled
def dispersed_site(
    reward: float, weight: float, m: float, v: float, close: float, dispersion: float
) -> tuple[float, float]:
    r"""Return precision and moment of the site of a count whose variance is :math:`\mu + a \mu^2`.

    With :math:`r = 1 / a` its log likelihood is that of :math:`y + r` clicks of which y are 1, under a logit that is
    lower by log r:

    .. math:: y (\eta - \log r) - (y + r) \log(1 + e^{\eta - \log r})

    Where :math:`a \mu` is nothing, it is Poisson's.
    """
    if dispersion * (math.exp(min(m + 0.5 * v, 30.0)) + reward) < NEARLY_POISSON:
        w, h = site(reward, weight, m, v, m, v, close)
        return w, h
    r = 1.0 / dispersion
    shift, start = math.log(r), m - math.log(r)
    w, h = click_site(reward / (reward + r), weight * (reward + r), start, v, start, v, close)
    return w, h + w * shift


@compiled
def spread(mean: float, sd: float) -> float:
    """Return the standard deviation of the rate."""
    rate: float = expectations(mean, sd * sd)[0]
    return rate * math.sqrt(math.expm1(min(sd * sd, 600.0)))


class Count(Linked):
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
    reward_words = ("count", "0, 1, 2, ...")
    other_families = "rewards='number'"
    words = "0, 1, 2, ..."
    predictor = "log rate"
    size = 2.5
    expectations = staticmethod(expectations)
    spread = staticmethod(spread)
    site = staticmethod(site)

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are counts."""
        return np.asarray((rewards >= 0) & (rewards <= LARGEST_COUNT) & (rewards == np.floor(rewards)))

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the rate."""
        return np.asarray(np.exp(np.minimum(np.asarray(predictor, dtype=np.float64), LARGEST_EXPONENT)))

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the expected rate where the predictor is Gaussian."""
        return self.mean_of(np.asarray(mean, dtype=np.float64) + 0.5 * np.asarray(sd, dtype=np.float64) ** 2)

    def show(self, mean: float) -> str:
        """Return a rate with three digits."""
        return f"{mean:.3g}"

    def variance_of(self, mean: float) -> float:
        """Return the variance of counts with this rate, which is the rate."""
        return mean

    def predictor_of(self, rate: float) -> float:
        """Return the logarithm of a rate."""
        return math.log(rate)

    def draw(self, rng: np.random.Generator, expected: Array) -> Array:
        """Return counts with these rates (Poisson)."""
        return rng.poisson(expected).astype(np.float64)

    def draw_dispersed(self, rng: np.random.Generator, expected: Array, dispersion: float) -> Array:
        """Return counts with these rates and a variance of m + dispersion m^2 (negative binomial)."""
        return rng.poisson(rng.gamma(1.0 / dispersion, dispersion * expected)).astype(np.float64)

    def curve(self, rewards: Array, predictor: Array, dispersion: float = 0.0) -> tuple[Array, Array, Array, Array]:
        """Return log likelihoods up to a constant, rates, and their two derivatives by the logarithm.

        Of dispersed counts the rates and slopes are those by which scores and information are like those of others.
        """
        if dispersion > 0.0:
            total, logit = rewards + 1.0 / dispersion, predictor + math.log(dispersion)
            share = 0.5 * (1.0 + np.tanh(0.5 * logit))
            slope = total * share * (1.0 - share)
            found = rewards * logit - total * np.logaddexp(0.0, logit)
            return found, total * share, slope, slope * (1.0 - 2.0 * share)
        mean = np.exp(np.minimum(predictor, LARGEST_EXPONENT))
        return rewards * predictor - mean, mean, mean, mean

    def constant(self, rewards: Array) -> float:
        """Return minus the logarithms of the factorials."""
        from scipy.special import gammaln

        return -float(gammaln(rewards + 1.0).sum())
