"""The evidence prior: the whole population by regularised marginal likelihood, from sums alone, of any family.

Layers, from what is known first to what is known last:

1. the population of the arms: a common mean of their shared means, and their spread (:mod:`posse.core.arms`);
2. two levels, of the noise and of the covariances: every arm has its own, drawn to the arms' centre with heavy tails,
   so that an arm unlike the others is let go (:mod:`posse.core.levels`);
3. a shape that all arms' covariances share, shrunk to the identity (:mod:`posse.core.shapes`);
4. a covariance per arm: one EM step of its shape, drawn to the common one.

Everything is relative to the scatter of the rewards and to the mean square of each feature, so units do not matter; and
with an intercept among the features, neither does a constant that is added to all rewards, nor one that is added to a
feature: temperatures near 290 would else leave intercept and slopes entangled. So a step works in *standard* features:
columns less their means beside the intercept, over the roots of their mean squares. What is remembered between
estimates is about features as they came.

Clicks and counts have noise variance 1, which is known, and predictors have a scale of their own: between tasks a logit
hardly ever differs by 10. There the start and the penalties have a size that the family says, in place of the scatter
of the rewards; all else is the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.arms import Pooled, common_width, inverse, pool_arms, priors_of_arms, symmetric, times
from posse.core.dispersion import START, common_dispersion
from posse.core.levels import (
    COVARIANCE_SHARE,
    HELD,
    LEVEL,
    MEAN_SHARE,
    NOISE,
    NOISE_SHARE,
    Slopes,
    clip,
    curvature,
    move_levels,
)
from posse.core.linalg import semidefinite_pivots, squared_pivots
from posse.core.shapes import Shape, first_weight, improve_covariances, learn_shape, level_of, regular
from posse.core.store import (
    GAUSSIAN_SCATTER,
    LEVERAGE,
    N_SUMMARIES,
    RESIDUAL,
    REWARDS,
    SCATTER,
    SQUARED_LEVERAGE,
    TASKS,
)
from posse.families.sites import COUNT, NUMBER, SIZES
from posse.model.effects import effect_variances
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from posse.core.sums import Moments
    from posse.model.prior import Prior

OTHER_SCALE = 10.0  # times smaller scatter than was believed: learn anew
GAUSSIAN = 50.0  # degrees of freedom, doubled, with which noise is believed to be Gaussian
FEWEST = 3  # rewards beyond the number of features from which on their scatter is known
COMMON_SQUARE = 16.0  # of a common predictor: rates from 1 in 3,000 on are ordinary, and none is certain
STUDENT_FREEDOM = 8.0  # degrees of freedom of the population when outlier tasks are let go

ROUNDING = 1e-13  # of sums of products, as a share of them
CONSTANT = 1e-9  # by how much mean squares of a column may differ, as a share, for it to be the same in all pairs
NO_VARIANCE = 1e-10  # of a column, as a share of its mean square: it is constant
NOTHING = 1e-300  # added to a number, it changes none


class Population(NamedTuple):
    """All that an estimate remembers; arrays only, none of which depends on how many pairs there are.

    K arms, d features, p of tasks in P groups and q of arms in Q groups.
    """

    covariance: Array  # (K, d, d) Sigma
    noise: Array  # (K,) s2
    dispersion: Array  # (K,) of counts, see posse.core.dispersion
    prior_precision: Array  # (K, d, d) of the shared means before the rewards of their own arm
    prior_location: Array  # (K, d)
    scale: Array  # (1,) precision of shared means around M f, in standard features
    common_mean: Array  # (1 + q, d) M
    common_covariance: Array  # ((1 + q) d, (1 + q) d)
    width: Array  # (d,) precision of the first row of M before any reward, in features less their means
    centre: Array  # (2,) log noise and log level of the covariances that arms are drawn to
    target: Array  # (d, d) the shape that covariances are drawn to
    identity_share: Array  # (1,) weight of the standard identity in it
    target_weight: Array  # (1,) its own in an arm's covariance, in tasks
    effects: Array  # (P,) variances of effects of tasks' features; 0 for those that say nothing, NaN before any reward
    arm_effects: Array  # (Q,) likewise
    groups: IntArray  # (p,) the feature that a column belongs to
    arm_groups: IntArray  # (q,)
    feature_seen: BoolArray  # (d,) not zero so far
    feature_square: Array  # (d,) mean squares, of features less their means where there is an intercept
    feature_mean: Array  # (d,) their means beside the intercept, 0 without one
    intercept: BoolArray  # (d,) the column that is constant, if there is one
    reward_square: Array  # (1,)
    reward_scatter: Array  # (1,) variance around one regression for all arms and tasks
    constant: BoolArray  # (K,) arms whose rewards were all the same so far, two of them at least
    summaries: Array  # (K, 7)
    overdispersion: Array  # (2,) how much less squares say than Gaussian ones would: about noise, and levels
    at_last: Array  # (1,) rewards at the last estimate that had a population to show
    passes: IntArray  # (1,) how often sites were made again
    steps: Array  # (1,) of the last estimate
    last_move: Array  # (1,) largest relative move of the last step


def start_of(family: int, n_arms: int, d: int, groups: IntArray, arm_groups: IntArray) -> Population:
    """Return the population before any reward: nothing is known of it, and noise variances are 1."""
    q, precision = arm_groups.size, 1e-3 if family == NUMBER else 1.0
    return Population(
        covariance=np.tile(np.eye(d), (n_arms, 1, 1)),
        noise=np.ones(n_arms),
        dispersion=np.full(n_arms, START if family == COUNT else 0.0),
        prior_precision=np.tile(precision * np.eye(d), (n_arms, 1, 1)),
        prior_location=np.zeros((n_arms, d)),
        scale=np.ones(1),
        common_mean=np.zeros((1 + q, d)),
        common_covariance=np.eye((1 + q) * d),
        width=np.ones(d),
        centre=np.zeros(2),
        target=np.eye(d),
        identity_share=np.ones(1),
        target_weight=np.full(1, first_weight(d)),
        effects=np.full(_n_groups(groups), np.nan),
        arm_effects=np.full(_n_groups(arm_groups), np.nan),
        groups=groups.copy(),
        arm_groups=arm_groups.copy(),
        feature_seen=np.zeros(d, dtype=np.bool_),
        feature_square=np.ones(d),
        feature_mean=np.zeros(d),
        intercept=np.zeros(d, dtype=np.bool_),
        reward_square=np.zeros(1),
        reward_scatter=np.full(1, 0.0 if family == NUMBER else SIZES[family]),
        constant=np.zeros(n_arms, dtype=np.bool_),
        summaries=np.zeros((n_arms, N_SUMMARIES)),
        overdispersion=np.ones(2),
        at_last=np.zeros(1),
        passes=np.zeros(1, dtype=np.int64),
        steps=np.zeros(1),
        last_move=np.full(1, np.inf),
    )


def _n_groups(groups: IntArray) -> int:
    return int(groups.max(initial=-1)) + 1


class Frame(NamedTuple):
    """Turns coefficients for standard features into those for features as they came, and back."""

    back: Array  # (d, d)
    there: Array  # (d, d)

    def covariance(self, of: Array) -> Array:
        """Return covariances of coefficients for standard features."""
        return np.asarray(self.there @ of @ self.there.T)

    def precision(self, of: Array) -> Array:
        """Return precisions of coefficients for standard features, of one or several blocks."""
        whole = self.whole(of.shape[-1])
        return np.asarray(whole.T @ of @ whole)

    def moment(self, of: Array) -> Array:
        """Return moments for standard features, of one or several blocks."""
        return np.asarray(of @ self.whole(of.shape[-1]))

    def whole(self, size: int) -> Array:
        """Return the matrix that turns one or several blocks of coefficients back."""
        n = size // len(self.back)
        return self.back if n == 1 else np.asarray(np.kron(np.eye(n), self.back))


def frame_of(population: Population) -> Frame:
    """Return what turns coefficients into those for standard features."""
    d = population.feature_mean.size
    back, there, root = np.eye(d), np.eye(d), np.sqrt(population.feature_square)
    back[population.intercept] -= population.feature_mean
    there[population.intercept] += population.feature_mean
    return Frame(back / root, root[:, None] * there)


# Sizes, and where to start.


def with_measures(population: Population, arm_measures: Array, rewards: Array, n_pairs: int) -> Population:
    """Return a population with the sizes of rewards and features, of numbers; see ``Pairs.measures``."""
    total, d = float(rewards.sum()), population.feature_square.size
    measures, constant = arm_measures.sum(axis=0), _constant_arms(arm_measures, rewards)
    square, scatter = measures[d, d] / total if total > 0 else 0.0, scatter_of(measures, total)
    if constant.any():
        # Rewards of an arm that is taken nearly always and never differ hide that others have paid something else.
        some = rewards > 0
        shares = total / (some.sum() * rewards[some])
        scatter = max(scatter, scatter_of(np.einsum("k,kij->ij", shares, arm_measures[some]), total))
    squares = np.diagonal(measures)[:d]
    same = squares > 0
    if n_pairs < 2:  # one pair alone would say so of any column; there an intercept is a column of ones
        same &= np.abs(squares - total) <= CONSTANT * total
    same &= total * measures[d, :d] - squares * squares <= CONSTANT * squares * squares
    beside = measures[:d, :d] + np.triu(measures[:d, :d], 1).T
    population = _with_features(population, squares, beside, total, same)
    return population._replace(constant=constant, reward_square=np.array([square]), reward_scatter=np.array([scatter]))


def with_row_measures(population: Population, family: int, sums: Array) -> Population:
    """Return a population with the sizes of features and of the family; see ``Pairs.plain_measures``."""
    d, total = population.feature_square.size, float(sums[0, -1])
    contexts, squares = sums[0, :d], sums[1, :d]
    same = (squares > 0) & (total * squares - contexts * contexts <= CONSTANT * total * squares)
    # Beside a constant column, products are sums of the others.
    value = contexts[same.argmax()] / total if same.any() else 0.0
    population = _with_features(population, squares, np.tile(value * contexts, (d, 1)), total, same)
    return population._replace(reward_square=np.array([COMMON_SQUARE]), reward_scatter=np.array([SIZES[family]]))


def _with_features(
    population: Population, squares: Array, products: Array, total: float, same: BoolArray
) -> Population:
    """Return a population with means and mean squares of the features; the first that is the same is the intercept.

    A feature that was always zero gets the mean square of the others; one that was always the same, besides an
    intercept, its own, as if there were none.
    """
    mean, intercept = np.zeros(squares.size), np.zeros(squares.size, dtype=np.bool_)
    sizes = squares / total if total > 0 else np.zeros(squares.size)
    if same.any():
        column = int(same.argmax())
        intercept[column] = True
        beside = products[column] / squares[column]
        centred = sizes - beside * products[column] / total
        varies = (centred > NO_VARIANCE * sizes) & ~intercept
        sizes, mean = np.where(varies, centred, sizes), np.where(varies, beside, 0.0)
    known = sizes > 0
    sizes = np.where(known, sizes, sizes[known].mean() if known.any() else 1.0)
    return population._replace(feature_square=sizes, feature_mean=mean, intercept=intercept)


def _constant_arms(arm_measures: Array, rewards: Array) -> BoolArray:
    """Return whether two or more rewards of an arm were all the same: multiples of one feature, of the intercept say.

    Nobody has two numbers with noise that are the same to the last digit. Without an intercept nothing here can tell
    rewards that are the same from others, unless they are 0.
    """
    d = arm_measures.shape[1] - 1
    square, both = arm_measures[:, d, d], np.diagonal(arm_measures, axis1=1, axis2=2)[:, :d]
    both = both * square[:, None]
    # Cauchy and Schwarz: both sides are equal only for multiples of the feature.
    multiples = (both > 0) & (both - arm_measures[:, :d, d] ** 2 <= ROUNDING * both)
    return np.asarray((rewards >= 2.0) & (~(square > 0) | multiples.any(axis=1)))


def scatter_of(measures: Array, rewards: float) -> float:
    """Return the variance of the rewards around one regression for all arms and tasks, from products with them.

    Too few rewards, or rewards that a regression explains to the last digit (all the same, say), have no scatter that
    could be known: their mean square stands in, which is never too small.
    """
    d = measures.shape[0] - 1
    mean_square = float(measures[d, d]) / rewards if rewards > 0 else 0.0
    pivots = semidefinite_pivots(np.ascontiguousarray(measures))
    freedom, left = rewards - float((pivots[:d] > 0).sum()), float(pivots[d])
    return mean_square if freedom < FEWEST or not left > 0 else min(left / (freedom - 2.0), mean_square)


def starts_again(before: Population, population: Population) -> bool:
    """Return whether to learn the prior from its start: before every arm can have a reward, or on another scale.

    Few rewards near 100 look as if they scattered by 100; when more of them say otherwise, what was learned on that
    scale is of no use.
    """
    early = before.at_last[0] < population.noise.size
    return bool(early or before.reward_scatter[0] > OTHER_SCALE * population.reward_scatter[0])


def started(population: Population, family: int) -> Population:
    """Return the population at its start, which has the size of the data."""
    d, n_arms, size, frame = population.width.size, population.noise.size, _size(population), frame_of(population)
    noise, level = NOISE_SHARE * size if family == NUMBER else 1.0, COVARIANCE_SHARE * size / d
    scale, shape = d / (MEAN_SHARE * size), frame.back @ frame.back.T
    # As far from 0 as the rewards themselves, until they say more.
    wide = np.full(d, float(population.reward_square[0]))
    common = np.zeros_like(population.common_covariance)
    common[:d, :d] = frame.back @ np.diag(wide) @ frame.back.T
    return population._replace(
        covariance=np.tile(level * shape, (n_arms, 1, 1)),
        noise=np.full(n_arms, noise),
        scale=np.array([scale]),
        common_mean=np.zeros_like(population.common_mean),
        common_covariance=common,
        width=common_width(np.zeros(d), wide, scale) * population.feature_square,
        centre=np.log([noise, level]),
        target=shape,
        target_weight=np.full(1, first_weight(d)),
        effects=np.full_like(population.effects, np.nan),
        arm_effects=np.full_like(population.arm_effects, np.nan),
    )


def admitted(population: Population, squares: Array) -> Population:
    """Return the population with a start for features that were zero so far, of the size of the others.

    It is the same object if there are none. ``squares`` says which are not zero now.
    """
    new = ~population.feature_seen & (squares > 0)
    if not new.any():
        return population
    seen, covariance, d = population.feature_seen.copy(), population.covariance.copy(), squares.size
    frame = frame_of(population)
    for i in np.flatnonzero(new).tolist():
        seen[i] = True
        covariance[:, i] = covariance[:, :, i] = 0.0
        own = frame.covariance(covariance)
        own[:, i] = own[:, :, i] = 0.0  # an intercept's has the other features' again
        scale = np.trace(own, axis1=1, axis2=2) / (d - 1) if d > 1 else COVARIANCE_SHARE * _size(population)
        own[:, i, i] = scale
        covariance = frame.back @ own @ frame.back.T
    return population._replace(feature_seen=seen, covariance=symmetric(covariance))


def _size(population: Population) -> float:
    return float(population.reward_scatter[0])


# What tasks tell, what arms share, and one step.


class Told(NamedTuple):
    """What tasks tell the shared coefficients of their arms, as they came, and what arms may be believed to say."""

    precision: Array  # (K, D, D)
    moment: Array  # (K, D)


def effect_precisions(population: Population, frame: Frame) -> Array:
    """Return the prior precision of the effects of every column of tasks' features, (p, d, d); infinite diagonals."""
    variance = population.effects[population.groups]
    own = frame.there.T @ frame.there
    result = np.zeros((variance.size, *own.shape))
    for place, value in enumerate(variance.tolist()):
        result[place] = own / value if value > 0 else np.diag(np.full(len(own), np.inf))
    return result


