"""Which arm is best in which task, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from posse.fleet.expecting import (
    CONFIDENCE,
    Beliefs,
    average_contexts,
    expected_rewards,
    over_contexts,
    predictors_at,
    probability_best,
    rewards_of_tasks,
    unused_task,
)
from posse.report.stopping import improvement

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.types import Array, BoolArray, IntArray

SURE = CONFIDENCE  # from which on an arm counts as the best one
REACH = float(ndtri((1 + CONFIDENCE) / 2))  # standard deviations of an interval to either side


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Every task at its average context; the numbers of :meth:`posse.fleet.Posse.expected_many`.

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
        """How likely that arm is the best one."""
        return np.take_along_axis(self.probability, self.arm[:, None], axis=1)[:, 0]

    @property
    def sure(self) -> BoolArray:
        """Whether that is likely enough to say so."""
        return self.sureness >= SURE


def best_of(fleet: Fleet, tasks: list[Label] | None = None, contexts: Array | None = None) -> Best:
    """Return which arm is best in every task.

    Parameters
    ----------
    fleet : Fleet
    tasks : list of str or int, optional
        Default: all.
    contexts : ndarray of shape (n_tasks, n_columns), optional
        The encoded context at which each task is looked at. Default: its average one.
    """
    if tasks is None:
        tasks = list(fleet.tasks)
    codes = np.arange(len(tasks))
    at = average_contexts(fleet, tasks) if contexts is None else contexts
    predictor = over_contexts(fleet, predictors_at(fleet, tasks, codes, at))
    beliefs = expected_rewards(fleet, predictor)
    family = fleet._behaviour.family
    low, high = family.interval(predictor.mean, predictor.sd, CONFIDENCE)
    stranger = [unused_task(fleet.tasks)]
    typical_predictor = over_contexts(fleet, predictors_at(fleet, stranger, np.zeros(len(tasks), dtype=np.int64), at))
    average = average_contexts(fleet, stranger) if fleet.features.intercept else at[:1]
    new_predictor = over_contexts(fleet, predictors_at(fleet, stranger, np.zeros(1, dtype=np.int64), average))
    new_low, new_high = family.interval(new_predictor.mean, new_predictor.sd, CONFIDENCE)
    return Best(
        tasks=tuple(tasks),
        arms=fleet.arms,
        rewards=rewards_of_tasks(fleet, tasks),
        mean=beliefs.mean,
        low=low,
        high=high,
        probability=probability_best(predictor.mean, predictor.sd),
        typical_mean=expected_rewards(fleet, typical_predictor).mean,
        new_mean=expected_rewards(fleet, new_predictor).mean[0],
        new_low=new_low[0],
        new_high=new_high[0],
        predictor=predictor,
        typical_predictor=typical_predictor,
        loss=improvement(beliefs.mean, beliefs.sd),
    )
