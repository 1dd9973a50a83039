"""Say which arm is best in which task and how sure that is, and which tasks are far from the population."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from posse.fleet.expecting import (
    CONFIDENCE,
    Beliefs,
    average_contexts,
    context_spread,
    expected_rewards,
    in_money,
    over_contexts,
    predictors_at,
    probability_best,
    rewards_of_tasks,
    unused_task,
)
from posse.report.stopping import improvement

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array, BoolArray, IntArray

SURE = CONFIDENCE  # from which on an arm counts as the best one
REACH = float(ndtri((1 + CONFIDENCE) / 2))  # standard deviations of an interval to either side
BY_CHANCE = 0.5  # pairs of task and arm so far out that a fleet as large as this would have by chance
MOST_UNUSUAL = 10  # that are listed
LEAST_TASKS = 5  # fewer have no population to be far from


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Every task at its average context; the numbers of :meth:`posse.fleet.Posse.expected_many`.

    In a fleet with values or costs all that is expected is money.

    Parameters
    ----------
    tasks, arms : tuple
    rewards : ndarray of shape (n_tasks,)
    mean, low, high, probability : ndarray of shape (n_tasks, n_arms)
    typical_mean : ndarray of shape (n_tasks, n_arms)
        What the population says of a task with that context.
    new_mean, new_low, new_high : ndarray of shape (n_arms,)
        What to expect in a new task, at the average context of all.
    predictor, typical_predictor : Beliefs
        Both on the scale on which tasks are a population: the rewards' own for numbers, logits for clicks, logarithms
        for counts.
    loss : ndarray of shape (n_tasks,)
        What taking the arm that looks best is expected to lose against the one that is.
    """

    tasks: tuple[Label, ...]
    arms: tuple[Label, ...]
    rewards: Array
    mean: Array
    low: Array
    high: Array
    probability: Array
    typical_mean: Array
    new_mean: Array
    new_low: Array
    new_high: Array
    predictor: Beliefs
    typical_predictor: Beliefs
    loss: Array

    @property
    def arm(self) -> IntArray:
        """The arm with the highest expected reward in every task, by its position."""
        return np.asarray(self.mean.argmax(axis=1))

    @property
    def sureness(self) -> Array:
        """The probability that this arm is the best one."""
        return np.take_along_axis(self.probability, self.arm[:, None], axis=1)[:, 0]

    @property
    def sure(self) -> BoolArray:
        """True where that is likely enough to say so."""
        return self.sureness >= SURE


def best_of(fleet: Fleet, tasks: list[Label] | None = None, contexts: Array | None = None) -> Best:
    """Return which arm is best in every task.

    Parameters
    ----------
    fleet : Fleet
    tasks : list of str or int, optional
        Default: all.
    contexts : ndarray of shape (n_tasks, n_columns), optional
        The encoded context of each task. Default: its average one.
    """
    if tasks is None:
        tasks = list(fleet.tasks)
    codes = np.arange(len(tasks))
    at = average_contexts(fleet, tasks) if contexts is None else contexts
    predictor = over_contexts(fleet, predictors_at(fleet, tasks, codes, at))
    beliefs = in_money(fleet, expected_rewards(fleet, predictor))
    low, high = _interval(fleet, predictor)
    stranger = [unused_task(fleet.tasks)]
    typical_predictor = over_contexts(fleet, predictors_at(fleet, stranger, np.zeros(len(tasks), dtype=np.int64), at))
    average = average_contexts(fleet, stranger) if fleet.features.intercept else at[:1]
    new_predictor = over_contexts(fleet, predictors_at(fleet, stranger, np.zeros(1, dtype=np.int64), average))
    new_low, new_high = _interval(fleet, new_predictor)
    compared = predictor if fleet.worth is None else beliefs
    return Best(
        tasks=tuple(tasks),
        arms=fleet.arms,
        rewards=rewards_of_tasks(fleet, tasks),
        mean=beliefs.mean,
        low=low,
        high=high,
        probability=probability_best(compared.mean, compared.sd),
        typical_mean=in_money(fleet, expected_rewards(fleet, typical_predictor)).mean,
        new_mean=in_money(fleet, expected_rewards(fleet, new_predictor)).mean[0],
        new_low=new_low[0],
        new_high=new_high[0],
        predictor=predictor,
        typical_predictor=typical_predictor,
        loss=improvement(beliefs.mean, beliefs.sd),
    )


