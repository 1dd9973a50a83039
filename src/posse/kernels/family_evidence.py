"""The evidence prior of a family whose rewards are sites: as :mod:`posse.kernels.evidence`, with noise that is known.

Sites have noise variance 1, and linear predictors have a scale of their own: between tasks a logit hardly ever differs
by 10. So the start and the penalties have a size that the family says, in place of the scatter of the rewards.
"""

from __future__ import annotations

import math

import numpy as np

from posse.kernels.arms import (
    INFORMATION,
    SLOPE,
    gather_arm,
    gather_arms,
    pass_on,
    pool_arms,
    set_shared_prior,
    set_width,
    share_arms,
)
from posse.kernels.compiler import allocating_inner_kernel, allocating_kernel, inner_kernel, kernel, woven_kernel
from posse.kernels.evidence import (
    CONSTANT,
    Evidence,
    admit_features,
    centre_arms,
    centre_said,
    finish_arms,
    improve_arm,
    level_of,
    pairs_of,
    said_of,
    set_features,
    set_population,
    set_start,
    set_target,
    total_rewards,
)
from posse.kernels.kept_rows import KeptRows, make_sites_again
from posse.kernels.lanes import N_COUNTS, sum_information, sum_moments
from posse.kernels.levels import (
    COVARIANCE_SHARE,
    LEVEL,
    LEVEL_LEVEL,
    LEVEL_PULL,
    LEVEL_SLOPE,
    LOG_LEVEL,
    LOG_SD,
    MEAN_SHARE,
    NOISE,
    clip,
    curvature,
)
from posse.kernels.linalg import dot, factor
from posse.kernels.passes import SQUARED_LEVERAGE, TASKS, finish_moments, prepare_moments, unwhiten
from posse.kernels.posterior import Belief, Buffers, finish
from posse.kernels.sites import SIZES
from posse.types import Array

STEPS = 3  # at most, per refresh of a policy
SETTLED = 0.2  # a refresh ends when nothing moved by more
TURNS = 8  # steps in which the sites of all pairs are made again, a part of the pairs in each
FIT_TURNS = 4  # likewise where a population is fitted to the end: no later refresh goes on with it
EARLY = 50.0  # rewards per arm, until when all sites are made again in every step
COMMON_SQUARE = 16.0  # of a common predictor: rates from 1 in 3,000 on are ordinary, and none is certain


@kernel
def measure_features(features: Array, rewards: float, family: int, evidence: Evidence) -> None:
    """Write means and mean squares of the features, and the size of the family; see :func:`set_features`.

    The two rows of ``features`` have the sums of the contexts of all rewards and of their squares.
    """
    measures, d = evidence.measures, features.shape[1]
    column = -1
    for i in range(d):
        total, square = features[0, i], features[1, i]
        if column < 0 and square > 0.0 and rewards * square - total * total <= CONSTANT * rewards * square:
            column = i
    for i in range(d):
        for j in range(i, d):
            measures[i, j] = 0.0
        measures[i, i] = features[1, i]
    if column >= 0:
        value = features[0, column] / rewards
        for i in range(d):
            if i != column:
                measures[min(i, column), max(i, column)] = value * features[0, i]
    set_features(rewards, column, evidence)
    evidence.reward_square[0], evidence.reward_scatter[0] = COMMON_SQUARE, SIZES[family]


@kernel
def set_family_start(belief: Belief, evidence: Evidence) -> None:
    """Set the prior to its start, with noise variance 1; the posterior is not rebuilt."""
    set_start(belief, evidence)
    evidence.centre[NOISE] = 0.0
    for arm in range(belief.rewards.shape[0]):
        belief.noise_variance[arm] = 1.0


@inner_kernel
def set_family_width(evidence: Evidence) -> None:
    """Set how far from 0 the common mean is believed to be: as for numbers, but never wider than a predictor may be.

    Rewards that are all 0 ask for a predictor without bound, and a width that follows it would let it go.
    """
    set_width(evidence)
    for i in range(evidence.arm_mean.shape[0]):
        evidence.arm_precision[i] = max(evidence.arm_precision[i], evidence.feature_square[i] / COMMON_SQUARE)


@inner_kernel
def pulled_less(distance: float, d: int) -> float:
    """Return the share of its pull to the centre that an arm at this distance keeps: 1 at the centre, 0 far away."""
    return 1.0 / (1.0 + 0.25 * d * distance * distance)