def means_told(population: Population, told: Told, frame: Frame) -> tuple[Array, Array]:
    """Return what tasks tell about the shared means of their arms, in standard features, effects integrated out."""
    d = len(frame.back)
    precision, moment = frame.precision(told.precision[:, :d, :d]), frame.moment(told.moment[:, :d])
    there = np.repeat(population.effects[population.groups] > 0, d)
    if not there.any():
        return symmetric(precision), moment
    used = d + np.flatnonzero(there)
    whole, moments = frame.precision(told.precision), frame.moment(told.moment)
    rest = whole[:, used[:, None], used] + np.diag(_inverse_variances(population)[there])
    cross = whole[:, :d, used]
    solved = np.linalg.solve(rest, np.concatenate([cross.swapaxes(1, 2), moments[:, used, None]], axis=2))
    both = cross @ solved
    return symmetric(precision - both[:, :, :d]), moment - both[:, :, d]


def _inverse_variances(population: Population) -> Array:
    """Return the prior precisions of all effects of tasks' features in standard features, inf for none."""
    variance = np.nan_to_num(population.effects)[population.groups]
    with np.errstate(divide="ignore"):
        return np.repeat(1.0 / variance, population.width.size)


def common_diagonal(population: Population) -> Array:
    """Return the prior precision of M in standard features, inf for effects that are none."""
    width = population.width / population.feature_square
    if not population.arm_groups.size:
        return width
    variance = np.nan_to_num(population.arm_effects)[population.arm_groups]
    with np.errstate(divide="ignore"):
        return np.concatenate([width, np.repeat(1.0 / variance, width.size)])


