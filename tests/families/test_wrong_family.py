"""Rewards that are learned as numbers and look like another family are found, and numbers are not."""

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.logs import Log, check_log

FEATURES = ["a", "b", "c"]


def predictors(rng, n, n_tasks, sd):
    """Tasks, arms, contexts and predictors of rows: tasks and arms differ in all coefficients."""
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(4, size=n)
    shared, own = rng.normal(size=(4, 4)), 0.7 * rng.normal(size=(4, n_tasks, 4))
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    return tasks, arms, X[:, 1:], sd * np.einsum("ni,ni->n", X, shared[arms] + own[arms, tasks])


def clicks(rng, eta):
    return (rng.random(eta.size) < 1 / (1 + np.exp(2.5 - eta))).astype(float)


def poisson(rng, eta):
    return rng.poisson(0.8 * np.exp(eta)).astype(float)


def scattered(rng, eta):
    return rng.poisson(1.5 * np.exp(eta) * rng.gamma(0.5, 2.0, eta.size)).astype(float)


def large_counts(rng, eta):
    return rng.poisson(20.0 * np.exp(eta)).astype(float)


def revenue(rng, eta):
    bought = rng.random(eta.size) < 1 / (1 + np.exp(2.5 - eta))
    return np.where(bought, 20.0 * np.exp(0.3 * eta + 0.5 * rng.normal(size=eta.size)), 0.0)


def whole_revenue(rng, eta):
    return np.ceil(revenue(rng, eta))


def amounts(rng, eta):
    return 20.0 * np.exp(eta + 0.5 * rng.normal(size=eta.size))


def normal(rng, eta):
    return eta + rng.normal(size=eta.size)


def far_above_zero(rng, eta):
    return 20.0 + 2.0 * eta + rng.normal(size=eta.size)


def skewed(rng, eta):
    return np.maximum(8.0 + eta, 0.0) + rng.exponential(1.0, eta.size)


def stars(rng, eta):
    return np.clip(np.round(3.5 + eta + rng.normal(size=eta.size)), 1, 5)


def ten_points(rng, eta):
    return np.clip(np.round(6.5 + 2 * eta + 2 * rng.normal(size=eta.size)), 0, 10)


def rounded(rng, eta):
    return np.maximum(np.round(60.0 + 8 * eta + 9.0 * rng.normal(size=eta.size)), 0)


def margins(rng, eta):
    return revenue(rng, eta) - 0.05


WRONG = {
    clicks: "binary", poisson: "count", scattered: "count", large_counts: "count", revenue: "revenue",
    whole_revenue: "revenue", amounts: "revenue",
}  # fmt: skip
RIGHT = [normal, far_above_zero, skewed, stars, ten_points, rounded, margins]


def table_of(law, seed, n=3000, n_tasks=20):
    rng = np.random.default_rng([seed, 34])
    tasks, arms, X, eta = predictors(rng, n, n_tasks, 0.5)
    columns = {name: X[:, place] for place, name in enumerate(FEATURES)}
    return pl.DataFrame({"task": tasks, "arm": arms, **columns, "reward": law(rng, eta)})


def fleet_of(table):
    fleet = Posse([0, 1, 2, 3], FEATURES, rewards="number", seed=0)
    fleet.learn_many(table)
    return fleet


def log_of(table):
    rows = table.select("task", "arm", "reward", context=pl.struct(FEATURES), propensity=pl.lit(0.25))
    return Log(rows, rewards="number")


def said(table, fleet=None):
    """Return the families that a fleet and a check of the log recommend."""
    fleet = fleet_of(table) if fleet is None else fleet
    by_fleet = [found.split('rewards="')[1].split('"')[0] for found in fleet.findings() if 'rewards="' in found]
    by_log = [found.what_to_do.split('"')[1] for found in check_log(log_of(table)) if found.code == "reward-family"]
    return by_fleet, by_log


@pytest.mark.parametrize("law", WRONG)
def test_a_wrong_family_is_found(law):
    for seed in range(4):
        assert said(table_of(law, seed)) == ([WRONG[law]], [WRONG[law]])


@pytest.mark.parametrize("law", RIGHT)
def test_numbers_are_numbers(law):
    for seed in range(6):
        assert said(table_of(law, seed)) == ([], [])


def test_it_says_what_was_seen_and_what_would_change():
    table = table_of(clicks, 3)
    rate = table["reward"].mean()
    sentence = next(found for found in fleet_of(table).findings() if "rewards=" in found)
    assert f"all rewards are 0 or 1, {rate:.1%} of them 1" in sentence
    assert 'rewards="binary"' in sentence
    assert "probabilities" in sentence


def test_a_few_rewards_are_not_enough():
    assert said(table_of(poisson, 0, n=30)) == ([], [])


def test_what_was_corrected_forgotten_merged_and_saved_counts(tmp_path):
    table = table_of(revenue, 5)
    one, other = fleet_of(table[:2000]), fleet_of(table[2000:].with_columns(task=pl.col("task") + 100))
    decision = one.decide(1, dict.fromkeys(FEATURES, 0.0))
    one.reward(decision.id, -3.0)
    assert said(table, one)[0] == []
    one.correct(decision.id, 3.0)
    assert said(table, one)[0] == ["revenue"]
    one.merge(other)
    one.save(tmp_path / "fleet.posse")
    loaded = Posse.load(tmp_path / "fleet.posse")
    assert loaded.findings() == one.findings()
    assert said(table, loaded)[0] == ["revenue"]
    negative = table.head(1).with_columns(task=pl.lit(77), reward=pl.lit(-5.0))
    loaded.learn_many(negative)
    assert said(table, loaded)[0] == []
    loaded.forget(77)
    assert said(table, loaded)[0] == ["revenue"]


def test_old_rewards_fade_together_with_their_kinds():
    fleet = Posse([0, 1, 2, 3], FEATURES, rewards="number", seed=0, drift=3.0, clock=lambda: 4.0 * 86400)
    table = table_of(revenue, 1).with_columns(time=pl.int_range(3000) * 86.4)
    fleet.learn_many(table, time="time")
    assert fleet.n_rewards < 2500
    assert said(table, fleet)[0] == ["revenue"]
