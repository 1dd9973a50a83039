"""The evidence prior: the whole population by regularised marginal likelihood, from the sums alone.

Layers, from what is known first to what is known last:

1. the population of the arms: a common mean of their shared means, and their spread (:mod:`posse.kernels.arms`);
2. two levels, of the noise and of the covariances: every arm has its own, drawn to the arms' centre with heavy tails,
   so that an arm unlike the others is let go (:mod:`posse.kernels.levels`);
3. a shape that all arms' covariances share, shrunk to the identity in standardised features;
4. a covariance per arm: one EM step of its shape, drawn to the common one.

Everything is relative to the scatter of the rewards and to the mean square of each feature, so units do not matter;
and with an intercept among the features, neither does a constant that is added to all rewards, nor one that is added to
a feature: the population is then learned in features less their means (:mod:`posse.kernels.centring`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posse.kernels.arms import INFORMATION, POOLED, SLOPE, gather_arms, pool_arms, set_width
from posse.kernels.centring import shift_coefficients, shift_covariance, shift_moment, shift_precision
from posse.kernels.compiler import allocating_inner_kernel, inner_kernel, kernel, woven_kernel
from posse.kernels.lanes import Pairs
from posse.kernels.levels import (
    COUNT,
    COVARIANCE_SHARE,
    LEVEL,
    LEVEL_LEVEL,
    LEVEL_SLOPE,
    LOG_LEVEL,
    LOG_NOISE,
    LOG_SD,
    MEAN_SHARE,
    N_SLOPES,
    NOISE,
    NOISE_LEVEL,
    NOISE_NOISE,
    NOISE_SHARE,
    NOISE_SLOPE,
    clip,
    curvature,
    move_levels,
)
from posse.kernels.linalg import (
    cross_product,
    dot,
    factor,
    factor_semidefinite,
    invert_factor,
    log_determinant,
    multiply,
    whole,
)
from posse.kernels.passes import (
    GAUSSIAN_SCATTER,
    LEVERAGE,
    N_SUMMARIES,
    RESIDUAL,
    REWARDS,
    SCATTER,
    SQUARED_LEVERAGE,
    TASKS,
)
from posse.kernels.posterior import Belief, Buffers, finish
from posse.kernels.sums import Sums
from posse.types import Array, BoolArray, IntArray

PRIOR_PAIRS = 50.0  # fully observed (arm, task) pairs from which on data say how alike shapes are

STEPS = 3  # at most, per refresh of a policy
SETTLED = 0.2  # a refresh ends when nothing moved by more
OVERRELAXATION = 0.5  # how much further than the EM step to go once steps are small
OTHER_SCALE = 10.0  # times smaller scatter than was believed: learn anew
GAUSSIAN = 50.0  # degrees of freedom, doubled, with which noise is believed to be Gaussian
FEWEST = 3  # rewards beyond the number of features from which on their scatter is known

ROUNDING = 1e-13  # of sums of products, as a share of them
CONSTANT = 1e-9  # by how much mean squares of a column may differ, as a share, for it to be the same in all pairs
NO_VARIANCE = 1e-10  # of a column, as a share of its mean square: it is constant
REGULAR = 1e-10  # the least share of a feature's variance in the population that other features leave unexplained


WORKING_ROOM = (
    "measures", "arm_measures", "constant", "information", "moment", "leaning", "message", "after", "slopes", "pooled",
)  # fmt: skip
"""Fields of :class:`Evidence` that mean nothing between two refreshes."""


class Evidence(NamedTuple):
    """What the evidence prior remembers between refreshes, and room to work in.

    ``shared_scale[0]`` is the precision of the arms' shared means around their common mean, in standardised features;
    ``robust`` the degrees of freedom of the population's Student law, 0 for a Gaussian one. All about features is in
    centred columns, but for ``second_moment`` and ``inverse``.
    """

    shared_scale: Array  # (1,)
    arm_mean: Array  # (d,) the common mean of the arms' shared means
    arm_covariance: Array  # (d, d) how uncertain it is
    arm_precision: Array  # (d,) of the common mean before any reward
    centre: Array  # (2,) of the arms' log noise variances and of the log levels of their covariances
    refreshed_at: Array  # (1,) rewards of all arms at the last refresh
    feature_seen: BoolArray  # (d,)
    reward_square: Array  # (1,) mean square of the rewards
    reward_scatter: Array  # (1,) their variance around what one regression for all arms and tasks explains
    feature_square: Array  # (d,) mean squares of the features, of those less their means where there is an intercept
    feature_mean: Array  # (d,) their means beside the intercept, 0 without one
    intercept: BoolArray  # (d,) the column that is constant, if there is one
    robust: float
    second_moment: Array  # (K, d, d)
    inverse: Array  # (K, d, d) inverse covariances
    target: Array  # (d, d) the common shape; its mean variance in standardised features is 1
    identity_share: Array  # (1,) weight of the standardised identity in it
    target_weight: Array  # (1,) its own in an arm's covariance, in tasks
    pooled: Array  # (d, d) room
    distance: (
        Array  # (K, N) how far an arm's pairs, in the order of `seen`, are from the shared mean; N = 0 if Gaussian
    )
    summaries: Array  # (K, 7)
    overdispersion: Array  # (2,) how much less squares say than Gaussian ones would: about noise, and tasks
    measures: Array  # (d + 1, d + 1) sums of products of features and, last, rewards; see measure_rows
    arm_measures: Array  # (K, d + 1, d + 1) those of every arm
    constant: BoolArray  # (K,) arms whose rewards were all the same so far, two of them at least
    information: Array  # (K, d, d) what the tasks of an arm say about its shared mean
    moment: Array  # (K, d)
    leaning: Array  # (K, d, d) room for posse.kernels.arms
    message: Array  # (K, d, d + 1)
    after: Array  # (K, d, d + 1)
    arm_summary: Array  # (3,)
    slopes: Array  # (K, 8) room for posse.kernels.levels
    steps: Array  # (1,) steps of the last refresh
    last_move: Array  # (1,) largest relative move of the last step


def new_evidence(n_arms: int, n_tasks: int, n_features: int, robust: float) -> Evidence:
    """Memory of an evidence prior that has seen nothing."""
    d = n_features
    return Evidence(
        shared_scale=np.ones(1),
        arm_mean=np.zeros(d),
        arm_covariance=np.eye(d),
        arm_precision=np.ones(d),
        centre=np.zeros(2),
        refreshed_at=np.zeros(1),
        feature_seen=np.zeros(d, dtype=np.bool_),
        reward_square=np.zeros(1),
        reward_scatter=np.zeros(1),
        feature_square=np.ones(d),
        feature_mean=np.zeros(d),
        intercept=np.zeros(d, dtype=np.bool_),
        robust=float(robust),
        second_moment=np.zeros((n_arms, d, d)),
        inverse=np.zeros((n_arms, d, d)),
        target=np.eye(d),
        identity_share=np.ones(1),
        target_weight=np.full(1, 3.0 * d + 6.0),
        pooled=np.zeros((d, d)),
        distance=np.zeros((n_arms, n_tasks if robust > 0 else 0)),
        summaries=np.zeros((n_arms, N_SUMMARIES)),
        overdispersion=np.ones(2),
        measures=np.zeros((d + 1, d + 1)),
        arm_measures=np.zeros((n_arms, d + 1, d + 1)),
        constant=np.zeros(n_arms, dtype=np.bool_),
        information=np.zeros((n_arms, d, d)),
        moment=np.zeros((n_arms, d)),
        leaning=np.zeros((n_arms, d, d)),
        message=np.zeros((n_arms, d, d + 1)),
        after=np.zeros((n_arms, d, d + 1)),
        arm_summary=np.zeros(3),
        slopes=np.zeros((n_arms, N_SLOPES)),
        steps=np.zeros(1),
        last_move=np.full(1, np.inf),
    )


@kernel
def measure_rows(sums: Sums, rows: IntArray, room: Array, measures: Array) -> None:
    """Add products of all features and, last, rewards of some slots: the upper triangle. ``room`` is (d, d).

    The last row has sums of squared mean squares of the features, weighted by rewards: where all pairs have the same
    mean square of a feature, it is constant.
    """
    d = sums.moment.shape[1]
    for position in range(rows.shape[0]):
        row = rows[position]
        gram = whole(sums.gram[row], room)
        for i in range(d):
            for j in range(i, d):
                measures[i, j] += gram[i, j]
            measures[i, d] += sums.moment[row, i]
            measures[d, i] += gram[i, i] * gram[i, i] / sums.counts[row]
        measures[d, d] += sums.sum_of_squares[row]


@inner_kernel
def is_constant(measures: Array, rewards: float) -> bool:
    """Whether two or more rewards of an arm were all the same: multiples of one feature, of the intercept say.

    Nobody has two numbers with noise that are the same to the last digit. Without an intercept nothing here can tell
    rewards that are the same from others, unless they are 0.
    """
    d = measures.shape[0] - 1
    if rewards < 2.0:
        return False
    square = measures[d, d]
    constant = not square > 0.0
    for i in range(d):
        # Cauchy and Schwarz: both sides are equal only for multiples of the feature.
        both = measures[i, i] * square
        constant = constant or (both > 0.0 and both - measures[i, d] * measures[i, d] <= ROUNDING * both)
    return constant


@allocating_inner_kernel
def balanced_scatter(arm_measures: Array, arm_rewards: Array, rewards: float) -> float:
    """Return the scatter of the rewards as if every arm had as many as any other."""
    n_arms, size = arm_measures.shape[:2]
    balanced = np.zeros((size, size))
    known = 0
    for arm in range(n_arms):
        known += arm_rewards[arm] > 0.0
    for arm in range(n_arms):
        if arm_rewards[arm] > 0.0:
            share = rewards / (known * arm_rewards[arm])
            for i in range(size):
                for j in range(i, size):
                    balanced[i, j] += share * arm_measures[arm, i, j]
    return scatter_of(balanced, rewards)


@inner_kernel
def is_same_everywhere(measures: Array, rewards: float, n_pairs: int, column: int) -> bool:
    """Whether a column had the same mean square in all pairs, as only an intercept has.

    One pair alone would say so of any column; there an intercept is a column of ones.
    """
    d = measures.shape[0] - 1
    total = measures[column, column]
    if not total > 0.0 or (n_pairs < 2 and abs(total - rewards) > CONSTANT * rewards):
        return False
    return rewards * measures[d, column] - total * total <= CONSTANT * total * total


@inner_kernel
def set_features(rewards: float, column: int, evidence: Evidence) -> None:
    """Write means and mean squares of the features from their measures; ``column`` is the intercept, -1 without one.

    A feature that was always zero gets the mean square of the others; one that was always the same, besides an
    intercept, its own, as if there were none.
    """
    measures, squares, mean = evidence.measures, evidence.feature_square, evidence.feature_mean
    d = squares.shape[0]
    centre_again(evidence, -1.0)
    for i in range(d):
        evidence.intercept[i] = i == column
        mean[i] = 0.0
    known, total = 0, 0.0
    for i in range(d):
        squares[i] = measures[i, i] / rewards if rewards > 0.0 else 0.0
        if column >= 0 and i != column:
            beside = measures[min(i, column), max(i, column)]
            centred = squares[i] - beside / measures[column, column] * beside / rewards
            if centred > NO_VARIANCE * squares[i]:
                squares[i], mean[i] = centred, beside / measures[column, column]
        if squares[i] > 0.0:
            total += squares[i]
            known += 1
    for i in range(d):
        if not squares[i] > 0.0:
            squares[i] = total / known if known > 0 else 1.0
    centre_again(evidence, 1.0)


@inner_kernel
def centre_again(evidence: Evidence, sign: float) -> None:
    """Turn what is kept from refresh to refresh into that of centred columns, or back with ``sign`` -1."""
    shift_covariance(evidence.target, evidence.feature_mean, evidence.intercept, sign)
    shift_covariance(evidence.arm_covariance, evidence.feature_mean, evidence.intercept, sign)
    shift_coefficients(evidence.arm_mean, evidence.feature_mean, evidence.intercept, sign)


@woven_kernel
def set_measures(arm_rewards: Array, rewards: float, n_pairs: int, evidence: Evidence) -> None:
    """Write the sizes of rewards and features, and the scatter of the rewards, from the measures of all arms."""
    measures = evidence.measures
    d = measures.shape[0] - 1
    any_constant = False
    measures[:] = 0.0
    for arm in range(arm_rewards.shape[0]):
        evidence.constant[arm] = is_constant(evidence.arm_measures[arm], arm_rewards[arm])
        any_constant = any_constant or evidence.constant[arm]
        for i in range(d + 1):
            for j in range(d + 1):
                measures[i, j] += evidence.arm_measures[arm, i, j]
    column = -1
    for i in range(d):
        if column < 0 and is_same_everywhere(measures, rewards, n_pairs, i):
            column = i
    set_features(rewards, column, evidence)
    evidence.reward_square[0] = measures[d, d] / rewards if rewards > 0.0 else 0.0
    evidence.reward_scatter[0] = scatter_of(measures, rewards)
    if any_constant:
        # Rewards of an arm that is taken nearly always and never differ hide that others have paid something else.
        balanced = balanced_scatter(evidence.arm_measures, arm_rewards, rewards)
        evidence.reward_scatter[0] = max(evidence.reward_scatter[0], balanced)


@allocating_inner_kernel
def scatter_of(measures: Array, rewards: float) -> float:
    """Return the variance of the rewards around one regression for all arms and tasks.

    Too few rewards, or rewards that a regression explains to the last digit (all the same, say), have no scatter that
    could be known: their mean square stands in, which is never too small.
    """
    d = measures.shape[0] - 1
    mean_square = measures[d, d] / rewards if rewards > 0.0 else 0.0
    root = np.empty((d + 1, d + 1))
    factor_semidefinite(measures, root)
    freedom = rewards
    for i in range(d):
        if root[i, i] > 0.0:
            freedom -= 1.0
    left = root[d, d] * root[d, d]
    if freedom < FEWEST or not left > 0.0:
        return mean_square
    return min(left / (freedom - 2.0), mean_square)


@woven_kernel
def pairs_of(belief: Belief, arm: int) -> Pairs:
    """Return the pairs of an arm that have rewards."""
    return Pairs(belief.sums, belief.seen[arm, : belief.n_seen[arm]], belief.task_of, belief.task_weight)


@kernel
def set_population(covariance: Array, inverse: Array, root: Array, room: Array) -> None:
    """Write what follows from an arm's covariance alone: the factor R and its inverse square; ``room`` is (d, d)."""
    factor(covariance, root)
    invert_factor(root, room)
    cross_product(room, inverse)


