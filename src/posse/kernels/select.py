"""From scores to one arm.

A decision consumes one standard normal per arm, whatever the policy: Thompson sampling adds them to the scores, and
every policy breaks ties by them. So a decision costs the same stretch of the random stream in every policy, and two
policies that are compared see the same draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.compiler import inlined_kernel, short_kernel
from posse.kernels.linalg import moderate
from posse.types import Array


class Exploration(NamedTuple):
    """How far from the mean to look: ``scale``, times sqrt(log step) if ``growing``, times a draw if ``sampling``."""

    scale: float
    growing: bool
    sampling: bool


@inlined_kernel
def best(scores: Array, draws: Array) -> int:
    """Return the arm with the highest score; among equals, the one with the highest draw."""
    winner = 0
    for arm in range(1, scores.shape[0]):
        if scores[arm] > scores[winner] or (scores[arm] == scores[winner] and draws[arm] > draws[winner]):
            winner = arm
    return winner


@inlined_kernel
def explore(mean: Array, sd: Array, step: int, exploration: Exploration, draws: Array) -> int:
    """Return the arm with the highest ``mean + scale * sd`` (times its draw when sampling). Overwrites ``mean``."""
    scale = exploration.scale
    if exploration.growing:
        scale *= math.sqrt(math.log(max(step, 2)))
    for arm in range(mean.shape[0]):
        mean[arm] += scale * sd[arm] * (draws[arm] if exploration.sampling else 1.0)
    return best(mean, draws)


@short_kernel
def usable(context: Array) -> bool:
    """Whether a context can be decided on: as :func:`posse.kernels.linalg.moderate`, but called at every decision."""
    return moderate(context)
