"""New offers when everything about their population is given: how much of a regret no learning could save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.fleet import Posse
from posse.kernels.propensity import score_room
from posse.kernels.rule import action_probabilities, pick

if TYPE_CHECKING:
    from posse.types import Array, IntArray


class GivenTruth:
    """Decides among new offers by posse's own rule, with the true categories, spreads and noise for a prior.

    The mean of an offer is ``own_sd`` from its category, a task ``task_sd`` from the offer, the noise is 1; all of one
    offer's coefficients are one Gaussian, so every posterior is exact.

    Parameters
    ----------
    centres : ndarray of shape (n_arms, d)
        Where the categories of the offers are.
    own_sd, task_sd : float
    n_tasks : int
    step : int
        How many decisions and rewards came before.
    seed : int
    """

    def __init__(self, centres: Array, own_sd: float, task_sd: float, n_tasks: int, step: int, seed: int) -> None:
        self._d = d = centres.shape[1]
        self._mean = np.concatenate([centres, np.zeros((len(centres), d * n_tasks))], axis=1)
        spread = np.concatenate([np.full(d, own_sd**2), np.full(d * n_tasks, task_sd**2)])
        self._covariance = np.repeat(np.diag(spread)[None], len(centres), axis=0)
        self._rule = Posse(arms=["a", "b"], features=["x"])._behaviour.rule
        self._step, self._rng = step, np.random.default_rng([seed, 5])

    def decide(self, task: int, x: Array) -> int:
        """Return an offer."""
        places, both = self._places(task), np.concatenate([x, x])
        mean = self._mean[:, places] @ both
        variance = np.einsum("i,kij,j->k", both, self._covariance[:, places][:, :, places], both)
        chances, scratch = np.empty(mean.size), np.empty((5, score_room(mean.size)))
        self._step += 1
        action_probabilities(mean, np.sqrt(variance), np.zeros(0), self._step, self._rule, True, scratch, chances)
        return int(pick(chances, self._rng.random()))

    def reward(self, arm: int, task: int, x: Array, value: float) -> None:
        """Learn a reward."""
        places, both = self._places(task), np.concatenate([x, x])
        direction = self._covariance[arm][:, places] @ both
        gain = 1.0 / (1.0 + both @ direction[places])
        self._mean[arm] += gain * (value - self._mean[arm, places] @ both) * direction
        self._covariance[arm] -= gain * np.outer(direction, direction)

    def _places(self, task: int) -> IntArray:
        return np.concatenate([np.arange(self._d), self._d * (1 + task) + np.arange(self._d)])