def features_of(arm_features: Array) -> tuple[Array, Array, BoolArray]:
    """Return what is known about arms, 1 first, the average where that is nothing; how arms differ; which are known."""
    if not arm_features.shape[1]:
        return np.ones((len(arm_features), 1)), np.zeros((0, 0)), np.ones(len(arm_features), dtype=np.bool_)
    known = np.asarray(np.isfinite(arm_features).all(axis=1))
    some = arm_features[known]
    average = some.mean(axis=0) if len(some) else np.zeros(arm_features.shape[1])
    away = some - average
    rows = np.where(known[:, None], arm_features, average)
    scatter = away.T @ away / len(some) if len(some) else np.zeros((average.size, average.size))
    return np.column_stack([np.ones(len(rows)), rows]), scatter, known


def unknown_arms(population: Population, frame: Frame, arm_features: Array) -> Array:
    """Return the covariance that comes to the means of arms about which nothing is known, in standard features."""
    if not arm_features.shape[1]:
        return np.zeros((len(arm_features), *frame.back.shape))
    _, scatter, known = features_of(arm_features)
    mean = population.common_mean[1:] @ frame.there.T
    return np.asarray((~known)[:, None, None] * (mean.T @ scatter @ mean))


EVERY = slice(None)


def pool(population: Population, frame: Frame, told: Told, arm_features: Array, arms: slice = EVERY) -> Pooled:
    """Return what some arms say about the common mean of all."""
    told = Told(told.precision[arms], told.moment[arms])
    precision, moment = means_told(population, told, frame)
    features, diagonal = features_of(arm_features)[0][arms], common_diagonal(population)
    return pool_arms(precision, moment, features, diagonal, float(population.scale[0]))