@woven_kernel
def finish_arms(belief: Any, evidence: Evidence, buffers: Buffers) -> None:
    """Compute the posterior of every arm's shared mean from what its tasks say and its prior in force."""
    precision = buffers.matrices[5]
    for arm in range(belief.shared_mean.shape[0]):
        said_of(evidence, arm, precision, belief.shared_moment[arm])
        finish(belief, arm, precision, buffers)


@inner_kernel
def said_of(evidence: Evidence, arm: int, precision: Array, moment: Array) -> None:
    """Write what the tasks of an arm say about its shared mean, in the features as they came."""
    d = moment.shape[0]
    for i in range(d):
        moment[i] = evidence.moment[arm, i]
        for j in range(d):
            precision[i, j] = evidence.information[arm, i, j]
    shift_moment(moment, evidence.feature_mean, evidence.intercept, -1.0)
    shift_precision(precision, evidence.feature_mean, evidence.intercept, -1.0)


@inner_kernel
def centre_said(evidence: Evidence, arm: int) -> None:
    """Turn what the tasks of an arm say about its shared mean, as they came, into that of centred columns."""
    shift_moment(evidence.moment[arm], evidence.feature_mean, evidence.intercept, 1.0)
    shift_precision(evidence.information[arm], evidence.feature_mean, evidence.intercept, 1.0)