def _interval(fleet: Fleet, predictor: Beliefs) -> tuple[Array, Array]:
    """Return the ends of the intervals of expected rewards, or of the money that they are worth."""
    low, high = (np.asarray(end) for end in fleet.settings.family.interval(predictor.mean, predictor.sd, CONFIDENCE))
    ends = Beliefs(low, predictor.sd, predictor.probabilities), Beliefs(high, predictor.sd, predictor.probabilities)
    return in_money(fleet, ends[0]).mean, in_money(fleet, ends[1]).mean


@dataclass(frozen=True, slots=True)
class Unusual:
    """One task that is unlike the others.

    Parameters
    ----------
    task, arm : str or int
        The arm is the one in which the task is furthest from the population.
    mean, typical : float
        What the arm is expected to earn there, and in a typical task with the same average context.
    distance : float
        Their difference, in standard deviations between tasks.
    feature : str or None
        The feature whose weight makes most of the difference from situation to situation, where that is more than the
        difference in the average one; None if the level differs most.
    """

    task: Label
    arm: Label
    mean: float
    typical: float
    distance: float
    feature: str | None


def distances(best: Best) -> Array:
    """Return how far every task is from the population in every arm, in standard deviations between tasks.

    A task is as far as its rewards say and no further: one without any is at 0.
    """
    typical = best.typical_predictor
    result: Array = (best.predictor.mean - typical.mean) / np.where(typical.sd > 0, typical.sd, np.inf)
    return result


def unusual_tasks(fleet: Fleet, best: Best) -> list[Unusual]:
    """Return the tasks that are further out than chance would put any of them, the furthest first."""
    if len(best.tasks) < LEAST_TASKS:
        return []
    away = distances(best)
    limit = -float(ndtri(BY_CHANCE / away.size / 2))
    arm = np.abs(away).argmax(axis=1)
    furthest = np.take_along_axis(away, arm[:, None], axis=1)[:, 0]
    difference = np.take_along_axis(best.predictor.mean - best.typical_predictor.mean, arm[:, None], axis=1)[:, 0]
    order = np.argsort(-np.abs(furthest), kind="stable")
    spread = context_spread(fleet)
    return [
        Unusual(
            best.tasks[task],
            best.arms[arm[task]],
            float(best.mean[task, arm[task]]),
            float(best.typical_mean[task, arm[task]]),
            float(furthest[task]),
            _differs_in(fleet, spread, best.tasks[task], best.arms[arm[task]], abs(difference[task])),
        )
        for task in order.tolist()
        if abs(furthest[task]) > limit
    ]


def _differs_in(fleet: Fleet, spread: Array, task: Label, arm: Label, level: float) -> str | None:
    """Return the feature in which an arm of a task differs most from the population, None if that is its level.

    By how much the feature moves the difference from situation to situation: coefficients cannot be compared one by
    one, since a level may be spread over the categories of a feature.
    """
    own, typical = fleet.coefficients(task), fleet.coefficients(unused_task(fleet.tasks))
    off = own.mean[arm] - typical.mean[arm]
    moved = {
        name: math.sqrt(max(float(off[first:last] @ spread[first:last, first:last] @ off[first:last]), 0.0))
        for name, (_, first, last) in zip(fleet.features.names, fleet.features.layout, strict=True)
    }
    furthest = max(moved, key=moved.__getitem__, default=None)
    return furthest if furthest is not None and moved[furthest] > level else None