def pooled(population: Population, frame: Frame, told: Told, arm_features: Array) -> tuple[Population, Pooled]:
    """Return a population that knows the common mean of the arms, and how that was learned."""
    found, d = pool(population, frame, told, arm_features), population.width.size
    whole = frame.whole(found.mean.size)
    return population._replace(
        common_mean=(whole @ found.mean).reshape(-1, d), common_covariance=whole @ found.covariance @ whole.T
    ), found


def shared(population: Population, frame: Frame, told: Told, arm_features: Array) -> Population:
    """Return a population in which every arm has the prior that all other arms make of it."""
    population, found = pooled(population, frame, told, arm_features)
    more = unknown_arms(population, frame, arm_features)
    precision, location = priors_of_arms(found, float(population.scale[0]), more)
    return population._replace(
        prior_precision=symmetric(frame.there.T @ precision @ frame.there), prior_location=location @ frame.back.T
    )


def with_effects(population: Population, frame: Frame, told: Told, arm_features: Array, sizes: Array) -> Population:
    """Return a population that knows how large the effects of features are: those that rewards make most likely.

    ``sizes`` are mean squares of the tasks' features over tasks with rewards. Effects that are not 20 times as likely
    as none are none, so features that say nothing cost nothing.
    """
    d, ones = population.width.size, np.ones(population.width.size)
    if population.groups.size:
        base = frame.precision(population.prior_precision)
        location = population.prior_location @ frame.there.T
        level = float(level_of(frame.covariance(population.covariance)).mean())
        found = effect_variances(
            frame.precision(told.precision), frame.moment(told.moment), base, times(base, location), ones,
            population.groups, level / _by_group(sizes, population.groups), population.effects,
        )  # fmt: skip
        population = population._replace(effects=found)
    if population.arm_groups.size:
        features, (precision, moment) = features_of(arm_features)[0], means_told(population, told, frame)
        scale, design = float(population.scale[0]), features[:, :, None, None] * np.eye(d)
        design = design.reshape(len(features), -1, d)
        lean = inverse(precision + scale * np.eye(d))
        total = (design @ (scale * symmetric(lean @ precision)) @ design.swapaxes(1, 2)).sum(axis=0)
        moments = times(design, scale * times(lean, moment)).sum(axis=0)
        width, groups = np.diag(population.width / population.feature_square), population.arm_groups
        levels = 1.0 / scale / _by_group((features[:, 1:] ** 2).mean(axis=0), groups)
        found = effect_variances(
            total[None], moments[None], width[None], np.zeros((1, d)), ones, groups, levels, population.arm_effects
        )
        population = population._replace(arm_effects=found)
    return population