@inner_kernel
def set_start(belief: Belief, evidence: Evidence) -> None:
    """Set the prior to its start, which has the size of the data; the posterior is not rebuilt."""
    n_arms, d = belief.shared_mean.shape
    size = evidence.reward_scatter[0]
    evidence.shared_scale[0] = d / (MEAN_SHARE * size)
    for i in range(d):
        # As far from 0 as the rewards themselves, until they say more.
        evidence.arm_mean[i] = 0.0
        for j in range(d):
            evidence.arm_covariance[i, j] = 0.0
        evidence.arm_covariance[i, i] = evidence.reward_square[0] / evidence.feature_square[i]
    set_width(evidence)
    evidence.centre[NOISE], evidence.centre[LEVEL] = math.log(NOISE_SHARE * size), math.log(COVARIANCE_SHARE * size / d)
    for i in range(d):
        for j in range(d):
            evidence.target[i, j] = 0.0
        evidence.target[i, i] = 1.0 / evidence.feature_square[i]
    evidence.target_weight[0] = target_weight(d)
    for arm in range(n_arms):
        belief.noise_variance[arm] = NOISE_SHARE * size
        for i in range(d):
            for j in range(d):
                belief.covariance[arm, i, j] = COVARIANCE_SHARE * size / d * evidence.target[i, j]
        shift_covariance(belief.covariance[arm], evidence.feature_mean, evidence.intercept, -1.0)


