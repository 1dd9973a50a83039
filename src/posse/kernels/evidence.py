"""The evidence prior: the whole population by regularised marginal likelihood, from the sums alone.

Three layers, from what is known first to what is known last:

1. three numbers shared by all arms (noise, scale of the covariances, scale of the shared means): one Fisher-scoring
   step on the evidence, held by log-normal priors around starts of the size of the data;
2. a target that all arms' covariances share: their harmonic mean, shrunk to the identity in standardised features;
3. a covariance and a noise variance per arm: one EM step, drawn to the target and to the common noise.

Everything is relative to the mean square of the rewards and of each feature, so units do not matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel, woven_kernel
from posse.kernels.lanes import N_COUNTS, Pairs, sum_information, sum_moments
from posse.kernels.linalg import (
    cross_product,
    diagonal_entry,
    dot,
    factor,
    invert,
    invert_factor,
    log_determinant,
    multiply,
)
from posse.kernels.passes import (
    LEVERAGE,
    MEAN_INFORMATION,
    MEAN_SQUARE,
    RESIDUAL,
    REWARDS,
    SQUARED_LEVERAGE,
    TASKS,
    finish_information,
    finish_moments,
    prepare_moments,
)
from posse.kernels.posterior import Belief, Buffers
from posse.kernels.sums import Sums
from posse.types import Array, BoolArray, IntArray

TARGET_WEIGHT = 15.0  # of the target in an arm's covariance, in tasks
IDENTITY_WEIGHT = 3.0  # of the standardised identity in the target, in fully observed (arm, task) pairs
NOISE_WEIGHT = 30.0  # of the common noise variance in an arm's, in rewards
LOG_SD = 2.0  # of the log-normal priors of the three pooled numbers
LARGEST_MOVE = 1.5  # of a pooled log-number in one step
NOISE_SHARE, COVARIANCE_SHARE, MEAN_SHARE = 0.5, 0.1, 0.4  # starts, as shares of the mean square reward
STEPS = 3  # at most, per refresh of a policy
SETTLED = 0.2  # a refresh ends when nothing moved by more
OVERRELAXATION = 0.5  # how much further than the EM step to go once steps are small

REGULAR = 1e-10  # the least share of a feature's variance in the population that other features leave unexplained
QUIET = (
    1e-9  # the least noise variance, as a share of the mean square reward: quieter rewards leave no digits to work with
)


class Evidence(NamedTuple):
    """What the evidence prior remembers between refreshes, and room to work in.

    ``shared_scale[0]`` is the precision of the shared means in standardised features; ``robust`` the degrees of freedom
    of the population's Student law, 0 for a Gaussian one.
    """

    shared_scale: Array  # (1,)
    refreshed_at: Array  # (1,) rewards of all arms at the last refresh
    feature_seen: BoolArray  # (d,)
    reward_square: Array  # (1,) mean square of the rewards
    feature_square: Array  # (d,) mean squares of the features
    robust: float
    second_moment: Array  # (K, d, d)
    inverse: Array  # (K, d, d) inverse covariances
    target: Array  # (d, d)
    target_level: Array  # (1,) its mean variance in standardised features
    identity_share: Array  # (1,) weight of the standardised identity in it
    distance: (
        Array  # (K, N) how far an arm's pairs, in the order of `seen`, are from the shared mean; N = 0 if Gaussian
    )
    summaries: Array  # (K, 7)
    measures: Array  # (d + 1,) sums of squares of features and rewards
    steps: Array  # (1,) steps of the last refresh
    last_move: Array  # (1,) largest relative move of the last step


def new_evidence(n_arms: int, n_tasks: int, n_features: int, robust: float) -> Evidence:
    """Memory of an evidence prior that has seen nothing."""
    return Evidence(
        shared_scale=np.ones(1),
        refreshed_at=np.zeros(1),
        feature_seen=np.zeros(n_features, dtype=np.bool_),
        reward_square=np.zeros(1),
        feature_square=np.ones(n_features),
        robust=float(robust),
        second_moment=np.zeros((n_arms, n_features, n_features)),
        inverse=np.zeros((n_arms, n_features, n_features)),
        target=np.zeros((n_features, n_features)),
        target_level=np.ones(1),
        identity_share=np.ones(1),
        distance=np.zeros((n_arms, n_tasks if robust > 0 else 0)),
        summaries=np.zeros((n_arms, 7)),
        measures=np.zeros(n_features + 1),
        steps=np.zeros(1),
        last_move=np.full(1, np.inf),
    )


@kernel
def measure_rows(sums: Sums, rows: IntArray, measures: Array) -> None:
    """Add the squares of all features, and last those of the rewards, of some slots."""
    d = sums.moment.shape[1]
    for position in range(rows.shape[0]):
        row = rows[position]
        for i in range(d):
            measures[i] += diagonal_entry(sums.gram[row], i, d)
        measures[d] += sums.sum_of_squares[row]


@kernel
def set_measures(measures: Array, rewards: float, evidence: Evidence) -> None:
    """Write the mean squares of rewards and features; a feature that was always zero gets the mean of the others."""
    squares = evidence.feature_square
    d = squares.shape[0]
    known = 0
    mean = 0.0
    for i in range(d):
        squares[i] = measures[i] / rewards if rewards > 0.0 else 0.0
        if squares[i] > 0.0:
            mean += squares[i]
            known += 1
    for i in range(d):
        if not squares[i] > 0.0:
            squares[i] = mean / known if known > 0 else 1.0
    evidence.reward_square[0] = measures[d] / rewards if rewards > 0.0 else 0.0


@kernel
def measure(belief: Belief, evidence: Evidence) -> None:
    """Write the mean squares of rewards and features over all rewards."""
    for i in range(evidence.measures.shape[0]):
        evidence.measures[i] = 0.0
    for arm in range(belief.rewards.shape[0]):
        measure_rows(belief.sums, belief.seen[arm, : belief.n_seen[arm]], evidence.measures)
    set_measures(evidence.measures, total_rewards(belief), evidence)


@inlined_kernel
def pairs_of(belief: Belief, arm: int) -> Pairs:
    """Return the pairs of an arm that have rewards."""
    return Pairs(belief.sums, belief.seen[arm, : belief.n_seen[arm]], belief.task_of, belief.task_weight)


@kernel
def set_population(belief: Belief, evidence: Evidence, arm: int, root: Array, buffers: Buffers) -> None:
    """Write what follows from an arm's prior alone: the factor R, its inverse square, and the shared precision."""
    for i in range(belief.covariance.shape[1]):
        belief.shared_precision[arm, i] = evidence.shared_scale[0] * evidence.feature_square[i]
    factor(belief.covariance[arm], root)
    invert_factor(root, buffers.matrices[0])
    cross_product(buffers.matrices[0], evidence.inverse[arm])