def _by_group(sizes: Array, groups: IntArray) -> Array:
    """Return how large every feature is: the mean square of its columns together."""
    result = np.bincount(groups, weights=sizes, minlength=_n_groups(groups))
    return np.where(result > 0, result, 1.0)


def with_prior(population: Population, prior: Prior) -> Population:
    """Return the population of a prior that is given."""
    level = max(float(np.einsum("kii->ki", prior.covariance).mean()), 1e-12)
    return population._replace(
        covariance=prior.covariance.copy(),
        noise=prior.noise_variance.copy(),
        dispersion=np.zeros(len(prior.covariance)),
        prior_precision=prior.shared_precisions,
        prior_location=prior.shared_location.copy(),
        centre=np.log([np.exp(np.log(prior.noise_variance).mean()), level]),
    )


def with_arm(population: Population, features: Array, prior: Prior | None, first: Population) -> Population:
    """Return the population with one arm more, of which nothing is known but its features.

    Arms are a population, and it is one of them, unless its ``prior`` is given. ``first`` is the population before any
    reward: arms are as its arms are while nothing was learned.
    """
    d, frame = population.width.size, frame_of(population)
    if prior is not None:
        covariance, noise, dispersion = prior.covariance, prior.noise_variance, np.zeros(1)
        precision, location = prior.shared_precisions, prior.shared_location
    elif population.at_last[0] > 0:
        noise, level = np.exp(population.centre)
        noise, covariance = noise[None], level * population.target[None]
        dispersion = common_dispersion(population.dispersion)
        row, _, _ = features_of(features)
        design = np.kron(row[-1][:, None], np.eye(d))
        width = frame.covariance(design.T @ population.common_covariance @ design)
        more = unknown_arms(population, frame, features)[-1] + np.eye(d) / population.scale[0]
        precision = (frame.there.T @ inverse(width + more) @ frame.there)[None]
        location = (row[-1] @ population.common_mean)[None]
    else:
        covariance, noise, dispersion = first.covariance[:1], first.noise[:1], first.dispersion[:1]
        precision, location = first.prior_precision[:1], first.prior_location[:1]
    return population._replace(
        covariance=np.concatenate([population.covariance, covariance]),
        noise=np.concatenate([population.noise, noise]),
        dispersion=np.concatenate([population.dispersion, dispersion]),
        prior_precision=np.concatenate([population.prior_precision, precision]),
        prior_location=np.concatenate([population.prior_location, location]),
        constant=np.append(population.constant, False),
        summaries=np.concatenate([population.summaries, np.zeros((1, N_SUMMARIES))]),
    )


