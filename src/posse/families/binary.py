r"""Clicks and purchases: 0 or 1, with the logistic link.

.. math:: \operatorname{E} \mu(\eta), \operatorname{E} \mu'(\eta), \dots, \qquad \eta \sim \mathcal N(e, q)

The logistic curve is a mixture of eight normal curves up to 6e-8 (Monahan and Stefanski, 1992, had the idea; weights
and scales are a fit of our own, which also keeps the tails), and the expectation of a normal curve is known exactly,
however wide the belief. Gauss-Hermite quadrature with 20 nodes is off by 10 % where a belief is 5 wide.
"""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled
from posse.errors import InvalidValue
from posse.families.links import Linked, newton_site, quadrature_spread
from posse.types import Array, ArrayLike, BoolArray

FARTHEST = 700.0  # beyond it exp would overflow; probabilities are 0 and 1 to the last digit of a sum

WEIGHTS = (
    0.01160795657, 0.1172172002, 0.2912124401, 0.3194765351,
    0.1911244247, 0.06096207988, 0.008149839433, 0.0002495240124,
)  # fmt: skip
SCALES = (1.252932914, 0.9495775386, 0.7303097835, 0.5650736586, 0.4404380669, 0.346628825, 0.2747098302, 0.2164535583)

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1.0 / math.sqrt(2.0 * math.pi)


@compiled
def expectations(mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expectations of the logistic curve and of its first three derivatives."""
    value, first, second, third = 0.0, 0.0, 0.0, 0.0
    for part in range(8):
        scale = SCALES[part] / math.sqrt(1.0 + SCALES[part] * SCALES[part] * variance)
        at = scale * mean
        value += WEIGHTS[part] * math.erfc(-ROOT_HALF * at)
        density = WEIGHTS[part] * scale * math.exp(-0.5 * at * at)
        first += density
        second -= density * scale * at
        third += density * scale * scale * (at * at - 1.0)
    return 0.5 * value, NORMAL * first, NORMAL * second, NORMAL * third


@compiled
def probability(predictor: float) -> float:
    """Return the probability of a 1."""
    return 1.0 / (1.0 + math.exp(-min(max(predictor, -FARTHEST), FARTHEST)))


site, spread = newton_site(expectations), quadrature_spread(probability)


class Binary(Linked):
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
    reward_words = ("binary reward", "0 or 1 (False or True)")
    other_families = "rewards='number' or 'count'"
    words = "0 or 1"
    predictor = "logit"
    size = 5.0
    expectations = staticmethod(expectations)
    spread = staticmethod(spread)
    site = staticmethod(site)

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are 0 or 1."""
        return np.asarray((rewards == 0) | (rewards == 1))

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the probability of a 1."""
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.asarray(predictor, dtype=np.float64), -FARTHEST, FARTHEST))))

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the probability of a 1 where the predictor is Gaussian; as the compiled expectations do."""
        from scipy.special import ndtr

        scales = np.asarray(SCALES)
        at = np.asarray(mean, dtype=np.float64)[..., None]
        variance = np.asarray(sd, dtype=np.float64)[..., None] ** 2
        return np.asarray(ndtr(at * scales / np.sqrt(1.0 + scales**2 * variance)) @ np.asarray(WEIGHTS))

    def show(self, mean: float) -> str:
        """Return a probability in per cent."""
        return f"{mean:.2%}"

    def variance_of(self, mean: float) -> float:
        """Return the variance of clicks with this probability."""
        return mean * (1.0 - mean)

    def predictor_of(self, rate: float) -> float:
        """Return the logit of a probability."""
        if not 0.0 < rate < 1.0:
            raise InvalidValue(f"expected a base_rate between 0 and 1 for binary rewards, got {rate:g}")
        return math.log(rate / (1.0 - rate))

    def draw(self, rng: np.random.Generator, expected: Array) -> Array:
        """Return clicks with these probabilities."""
        # One draw for all arms, as the noise of numbers is: arms differ by their probabilities alone.
        return (rng.random((len(expected), 1)) < expected).astype(np.float64)

    def curve(
        self,
        rewards: Array,
        predictor: Array,
        dispersion: float = 0.0,  # noqa: ARG002 -- clicks have none
    ) -> tuple[Array, Array, Array, Array]:
        """Return log likelihoods, probabilities, and their two derivatives by the logit."""
        mean = 0.5 * (1.0 + np.tanh(0.5 * predictor))
        slope = mean * (1.0 - mean)
        return rewards * predictor - np.logaddexp(0.0, predictor), mean, slope, slope * (1.0 - 2.0 * mean)

    def constant(self, rewards: Array) -> float:  # noqa: ARG002 -- other families need it
        """Return 0: the log likelihood has no other part."""
        return 0.0
