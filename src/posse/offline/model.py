"""The rewards that the hierarchical model expects of every arm, learned from other rows than it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np

from posse.checks import whole_number
from posse.families import family_of
from posse.model import Posterior, Statistics, estimate_family_prior, estimate_prior, posterior
from posse.offline.data import LoggedBandit, Predictors
from posse.types import Array, BoolArray, IntArray

FOLDS = 5
MOST_TASKS = 2000  # that a population is estimated from: its covariance is then known to two percent
PASSES = 50  # of its search; more change predictions by a hundredth of their error
FAMILY_PASSES = 30  # the same over the rows of clicks and counts


def deal_folds(tasks: IntArray, *, folds: int = FOLDS, seed: int = 0) -> IntArray:
    """Return the fold of every row: the rows of each task are shuffled and dealt out in turn.

    So every task has its rows spread over the folds as evenly as can be. Names of tasks do not matter, only which rows
    share one.

    Parameters
    ----------
    tasks : ndarray of shape (n_rows,)
    folds : int, at least 2
    seed : int

    Examples
    --------
    >>> deal_folds(np.array([0, 0, 0, 0, 1, 1]), folds=2)
    array([1, 0, 0, 1, 1, 0])
    """
    folds = whole_number(folds, "folds", at_least=2)
    shuffled = np.random.default_rng([seed, folds]).permutation(tasks.size)
    # Tasks in the order in which the shuffled rows meet them; the deal goes on from one task to the next, so that tasks
    # of a single row do not all land in the first fold.
    _, first, place = np.unique(tasks[shuffled], return_index=True, return_inverse=True)
    order = np.argsort(first[place], kind="stable")
    result = np.empty(tasks.size, dtype=np.int64)
    result[shuffled[order]] = np.arange(tasks.size) % folds
    return result


def predicted_rewards(data: LoggedBandit, folds: IntArray) -> Array:
    """Return the expected reward of every arm in every row, shape (n_rows, n_arms), cross-fitted.

    The population is estimated by its evidence from the other folds, and each task's coefficients are their posterior
    mean: so a task with few rows is predicted mostly from the others. Clicks, counts and revenue have the model of
    their family (``data.reward_family``), whose predictions are probabilities, rates or money.

    Parameters
    ----------
    data : LoggedBandit
    folds : int ndarray of shape (n_rows,)
    """
    numbers = data.reward_family == "number"
    mean, sd = predictors(data, folds, spread=not numbers)
    return mean if numbers or sd is None else family_of(data.reward_family).expected(mean, sd)


def predictors(data: LoggedBandit, folds: IntArray, *, spread: bool) -> Predictors:
    """Return mean and, with ``spread``, standard deviation of every arm's linear predictor in every row, cross-fitted.

    What the same folds gave before is returned again.
    """
    key, found = folds.tobytes(), data.fits.found
    if key not in found or (spread and found[key][1] is None):
        if data.reward_family == "revenue":
            found[key] = cross_fitted_revenue(data, folds)
            return found[key]
        numbers = data.reward_family == "number"
        beliefs = cross_fitted(data, folds, learn_by_evidence) if numbers else cross_fitted_family(data, folds)
        found[key] = predictors_of(beliefs, data, spread=spread)
    return found[key]


def predictors_of(beliefs: Iterable[tuple[IntArray, Posterior]], data: LoggedBandit, *, spread: bool) -> Predictors:
    """Return what is believed of every row, from parts that together have all rows."""
    mean = np.empty((data.n_rows, data.n_arms))
    sd = np.empty(mean.shape) if spread else None
    for rows, belief in beliefs:
        mean[rows] = means(belief, data, rows)
        if sd is not None:
            sd[rows] = spreads(belief, data, rows)
    return mean, sd


def others_by_fold(data: LoggedBandit, folds: IntArray) -> Iterator[BoolArray]:
    """Yield for every fold which rows are in the others, and say so where somebody asks."""
    names = np.unique(folds)
    for number, fold in enumerate(names, 1):
        if data.fits.begin is not None:
            data.fits.begin(f"learning from the other folds, {number} of {names.size}")
        yield folds != fold


def cross_fitted_revenue(data: LoggedBandit, folds: IntArray) -> Predictors:
    """Return mean and standard deviation of the logarithm of every arm's expected revenue, cross-fitted."""
    from posse.core.estimate import FIT_SETTLED, FIT_STEPS
    from posse.core.revenue import Revenue
    from posse.core.rule import Rule
    from posse.core.select import OPTIMISTIC

    mean, sd = np.empty((data.n_rows, data.n_arms)), np.empty((data.n_rows, data.n_arms))
    for seen in others_by_fold(data, folds):
        core = Revenue(
            data.n_arms, data.contexts.shape[1], family=family_of("revenue"), rule=Rule(OPTIMISTIC, 0.0, 0.0)
        )
        core.take_tasks(core.reserve_tasks(data.n_tasks))
        core.learn_rows(data.tasks[seen], data.arms[seen], data.contexts[seen], data.rewards[seen], 0.0)
        core.renew(steps=FIT_STEPS, settled=FIT_SETTLED)
        rows = np.flatnonzero(~seen)
        _, _, mean[rows], sd[rows] = core.decide_rows(
            data.tasks[rows], np.ascontiguousarray(data.contexts[rows]), 0.0,
            np.ones((1, data.n_arms), dtype=np.bool_), (1, 1), False, np.zeros(rows.size),
        )  # fmt: skip
    return mean, sd


