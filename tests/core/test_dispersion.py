"""Counts that scatter more than Poisson's: sites, how the dispersion is learned, and what follows from it."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from posse import Posse
from posse.core import dispersion as dispersions
from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse.families import linked_family_of
from posse.families.links import predicted
from posse.families.sites import COUNT, site

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
NAMES = ["a", "b", "c"]


def log_likelihood(y, eta, a):
    r = 1 / a
    return gammaln(y + r) - gammaln(r) - (y + r) * np.log1p(a * np.exp(eta)) + y * (np.log(a) + eta)


@pytest.mark.parametrize("a", [0.02, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("y", [0.0, 1.0, 7.0, 200.0])
@pytest.mark.parametrize(("m", "v"), [(0.3, 0.05), (-2.0, 1.0), (3.0, 0.4)])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_a_site_is_the_best_gaussian_in_the_variational_sense(y, a, m, v, weight):
    w, h = site(COUNT, y, weight, m, v, a)
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    at = e + np.sqrt(q) * NODES
    share = a * np.exp(at) / (1 + a * np.exp(at))
    score, information = weight * (y - (y + 1 / a) * share), weight * (y + 1 / a) * share * (1 - share)
    assert_allclose(1 / v + WEIGHTS @ information, 1 / q, rtol=2e-4)
    assert abs(m + v * (WEIGHTS @ score) - e) < 2e-3 * np.sqrt(v)


@pytest.mark.parametrize("y", [0.0, 3.0, 50.0])
def test_without_dispersion_counts_are_those_of_poisson(y):
    plain = site(COUNT, y, 1.0, 0.5, 0.3, 0.0)
    for a in (1e-2, 1e-3, 1e-4, 1e-5, 1e-7):
        assert_allclose(site(COUNT, y, 1.0, 0.5, 0.3, a), plain, rtol=3e-4 + (y + 4.0) * a)


@pytest.mark.parametrize("a", [0.1, 2.0])
def test_predictions_know_it_as_well(a):
    family = linked_family_of("count")
    for y in (0.0, 2.0, 30.0):
        found = predicted(family, y, np.array([0.4]), np.array([0.2]), a).log_likelihood
        more = predicted(family, y, np.array([0.9]), np.array([0.2]), a).log_likelihood
        eta = np.sqrt(0.2) * NODES
        truth = [np.log(WEIGHTS @ np.exp(log_likelihood(y, mean + eta, a))) for mean in (0.4, 0.9)]
        assert_allclose(more - found, truth[1] - truth[0], atol=1e-4)


def test_slopes_are_those_of_the_expected_likelihood():
    rng = np.random.default_rng(0)
    y, weight = rng.poisson(3.0 * rng.gamma(0.5, 2.0, 300)).astype(float), rng.random(300)
    eta = (1.0 + 0.3 * rng.normal(size=300))[:, None] + 0.2 * dispersions.NODES
    values, places = np.unique(y, return_inverse=True)
    seen = dispersions.Seen(y, weight, np.exp(eta), 3.0, values, np.bincount(places, weight))

    def total(t):
        return weight @ log_likelihood(y[:, None], eta, np.exp(t)) @ dispersions.WEIGHTS

    for t in (-1.0, 0.5, 2.0):
        slope, falls = dispersions.slopes(float(np.exp(t)), seen)
        assert_allclose(slope, (total(t + 1e-4) - total(t - 1e-4)) / 2e-4, rtol=1e-6)
        assert_allclose(falls, -(total(t + 1e-3) + total(t - 1e-3) - 2 * total(t)) / 1e-6, rtol=1e-3)


def table_of(seed, spread, n=4000, n_tasks=20, rate=1.0):
    """Return a random table of counts with variance m + spread m^2 (of every arm), and their coefficients."""
    rng = np.random.default_rng([seed, 77])
    spread = np.broadcast_to(np.asarray(spread, dtype=float), 4)
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(4, size=n)
    coefficients = 0.3 * rng.normal(size=(4, 1, 4)) + 0.2 * rng.normal(size=(4, n_tasks, 4))
    coefficients[:, :, 0] += np.log(rate)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    mean, a = np.exp(np.einsum("ni,ni->n", X, coefficients[arms, tasks])), spread[arms]
    rates = np.where(a > 0, rng.gamma(1 / np.maximum(a, 1e-9), np.maximum(a, 1e-9) * mean), mean)
    columns = {name: X[:, 1 + place] for place, name in enumerate(NAMES)}
    return pl.DataFrame({"task": tasks, "arm": arms, **columns, "reward": rng.poisson(rates)}), coefficients


def fleet_of(table, **settings):
    fleet = Posse([0, 1, 2, 3], NAMES, rewards="count", seed=0, **settings)
    fleet.learn_many(table)
    return fleet


def learned(fleet):
    return fleet.core.state.population.dispersion


def held(fleet, coefficients):
    """Return how often 90 % intervals of all arms hold the truth."""
    rng, holds, out = np.random.default_rng(5), [], np.empty((2, 4))
    for task in range(coefficients.shape[1]):
        for x in np.column_stack([np.ones(25), rng.normal(size=(25, 3))]):
            fleet.core.predict(fleet.names.tasks.numbers[task], x, 0.0, np.arange(4), out)
            holds.append(np.abs(out[0] - coefficients[:, task] @ x) < 1.645 * out[1])
    return np.mean(holds)


def test_the_dispersion_is_learned_and_intervals_hold():
    shares = []
    for seed in range(4):
        table, coefficients = table_of(seed, 2.0)
        fleet = fleet_of(table)
        assert ((learned(fleet) > 1.5) & (learned(fleet) < 2.6)).all()
        assert any("scatter more than Poisson" in found for found in fleet.findings())
        shares.append(held(fleet, coefficients))
    assert 0.84 < np.mean(shares) < 0.95


def test_counts_of_poisson_have_next_to_none_and_no_finding():
    shares = []
    for seed in range(4):
        table, coefficients = table_of(seed, 0.0, rate=0.4)
        fleet = fleet_of(table)
        assert (learned(fleet) < 0.1).all()
        assert fleet.findings() == []
        shares.append(held(fleet, coefficients))
    assert 0.84 < np.mean(shares) < 0.95


def test_an_arm_unlike_the_others_is_let_go():
    table, _ = table_of(3, [2.0, 2.0, 2.0, 0.05], rate=2.0)
    found = learned(fleet_of(table))
    assert (found[:3] > 1.4).all()
    assert found[3] < 0.2


def test_arms_with_few_counts_are_like_the_others():
    table, _ = table_of(2, 2.0)
    few = pl.concat([table.filter(pl.col("arm") < 3), table.filter(pl.col("arm") == 3).head(10)])
    fleet = fleet_of(few)
    assert 1.2 < learned(fleet)[3] < 3.0
    fleet.add_arm(4)
    assert_allclose(learned(fleet)[4], np.exp(np.median(np.log(learned(fleet)[:4]))))


def test_it_is_saved_and_merged(tmp_path):
    table, _ = table_of(1, 2.0)
    one = fleet_of(table[:2000])
    one.save(tmp_path / "fleet.posse")
    again = Posse.load(tmp_path / "fleet.posse")
    assert (learned(again) == learned(one)).all()
    context = dict.fromkeys(NAMES, 0.5)
    assert one.decide(3, context).propensity == again.decide(3, context).propensity
    for fleet in (one, again):
        fleet.learn_many(table[2000:2500])
    assert (learned(again) == learned(one)).all()
    other = fleet_of(table[2500:].with_columns(task=pl.col("task") + 100))
    one.merge(other)
    assert ((learned(one) > 1.5) & (learned(one) < 2.6)).all()


def test_scatter_is_not_taken_for_change(monkeypatch):
    table, _ = table_of(6, 2.0, n=2000)
    rows = table.with_columns(time=pl.int_range(2000) * 600.0)

    def half_life():
        fleet = Posse([0, 1, 2, 3], NAMES, rewards="count", seed=0, drift="learn", clock=lambda: 2000 * 600.0)
        fleet.learn_many(rows, time="time")
        assert fleet.changes == []
        return fleet.half_life

    assert half_life() is None
    monkeypatch.setattr("posse.core.population.START", 0.0)
    monkeypatch.setattr("posse.core.estimate.learn_dispersion", lambda _store, _pairs, before: (0.0 * before, 0.0))
    assert half_life() is not None  # as counts of Poisson they seem to change all the time


def test_a_world_of_such_counts():
    world = SyntheticWorld(
        n_tasks=3, n_arms=2, n_features=2, contexts="intercept", rewards="count", dispersion=2.0, shared_sd=0.2,
        heterogeneity=0.01 * np.eye(2),
    )  # fmt: skip
    draw = world.draw(0, 20_000)
    scatter = ((draw.rewards - draw.expected) ** 2).mean() / (draw.expected + 2.0 * draw.expected**2).mean()
    assert 0.9 < scatter < 1.1
    assert world.settings()["dispersion"] == 2.0
    with pytest.raises(InvalidValue, match="dispersion is of counts"):
        SyntheticWorld(dispersion=1.0)


def test_draws_of_other_worlds_are_as_they_were():
    plain = SyntheticWorld(n_tasks=3, n_arms=2, n_features=2, rewards="count", shared_sd=0.2)
    assert "dispersion" not in plain.settings()