@kernel
def rebuild_arm(belief: Belief, evidence: Evidence, arm: int, buffers: Buffers) -> None:
    """Rebuild one arm under the prior in force, and the inverse that the next step needs."""
    d = belief.covariance.shape[1]
    root = buffers.matrices[2]
    set_population(belief, evidence, arm, root, buffers)
    information = np.empty((d, d + 1))
    sum_information(
        pairs_of(belief, arm), root, belief.noise_variance[arm], belief.local_covariance, belief.local_mean, True,
        buffers.lanes, information,
    )  # fmt: skip
    finish_information(belief, arm, root, information, buffers)


@woven_kernel
def rebuild_all(belief: Belief, evidence: Evidence, buffers: Buffers) -> None:
    """Rebuild every arm under the prior in force, and the inverses that the next step needs."""
    for arm in range(belief.rewards.shape[0]):
        rebuild_arm(belief, evidence, arm, buffers)


@kernel
def set_start(belief: Belief, evidence: Evidence) -> None:
    """Set the prior to its start, which has the size of the data; the posterior is not rebuilt."""
    n_arms, d = belief.shared_mean.shape
    size = evidence.reward_square[0]
    evidence.shared_scale[0] = d / (MEAN_SHARE * size)
    for arm in range(n_arms):
        belief.noise_variance[arm] = NOISE_SHARE * size
        for i in range(d):
            for j in range(d):
                belief.covariance[arm, i, j] = 0.0
            belief.covariance[arm, i, i] = COVARIANCE_SHARE * size / (d * evidence.feature_square[i])
    evidence.target_level[0] = COVARIANCE_SHARE * size / d