@inner_kernel
def clear_row(matrix: Array, i: int) -> None:
    """Set a row of a symmetric matrix, and its column, to 0."""
    for j in range(matrix.shape[0]):
        matrix[i, j] = 0.0
        matrix[j, i] = 0.0


@kernel
def admit_features(belief: Belief, evidence: Evidence) -> bool:
    """Give features that were zero so far a start of the size of the others; True if there were any.

    What was measured last says which are not zero now.
    """
    n_arms, d = belief.shared_mean.shape
    any_new = False
    for i in range(d):
        if evidence.feature_seen[i]:
            continue
        if not evidence.measures[i, i] > 0.0:
            continue
        evidence.feature_seen[i] = True
        any_new = True
        for arm in range(n_arms):
            clear_row(belief.covariance[arm], i)
            shift_covariance(belief.covariance[arm], evidence.feature_mean, evidence.intercept, 1.0)
            clear_row(belief.covariance[arm], i)  # an intercept's has the other features' again
            scale = 0.0
            for j in range(d):
                if j != i:
                    scale += belief.covariance[arm, j, j] * evidence.feature_square[j] / (d - 1)
            if d == 1:
                scale = COVARIANCE_SHARE * evidence.reward_scatter[0]
            belief.covariance[arm, i, i] = scale / evidence.feature_square[i]
            shift_covariance(belief.covariance[arm], evidence.feature_mean, evidence.intercept, -1.0)
    return any_new


