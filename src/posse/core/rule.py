r"""From beliefs to the probabilities of the arms.

A rule has its own probabilities (:mod:`posse.core.select` says which scores it compares), and every eligible arm may
have a minimum: a ``floor``, or what an evaluation budget :math:`b` pays for,

.. math:: \min\Bigl(\frac1K, \frac{b\, \bar g}{(K - 1)\, g_k}\Bigr)

with :math:`g_k` the gap of an arm's mean to the best one and :math:`\bar g` the average gap, which is what playing at
random loses. As at most :math:`K - 1` gaps are positive, playing the minimum probabilities loses at most
:math:`b\, \bar g`.

Rewards of an arm that were all the same so far say nothing about those that have not come yet: how often, and how
much. Six digs without a find are no reason never to dig again. RandUCB may give such an arm no chance at all, so while
it has few rewards it is kept at a small one, :func:`kept_share`, and at a larger one while no arm has shown any noise:
then nothing says how large rewards may be. Where other arms have shown how noisy rewards are,
what is believed about the arm says whether that is worth it: then it is kept at :data:`LENIENCE` times the probability
of being better than the best of the others, if that is less.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.core.envelope import envelope_probabilities, upper_tail
from posse.core.propensity import score_columns, win_probabilities
from posse.core.select import Exploration, growth
from posse.core.store import GAUSSIAN_SCATTER, REWARDS
from posse.types import Array, BoolArray

ROUNDING = 1e-12  # of a sum of as many probabilities as there may be arms
KEPT = 0.015  # the least probability of an arm whose rewards were all the same so far
KEPT_REWARDS = 120.0  # as long as it has no more of them; then it falls with their square
FEW = 2.0  # over its rewards: more than that while they are few and no arm has shown any noise
KEPT_TOGETHER = 0.05  # the most that all such arms are kept at together then; where others show noise, KEPT
LENIENCE = 4.0  # times the probability that is believed, as the noise behind it is that of other arms


class Rule(NamedTuple):
    """How beliefs become probabilities: the scores, and the ``floor`` and evaluation ``budget`` of eligible arms."""

    exploration: Exploration
    floor: float
    budget: float

    def parameters(self) -> Array:
        """Return the rule as compiled code takes it."""
        return np.array([*self.exploration, self.floor, self.budget], dtype=np.float64)


@inlined
def rule_of(parameters: Array) -> Rule:
    """Return the rule that these numbers are."""
    exploration = Exploration(parameters[0], parameters[1], parameters[2] > 0.0, parameters[3] > 0.0)
    return Rule(exploration, parameters[4], parameters[5])


@compiled
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


@inlined
def score_probabilities(
    mean: Array, sd: Array, step: int, exploration: Exploration, scratch: Array, out: Array
) -> None:
    """Write how likely every arm is to have the highest score.

    ``scratch`` has five rows of :func:`posse.core.propensity.score_columns`.
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
        argmax_probabilities(scores, not spread > 0.0, out)  # they share: a constant would be compiled for anew


@compiled
def score_probabilities_rows(
    mean: Array, sd: Array, eligible: BoolArray, step: int, exploration: Exploration, out: Array
) -> None:
    """Write, row by row, how likely every eligible arm is to have the highest score; 0 for the others."""
    n_rows, n_arms = mean.shape
    scratch, row_of = np.empty((5, score_columns(n_arms))), np.empty((3, n_arms))
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


@inlined
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


@compiled
def kept_share(summary: Array) -> float:
    """Return what an arm is kept at, given its summary: 0 unless its rewards were all the same so far."""
    if not summary[GAUSSIAN_SCATTER] < 0.0:
        return 0.0
    more: float = max(summary[REWARDS] / KEPT_REWARDS, 1.0)
    return KEPT / (more * more)


@compiled
def set_silent(summaries: Array, silent: Array) -> None:
    """Write what every arm is kept at: below 0 where it is no more than its beliefs allow, as other arms show noise."""
    nobody = True
    for arm in range(silent.shape[0]):
        nobody = nobody and (summaries[arm, GAUSSIAN_SCATTER] < 0.0 or not summaries[arm, REWARDS] > 0.0)
    for arm in range(silent.shape[0]):
        silent[arm] = -kept_share(summaries[arm])
        if nobody and silent[arm] < 0.0:
            few = FEW / summaries[arm, REWARDS] if summaries[arm, REWARDS] <= KEPT_REWARDS else 0.0
            silent[arm] = max(-silent[arm], min(few, KEPT_TOGETHER))


@inlined
def keep_silent(mean: Array, sd: Array, silent: Array, least: Array) -> None:
    """Raise the least probability of every silent arm to what it is kept at; :func:`set_silent` writes ``silent``."""
    n_arms = silent.shape[0]
    if n_arms < 2:
        return
    first, second, total = -1, -1, 0.0
    for i in range(n_arms):
        total += abs(silent[i])
        # Of equal means the wider belief, so that the order of arms does not matter.
        if first < 0 or mean[i] > mean[first] or (mean[i] == mean[first] and sd[i] > sd[first]):
            first, second = i, first
        elif second < 0 or mean[i] > mean[second] or (mean[i] == mean[second] and sd[i] > sd[second]):
            second = i
    for i in range(n_arms):
        most = KEPT if silent[i] < 0.0 else KEPT_TOGETHER
        kept = min(abs(silent[i]) * min(1.0, most / total), 1.0 / n_arms) if total > 0.0 else 0.0
        if silent[i] < 0.0:
            rival = second if i == first else first
            gap = 0.5 * mean[rival] - 0.5 * mean[i]  # by halves: it does not overflow
            width = 0.5 * math.sqrt(sd[i] * sd[i] + sd[rival] * sd[rival])
            chance = upper_tail(gap / width) if width > 0.0 else 1.0 if gap <= 0.0 else 0.0
            kept = min(kept, LENIENCE * chance)
        least[i] = max(least[i], kept)


@inlined
def keeps_silent(silent: Array, exploration: Exploration) -> bool:
    """Whether there are silent arms that the rule may give no chance."""
    if exploration.coupled and exploration.spread > 0.0:
        for i in range(silent.shape[0]):
            if silent[i] != 0.0:
                return True
    return False


@inlined
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


@inlined
def action_probabilities(
    mean: Array, sd: Array, silent: Array, step: int, rule: Rule, exploring: bool, scratch: Array, out: Array
) -> None:
    """Write the probability of every arm whose mean and standard deviation is given.

    ``silent`` is what :func:`set_silent` writes for arms whose rewards were all the same so far; it may be empty.
    ``scratch`` has five rows of :func:`posse.core.propensity.score_columns`.
    """
    if not exploring:
        argmax_probabilities(mean, exploring, out)
        return
    score_probabilities(mean, sd, step, rule.exploration, scratch, out)
    keeps = keeps_silent(silent, rule.exploration)
    if rule.floor > 0.0 or rule.budget > 0.0 or keeps:
        least = scratch[4, : mean.shape[0]]
        minimum_probabilities(mean, rule.floor, rule.budget, least)
        if keeps:
            keep_silent(mean, sd, silent, least)
        raise_to_minimum(least, out)


@inlined
def pick(probabilities: Array, uniform: float) -> int:
    """Return the arm that a uniform number in [0, 1) falls on; never one with probability 0."""
    total = 0.0
    last = 0
    for i in range(probabilities.shape[0]):
        if probabilities[i] > 0.0:
            total += probabilities[i]
            last = i
            if uniform < total:
                break
    return last
