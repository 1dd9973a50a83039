r"""From beliefs to scores, and from scores to one arm.

Every rule is one score,

.. math:: m_k + (c + s\,z)\, \sigma_k \sqrt{\log t}

UCB is :math:`s = 0`, Thompson sampling is :math:`c = 0` with a :math:`z_k` of its own for every arm, and RandUCB has
both, with one :math:`z` for all arms and never less than 0 standard deviations: :math:`\max(0, c + s z)`.

A decision consumes one standard normal per arm, whatever the rule: they are the :math:`z`, and every policy breaks ties
by them. So a decision costs the same stretch of the random stream in every policy, and two policies that are compared
see the same draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.core.compiler import compiled, inlined
from posse.types import Array


class Exploration(NamedTuple):
    """How many standard deviations from its mean an arm is scored: ``centre`` plus ``spread`` times a normal draw.

    Both grow with sqrt(log step) if ``growing``. All arms share one draw if ``coupled``, and are then never scored
    below their means; otherwise every arm has its own.
    """

    centre: float
    spread: float
    growing: bool
    coupled: bool

    def scaled(self, scale: float) -> Exploration:
        """Return the same rule, ``scale`` times as far from the mean."""
        return self._replace(centre=scale * self.centre, spread=scale * self.spread)


OPTIMISTIC = Exploration(centre=1.0, spread=0.0, growing=True, coupled=False)
SAMPLING = Exploration(centre=0.0, spread=1.0, growing=True, coupled=False)
RANDOMISED = Exploration(centre=1.0, spread=0.25, growing=True, coupled=True)


@compiled
def best(scores: Array, draws: Array) -> int:
    """Return the arm with the highest score; among equals, the one with the highest draw."""
    winner = 0
    for arm in range(1, scores.shape[0]):
        if scores[arm] > scores[winner] or (scores[arm] == scores[winner] and draws[arm] > draws[winner]):
            winner = arm
    return winner


@inlined
def growth(exploration: Exploration, step: int) -> float:
    """Return what exploration is multiplied by at this step."""
    return math.sqrt(math.log(max(step, 2))) if exploration.growing else 1.0


@compiled
def explore(mean: Array, sd: Array, step: int, exploration: Exploration, draws: Array) -> int:
    """Return the arm with the highest score. Overwrites ``mean`` with the scores."""
    factor = growth(exploration, step)
    centre, spread = factor * exploration.centre, factor * exploration.spread
    if exploration.coupled:
        width = max(centre + spread * draws[0], 0.0)
        for arm in range(mean.shape[0]):
            mean[arm] += width * sd[arm]
    else:
        for arm in range(mean.shape[0]):
            mean[arm] += centre * sd[arm] + spread * sd[arm] * draws[arm]
    return best(mean, draws)
