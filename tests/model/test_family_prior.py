"""The population of clicks and counts, against exact quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, ShapeError, UnknownTask
from posse.model import estimate_family_prior, posterior

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def table(kind, n_tasks, n_rows, rate, seed, variances=(1.0, 0.5)):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    theta = rng.normal(size=(n_tasks, 2)) * np.sqrt(variances)
    theta[:, 0] += np.log(rate / (1 - rate)) if kind == "binary" else np.log(rate)
    X = np.column_stack([np.ones(task.size), rng.normal(size=task.size)])
    eta = (X * theta[task]).sum(axis=1)
    y = rng.random(task.size) < 1 / (1 + np.exp(-eta)) if kind == "binary" else rng.poisson(np.exp(eta))
    return task, X, y.astype(float)


def exact_variances(kind, task, X, y, n_tasks):
    """Maximum likelihood by EM, expectations over a grid of Gauss and Hermite under the population."""
    grid = np.stack(np.meshgrid(NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.outer(WEIGHTS, WEIGHTS).ravel()
    mean, covariance = np.zeros(2), 0.5 * np.eye(2)
    for _ in range(200):
        theta = mean + grid @ np.linalg.cholesky(covariance).T
        eta = X @ theta.T
        likelihood = y[:, None] * eta - (np.logaddexp(0, eta) if kind == "binary" else np.exp(eta))
        total = np.add.reduceat(likelihood, np.flatnonzero(np.r_[True, np.diff(task) > 0]), axis=0)
        share = weights * np.exp(total - total.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        mean = (share @ theta).mean(axis=0)
        before, covariance = covariance, np.einsum("jg,ga,gb->ab", share, theta - mean, theta - mean) / n_tasks
        if abs(covariance - before).max() < 1e-4:
            break
    return np.diagonal(covariance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rows", "rate"),
    [
        ("binary", 5, 0.4),
        ("binary", 20, 0.4),
        pytest.param("binary", 20, 0.05, marks=pytest.mark.slow),
        ("count", 5, 1.0),
    ],
)
def test_variances_are_within_a_quarter_of_exact_ones(kind, rows, rate):
    # Both see the same rows, so what differs is the method: sites instead of the likelihood, and the penalties. Means
    # over four tables: single ones differ a little more.
    ours, exact = [], []
    for seed in range(4):
        task, X, y = table(kind, 200, rows, rate, seed)
        estimate = estimate_family_prior(
            task=task, arm=np.zeros_like(task), context=X, reward=y, n_tasks=200, n_arms=1, rewards=kind
        )
        assert estimate.report.converged
        ours.append(np.diagonal(estimate.prior.covariance[0]))
        exact.append(exact_variances(kind, task, X, y, 200))
    assert_allclose(np.mean(ours, axis=0), np.mean(exact, axis=0), rtol=0.25)


def test_units_of_a_feature_do_not_matter():
    task, X, y = table("binary", 60, 10, 0.3, seed=5)
    sizes = {"task": task, "arm": np.zeros_like(task), "reward": y, "n_tasks": 60, "n_arms": 1}
    plain = estimate_family_prior(context=X, **sizes)
    scaled = estimate_family_prior(context=X * [1.0, 1000.0], **sizes)
    assert_allclose(scaled.prior.covariance[0] * [[1, 1000.0], [1000.0, 1e6]], plain.prior.covariance[0], rtol=1e-2)


def test_statistics_are_what_the_posterior_needs():
    task, X, y = table("binary", 80, 30, 0.3, seed=6)
    estimate = estimate_family_prior(
        task=task, arm=np.zeros_like(task), context=X, reward=y, n_tasks=80, n_arms=1, rewards="binary"
    )
    mean = posterior(estimate.statistics, estimate.prior).mean[0]
    believed = 1 / (1 + np.exp(-(X * mean[task]).sum(axis=1)))
    # Shrunken, so not exactly the observed share of every task, but near to it and in the same order.
    observed, fitted = np.bincount(task, y) / 30, np.bincount(task, believed) / 30
    assert np.corrcoef(observed, fitted)[0, 1] > 0.95
    assert abs(observed.mean() - fitted.mean()) < 0.02


@pytest.mark.parametrize("y", [np.zeros(40), np.ones(40)])
def test_rewards_that_are_all_the_same_leave_finite_and_wide_beliefs(y):
    task = np.repeat(np.arange(8), 5)
    estimate = estimate_family_prior(
        task=task, arm=np.zeros_like(task), context=np.ones((40, 1)), reward=y, n_tasks=8, n_arms=1
    )
    after = posterior(estimate.statistics, estimate.prior)
    logit = (2 * y[0] - 1) * after.shared_mean[0, 0]
    # 40 rewards exclude a rate of 10 %, and tell 1 % from 0.1 % only through the prior.
    assert 2.2 < logit < 12
    assert after.shared_covariance[0, 0, 0] > 0.5


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"reward": [0.0, 0.5]}, InvalidValue),
        ({"reward": [0.0]}, ShapeError),
        ({"context": [1.0, 2.0]}, ShapeError),
        ({"task": [0, 2]}, UnknownTask),
        ({"rewards": "number"}, InvalidValue),
        ({"passes": 0}, InvalidValue),
    ],
)
def test_bad_input_is_refused(change, error):
    good = {"task": [0, 1], "arm": [0, 0], "context": [[1.0], [1.0]], "reward": [0, 1], "n_tasks": 2, "n_arms": 1}
    with pytest.raises(error):
        estimate_family_prior(**{**good, **change})


def test_no_rows_leave_the_start():
    estimate = estimate_family_prior(
        task=np.zeros(0, dtype=int),
        arm=np.zeros(0, dtype=int),
        context=np.zeros((0, 2)),
        reward=[],
        n_tasks=2,
        n_arms=3,
    )
    assert estimate.report.covariance_at_start.all()
    assert np.isfinite(estimate.prior.covariance).all()