@inner_kernel
def standardised_trace(matrix: Array, feature_square: Array) -> float:
    """Return the trace of a covariance in standardised features."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i] * feature_square[i]
    return total


@inner_kernel
def level_of(covariance: Array, feature_square: Array) -> float:
    """Return the mean variance of a covariance in standardised features."""
    return standardised_trace(covariance, feature_square) / covariance.shape[0]


@inner_kernel
def set_target(belief: Belief, evidence: Evidence) -> None:
    """Learn the shape that arms are drawn to, how strongly they are, and how strongly it is to the identity.

    A shape is a covariance at mean variance 1 in standardised features, so an arm whose coefficients hardly differ
    between tasks, or differ wildly, weighs no more than the others. What the data alone say about shapes scatters, by a
    variance that is known: (tr T^2 + d^2) over the number of pairs that they were learned from. Where shapes scatter
    no more than that, around the identity or around the common shape, they are drawn all the way; what they scatter
    beyond it is theirs (as Ledoit and Wolf shrink one covariance).
    """
    n_arms, d = belief.shared_mean.shape
    target, squares = evidence.target, evidence.feature_square
    pooled = evidence.pooled
    noise = float(d * d)
    for i in range(d):
        for j in range(d):
            noise += target[i, j] * target[i, j] * squares[i] * squares[j]
            pooled[i, j] = 0.0
    pairs, own = 0.0, 0.0
    counted = 0
    for arm in range(n_arms):
        observed = evidence.summaries[arm, SQUARED_LEVERAGE] / d
        if not observed > 0.0:
            continue
        covariance, moment = belief.covariance[arm], evidence.second_moment[arm]
        level, seen = level_of(covariance, squares), evidence.summaries[arm, TASKS]
        pairs += observed
        counted += 1
        # Where the arm's data alone would put its shape: an EM step less its drag.
        trace = 0.0
        for i in range(d):
            trace += (covariance[i, i] + (moment[i, i] - seen * covariance[i, i]) / observed) / level * squares[i] / d
        for i in range(d):
            for j in range(d):
                surplus = (moment[i, j] - seen * covariance[i, j]) / level
                pooled[i, j] += observed * covariance[i, j] / level + surplus
                apart = covariance[i, j] / level + surplus / observed - trace * target[i, j]
                own += observed * apart * apart * squares[i] * squares[j]
    if not pairs > 0.0:
        return
    trace = 0.0
    for i in range(d):
        trace += pooled[i, i] * squares[i] / (pairs * d)
    apart = 0.0
    for i in range(d):
        for j in range(d):
            value = pooled[i, j] / pairs
            value -= trace / squares[i] if i == j else 0.0
            apart += value * value * squares[i] * squares[j]
    identity = shrinkage(pairs * apart - noise, noise, pairs, float(d * d))
    evidence.identity_share[0] = identity / (identity + pairs)
    evidence.target_weight[0] = shrinkage(own - counted * noise, noise, pairs, target_weight(d))
    for i in range(d):
        for j in range(d):
            target[i, j] = 0.0
    for arm in range(n_arms):
        if evidence.summaries[arm, SQUARED_LEVERAGE] > 0.0:
            level = level_of(belief.covariance[arm], squares)
            for i in range(d):
                for j in range(d):
                    target[i, j] += evidence.second_moment[arm, i, j] / level
    for i in range(d):
        target[i, i] += identity / squares[i]
    level = level_of(target, squares)
    for i in range(d):
        for j in range(d):
            target[i, j] /= level


@inner_kernel
def target_weight(d: int) -> float:
    """Return the weight of the common shape in an arm's covariance, in tasks, while nothing else is known."""
    return 3.0 * d + 6.0