@woven_kernel
def start(belief: Belief, evidence: Evidence, buffers: Buffers) -> None:
    """Set the prior to its start and rebuild every posterior."""
    set_start(belief, evidence)
    rebuild_all(belief, evidence, buffers)


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
        if not evidence.measures[i] > 0.0:
            continue
        evidence.feature_seen[i] = True
        any_new = True
        for arm in range(n_arms):
            scale = 0.0
            for j in range(d):
                if j != i:
                    scale += belief.covariance[arm, j, j] * evidence.feature_square[j] / (d - 1)
            for j in range(d):
                belief.covariance[arm, i, j] = 0.0
                belief.covariance[arm, j, i] = 0.0
            if d == 1:
                scale = COVARIANCE_SHARE * evidence.reward_square[0]
            belief.covariance[arm, i, i] = scale / evidence.feature_square[i]
    return any_new


@kernel
def summarise(belief: Belief, evidence: Evidence, arm: int, buffers: Buffers) -> None:
    """One arm's E-step from the posterior in force: all that the steps below need, summed over its tasks."""
    root, shared_root, moments = buffers.matrices[1], buffers.matrices[2], buffers.matrices[3]
    start, counts = buffers.vectors[0], np.empty(N_COUNTS)
    factor(belief.covariance[arm], root)
    prepare_moments(belief, arm, root, shared_root, start)
    sum_moments(
        pairs_of(belief, arm),
        root,
        belief.noise_variance[arm],
        belief.shared_mean[arm],
        shared_root,
        start,
        evidence.distance[arm],
        buffers.lanes,
        moments,
        counts,
    )
    finish_moments(
        belief, arm, root, moments, counts, belief.n_seen[arm], evidence.second_moment[arm], evidence.summaries[arm],
        buffers,
    )  # fmt: skip


@kernel
def standardised_trace(matrix: Array, feature_square: Array) -> float:
    """Return the trace of a covariance in standardised features."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i] * feature_square[i]
    return total


@kernel
def set_target(belief: Belief, evidence: Evidence, buffers: Buffers) -> None:
    """Write the target: the arms' harmonic mean, shrunk to the standardised identity while little was observed.

    The harmonic mean is the target that the arms' penalties themselves like best, so that target, arms and common level
    climb one objective instead of pulling at each other.
    """
    n_arms, d = belief.shared_mean.shape
    precision, target = buffers.matrices[2], evidence.target
    pairs = 0.0
    for arm in range(n_arms):
        pairs += evidence.summaries[arm, SQUARED_LEVERAGE] / d
    share = IDENTITY_WEIGHT / (IDENTITY_WEIGHT + max(pairs, 1e-9))
    evidence.identity_share[0] = share
    for i in range(d):
        for j in range(d):
            precision[i, j] = 0.0
            for arm in range(n_arms):
                precision[i, j] += (1.0 - share) * evidence.inverse[arm, i, j] / n_arms
        precision[i, i] += share * evidence.feature_square[i] / evidence.target_level[0]
    invert(precision, buffers.matrices[0], buffers.matrices[1], target)
    evidence.target_level[0] = standardised_trace(target, evidence.feature_square) / d


@kernel
def improve_arm(belief: Belief, evidence: Evidence, arm: int, buffers: Buffers) -> float:
    """One EM step of an arm's covariance, drawn to the target; return its largest relative move on the diagonal."""
    covariance, inverse = belief.covariance[arm], evidence.inverse[arm]
    second_moment, target = evidence.second_moment[arm], evidence.target
    change, relative = buffers.matrices[0], buffers.matrices[1]
    d = covariance.shape[0]
    tasks = evidence.summaries[arm, TASKS]
    for i in range(d):
        for j in range(d):
            value = (second_moment[i, j] + TARGET_WEIGHT * target[i, j]) / (tasks + TARGET_WEIGHT)
            change[i, j] = value - covariance[i, j]
            covariance[i, j] = value
    multiply(change, inverse, relative)
    move = 0.0
    for i in range(d):
        move = max(move, abs(relative[i, i]))
    if move < 0.5:
        # Sigma + kappa (Sigma Sigma_old^-1 - I) Sigma stays positive definite, unlike a longer step along the change.
        multiply(relative, covariance, change)
        for i in range(d):
            for j in range(d):
                covariance[i, j] += OVERRELAXATION * 0.5 * (change[i, j] + change[j, i])
    return move


