"""Regret of a run, by both of the paper's definitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.environments.base import Draw
from posse.environments.drawing import expected_rewards
from posse.errors import InvalidValue
from posse.families import family_of
from posse.policies.base import Played
from posse.types import Array, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Regret:
    """Cumulative regret of one policy in one world.

    Parameters
    ----------
    total : float
        At the horizon.
    tasks : ndarray of shape (n_tasks,)
        Its split over tasks; sums to ``total``.
    curve : ndarray
        Cumulative regret at the asked steps.
    tracked : ndarray
        Cumulative regret of one task at the asked steps.
    """

    total: float
    tasks: Array
    curve: Array
    tracked: Array


def realised_regret(draw: Draw, played: Played, steps: IntArray, track_task: int) -> Regret:
    r"""Sum :math:`\max_k \mu_k - \mu_{\pi_t}` over the tasks that really arrived (the paper's main text)."""
    n_tasks = draw.arrival_probabilities.size
    gaps = draw.expected.max(axis=1) - np.take_along_axis(draw.expected, played.arms[:, None], axis=1)[:, 0]
    return Regret(
        total=float(gaps.sum()),
        tasks=np.bincount(draw.tasks, weights=gaps, minlength=n_tasks).astype(np.float64),
        curve=np.cumsum(gaps)[steps - 1],
        tracked=np.cumsum(np.where(draw.tasks == track_task, gaps, 0.0))[steps - 1],
    )


def expected_regret(draw: Draw, played: Played, steps: IntArray, track_task: int) -> Regret:
    r"""Sum :math:`\sum_j p_j r_{jt}`, every task asked at every step (the paper's appendix).

    Needs ``played.everywhere`` and a world whose linear predictor is known.
    """
    if draw.coefficients is None:
        raise InvalidValue("the appendix regret needs a world with known coefficients; this one has none")
    n_tasks, family = draw.arrival_probabilities.size, family_of(draw.rewards_are)
    gaps = np.empty((draw.tasks.size, n_tasks))
    for task in range(n_tasks):
        means = family.mean_of(expected_rewards(draw.contexts, draw.coefficients[:, task : task + 1]))
        chosen = np.take_along_axis(means, played.everywhere[:, task, None], axis=1)[:, 0]
        gaps[:, task] = draw.arrival_probabilities[task] * (means.max(axis=1) - chosen)
    return Regret(
        total=float(gaps.sum()),
        tasks=gaps.sum(axis=0),
        curve=np.cumsum(gaps.sum(axis=1))[steps - 1],
        tracked=np.cumsum(gaps[:, track_task])[steps - 1],
    )
