"""MTTS: the posterior beside one dense regression, and the ordering of its paper's figures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, ShapeError
from posse.model import Prior
from posse.policies import MTTS, HierTS

N, K, D = 4, 2, 2
RNG = np.random.default_rng(0)
Z = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])


def some_prior():
    root = np.random.default_rng(1).normal(size=(K, D, D))
    return Prior(covariance=root @ root.transpose(0, 2, 1) + 0.2 * np.eye(D), noise_variance=[0.4, 0.9],
                 shared_precision=[[0.5, 1.5], [0.8, 0.3]])  # fmt: skip


def rows(n=40):
    return RNG.integers(N, size=n), RNG.integers(K, size=n), RNG.normal(size=(n, D)), RNG.normal(size=n)


def test_beliefs_are_those_of_one_dense_regression():
    prior, (tasks, arms, X, y) = some_prior(), rows()
    effects = RNG.normal(size=(K, 3, D))
    policy = MTTS(n_tasks=N, n_arms=K, n_features=D, task_features=Z, prior=prior, effects=effects)
    policy.update_many(tasks, arms, X, y)
    x = np.array([0.7, -1.2])
    for k in range(K):
        mine = arms == k
        # What effects give, then what every task adds of its own.
        design = np.array([np.concatenate([np.kron(Z[j], row), np.kron(np.eye(N)[j], row)])
                           for j, row in zip(tasks[mine], X[mine], strict=True)])  # fmt: skip
        precision = np.zeros((3 * D + N * D,) * 2)
        precision[: 3 * D, : 3 * D] = np.kron(np.eye(3), prior.shared_precisions[k])
        precision[3 * D :, 3 * D :] = np.kron(np.eye(N), np.linalg.inv(prior.covariance[k]))
        start = np.concatenate([effects[k].ravel(), np.zeros(N * D)])
        noise = prior.noise_variance[k]
        covariance = np.linalg.inv(precision + design.T @ design / noise)
        mean = covariance @ (precision @ start + design.T @ y[mine] / noise)
        for task in range(N):
            direction = np.concatenate([np.kron(Z[task], x), np.kron(np.eye(N)[task], x)])
            found = policy.predict(task, x)
            assert_allclose(found.mean[k], direction @ mean)
            assert_allclose(found.sd[k] ** 2, direction @ covariance @ direction)


def test_with_an_intercept_alone_it_is_hier_ts():
    prior, (tasks, arms, X, y) = some_prior(), rows()
    one = MTTS(n_tasks=N, n_arms=K, n_features=D, prior=prior)
    other = HierTS(n_tasks=N, n_arms=K, n_features=D, prior=prior)
    for policy in (one, other):
        policy.update_many(tasks, arms, X, y)
    for task in range(N):
        assert_allclose(one.predict(task, [0.3, 0.4]).mean, other.predict(task, [0.3, 0.4]).mean)
        assert_allclose(one.predict(task, [0.3, 0.4]).sd, other.predict(task, [0.3, 0.4]).sd)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="task_features to have shape"):
        MTTS(n_tasks=N, n_arms=K, n_features=D, task_features=Z[:2])
    with pytest.raises(ShapeError, match="effects to have shape"):
        MTTS(n_tasks=N, n_arms=K, n_features=D, task_features=Z, effects=np.zeros((K, 2, D)))
    with pytest.raises(InvalidValue, match="takes the population as known"):
        MTTS(n_tasks=N, n_arms=K, n_features=D, prior="evidence")
