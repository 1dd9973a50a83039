"""What synthetic worlds are made of: correlated coefficients, expected rewards, arrivals."""

from __future__ import annotations

import numpy as np

from posse.environments.base import ARRIVALS, stream
from posse.kernels.linalg import factor_semidefinite
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
