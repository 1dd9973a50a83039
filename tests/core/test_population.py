"""The population, and what follows from it exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.core.core import Core
from posse.core.population import frame_of
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.errors import NotFinite
from posse.families import family_of
from posse.model import Prior, Statistics, posterior

K, N, D = 3, 8, 3
STEPS = [(3, 0.2), (30, 1e-2), (0, 0.2)]
KINDS = ["one", "few", "plenty", "zeros", "absent feature", "absent arm", "constant arm", "intercept"]
Rows = tuple[Any, Any, Any, Any]


def new_core(family: str = "number", n_arms: int = K, d: int = D, n_tasks: int = N, **settings: Any) -> Core:
    core = Core(n_arms, d, family=family_of(family), rule=Rule(RANDOMISED.scaled(0.4), 0.0, 0.0), **settings)
    core.take_tasks(core.reserve_tasks(n_tasks))
    return core


def learn(core: Core, rows: Rows) -> None:
    """Learn rows without an estimate; slots are taken in the order of first rewards."""
    for task, arm in zip(rows[0], rows[1], strict=True):
        core.prepare(np.array([task]), np.array([arm]))
    core.learn_rows(*rows, np.zeros(rows[0].size), estimate=False)


def world(kind: str, seed: int = 0, d: int = D, n_tasks: int = N, n: int = 120) -> Rows:
    """Return rows of a kind that takes its own way through an estimate."""
    rng = np.random.default_rng([seed, d])
    n = {"few": K - 1, "one": 1}.get(kind, n)
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(K, size=n)
    X = rng.normal(size=(n, d)) * np.array([1.0, 3.0, 0.2, 1.5, 0.7])[:d]
    if kind == "intercept":
        X += 20.0
        X[:, 0] = 1.0
    y = X @ np.array([0.5, 1.0, -2.0, 0.3, 1.1])[:d] + rng.normal(size=n)
    if kind == "zeros":
        y[:] = 0.0
    if kind == "absent feature":
        X[:, min(1, d - 1)] = 0.0
    if kind == "absent arm":
        arms %= K - 1
    if kind == "constant arm":
        y[arms == 0] = 0.0
    return tasks, arms, X, y


# While the fleet's store of before is there: the same numbers.

SAME = {
    "covariance": "covariance", "noise": "noise_variance", "prior_precision": "shared_precision",
    "prior_location": "shared_location",
}  # fmt: skip


def statistics_of(rows: Rows, n_tasks: int = N, n_arms: int = K) -> Statistics:
    task, arm, X, y = rows
    return Statistics.from_data(task=task, arm=arm, context=X, reward=y, n_tasks=n_tasks, n_arms=n_arms)


@pytest.mark.parametrize("robust", [False, True])
def test_beliefs_after_an_estimate_are_the_plain_posterior_under_its_prior(robust: bool) -> None:
    core, rows = new_core(robust=robust), world("plenty", 5)
    learn(core, rows)
    core.estimate()
    found = posterior(statistics_of(rows), core.prior, core.state.store.weight[:N])
    assert robust == bool((core.state.store.weight[:N] != 1.0).any())
    for task in range(N):
        for arm in range(K):
            mean, covariance = core.coefficients(task, arm, 0.0)
            assert_allclose(mean, found.mean[arm, task], rtol=1e-9, atol=1e-9)
            assert_allclose(covariance, found.covariance[arm, task], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", ["paper", "moments", "reml"])
def test_other_methods_are_those_of_the_model(method: str) -> None:
    from posse.model import estimate_prior

    core, rows = new_core(method=method, n_tasks=30), world("plenty", 5, n_tasks=30, n=2000)
    core.growth = 1e18
    learn(core, rows)
    start = None if method == "reml" else core.prior
    theirs = estimate_prior(statistics_of(rows, 30), method, start=start).prior  # type: ignore[arg-type]
    core.estimate()
    assert_allclose(core.prior.covariance, theirs.covariance, rtol=1e-9)
    assert_allclose(core.prior.noise_variance, theirs.noise_variance, rtol=1e-9)


def test_a_prior_that_is_given_stays_and_may_be_singular() -> None:
    covariance = np.zeros((K, D, D))
    covariance[:, 0, 0] = 0.5
    start = Prior(covariance=covariance, noise_variance=0.4, shared_precision=0.3, shared_location=0.7)
    core, rows = new_core(method="known", start=start), world("plenty", 6)
    learn(core, rows)
    core.estimate()
    found = posterior(statistics_of(rows), start)
    for task in range(N):
        mean, variance = core.coefficients(task, 1, 0.0)
        assert_allclose(mean, found.mean[1, task], rtol=1e-6, atol=1e-6)
        assert_allclose(variance, found.covariance[1, task], rtol=1e-5, atol=1e-6)
    assert_array_equal(core.prior.covariance, covariance)


def believed(core: Core, x: np.ndarray, task: int = 0) -> np.ndarray:
    out = np.empty((2, core.n_arms))
    core.predict(task, x, 0.0, np.arange(core.n_arms), out)
    return out


def test_units_and_zeros_of_features_and_rewards_do_not_matter() -> None:
    tasks, arms, X, y = world("intercept", 7, n=400)
    plain, other = new_core(), new_core()
    moved = X * np.array([1.0, 1e3, 1e-4])
    moved[:, 1] += 290.0
    learn(plain, (tasks, arms, X, y))
    learn(other, (tasks, arms, moved, 1e4 * y + 7e5))
    plain.estimate()
    other.estimate()
    x = np.array([1.0, 21.0, 19.0])
    mine, theirs = believed(plain, x), believed(other, x * [1.0, 1e3, 1e-4] + [0.0, 290.0, 0.0])
    # Seventy standard deviations are added, which takes four digits from the sums.
    assert_allclose((theirs[0] - 7e5) / 1e4, mine[0], rtol=1e-4)
    assert_allclose(theirs[1] / 1e4, mine[1], rtol=1e-3)


def test_an_estimate_that_fails_changes_nothing() -> None:
    core = new_core()
    rows = world("plenty", 8)
    learn(core, rows)
    core.estimate()
    before, saved = core.state, believed(core, np.ones(D))
    huge = rows[2].copy()
    huge[:4] *= 1e160
    learn(core, (rows[0], rows[1], huge, rows[3]))
    state = core.state
    with pytest.raises(NotFinite, match="moderate size"), np.errstate(all="ignore"):
        core.estimate()
    assert core.state is state
    assert_array_equal(core.state.population.covariance, before.population.covariance)
    assert np.isfinite(saved).all()


# Features of tasks and of arms.


def with_regions(core: Core, matter: float, seed: int = 0, n: int = 1500, n_tasks: int = 60) -> Rows:
    """Let a core know the region of tasks, one of three, and return rewards that depend on it, or do not."""
    rng = np.random.default_rng([seed, 11])
    region = rng.integers(3, size=n_tasks)
    if core.state.store.known.shape[1] > 1:
        core.know(np.arange(n_tasks), np.eye(3)[region], np.ones(n_tasks, dtype=np.bool_))
    theta = rng.normal(size=(K, D)) + matter * rng.normal(size=(3, K, D))[region]
    theta = theta + 0.3 * rng.normal(size=(n_tasks, K, D))
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(K, size=n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, D - 1))])
    return tasks, arms, X, np.einsum("ni,ni->n", X, theta[tasks, arms]) + rng.normal(size=n)


GROUPS = np.zeros(3, dtype=np.int64)


def test_features_that_say_nothing_change_no_digit() -> None:
    core, plain = new_core(n_tasks=60, n_task_features=3, task_groups=GROUPS), new_core(n_tasks=60)
    for one in (core, plain):
        learn(one, with_regions(one, 0.0))
        one.estimate()
    assert_array_equal(core.state.population.effects, [0.0])
    x = np.array([1.0, 0.4, -0.7])
    for task in (0, 7, -1):
        assert_array_equal(believed(core, x, task), believed(plain, x, task))


def test_effects_of_features_are_one_exact_regression() -> None:
    core = new_core(n_tasks=60, n_task_features=3, task_groups=GROUPS)
    task, arm, X, y = rows = with_regions(core, 0.8)
    learn(core, rows)
    core.estimate()
    population, z = core.state.population, core.state.store.known[:60]
    assert population.effects[0] > 0.1
    frame, size = frame_of(population), 4 * D
    for k in range(K):
        # All rewards of an arm at once: y = X (W z + deviation) + noise, with W ~ N.
        precision, moment = np.zeros((size, size)), np.zeros(size)
        precision[:D, :D] = population.prior_precision[k]
        moment[:D] = population.prior_precision[k] @ population.prior_location[k]
        for column in range(1, 4):
            block = slice(column * D, (column + 1) * D)
            precision[block, block] = frame.there.T @ frame.there / population.effects[0]
        for j in np.unique(task[arm == k]):
            mine = (arm == k) & (task == j)
            design = np.einsum("a,ni->nai", z[j], X[mine]).reshape(-1, size)
            omega = population.noise[k] * np.eye(mine.sum()) + X[mine] @ population.covariance[k] @ X[mine].T
            precision += design.T @ np.linalg.solve(omega, design)
            moment += design.T @ np.linalg.solve(omega, y[mine])
        covariance, shared = np.linalg.inv(precision), core.state.store.shared[k]
        assert_allclose(shared[:size], covariance, rtol=1e-8, atol=1e-12)
        assert_allclose(shared[size], covariance @ moment, rtol=1e-8, atol=1e-10)


def test_a_task_of_which_nothing_is_known_is_as_uncertain_as_the_known_ones_differ() -> None:
    core = new_core(n_tasks=61, n_task_features=3, task_groups=GROUPS)
    learn(core, with_regions(core, 0.8))
    core.estimate()
    store, x, seen = core.state.store, np.array([1.0, 0.4, -0.7]), np.unique(core.state.store.owner[:, 0])
    known = store.known[seen[(seen >= 0) & (seen < 60)]]
    assert_allclose(store.known[60], known.mean(axis=0))
    assert_array_equal(store.known[60], store.known[-1])
    effects = store.shared[:, -1, D:].reshape(K, 3, D)
    of_regions = np.cov(known[:, 1:].T, bias=True)
    mean, sd = believed(core, x, 60)
    core.know(np.array([60]), store.known[60:61, 1:], np.ones(1, dtype=np.bool_))
    same_mean, narrower = believed(core, x, 60)
    assert_allclose(mean, same_mean)
    assert_allclose(sd**2 - narrower**2, np.einsum("i,kai,ab,kbj,j->k", x, effects, of_regions, effects, x), rtol=1e-9)


def test_a_new_arm_stands_where_arms_like_it_are_and_leaves_the_others_alone() -> None:
    rng, n_arms, n = np.random.default_rng(4), 12, 3000
    features = np.arange(n_arms)[:, None] % 2 * 2.0 - 1.0
    core = new_core(n_arms=n_arms, n_tasks=20, arm_features=features)
    theta = 2.0 * features + 0.2 * rng.normal(size=(n_arms, D))
    tasks, arms = rng.integers(20, size=n), rng.integers(n_arms, size=n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, D - 1))])
    learn(core, (tasks, arms, X, np.einsum("ni,ni->n", X, theta[arms]) + 0.5 * rng.normal(size=n)))
    core.estimate()
    assert core.state.population.arm_effects[0] > 0.0
    before, x = believed(core, np.ones(D), 3), np.ones(D)
    high, low, unknown = (core.add_arm(part) for part in (np.array([1.0]), np.array([-1.0]), None))
    mean, sd = believed(core, x, 3)
    assert_array_equal(mean[:n_arms], before[0])
    assert mean[high] == pytest.approx(6.0, abs=1.0)
    assert mean[low] == pytest.approx(-6.0, abs=1.0)
    assert abs(mean[unknown]) < 1.0
    assert sd[unknown] > 4.0 * sd[high]