@inner_kernel
def move_known_levels(slopes: Array, centre: Array, size: float, d: int) -> float:
    """Move the log levels of all arms and their centre one step; return the largest move of any.

    The step of :func:`posse.kernels.levels.move_levels` where the noise is known.
    """
    n_arms = slopes.shape[0]
    held = 1.0 / (LOG_SD * LOG_SD)
    hold, ask = held, held * (math.log(COVARIANCE_SHARE * size / d) - centre[LEVEL])
    for arm in range(n_arms):
        at = slopes[arm, LOG_LEVEL] - centre[LEVEL]
        pull = pulled_less(at, d) * LEVEL_PULL * d
        curved = slopes[arm, LEVEL_LEVEL] + pull
        ask += pull * (at + (slopes[arm, LEVEL_SLOPE] - pull * at) / curved)
        hold += pull - pull * pull / curved
    new = clip(ask / hold)
    move = abs(new)
    for arm in range(n_arms):
        at = slopes[arm, LOG_LEVEL] - centre[LEVEL]
        pull = pulled_less(at, d) * LEVEL_PULL * d
        own = clip((slopes[arm, LEVEL_SLOPE] - pull * (at - new)) / (slopes[arm, LEVEL_LEVEL] + pull))
        slopes[arm, LOG_LEVEL] += own
        move = max(move, abs(own))
    centre[LEVEL] += new
    return move


@allocating_inner_kernel
def summarise(belief: Belief, evidence: Evidence, arm: int, buffers: Buffers) -> None:
    """Sum what the step below needs over the tasks of one arm, from the posterior in force."""
    root, shared_root, moments = buffers.matrices[1], buffers.matrices[2], buffers.matrices[3]
    start, counts, distance = buffers.vectors[0], np.empty(N_COUNTS), np.empty(0)
    factor(belief.covariance[arm], root)
    prepare_moments(belief.shared_covariance[arm], belief.shared_mean[arm], root, shared_root, start)
    sum_moments(
        pairs_of(belief, arm), root, belief.noise_variance[arm], belief.shared_mean[arm], shared_root, start, distance,
        buffers.lanes, moments, counts,
    )  # fmt: skip
    finish_moments(
        belief.rewards[arm], belief.noise_variance[arm], root, moments, counts, belief.n_seen[arm],
        evidence.second_moment[arm], evidence.summaries[arm], buffers,
    )  # fmt: skip


@allocating_kernel
def improve_family(belief: Belief, evidence: Evidence, buffers: Buffers) -> float:
    """Improve the whole prior once from the posterior in force; return the largest relative move."""
    n_arms, d = belief.shared_mean.shape
    size = evidence.reward_scatter[0]
    for arm in range(n_arms):
        summarise(belief, evidence, arm, buffers)
    gather_arms(belief, evidence, buffers)
    centre_arms(belief, evidence, 1.0)
    set_family_width(evidence)
    pool_arms(evidence, buffers)
    held = 1.0 / (LOG_SD * LOG_SD)
    distance = -math.log(evidence.shared_scale[0]) - math.log(MEAN_SHARE * size / d)
    slope = evidence.arm_summary[SLOPE]
    move_mean = clip((slope - held * distance) / (curvature(evidence.arm_summary[INFORMATION], slope) + held))
    for arm in range(n_arms):
        summary, slopes = evidence.summaries[arm], evidence.slopes[arm]
        explained = 0.0
        for i in range(d):
            explained += dot(evidence.inverse[arm, i], evidence.second_moment[arm, i])
        slopes[LOG_LEVEL] = math.log(level_of(belief.covariance[arm], evidence.feature_square))
        slopes[LEVEL_SLOPE] = 0.5 * (explained - summary[TASKS] * d)
        slopes[LEVEL_LEVEL] = curvature(0.5 * summary[SQUARED_LEVERAGE], slopes[LEVEL_SLOPE])
    move = max(abs(move_mean), move_known_levels(evidence.slopes, evidence.centre, size, d))
    set_target(belief, evidence)
    for arm in range(n_arms):
        level = math.exp(evidence.slopes[arm, LOG_LEVEL])
        move = max(move, improve_arm(belief, evidence, arm, level, buffers))
    centre_arms(belief, evidence, -1.0)
    evidence.shared_scale[0] *= math.exp(-move_mean)
    return move