@woven_kernel
def step(belief: Belief, evidence: Evidence, buffers: Buffers) -> float:
    """Improve the whole prior once from the posterior in force; return the largest relative move.

    The posterior is not rebuilt.
    """
    for arm in range(belief.rewards.shape[0]):
        summarise(belief, evidence, arm, buffers)
    move = improve(belief, evidence, buffers)
    if evidence.robust > 0.0:
        move = max(move, weigh_tasks(belief, evidence))
    return move


@kernel
def improve(belief: Belief, evidence: Evidence, buffers: Buffers) -> float:
    """Improve the whole prior once from the summaries of all arms; return the largest relative move."""
    n_arms, d = belief.shared_mean.shape
    size = evidence.reward_square[0]
    held = 1.0 / (LOG_SD * LOG_SD)
    slope_noise, slope_scale, slope_mean = 0.0, 0.0, 0.0
    noise_noise, noise_scale, scale_scale, mean_mean = held, 0.0, held, held
    log_noise, log_scale = 0.0, 0.0
    for arm in range(n_arms):
        summary = evidence.summaries[arm]
        explained = 0.0
        for i in range(d):
            explained += dot(evidence.inverse[arm, i], evidence.second_moment[arm, i])
        slope_noise += 0.5 * (summary[RESIDUAL] / belief.noise_variance[arm] - summary[REWARDS])
        slope_scale += 0.5 * (explained - summary[TASKS] * d)
        slope_mean += 0.5 * (summary[MEAN_SQUARE] - d)
        leverage, squared = summary[LEVERAGE], summary[SQUARED_LEVERAGE]
        noise_noise += 0.5 * (summary[REWARDS] - 2.0 * leverage + squared)
        noise_scale += 0.5 * (leverage - squared)
        scale_scale += 0.5 * squared
        mean_mean += 0.5 * summary[MEAN_INFORMATION]
        log_noise += math.log(belief.noise_variance[arm]) / n_arms
        log_scale += math.log(standardised_trace(belief.covariance[arm], evidence.feature_square) / d) / n_arms
    slope_noise -= held * (log_noise - math.log(NOISE_SHARE * size))
    slope_scale -= held * (log_scale - math.log(COVARIANCE_SHARE * size / d))
    slope_mean -= held * (-math.log(evidence.shared_scale[0]) - math.log(MEAN_SHARE * size / d))
    determinant = noise_noise * scale_scale - noise_scale * noise_scale
    move_noise = clip((scale_scale * slope_noise - noise_scale * slope_scale) / determinant)
    move_scale = clip((noise_noise * slope_scale - noise_scale * slope_noise) / determinant)
    move_mean = clip(slope_mean / mean_mean)
    move = max(abs(move_scale), abs(move_mean))

    set_target(belief, evidence, buffers)
    common_noise = 0.0
    for arm in range(n_arms):
        common_noise += 1.0 / (n_arms * belief.noise_variance[arm])
    common_noise = 1.0 / common_noise
    new_log_noise, new_log_scale = 0.0, 0.0
    for arm in range(n_arms):
        move = max(move, improve_arm(belief, evidence, arm, buffers))
        summary = evidence.summaries[arm]
        belief.noise_variance[arm] = (summary[RESIDUAL] + NOISE_WEIGHT * common_noise) / (
            summary[REWARDS] + NOISE_WEIGHT
        )
        new_log_noise += math.log(belief.noise_variance[arm]) / n_arms
        new_log_scale += math.log(standardised_trace(belief.covariance[arm], evidence.feature_square) / d) / n_arms
    # The common level is the scoring step's; EM only moves the arms relative to each other.
    noise_factor = math.exp(log_noise + move_noise - new_log_noise)
    scale_factor = math.exp(log_scale + move_scale - new_log_scale)
    final_log_noise = 0.0
    for arm in range(n_arms):
        belief.noise_variance[arm] = max(belief.noise_variance[arm] * noise_factor, QUIET * size)
        final_log_noise += math.log(belief.noise_variance[arm]) / n_arms
        for i in range(d):
            for j in range(d):
                belief.covariance[arm, i, j] *= scale_factor
        keep_regular(belief.covariance[arm], buffers.matrices[0])
    # What counts is how far the noise went, not how far it would go below its floor.
    move = max(move, abs(final_log_noise - log_noise))
    evidence.target_level[0] *= scale_factor
    evidence.shared_scale[0] *= math.exp(-move_mean)
    return move