def posterior_of(population: Population, frame: Frame, told: Told, arms: slice = EVERY) -> tuple[Array, Array]:
    """Return ``told`` and ``shared`` of a store, of some arms: messages with their priors, and the posterior."""
    d, size = population.width.size, told.moment.shape[1]
    prior, location = population.prior_precision[arms], population.prior_location[arms]
    whole = np.concatenate([told.precision[arms], told.moment[arms, None]], axis=1)
    whole[:, :d, :d] += prior
    whole[:, size, :d] += times(prior, location)
    used, back = np.arange(size), frame.back
    if size > d:
        for place, precision in enumerate(effect_precisions(population, frame)):
            block = slice((1 + place) * d, (2 + place) * d)
            whole[:, block, block] += precision
        used = np.flatnonzero(np.concatenate([np.ones(d, dtype=np.bool_), ~np.isinf(_inverse_variances(population))]))
        back = frame.whole(size)[used[:, None], used]
    out, at = np.zeros_like(whole), (slice(None), used[:, None], used)
    covariance = symmetric(back @ inverse(back.T @ whole[at] @ back) @ back.T)
    out[at] = covariance
    out[:, size, used] = times(covariance, whole[:, size, used])
    return whole, out


def prior_of(population: Population, frame: Frame) -> Array:
    """Return ``prior`` of a store, by arm: Q, squared pivots of Q, Sigma; one that is singular is raised a little."""
    covariance = regular(frame.covariance(population.covariance), 1e-12 * population.noise)
    precision = symmetric(frame.there.T @ inverse(covariance) @ frame.there)
    pivots = squared_pivots(precision)
    return np.concatenate([precision, pivots[:, None], population.covariance], axis=1)


