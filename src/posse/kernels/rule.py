r"""From beliefs to the probabilities of the arms.

A rule has its own probabilities (:mod:`posse.kernels.select` says which scores it compares), and every eligible arm may
have a minimum: a ``floor``, or what an evaluation budget :math:`b` pays for,

.. math:: \min\Bigl(\frac1K, \frac{b\, \bar g}{(K - 1)\, g_k}\Bigr)

with :math:`g_k` the gap of an arm's mean to the best one and :math:`\bar g` the average gap, which is what playing at
random loses. As at most :math:`K - 1` gaps are positive, playing the minimum probabilities loses at most
:math:`b\, \bar g`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import allocating_kernel, woven_kernel
from posse.kernels.envelope import envelope_probabilities
from posse.kernels.propensity import score_room, win_probabilities
from posse.kernels.select import Exploration, growth
from posse.types import Array, BoolArray

ROUNDING = 1e-12  # of a sum of as many probabilities as there may be arms


class Rule(NamedTuple):
    """How beliefs become probabilities: the scores, and the ``floor`` and evaluation ``budget`` of eligible arms."""

    exploration: Exploration
    floor: float
    budget: float


@woven_kernel
def argmax_probabilities(scores: Array, share: bool, out: Array) -> None:
    """Give all probability to the highest score; equal ones share it, or the first one gets it."""
    highest = -math.inf
    ties = 0
    for i in range(scores.shape[0]):
        if scores[i] > highest:
            highest = scores[i]
            ties = 1
        elif scores[i] == highest:
            ties += 1
    taken = False
    for i in range(scores.shape[0]):
        out[i] = 0.0
        if scores[i] == highest and (share or not taken):
            out[i] = 1.0 / ties if share else 1.0
            taken = True


@woven_kernel
def score_probabilities(
    mean: Array, sd: Array, step: int, exploration: Exploration, scratch: Array, out: Array
) -> None:
    """Write how likely every arm is to have the highest score.

    ``scratch`` has five rows of :func:`posse.kernels.propensity.score_room`.
    """
    n_arms = mean.shape[0]
    factor = growth(exploration, step)
    centre, spread = factor * exploration.centre, factor * exploration.spread
    scores, widths = scratch[4, :n_arms], scratch[4, n_arms : 2 * n_arms]
    if spread > 0.0 and exploration.coupled:
        envelope_probabilities(mean, sd, centre, spread, out)
        return
    for i in range(n_arms):
        scores[i] = mean[i] + centre * sd[i]
        widths[i] = spread * sd[i]
    if spread > 0.0:
        win_probabilities(scores, widths, scratch, out)
    else:
        argmax_probabilities(scores, True, out)


@allocating_kernel
def score_probabilities_rows(
    mean: Array, sd: Array, eligible: BoolArray, step: int, exploration: Exploration, out: Array
) -> None:
    """Write, row by row, how likely every eligible arm is to have the highest score; 0 for the others."""
    n_rows, n_arms = mean.shape
    scratch, row_of = np.empty((5, score_room(n_arms))), np.empty((3, n_arms))
    for row in range(n_rows):
        n = 0
        for arm in range(n_arms):
            if eligible[row, arm]:
                row_of[0, n], row_of[1, n] = mean[row, arm], sd[row, arm]
                n += 1
        found = row_of[2, :n]
        score_probabilities(row_of[0, :n], row_of[1, :n], step, exploration, scratch, found)
        n = 0
        for arm in range(n_arms):
            out[row, arm] = 0.0
            if eligible[row, arm]:
                out[row, arm] = found[n]
                n += 1


@woven_kernel
def minimum_probabilities(mean: Array, floor: float, budget: float, out: Array) -> None:
    """Write the least probability of every arm: the larger of ``floor`` and what ``budget`` pays for; at most 1 / K."""
    n_arms = mean.shape[0]
    even = 1.0 / n_arms
    best, worst = mean[0], mean[0]
    for i in range(n_arms):
        out[i] = min(floor, even)
        best, worst = max(best, mean[i]), min(worst, mean[i])
    if not budget > 0.0:
        return
    # Gaps as parts of the widest one, by halves: neither overflows.
    widest = 0.5 * best - 0.5 * worst
    total = 0.0
    for i in range(n_arms):
        total += (0.5 * best - 0.5 * mean[i]) / widest if widest > 0.0 else 0.0
    allowed = budget * total / n_arms
    for i in range(n_arms):
        loss = (n_arms - 1) * ((0.5 * best - 0.5 * mean[i]) / widest) if widest > 0.0 else 0.0
        out[i] = max(out[i], even if allowed >= even * loss else allowed / loss)


@woven_kernel
def raise_to_minimum(least: Array, out: Array) -> None:
    """Raise probabilities to their minima, which add up to 1 at most, and lower all others by one factor.

    Of all probabilities with these minima, those are the nearest to what they were (in Kullback-Leibler divergence).
    """
    n_arms = out.shape[0]
    total = 0.0
    for i in range(n_arms):
        total += least[i]
    if total >= 1.0 - ROUNDING:  # nothing is left to share, and an even chance is exactly even
        for i in range(n_arms):
            out[i] = least[i]
        return
    factor = 1.0
    for _ in range(n_arms):  # every round but the last finds another arm that is below
        taken, rest = 0.0, 0.0
        for i in range(n_arms):
            if factor * out[i] <= least[i]:
                taken += least[i]
            else:
                rest += out[i]
        if not rest > 0.0 or (1.0 - taken) / rest >= factor:
            break
        factor = (1.0 - taken) / rest
    for i in range(n_arms):
        out[i] = max(least[i], factor * out[i])


@woven_kernel
def action_probabilities(
    mean: Array, sd: Array, step: int, rule: Rule, explore: bool, scratch: Array, out: Array
) -> None:
    """Write the probability of every arm whose mean and standard deviation is given.

    ``scratch`` has five rows of :func:`posse.kernels.propensity.score_room`.
    """
    if not explore:
        argmax_probabilities(mean, False, out)
        return
    score_probabilities(mean, sd, step, rule.exploration, scratch, out)
    if rule.floor > 0.0 or rule.budget > 0.0:
        least = scratch[4, : mean.shape[0]]
        minimum_probabilities(mean, rule.floor, rule.budget, least)
        raise_to_minimum(least, out)