@kernel
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
def clip(move: float) -> float:
    """Return a move of a pooled log-number, kept within bounds."""
    return min(max(move, -LARGEST_MOVE), LARGEST_MOVE)


@kernel
def add_distances(pairs: Pairs, distance: Array, d: int, freedom: Array, total: Array) -> None:
    """Add features and distances of some pairs to those of their tasks; ``distance`` is by position."""
    for position in range(pairs.rows.shape[0]):
        task = pairs.task_of[pairs.rows[position]]
        if task < freedom.shape[0]:  # a slot may have gone to a new task since; who notices later discards all this
            freedom[task] += d
            total[task] += distance[position]


@kernel
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
def weigh_tasks(belief: Belief, evidence: Evidence) -> float:
    """Student scale mixture: a task that lies far from the shared means of all its arms gets a wider population.

    Returns the largest relative change of a weight.
    """
    n_arms, d = belief.shared_mean.shape
    freedom, total = np.zeros(belief.task_weight.shape[0]), np.zeros(belief.task_weight.shape[0])
    for arm in range(n_arms):
        pairs = pairs_of(belief, arm)
        add_distances(pairs, evidence.distance[arm], d, freedom, total)
    return set_weights(freedom, total, evidence.robust, belief.task_weight)


@kernel
def log_evidence_of(belief: Belief, arm: int, buffers: Buffers) -> float:
    """Return the log evidence of one arm from the posterior in force: the value of posse.model.log_evidence."""
    d = belief.shared_mean.shape[1]
    root = buffers.matrices[0]
    s2 = belief.noise_variance[arm]
    factor(belief.covariance[arm], root)
    covariance = log_determinant(root)
    total = 0.0
    for position in range(belief.n_seen[arm]):
        row = belief.seen[arm, position]
        factor(belief.local_covariance[row], root)
        # det(I + A Sigma / s2) = det(Sigma / s2) / det(Ct)
        total += covariance - d * math.log(s2 * belief.task_weight[belief.task_of[row]]) - log_determinant(root)
        total += belief.sums.counts[row] * math.log(2.0 * math.pi * s2)
        explained = dot(belief.sums.moment[row], belief.local_mean[row])
        total += (belief.sums.sum_of_squares[row] - explained) / s2
    factor(belief.shared_covariance[arm], root)
    total -= log_determinant(root)
    for i in range(d):
        total -= math.log(belief.shared_precision[arm, i])
    return -0.5 * (total - dot(belief.shared_moment[arm], belief.shared_mean[arm]))


@kernel
def total_rewards(belief: Belief) -> float:
    """Return the rewards of all arms."""
    total = 0.0
    for arm in range(belief.rewards.shape[0]):
        total += belief.rewards[arm]
    return total


@woven_kernel
def evidence_due(belief: Belief, evidence: Evidence, growth: float) -> bool:
    """Whether the rewards of all arms have grown enough since the last refresh."""
    at = evidence.refreshed_at[0]
    return total_rewards(belief) - at >= max(1.0, growth * at)


@woven_kernel
def refresh_evidence(belief: Belief, evidence: Evidence, steps: int, settled: float, buffers: Buffers) -> None:
    """Improve the prior of all arms by a few warm-started steps, and rebuild every posterior."""
    total = total_rewards(belief)
    measure(belief, evidence)
    evidence.steps[0] = 0.0
    if not evidence.reward_square[0] > 0.0:
        # Nothing but zeros so far: no scale to learn. Any size will do, as long as features are standardised.
        evidence.reward_square[0] = 1.0
        admit_features(belief, evidence)
        start(belief, evidence, buffers)
        evidence.reward_square[0] = 0.0
        return
    fresh = evidence.refreshed_at[0] < belief.rewards.shape[0]
    evidence.refreshed_at[0] = total
    admitted = admit_features(belief, evidence)
    if fresh:
        start(belief, evidence, buffers)
        if total < belief.rewards.shape[0]:
            return
    elif admitted:
        rebuild_all(belief, evidence, buffers)
    for _step in range(steps):
        move = step(belief, evidence, buffers)
        evidence.steps[0] += 1.0
        evidence.last_move[0] = move
        rebuild_all(belief, evidence, buffers)
        if move < settled:
            break
