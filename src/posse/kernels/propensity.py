r"""How likely each arm is to win when scores are independent Gaussians.

.. math:: P(k) = \int \frac{1}{\sigma_k} \varphi\Bigl(\frac{s - m_k}{\sigma_k}\Bigr)
    \prod_{j \ne k} \Phi\Bigl(\frac{s - m_j}{\sigma_j}\Bigr)\, ds

All arms are integrated over the same nodes, so every density and distribution function is evaluated once, from a
table. Panels are as wide as the narrowest arm that still changes there allows, so arms of very different spread are as
exact as equal ones.
"""

from __future__ import annotations

import math

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel
from posse.types import Array

REACH = 6.0  # standard deviations beyond which a score is taken as impossible: 2e-9 of an arm's mass
WIDTH = 3.0  # panels in standard deviations of the narrowest arm: with eight nodes the rule adds less than that
NODES, WEIGHTS = (np.ascontiguousarray(column) for column in np.polynomial.legendre.leggauss(8))
FINENESS = 64  # entries of the table per standard deviation: cubic interpolation is off by 2e-10 at most
GRID = np.arange(-REACH * FINENESS, REACH * FINENESS + 2) / FINENESS
DENSITY = np.exp(-0.5 * GRID * GRID) / math.sqrt(2.0 * math.pi)
BELOW = np.array([0.5 * math.erfc(-z * math.sqrt(0.5)) for z in GRID])
SMALLEST = 1e-150  # spread whose inverse may not be squared: certain as well
NARROWEST = 1e-12  # spread over the largest |mean| or spread below which a score counts as certain


@inlined_kernel
def look_up(z: float) -> tuple[float, float]:
    """Return the standard normal density and distribution function at -REACH < z < REACH."""
    place = (z + REACH) * FINENESS
    i = int(place)
    t = place - i
    step = 1.0 / FINENESS
    # Cubic Hermite: values and slopes at both ends; the slope of the density at z is -z times itself.
    left, right = DENSITY[i], DENSITY[i + 1]
    rest = 1.0 - t
    at_left, at_right = rest * rest * (1.0 + 2.0 * t), t * t * (3.0 - 2.0 * t)
    slope_left, slope_right = step * t * rest * rest, -step * t * t * rest
    below = at_left * BELOW[i] + at_right * BELOW[i + 1] + slope_left * left + slope_right * right
    start = i * step - REACH
    density = left * (at_left - slope_left * start) + right * (at_right - slope_right * (start + step))
    return density, below


@kernel
def win_probabilities(mean: Array, sd: Array, ratio: Array, out: Array) -> None:
    """Write the probability that each arm has the highest score; ``ratio`` is scratch, all have length n_arms.

    An arm with ``sd`` 0 has a certain score; certain scores that are equal share their chance.
    """
    n_arms = mean.shape[0]
    scale = 0.0
    for arm in range(n_arms):
        out[arm] = 0.0
        scale = max(scale, max(abs(mean[arm]), sd[arm]))
    narrow = max(NARROWEST * scale, SMALLEST)  # up to here a score counts as certain
    certain = -math.inf  # the highest certain score
    low = -math.inf
    high = -math.inf
    for arm in range(n_arms):
        if sd[arm] <= narrow:
            certain = max(certain, mean[arm])
        low = max(low, mean[arm] - REACH * sd[arm])
        high = max(high, mean[arm] + REACH * sd[arm])

    ties = 0
    beaten = 1.0  # the chance that no uncertain arm is above the highest certain score
    for arm in range(n_arms):
        if sd[arm] <= narrow:
            ties += mean[arm] == certain
        else:
            beaten *= 0.5 * math.erfc((mean[arm] - certain) / sd[arm] * math.sqrt(0.5))
    if ties > 0:
        for arm in range(n_arms):
            if sd[arm] <= narrow and mean[arm] == certain:
                out[arm] = beaten / ties
        low = max(low, certain)

    start = low
    while start < high:
        # As far as the narrowest arm that changes here allows, and not past the place where another begins to change.
        end = high
        for arm in range(n_arms):
            if sd[arm] <= narrow:
                continue
            first, last = mean[arm] - REACH * sd[arm], mean[arm] + REACH * sd[arm]
            if first > start:
                end = min(end, first)
            elif last > start:
                end = min(end, start + WIDTH * sd[arm])
        if not end > start:
            break  # narrower than numbers of this size can tell apart
        half = 0.5 * (end - start)
        for node in range(NODES.shape[0]):
            at = start + half * (1.0 + NODES[node])
            below = half * WEIGHTS[node]  # times the chance that all arms are below this score
            for arm in range(n_arms):
                ratio[arm] = 0.0
                if sd[arm] <= narrow:
                    continue
                z = (at - mean[arm]) / sd[arm]
                if z < REACH:
                    # No score below the highest of all lower ends is looked at, so z > -REACH and this is not 0.
                    density, chance = look_up(max(z, -REACH))
                    below *= chance
                    ratio[arm] = density / (sd[arm] * chance)
            for arm in range(n_arms):
                out[arm] += below * ratio[arm]
        start = end
    # What the tails and the rule leave out is shared in proportion.
    total = 0.0
    for arm in range(n_arms):
        total += out[arm]
    for arm in range(n_arms):
        out[arm] /= total