def cross_fitted_family(data: LoggedBandit, folds: IntArray) -> Iterator[tuple[IntArray, Posterior]]:
    """Yield the rows of every fold with what clicks or counts of all others say about linear predictors."""
    for seen in others_by_fold(data, folds):
        estimate = estimate_family_prior(
            task=data.tasks[seen], arm=data.arms[seen], context=data.contexts[seen], reward=data.rewards[seen],
            n_tasks=data.n_tasks, n_arms=data.n_arms, rewards=cast("Any", data.reward_family), passes=FAMILY_PASSES,
        )  # fmt: skip
        yield np.flatnonzero(~seen), posterior(estimate.statistics, estimate.prior)


def cross_fitted(
    data: LoggedBandit, folds: IntArray, learn: Callable[[Statistics], Posterior]
) -> Iterator[tuple[IntArray, Posterior]]:
    """Yield the rows of every fold with what was learned from all others."""
    for others in others_by_fold(data, folds):
        seen = Statistics.from_data(
            task=data.tasks[others],
            arm=data.arms[others],
            context=data.contexts[others],
            reward=data.rewards[others],
            n_tasks=data.n_tasks,
            n_arms=data.n_arms,
        )
        yield np.flatnonzero(~others), learn(seen)


def learn_by_evidence(seen: Statistics) -> Posterior:
    """Return the posterior under the population that the rewards speak for.

    Where there are very many tasks, some of them, evenly picked, tell what the population is; every task's own
    coefficients are always learned from all of its rows.
    """
    some = seen
    if seen.n_tasks > MOST_TASKS:
        picked = np.linspace(0, seen.n_tasks - 1, MOST_TASKS).round().astype(np.int64)
        some = Statistics(*(field[:, picked] for field in seen.sums))
    return posterior(seen, estimate_prior(some, method="evidence", passes=PASSES).prior)


def means(belief: Posterior, data: LoggedBandit, rows: IntArray) -> Array:
    """Return the expected reward of every arm in some rows, shape (rows, n_arms)."""
    X, tasks = data.contexts[rows], data.tasks[rows]
    return np.stack([(X * mean[tasks]).sum(axis=1) for mean in belief.mean], axis=1)


def spreads(belief: Posterior, data: LoggedBandit, rows: IntArray) -> Array:
    """Return how uncertain these are, as standard deviations."""
    X, tasks = data.contexts[rows], data.tasks[rows]
    variances = [np.einsum("na,nab,nb->n", X, covariance[tasks], X) for covariance in belief.covariance]
    return np.asarray(np.sqrt(np.maximum(np.stack(variances, axis=1), 0.0)))