@inner_kernel
def shrinkage(surplus: float, noise: float, pairs: float, start: float) -> float:
    """Return how many pairs a shape is worth that others are drawn to.

    ``surplus`` is how far they lie from it beyond their ``noise``. Pairs that count as much as PRIOR_PAIRS well-known
    ones say ``start``.
    """
    return noise * (pairs + PRIOR_PAIRS) / (max(surplus, 0.0) + PRIOR_PAIRS * noise / start)


@inner_kernel
def improve_arm(belief: Belief, evidence: Evidence, arm: int, level: float, buffers: Buffers) -> float:
    """One EM step of the shape of an arm's covariance, at a new level; return its largest relative move."""
    covariance, inverse = belief.covariance[arm], evidence.inverse[arm]
    second_moment, target = evidence.second_moment[arm], evidence.target
    change, relative = buffers.matrices[0], buffers.matrices[1]
    d = covariance.shape[0]
    tasks, weight = evidence.summaries[arm, TASKS], evidence.target_weight[0]
    old = level_of(covariance, evidence.feature_square)
    for i in range(d):
        for j in range(d):
            value = (second_moment[i, j] + weight * old * target[i, j]) / (tasks + weight)
            change[i, j] = value - covariance[i, j]
            covariance[i, j] = value
    multiply(change, inverse, relative)
    # The level is not EM's to set: what counts as a move of the shape is what is left at the new one.
    factor_to_level = level / level_of(covariance, evidence.feature_square)
    move, raw = 0.0, 0.0
    for i in range(d):
        raw = max(raw, abs(relative[i, i]))
        move = max(move, abs((1.0 + relative[i, i]) * factor_to_level - 1.0))
    if raw < 0.5:
        # Sigma + kappa (Sigma Sigma_old^-1 - I) Sigma stays positive definite, unlike a longer step along the change.
        multiply(relative, covariance, change)
        for i in range(d):
            for j in range(d):
                covariance[i, j] += OVERRELAXATION * 0.5 * (change[i, j] + change[j, i])
    factor_to_level = level / level_of(covariance, evidence.feature_square)
    for i in range(d):
        for j in range(d):
            covariance[i, j] *= factor_to_level
    keep_regular(covariance, buffers.matrices[0])
    return move


