"""A million rank-one steps without a refresh against the direct model: fleets and policies."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.model import Prior, Statistics, posterior
from posse.policies import EbmUCB

N_REWARDS, N_ARMS, N_TASKS = 1_000_000, 3, 4

# Of the size of what a mean is made of, and of a standard deviation. Rank-one steps add a rounding error each, of any
# sign: 1e6 of them lose about 1e3 units in the last place of terms that may be far larger than what is left of them.
# Measured were 1e-9 under a singular population that the rewards contradict, 1e-12 otherwise, and with features a
# thousand times apart and nearly parallel 1e-8.
BOUNDS = {"plain": 1e-8, "hard": 1e-6}


def world(kind, d):
    """Rewards of tasks that differ, far more of some than of others."""
    rng = np.random.default_rng([d, len(kind)])
    chance = np.array([0.001, 0.1, 0.3, 0.599])
    tasks, arms = rng.choice(N_TASKS, p=chance, size=N_REWARDS), rng.integers(N_ARMS, size=N_REWARDS)
    X = rng.standard_normal((N_REWARDS, d)) + 0.2
    if kind == "hard":
        X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
        X *= np.geomspace(0.03, 30.0, d)
    theta = (rng.standard_normal((N_ARMS, 1, d)) + 0.7 * rng.standard_normal((N_ARMS, N_TASKS, d))) / X.std(axis=0)
    y = np.einsum("ni,ni->n", X, theta[arms, tasks]) + 0.8 * rng.standard_normal(N_REWARDS)
    return tasks, arms, X, y


def some_prior(d, singular=False):
    rng = np.random.default_rng(d)
    root = 0.7 * rng.standard_normal((N_ARMS, d, 1 if singular else d))
    return Prior(
        covariance=root @ root.transpose(0, 2, 1) + (0.0 if singular else 0.15) * np.eye(d),
        noise_variance=np.linspace(0.4, 1.9, N_ARMS),
        shared_precision=np.linspace(0.03, 2.3, N_ARMS),
    )


def require_direct_model(rows, prior, predict, bound):
    """Means are off by less than a part of their terms, and uncertainties by a part of themselves."""
    tasks, arms, X, y = rows
    stats = Statistics.from_data(task=tasks, arm=arms, context=X, reward=y, n_tasks=N_TASKS, n_arms=N_ARMS)
    post = posterior(stats, prior)
    rng = np.random.default_rng(0)
    for task in range(N_TASKS):
        for x in X[rng.integers(len(X), size=3)]:
            mean, sd = predict(task, x)
            expected_sd = np.sqrt(np.einsum("i,kij,j->k", x, post.covariance[:, task], x))
            assert_allclose(sd, expected_sd, rtol=bound)
            size = np.abs(post.mean[:, task] * x).sum(axis=1) + expected_sd
            assert (np.abs(mean - post.mean[:, task] @ x) < bound * size).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "hard"])
@pytest.mark.parametrize("d", [3, 8])
@pytest.mark.parametrize("prior", [pytest.param("full", marks=pytest.mark.slow), "singular", "evidence"])
def test_a_fleet(prior, d, kind):
    rows = world(kind, d)
    arms = [f"a{arm}" for arm in range(N_ARMS)]
    fleet = Posse(
        arms=arms,
        features=FeatureSpec([f"x{i}" for i in range(d)], intercept=False),
        prior="evidence" if prior == "evidence" else some_prior(d, prior == "singular"),
        refresh_growth=1e12,
        seed=1,
    )
    core = fleet.core
    fleet.names.tasks.take(range(N_TASKS), core.reserve_tasks(N_TASKS))
    core.take_tasks(range(N_TASKS))
    core.learn_rows(*rows, 0.0)
    assert core.version <= 1  # that of the first reward

    def predict(task, x):
        found = fleet.expected(task, x)
        return np.array(list(found.mean.values())), np.array(list(found.sd.values()))

    assert fleet.n_rewards == N_REWARDS
    require_direct_model(rows, fleet.prior, predict, BOUNDS[kind])


def test_a_table_of_a_million_rows_is_learned_one_by_one():
    # The same by the public road.
    rows = world("plain", 3)
    fleet = Posse(
        arms=["a0", "a1", "a2"],
        features=FeatureSpec(["x0", "x1", "x2"], intercept=False),
        refresh_growth=1e12,
        seed=1,
    )
    columns = {f"x{i}": rows[2][:, i] for i in range(3)}
    frame = pl.DataFrame({"task": rows[0], "reward": rows[3]} | columns).with_columns(
        arm=pl.Series(["a0", "a1", "a2"])[pl.Series(rows[1])]
    )
    fleet.learn_many(frame.head(10))
    refreshed = fleet.core.version
    fleet.learn_many(frame.tail(-10))
    assert fleet.core.version == refreshed

    def predict(task, x):
        found = fleet.expected(task, x)
        return np.array(list(found.mean.values())), np.array(list(found.sd.values()))

    require_direct_model(rows, fleet.prior, predict, BOUNDS["plain"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "hard"])
@pytest.mark.parametrize("d", [3, 8])
def test_a_policy_that_is_never_refreshed(d, kind):
    rows = world(kind, d)
    mine = EbmUCB(n_tasks=N_TASKS, n_arms=N_ARMS, n_features=d, prior="evidence", refresh_growth=1e12)
    mine.update_many(*(column[:1] for column in rows))  # the only refresh there will be: growth by so much never comes
    prior = mine.prior
    mine.update_many(*(column[1:] for column in rows))

    def predict(task, x):
        found = mine.predict(task, x)
        return found.mean, found.sd

    assert mine.prior.covariance.tobytes() == prior.covariance.tobytes()
    require_direct_model(rows, prior, predict, BOUNDS[kind])


@pytest.mark.parametrize("singular", [False, True])
def test_a_policy_that_knows_the_population(singular):
    # It is rebuilt each time rewards have doubled, which bounds what rounding may gather.
    rows, prior = world("hard", 8), some_prior(8, singular)
    mine = EbmUCB(n_tasks=N_TASKS, n_arms=N_ARMS, n_features=8, prior=prior)
    mine.update_many(*rows)

    def predict(task, x):
        found = mine.predict(task, x)
        return found.mean, found.sd

    # The precision of a singular prior is all but infinite in some directions, which costs digits.
    require_direct_model(rows, prior, predict, 1e-2 if singular else BOUNDS["hard"])
