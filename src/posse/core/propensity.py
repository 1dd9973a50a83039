r"""How likely each arm is to win when scores are independent Gaussians.

.. math:: P(k) = \int \frac{1}{\sigma_k} \varphi\Bigl(\frac{s - m_k}{\sigma_k}\Bigr)
    \prod_{j \ne k} \Phi\Bigl(\frac{s - m_j}{\sigma_j}\Bigr)\, ds

All arms are integrated over the same nodes, so every density and distribution function is evaluated once, from a
table, for the eight nodes of a panel at the same time. Panels are as wide as the narrowest arm that still changes there
allows, so arms of very different spread are as exact as equal ones.
"""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.types import Array

N_NODES = 8
REACH = 6.0  # standard deviations beyond which a score is taken as impossible: 2e-9 of an arm's mass
NODES, WEIGHTS = (np.ascontiguousarray(column) for column in np.polynomial.legendre.leggauss(N_NODES))
FINENESS = 64  # entries of the table per standard deviation: cubic interpolation is off by 2e-10 at most
GRID = np.arange(-REACH * FINENESS, REACH * FINENESS + 2) / FINENESS
# Density and distribution function in turn: two neighbours of both stand together.
TABLE = np.column_stack(
    [np.exp(-0.5 * GRID * GRID) / math.sqrt(2.0 * math.pi), [0.5 * math.erfc(-z * math.sqrt(0.5)) for z in GRID]]
).reshape(-1)
SMALLEST = 1e-150  # spread whose inverse may not be squared: certain as well
NARROWEST = 1e-12  # spread over the largest |mean| or spread below which a score counts as certain


@inlined
def score_columns(n_arms: int) -> int:
    """Return how many columns the scratch of so many arms needs."""
    return N_NODES * max(n_arms, 2)


@inlined
def panel_width(n_arms: int) -> float:
    """Return how wide panels are, in standard deviations of the narrowest arm: the highest of many changes faster."""
    return 2.5 if n_arms <= 8 else 2.0 if n_arms <= 64 else 1.5


@inlined
def normal_at_nodes(at: Array, mean: float, inverse: float, density: Array, below: Array) -> None:
    """Write density and distribution function of a Gaussian at the nodes of a panel, by cubic interpolation."""
    step = 1.0 / FINENESS
    for node in range(N_NODES):
        z = (at[node] - mean) * inverse
        # Beyond the table nothing changes any more; NaN goes to its end, too.
        above = not z < REACH
        z = REACH if above else max(z, -REACH)
        place = (z + REACH) * FINENESS
        entry = int(place)
        t = place - entry
        rest = 1.0 - t
        # Cubic Hermite: values and slopes at both ends; the slope of the density at z is -z times itself.
        at_left, at_right = rest * rest * (1.0 + 2.0 * t), t * t * (1.0 + 2.0 * rest)
        slope_left, slope_right = step * (t * rest * rest), -step * (t * t * rest)
        start = entry * step - REACH
        left, right = TABLE[2 * entry], TABLE[2 * entry + 2]
        value = left * (at_left - slope_left * start) + right * (at_right - slope_right * (start + step))
        chance = at_left * TABLE[2 * entry + 1] + at_right * TABLE[2 * entry + 3]
        chance += slope_left * left + slope_right * right
        density[node] = 0.0 if above else value * inverse
        below[node] = 1.0 if above else chance


@compiled
def win_probabilities(mean: Array, sd: Array, scratch: Array, out: Array) -> None:
    """Write the probability that each arm has the highest score; ``scratch`` has four rows of :func:`score_columns`.

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
    if certain > -math.inf:
        beaten = 1.0  # the chance that no uncertain arm is above the highest certain score
        for arm in range(n_arms):
            if sd[arm] <= narrow:
                ties += mean[arm] == certain
            else:
                beaten *= 0.5 * math.erfc((mean[arm] - certain) / sd[arm] * math.sqrt(0.5))
        for arm in range(n_arms):
            if sd[arm] <= narrow and mean[arm] == certain:
                out[arm] = beaten / ties
        low = max(low, certain)

    density, chance, mass, line = scratch[0], scratch[1], scratch[2], scratch[3]
    # `line` holds the nodes of a panel, its weights, and a product that grows from arm to arm.
    width = panel_width(n_arms)
    for i in range(n_arms * N_NODES):
        mass[i] = 0.0
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
                end = min(end, start + width * sd[arm])
        if not end > start:
            break  # narrower than numbers of this size can tell apart
        half = 0.5 * (end - start)
        for node in range(N_NODES):
            line[node] = start + half * (1.0 + NODES[node])
            line[N_NODES + node] = half * WEIGHTS[node]
        # Densities times the chances of all arms before, then times those of all after.
        for arm in range(n_arms):
            here = arm * N_NODES
            if sd[arm] <= narrow:
                for node in range(N_NODES):
                    density[here + node] = 0.0
                    chance[here + node] = 1.0
                continue
            normal_at_nodes(line, mean[arm], 1.0 / sd[arm], density[here:], chance[here:])
            for node in range(N_NODES):
                density[here + node] *= line[N_NODES + node]
                line[N_NODES + node] *= chance[here + node]
        for node in range(N_NODES):
            line[N_NODES + node] = 1.0
        for arm in range(n_arms - 1, -1, -1):
            here = arm * N_NODES
            for node in range(N_NODES):
                mass[here + node] += density[here + node] * line[N_NODES + node]
                line[N_NODES + node] *= chance[here + node]
        start = end
    # What the tails and the rule leave out is shared in proportion.
    total = 0.0
    for arm in range(n_arms):
        for node in range(N_NODES):
            out[arm] += mass[arm * N_NODES + node]
        total += out[arm]
    for arm in range(n_arms):
        out[arm] /= total