@inner_kernel
def overdispersion(summaries: Array) -> float:
    """Return how much more squared residuals scatter over pairs than Gaussian ones would, over all arms; at least 1."""
    scatter, expected = GAUSSIAN, GAUSSIAN
    for arm in range(summaries.shape[0]):
        scatter += summaries[arm, SCATTER]
        expected += abs(summaries[arm, GAUSSIAN_SCATTER])  # the sign is that of a silent arm
    return max(scatter / expected, 1.0)


@inner_kernel
def centre_arms(belief: Any, evidence: Evidence, sign: float) -> None:
    """Turn covariances and second moments of all arms into those for centred columns, or back with ``sign`` -1.

    Their inverses only on the way there: they are computed again when the population is in force.
    """
    mean, intercept = evidence.feature_mean, evidence.intercept
    for arm in range(belief.n_seen.shape[0]):
        shift_covariance(belief.covariance[arm], mean, intercept, sign)
        shift_covariance(evidence.second_moment[arm], mean, intercept, sign)
        if sign > 0.0:
            shift_precision(evidence.inverse[arm], mean, intercept, sign)


@inner_kernel
def improve(belief: Belief, evidence: Evidence, buffers: Buffers) -> float:
    """Improve the whole prior once from the summaries of all arms; return the largest relative move."""
    n_arms, d = belief.shared_mean.shape
    size = evidence.reward_scatter[0]
    gather_arms(belief, evidence, buffers)
    centre_arms(belief, evidence, 1.0)
    set_width(evidence)
    pool_arms(evidence, buffers)
    held = 1.0 / (LOG_SD * LOG_SD)
    distance = -math.log(evidence.shared_scale[0]) - math.log(MEAN_SHARE * size / d)
    slope = evidence.arm_summary[SLOPE]
    move_mean = clip((slope - held * distance) / (curvature(evidence.arm_summary[INFORMATION], slope) + held))

    # Rare clicks, heavy tails: few rewards carry all the variance, and the others say nothing about it.
    over = evidence.overdispersion
    over[NOISE] = overdispersion(evidence.summaries)
    # A task's deviation is a mean of its rewards: with few of them it has tails as heavy as theirs.
    per_pair = max(evidence.summaries[:, REWARDS].sum() / max(evidence.summaries[:, TASKS].sum(), 1.0), 1.0)
    over[LEVEL] = 1.0 + (over[NOISE] - 1.0) / per_pair
    for arm in range(n_arms):
        summary = evidence.summaries[arm]
        explained = 0.0
        for i in range(d):
            explained += dot(evidence.inverse[arm, i], evidence.second_moment[arm, i])
        slopes = evidence.slopes[arm]
        leverage, squared = summary[LEVERAGE], summary[SQUARED_LEVERAGE]
        slopes[LOG_NOISE] = math.log(belief.noise_variance[arm])
        slopes[LOG_LEVEL] = math.log(level_of(belief.covariance[arm], evidence.feature_square))
        slopes[NOISE_SLOPE] = 0.5 * (summary[RESIDUAL] / belief.noise_variance[arm] - summary[REWARDS]) / over[NOISE]
        slopes[LEVEL_SLOPE] = 0.5 * (explained - summary[TASKS] * d) / over[LEVEL]
        slopes[NOISE_NOISE] = max(0.5 * (summary[REWARDS] - 2.0 * leverage + squared), 0.0) / over[NOISE]
        slopes[NOISE_LEVEL] = 0.5 * (leverage - squared) / math.sqrt(over[NOISE] * over[LEVEL])
        slopes[LEVEL_LEVEL] = curvature(0.5 * squared / over[LEVEL], slopes[LEVEL_SLOPE])
        slopes[COUNT] = summary[REWARDS] / over[NOISE]
    move = max(abs(move_mean), move_levels(evidence.slopes, evidence.centre, evidence.constant, size, d))
    set_target(belief, evidence)
    for arm in range(n_arms):
        level = math.exp(evidence.slopes[arm, LOG_LEVEL])
        move = max(move, improve_arm(belief, evidence, arm, level, buffers))
        belief.noise_variance[arm] = math.exp(evidence.slopes[arm, LOG_NOISE])
    centre_arms(belief, evidence, -1.0)
    evidence.shared_scale[0] *= math.exp(-move_mean)
    return move