@allocating_kernel
def rebuild_family(belief: Belief, evidence: Evidence, buffers: Buffers) -> None:
    """Rebuild every arm under the population in force: pairs, the arms' common mean, shared means."""
    n_arms, d = belief.shared_mean.shape
    root, information = buffers.matrices[1], np.empty((d, d + 1))
    for arm in range(n_arms):
        set_population(belief.covariance[arm], evidence.inverse[arm], root, buffers.matrices[0])
        sum_information(
            pairs_of(belief, arm), root, belief.noise_variance[arm], belief.local_covariance, belief.local_mean, True,
            buffers.lanes, information,
        )  # fmt: skip
        unwhiten(root, information, evidence.information[arm], evidence.moment[arm])
        centre_said(evidence, arm)
    share_family(belief, evidence, buffers)


@kernel
def share_family(belief: Belief, evidence: Evidence, buffers: Buffers) -> None:
    """Compute the arms' common mean and all shared means from what the tasks of every arm say about its own."""
    pool_arms(evidence, buffers)
    share_arms(belief, evidence, buffers)
    finish_arms(belief, evidence, buffers)


@allocating_kernel
def make_all_again(
    belief: Belief, evidence: Evidence, rows: KeptRows, family: int, turns: int, buffers: Buffers
) -> float:
    """Make the sites of kept rows again, those of one pair in ``turns``; return the largest move.

    Arm after arm, from a rebuilt belief. What belongs to the arms' common mean is not up to date afterwards: share what
    they say, or rebuild.
    """
    n_arms, d = belief.shared_mean.shape
    squares, scale = evidence.feature_square, evidence.shared_scale[0]
    total, others, room = np.zeros((d, d + 1)), np.empty((d, d)), np.empty((d, d + 1))
    moment = np.empty(d)
    for i in range(d):
        total[i, i] = evidence.arm_precision[i]
    for arm in range(n_arms):
        total += evidence.message[arm]
    move = 0.0
    for arm in range(n_arms):
        if belief.n_seen[arm] == 0:
            continue
        # The arm's prior follows from what the others say by now: were all arms to go by what was said before, all
        # would make good for the same error, and together overshoot.
        message = evidence.message[arm]
        total -= message
        for i in range(d):
            moment[i] = total[i, d]
            for j in range(d):
                others[i, j] = total[i, j]
        set_shared_prior(belief, evidence, arm, others, moment, buffers, room)
        said_of(evidence, arm, others, belief.shared_moment[arm])
        finish(belief, arm, others, buffers)
        move = max(move, make_sites_again(belief, rows, arm, family, turns, buffers))
        gather_arm(belief, evidence, arm, buffers)
        pass_on(
            evidence.information[arm], evidence.moment[arm], squares, scale, buffers, evidence.leaning[arm], message
        )
        total += message
    rows.passes[0] += 1
    return move


@woven_kernel
def improve_to_rest(
    belief: Belief,
    evidence: Evidence,
    rows: KeptRows,
    features: Array,
    family: int,
    steps: int,
    settled: float,
    buffers: Buffers,
) -> None:
    """Make sites again and improve the prior of all arms, by warm-started steps until none moves by ``settled``."""
    total = total_rewards(belief)
    early = evidence.refreshed_at[0] < belief.rewards.shape[0]
    turns = TURNS
    if total <= EARLY * belief.rewards.shape[0]:
        turns = 1
    elif settled < SETTLED and total > evidence.refreshed_at[0]:
        turns = FIT_TURNS
    measure_features(features, total, family, evidence)
    evidence.refreshed_at[0] = total
    evidence.steps[0] = 0.0
    admit_features(belief, evidence)
    if early:
        set_family_start(belief, evidence)
    # What arms say to each other is of the last refresh.
    rebuild_family(belief, evidence, buffers)
    for _step in range(steps):
        make_all_again(belief, evidence, rows, family, turns, buffers)
        # What is improved below are the sums and what arms say; pairs are rebuilt when the population has moved.
        share_family(belief, evidence, buffers)
        if total < belief.rewards.shape[0]:
            break
        move = improve_family(belief, evidence, buffers)
        evidence.steps[0] += 1.0
        evidence.last_move[0] = move
        rebuild_family(belief, evidence, buffers)
        if move < settled:
            break


@woven_kernel
def refresh_family(
    belief: Belief, evidence: Evidence, rows: KeptRows, features: Array, family: int, buffers: Buffers
) -> None:
    """Make sites again and improve the prior of all arms, by a few steps."""
    improve_to_rest(belief, evidence, rows, features, family, STEPS, SETTLED, buffers)
