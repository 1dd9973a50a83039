"""Which tasks are far from the population, and in what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
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
    """

    task: Label
    arm: Label
    mean: float
    typical: float
    distance: float


def distances(best: Best) -> Array:
    """Return how far every task is from the population in every arm, in standard deviations between tasks.

    A task is as far as its rewards say and no further: one without any is at 0.
    """
    sd = np.where(best.typical_sd > 0, best.typical_sd, np.inf)
    result: Array = (best.mean - best.typical_mean) / sd
    return result


def unusual_tasks(best: Best) -> list[Unusual]:
    """Return the tasks that are further out than chance would put any of so many, the furthest first."""
    if len(best.tasks) < LEAST_TASKS:
        return []
    away = distances(best)
    limit = -float(ndtri(BY_CHANCE / away.size / 2))
    arm = np.abs(away).argmax(axis=1)
    furthest = np.take_along_axis(away, arm[:, None], axis=1)[:, 0]
    order = np.argsort(-np.abs(furthest), kind="stable")
    return [
        Unusual(
            best.tasks[task],
            best.arms[arm[task]],
            float(best.mean[task, arm[task]]),
            float(best.typical_mean[task, arm[task]]),
            float(furthest[task]),
        )
        for task in order.tolist()
        if abs(furthest[task]) > limit
    ]
