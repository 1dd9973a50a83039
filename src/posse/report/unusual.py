"""Which tasks are far from the population, and in what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from posse.fleet.expecting import context_spread, unused_task

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.report.best import Best
    from posse.types import Array

BY_CHANCE = 0.5  # pairs of task and arm so far out that a fleet as large as this would have by chance
LISTED = 10
LEAST_TASKS = 5  # fewer have no population to be far from


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
    """Return the tasks that are further out than chance would put any of so many, the furthest first."""
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
        for name, (_, first, last) in zip(fleet.features.names, fleet.features._layout, strict=True)
    }
    furthest = max(moved, key=moved.__getitem__, default=None)
    return furthest if furthest is not None and moved[furthest] > level else None
