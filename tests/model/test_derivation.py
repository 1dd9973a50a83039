"""The formulas of docs/evidence.md, "Derivation": slopes beside differences, information beside traces."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.model import Prior, Statistics, log_evidence, posterior

N_TASKS, D, S2 = 6, 3, 0.7


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    n = 40
    tasks = rng.integers(N_TASKS, size=n)
    X = rng.normal(size=(n, D))
    return tasks, X, X @ rng.normal(size=D) + rng.normal(size=n)


@pytest.fixture
def covariance():
    root = np.random.default_rng(4).normal(size=(D, D))
    return root @ root.T / D + 0.2 * np.eye(D)


def prior_with(covariance, noise):
    return Prior(covariance=covariance[None], noise_variance=np.array([noise]), shared_precision=np.array([0.5]))


def test_slopes(rows, covariance):
    tasks, X, y = rows
    stats = Statistics.from_data(task=tasks, arm=np.zeros_like(tasks), context=X, reward=y, n_tasks=N_TASKS, n_arms=1)
    belief = posterior(stats, prior_with(covariance, S2))
    m0, phi = belief.shared_mean[0], belief.shared_covariance[0]
    moments, residuals = np.zeros((D, D)), 0.0
    for task in range(N_TASKS):
        A, b = X[tasks == task].T @ X[tasks == task], X[tasks == task].T @ y[tasks == task]
        Ct = np.linalg.inv(A + S2 * np.linalg.inv(covariance))
        H = np.eye(D) - Ct @ A
        m = H @ m0 + Ct @ b
        assert_allclose(m, belief.mean[0, task])
        moments += np.outer(m - m0, m - m0) + S2 * Ct + Ct @ A @ phi @ A @ Ct
        residuals += y[tasks == task] @ y[tasks == task] - 2 * b @ m + m @ A @ m
        residuals += S2 * np.trace(Ct @ A) + np.trace(A @ H @ phi @ H.T)

    def difference(change):
        step = 1e-5
        up, down = (log_evidence(stats, change(np.exp(sign * step)))[0] for sign in (1, -1))
        return (up - down) / (2 * step)

    of_noise = 0.5 * (residuals / S2 - len(y))
    of_level = 0.5 * (np.trace(np.linalg.solve(covariance, moments)) - D * N_TASKS)
    # Central differences of a sum of some tens are good to about 1e-9 of it.
    assert_allclose(of_noise, difference(lambda factor: prior_with(covariance, S2 * factor)), rtol=1e-6)
    assert_allclose(of_level, difference(lambda factor: prior_with(covariance * factor, S2)), rtol=1e-6)


def test_information(rows, covariance):
    tasks, X, _ = rows
    mine = X[tasks == 2]
    n = len(mine)
    A = mine.T @ mine
    V = np.linalg.inv(A + S2 * np.linalg.inv(covariance)) @ A
    explained = mine @ covariance @ mine.T
    inverse = np.linalg.inv(S2 * np.eye(n) + explained)
    of_noise, of_level = inverse * S2, inverse @ explained
    leverage, squared = np.trace(V), np.trace(V @ V)

    assert_allclose(0.5 * np.trace(of_noise @ of_noise), 0.5 * (n - 2 * leverage + squared))
    assert_allclose(0.5 * np.trace(of_noise @ of_level), 0.5 * (leverage - squared))
    assert_allclose(0.5 * np.trace(of_level @ of_level), 0.5 * squared)
