r"""How likely each arm is to win when all scores move with one draw.

The score :math:`m_k + \max(0, c + s z)\, w_k` of an arm is a line in :math:`u = \max(0, c + s z)`, so the arms that can
win are those on the upper envelope of the lines, each between its two breakpoints. Their probabilities are differences
of the normal distribution function: exact, whatever the arms' beliefs have to do with each other.
"""

from __future__ import annotations

import math

from posse.core.compiler import compiled
from posse.types import Array


@compiled
def upper_tail(z: float) -> float:
    """Return how likely a standard normal is to be above ``z``."""
    return 0.5 * math.erfc(z * math.sqrt(0.5))


@compiled
def mass_between(low: float, high: float) -> float:
    """Return how likely a standard normal is to be between two numbers, in the tails as exactly as in the middle."""
    if low >= 0.0:
        return upper_tail(low) - upper_tail(high)
    if high <= 0.0:
        return upper_tail(-high) - upper_tail(-low)
    return 1.0 - upper_tail(-low) - upper_tail(high)


@compiled
def envelope_probabilities(mean: Array, width: Array, centre: float, spread: float, out: Array) -> None:
    """Write the probability that each arm has the highest ``mean + max(0, centre + spread z) * width``.

    ``spread`` is positive and ``width`` is not negative. Arms with the same line share their probability, and where the
    draw gives 0 standard deviations those with the same mean do.
    """
    n_arms = mean.shape[0]
    top = 0  # the arm on the envelope just above 0 standard deviations
    for arm in range(n_arms):
        out[arm] = 0.0
        if mean[arm] > mean[top] or (mean[arm] == mean[top] and width[arm] > width[top]):
            top = arm
    ties = 0
    for arm in range(n_arms):
        ties += mean[arm] == mean[top]
    for arm in range(n_arms):
        if mean[arm] == mean[top]:
            out[arm] = upper_tail(centre / spread) / ties
    start = 0.0
    while top >= 0:
        # The next arm on the envelope is the one that overtakes first. Of several at once it may be any: the steeper
        # ones overtake it at the same point, and nothing is left for it.
        end, after = math.inf, -1
        for arm in range(n_arms):
            if width[arm] > width[top]:
                crossing = (mean[top] - mean[arm]) / (width[arm] - width[top])
                if crossing < end:
                    end, after = crossing, arm
        end = max(end, start)  # it is, but for rounding, and no probability is negative
        mass = mass_between((start - centre) / spread, (end - centre) / spread)
        ties = 0
        for arm in range(n_arms):
            ties += mean[arm] == mean[top] and width[arm] == width[top]
        for arm in range(n_arms):
            if mean[arm] == mean[top] and width[arm] == width[top]:
                out[arm] += mass / ties
        top, start = after, end