@inner_kernel
def keep_regular(covariance: Array, root: Array) -> None:
    """Make a covariance that is singular, or nearly so, regular enough to be inverted.

    What counts is the share of each feature's variance that the features before it do not explain: free of units.
    """
    d = covariance.shape[0]
    for _attempt in range(40):
        regular = factor(covariance, root)
        for i in range(d):
            regular = regular and root[i, i] * root[i, i] > REGULAR * covariance[i, i]
        if regular:
            return
        for i in range(d):
            covariance[i, i] *= 1.0 + 10.0 * REGULAR


@kernel
def add_distances(pairs: Pairs, distance: Array, d: int, freedom: Array, total: Array) -> None:
    """Add features and distances of some pairs to those of their tasks; ``distance`` is by position."""
    for position in range(pairs.rows.shape[0]):
        task = pairs.task_of[pairs.rows[position]]
        if task < freedom.shape[0]:  # a slot may have gone to a new task since; who notices later discards all this
            freedom[task] += d
            total[task] += distance[position]


@inner_kernel
def set_weights(freedom: Array, total: Array, robust: float, weight: Array) -> float:
    """Set the weight of every task that was looked at; return the largest relative change."""
    move = 0.0
    for task in range(weight.shape[0]):
        if not freedom[task] > 0.0:
            continue
        value = (robust + freedom[task]) / (robust + total[task])
        move = max(move, abs(value / weight[task] - 1.0))
        weight[task] = value
    return move


@kernel
def log_evidence_of(belief: Belief, evidence: Evidence, buffers: Buffers) -> float:
    """Return the log evidence of all arms from the posterior in force, the arms' common mean integrated out."""
    n_arms, d = belief.shared_mean.shape
    root = buffers.matrices[0]
    log_scale = d * math.log(evidence.shared_scale[0])
    for i in range(d):
        log_scale += math.log(evidence.feature_square[i])
    total = 0.0
    for arm in range(n_arms):
        s2 = belief.noise_variance[arm]
        factor(belief.covariance[arm], root)
        covariance = log_determinant(root)
        for position in range(belief.n_seen[arm]):
            row = belief.seen[arm, position]
            factor(whole(belief.local_covariance[row], buffers.matrices[1]), root)
            # det(I + A Sigma / s2) = det(Sigma / s2) / det(Ct)
            total += covariance - d * math.log(s2 * belief.task_weight[belief.task_of[row]]) - log_determinant(root)
            total += belief.sums.counts[row] * math.log(2.0 * math.pi * s2)
            explained = dot(belief.sums.moment[row], belief.local_mean[row])
            total += (belief.sums.sum_of_squares[row] - explained) / s2
        # The shared mean under N(0, 1 / Lambda): det (Lambda + G) / det Lambda, and g'(Lambda + G)^-1 g.
        factor(evidence.leaning[arm], root)
        total -= log_determinant(root) + log_scale
        for i in range(d):
            total -= evidence.moment[arm, i] * dot(evidence.leaning[arm, i], evidence.moment[arm])
    return -0.5 * total + evidence.arm_summary[POOLED]


@woven_kernel
def total_rewards(belief: Belief) -> float:
    """Return the rewards of all arms."""
    total = 0.0
    for arm in range(belief.rewards.shape[0]):
        total += belief.rewards[arm]
    return total


@inner_kernel
def starts_again(rewards: Array, refreshed_at: Array, reward_scatter: Array, scatter: float) -> bool:
    """Whether the prior is to be learned from its start: before every arm can have a reward, or on another scale.

    ``scatter`` is that of the rewards at the last refresh. Few rewards near 100 look as if they scattered by 100; when
    more of them say otherwise, what was learned on that scale is of no use.
    """
    early = refreshed_at[0] < rewards.shape[0]
    return early or scatter > OTHER_SCALE * reward_scatter[0]


@woven_kernel
def evidence_due(belief: Belief, evidence: Evidence, growth: float) -> bool:
    """Whether the rewards of all arms have grown enough since the last refresh."""
    at = evidence.refreshed_at[0]
    return total_rewards(belief) - at >= max(1.0, growth * at)