def improved(
    population: Population,
    frame: Frame,
    family: int,
    told: Told,
    sums: Moments,
    rewards: Array,
    arm_features: Array,
) -> tuple[Population, float]:
    """Return a population that explains all pairs better, and the largest relative move."""
    d, size, scale = population.width.size, _size(population), float(population.scale[0])
    mean = frame.there @ population.common_mean[0]
    variance = np.diagonal(frame.covariance(population.common_covariance[:d, :d]))
    width = common_width(mean, variance, scale)
    if family != NUMBER:
        # Rewards that are all 0 ask for a predictor without bound, and a width that follows it would let it go.
        width = np.maximum(width, 1.0 / COMMON_SQUARE)
    population, found = pooled(population._replace(width=width * population.feature_square), frame, told, arm_features)
    distance = -math.log(scale) - math.log(MEAN_SHARE * size / d)
    move_mean = clip((found.slope - HELD * distance) / (max(found.information, -found.slope) + HELD))

    inverses = sums.prior[:, :d]
    explained = (inverses * sums.second_moment).sum(axis=(1, 2))
    summaries = _summaries(population, told, sums, rewards)
    over = _overdispersion(summaries) if family == NUMBER else np.ones(2)
    log_level = np.log(level_of(frame.covariance(population.covariance)))
    leverage, squared = summaries[:, LEVERAGE], summaries[:, SQUARED_LEVERAGE]
    by_level = 0.5 * (explained - summaries[:, TASKS] * d) / over[LEVEL]
    slopes = Slopes(
        noise=np.log(population.noise),
        level=log_level,
        by_noise=0.5 * (summaries[:, RESIDUAL] / population.noise - rewards) / over[NOISE],
        by_level=by_level,
        noise_noise=np.maximum(0.5 * (rewards - 2.0 * leverage + squared), 0.0) / over[NOISE],
        noise_level=0.5 * (leverage - squared) / math.sqrt(over[NOISE] * over[LEVEL]),
        level_level=curvature(0.5 * squared / over[LEVEL], by_level),
        rewards=rewards / over[NOISE],
    )
    noise, level, centre, moved = move_levels(
        slopes, population.centre, population.constant, size, d, noise_known=family != NUMBER
    )
    covariance, moment = frame.covariance(population.covariance), frame.covariance(sums.second_moment)
    shape = Shape(
        frame.covariance(population.target), float(population.target_weight[0]), float(population.identity_share[0])
    )
    shape = learn_shape(shape, covariance, moment, summaries[:, TASKS], squared / d)
    own = frame.back.T @ inverses @ frame.back
    covariance, shaped = improve_covariances(shape, covariance, own, moment, summaries[:, TASKS], np.exp(level))
    move = max(abs(move_mean), moved, shaped)
    return population._replace(
        covariance=symmetric(frame.back @ covariance @ frame.back.T),
        noise=np.exp(noise) if family == NUMBER else population.noise,
        scale=np.array([scale * math.exp(-move_mean)]),
        centre=centre,
        target=symmetric(frame.back @ shape.target @ frame.back.T),
        target_weight=np.array([shape.weight]),
        identity_share=np.array([shape.identity_share]),
        summaries=summaries,
        overdispersion=over,
        steps=population.steps + 1.0,
        last_move=np.array([move]),
    ), move


