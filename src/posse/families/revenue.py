r"""Revenue: nothing from most, and an amount above 0 from some.

How many pay is learned as clicks are, from every reward; how much they pay as a number, the logarithm of the amount,
from those that are above 0. With :math:`p` the probability of a payment, whose logit is believed to be Gaussian, and
:math:`\ell` the mean of the logarithm, believed to be :math:`\mathcal N(l, s^2)` with noise variance :math:`v`,

.. math::

    \operatorname{E} p\,e^{\ell + v/2} = \operatorname{E}[p]\, e^{l + v/2 + s^2/2}, \qquad
    1 + c^2 = \Bigl(1 + \frac{\operatorname{var} p}{\operatorname{E}[p]^2}\Bigr)\, e^{s^2}

are mean and squared relative deviation of the expected revenue, exactly where both are believed independently. Rules
decide by the Gaussian law of logarithms that has these two. Where a rare purchase is little known, the logarithm of its
probability scatters by far more than that law says, so the linear predictor, by which intervals are told, has the
spread of the logarithm itself and the same mean revenue: its link is the exponential.
"""

from __future__ import annotations

import math

import numpy as np

from posse.checks import number
from posse.core.compiler import compiled
from posse.core.size import LARGEST
from posse.errors import InvalidValue
from posse.families.binary import expectations as click_expectations
from posse.families.binary import spread as click_spread
from posse.families.count import Count
from posse.families.links import Linked
from posse.types import Array, ArrayLike, BoolArray

LEAST = 1e-50  # an amount: its logarithm and its square are numbers
RAREST = 1e-290  # a probability of payment: its logarithm is a number
FAR = 1.6448536269514722  # standard deviations at which the spread of a logarithm is measured: of 90 % intervals
STEEPEST = 1.0  # of how the logarithm of an amount grows with the logit of a payment, as far as it is believed in
WIDEST = 600.0  # of a variance on the scale of logarithms, whose exponential is a number
MOST_NOISE = 4.0  # of the noise variance of logarithms that is believed in: beyond it, no mean could be known


@compiled
def log_probability(logit: float) -> float:
    """Return the logarithm of a probability, given its logit."""
    return -math.log1p(math.exp(-logit)) if logit > 0.0 else logit - math.log1p(math.exp(logit))


@compiled
def log_revenue(
    mean: float, sd: float, level: float, width: float, slope: float, noise: float
) -> tuple[float, float, float, float]:
    """Return mean and sd of the logarithm of the expected revenue, and of that which has the moments of the revenue.

    ``mean`` and ``sd`` are those of the logit of a payment, ``level`` and ``width`` those of the mean logarithm of an
    amount at this mean of the logit, ``slope`` is by how much that grows with the logit, and ``noise`` the variance
    around it.
    """
    square, paid = width * width, max(click_expectations(mean, sd * sd)[0], RAREST)
    together = min(max(slope, -STEEPEST), STEEPEST) * sd
    span = (log_probability(mean + FAR * sd) - log_probability(mean - FAR * sd)) / (2.0 * FAR)
    relative = click_spread(mean, sd) / paid
    narrow = math.sqrt(math.log1p(relative * relative))
    centre = math.log(paid) + level + 0.5 * min(noise, MOST_NOISE) + 0.5 * square + together * narrow
    tight = min((narrow + together) * (narrow + together) + square, WIDEST)
    wide = min((span + together) * (span + together) + square, WIDEST)
    return centre - 0.5 * wide, math.sqrt(wide), centre - 0.5 * tight, math.sqrt(tight)


class Revenue(Linked):
    """A reward is 0, or an amount above 0.

    Examples
    --------
    >>> family = Revenue()
    >>> family.check(19.9)
    19.9
    >>> low, high = family.interval(0.5, 0.4)
    >>> [round(float(amount), 3) for amount in (low, family.expected(0.5, 0.4), high)]
    [0.854, 1.786, 3.183]
    """

    name = "revenue"
    words = "0, or an amount above 0"
    predictor = "log revenue"

    def takes(self, rewards: Array | np.float64) -> BoolArray:
        """Return which of these floats are 0 or an amount."""
        return np.asarray((rewards == 0) | ((rewards >= LEAST) & (rewards <= LARGEST)))

    def check(self, reward: object) -> float:
        """Return a reward as a float, or raise one clear error."""
        if type(reward) is float and (reward == 0.0 or LEAST <= reward <= LARGEST):
            return abs(reward)  # 0.0 and -0.0 are the same nothing
        value = number(reward, "revenue")
        if not self.takes(np.float64(value)).all():
            raise InvalidValue(refusal(value, ""))
        return abs(value)

    def check_many(self, rewards: ArrayLike) -> Array:
        """Return rewards as floats, or raise one clear error that names the row."""
        from posse.checks import real_array

        checked = real_array(rewards, "rewards")
        wrong = np.flatnonzero(~self.takes(checked).ravel())
        if wrong.size:
            raise InvalidValue(refusal(float(checked.ravel()[wrong[0]]), f" at row {wrong[0]}"))
        return np.abs(checked)

    def mean_of(self, predictor: ArrayLike) -> Array:
        """Return the expected revenue."""
        return Count().mean_of(predictor)

    def expected(self, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return the expected revenue where its logarithm is believed to be Gaussian."""
        return Count().expected(mean, sd)

    def show(self, mean: float) -> str:
        """Return an expected revenue with three digits."""
        return f"{mean:.3g}"


def refusal(value: float, where: str) -> str:
    """Return why an amount is refused, and what to do."""
    if value < 0:
        return (
            f"expected revenue of 0 or an amount above 0, got {value:g}{where}; correct the reward of a purchase that "
            "is given back to what is left of it (correct(decision, 0.0) if that is nothing), or pass rewards='number'"
        )
    return f"expected revenue of 0 or an amount from {LEAST:g} to {LARGEST:g}, got {value:g}{where}; rescale amounts"
