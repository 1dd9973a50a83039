"""Parts of synthetic worlds: correlated coefficients, expected rewards, arrivals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.environments.base import ARRIVALS, CHANGES, DRIFT, stream
from posse.model.dense import factor_semidefinite
from posse.types import Array, IntArray


def correlated(standard: Array, covariance: Array) -> Array:
    """Return standard normal vectors (K, N, d) with the covariance (K, d, d) of their arm, summed in a fixed order."""
    result = np.zeros(standard.shape)
    root = np.empty(covariance.shape[1:])
    for arm in range(standard.shape[0]):
        factor_semidefinite(covariance[arm], root)
        for i in range(standard.shape[2]):
            result[arm] += standard[arm, :, i, None] * root[i]
    return result


def expected_rewards(contexts: Array, coefficients: Array) -> Array:
    """Return expected rewards (n, K) of contexts (n, d) under coefficients (K, n, d), summed in a fixed order."""
    total = np.zeros((contexts.shape[0], coefficients.shape[0]))
    for i in range(contexts.shape[1]):
        total += contexts[:, i, None] * coefficients[:, :, i].T
    return total


def arriving_tasks(probabilities: Array, seed: int, horizon: int) -> IntArray:
    """Return the task that arrives at each step, shape (horizon,)."""
    uniform = stream(seed, ARRIVALS).random(horizon)
    tasks = np.searchsorted(np.cumsum(probabilities), uniform, side="right")
    return np.minimum(tasks, probabilities.size - 1).astype(np.int64)


class Motion(NamedTuple):
    """How a world changes; see :class:`posse.environments.SyntheticWorld` for what the settings mean."""

    half_life: float | None
    change_every: int | None
    change_share: float
    population_moves: bool


def moving_coefficients(
    motion: Motion, shared: Array, deviations: Array, covariance: Array, shared_sd: float, tasks: IntArray, seed: int
) -> Array:
    """Return the coefficients of the task that arrives at each step, shape (n_arms, horizon, n_features).

    Drift is an Ornstein-Uhlenbeck process whose stationary law is the population, so that a world looks the same at
    any time. A task is moved when it arrives, by all the time since it did last; that has the same law as moving it at
    every step.

    Parameters
    ----------
    motion : Motion
    shared : ndarray of shape (n_arms, 1, n_features)
    deviations : ndarray of shape (n_arms, n_tasks, n_features)
        At the first step; not changed.
    covariance : ndarray of shape (n_arms, n_features, n_features)
        Of the deviations.
    shared_sd : float
    tasks : ndarray of shape (horizon,)
    seed : int
    """
    n_arms, n_tasks, d = deviations.shape
    horizon = tasks.size
    rate = 0.0 if motion.half_life is None else np.log(2.0) / motion.half_life
    # One draw for every step, whether or not it is used, so that a longer horizon only adds steps.
    draws = stream(seed, DRIFT).standard_normal((horizon, n_arms, 2 * d)).transpose(1, 0, 2)
    own, common = correlated(np.ascontiguousarray(draws[:, :, :d]), covariance), draws[:, :, d:]
    changes = stream(seed, CHANGES)
    centre, offset = shared[:, 0].copy(), deviations.copy()
    seen = np.zeros(n_tasks)
    path = np.empty((n_arms, horizon, d))
    for t, task in enumerate(tasks.tolist()):
        if motion.change_every is not None and t > 0 and t % motion.change_every == 0:
            moved = np.flatnonzero(changes.random(n_tasks) < motion.change_share)
            fresh = correlated(changes.standard_normal((n_arms, n_tasks, d)), covariance)
            offset[:, moved] = fresh[:, moved]
            seen[moved] = t
            fresh_centre = shared_sd * changes.standard_normal((n_arms, d))
            if motion.population_moves:
                centre = fresh_centre
        if rate > 0.0:
            stays = np.exp(-rate * (t - seen[task]))
            offset[:, task] = stays * offset[:, task] + np.sqrt(1.0 - stays**2) * own[:, t]
            seen[task] = t
            if motion.population_moves and t > 0:
                stays = np.exp(-rate)
                centre = stays * centre + np.sqrt(1.0 - stays**2) * shared_sd * common[:, t]
        path[:, t] = centre + offset[:, task]
    return path