def _summaries(population: Population, told: Told, sums: Moments, rewards: Array) -> Array:
    """Return what a step and the findings need to know of every arm."""
    summaries = np.empty((rewards.size, N_SUMMARIES))
    # tr(A H Phi H') / s2 of all pairs, as a product and not as a difference of what is known and what is left.
    spread = (sums.covariance * told.precision).sum(axis=(1, 2)) - sums.stretch
    summaries[:, TASKS], summaries[:, REWARDS] = sums.n_pairs, rewards
    summaries[:, RESIDUAL] = sums.residual + population.noise * (sums.leverage + np.maximum(spread, 0.0))
    summaries[:, LEVERAGE], summaries[:, SQUARED_LEVERAGE] = sums.leverage, sums.squared_leverage
    # How far squared residuals of pairs are from their share, squared, and what that is for Gaussian noise: with s the
    # mean square per degree of freedom, (r / s - f)^2 is 2 f on average then. No residuals, no answer.
    there = (sums.residual > 0) & (sums.freedom > 0)
    mean = np.where(there, sums.residual, 1.0) / np.where(there, sums.freedom, 1.0)
    scatter = (sums.residual_square / mean - 2.0 * sums.cross) / mean + sums.freedom_square
    summaries[:, SCATTER] = np.where(there, np.maximum(scatter, 0.0), 0.0)
    expected = np.where(there, 2.0 * sums.freedom, 0.0)
    summaries[:, GAUSSIAN_SCATTER] = np.where(population.constant, -np.maximum(expected, NOTHING), expected)
    return summaries


def _overdispersion(summaries: Array) -> Array:
    """Return how much more squared residuals scatter over pairs than Gaussian ones would, over all arms; at least 1.

    Rare clicks, heavy tails: few rewards carry all the variance, and the others say nothing about it. A task's
    deviation is a mean of its rewards: with few of them it has tails as heavy as theirs.
    """
    scatter = GAUSSIAN + summaries[:, SCATTER].sum()
    noise = max(scatter / (GAUSSIAN + np.abs(summaries[:, GAUSSIAN_SCATTER]).sum()), 1.0)
    per_pair = max(summaries[:, REWARDS].sum() / max(summaries[:, TASKS].sum(), 1.0), 1.0)
    return np.array([noise, 1.0 + (noise - 1.0) / per_pair])
