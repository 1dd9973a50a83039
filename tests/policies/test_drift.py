import copy
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.core.forgetting import shares_left
from posse.environments import SyntheticWorld
from posse.environments.base import POLICY, stream
from posse.errors import InvalidValue
from posse.model import Prior, Statistics
from posse.offline import Learned
from posse.policies import EbmRandUCB, EbmTS, EbmUCB

SHAPE = {"n_tasks": 6, "n_arms": 2, "n_features": 2}


def regret(world, policy, seed, horizon):
    draw = world.draw(seed, horizon)
    arms = policy.play(draw.tasks, draw.contexts, draw.rewards, stream(seed, POLICY)).arms
    return float((draw.expected.max(axis=1) - draw.expected[np.arange(horizon), arms]).sum())


def known():
    return Prior(covariance=np.tile([[0.6, 0.2], [0.2, 0.9]], (2, 1, 1)), noise_variance=0.7, shared_precision=0.5)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    tasks, arms = rng.integers(6, size=n), rng.integers(2, size=n)
    return tasks, arms, rng.normal(size=(n, 2)), rng.normal(size=n)


def test_with_a_half_life_old_rewards_count_less():
    """Every pair is aged from one of its rewards to the next, and to the end: ageing composes."""
    policy = EbmUCB(**SHAPE, prior=known(), drift=80.0)
    stats, last = Statistics.zeros(**SHAPE), np.zeros((2, 6))

    def age(now, arm=slice(None), task=slice(None)):
        left = shares_left(stats.count[arm, task], (now - last[arm, task]) / 80.0)
        for field in stats.sums:
            field[arm, task] *= left.reshape(*left.shape, *[1] * (field.ndim - 2))
        last[arm, task] = now

    for step, (task, arm, x, y) in enumerate(zip(*rows(50), strict=True), start=1):
        policy.update(int(task), int(arm), x, float(y))
        age(step, slice(arm, arm + 1), slice(task, task + 1))
        stats = stats + Statistics.from_data(task=[task], arm=[arm], context=[x], reward=[y], n_tasks=6, n_arms=2)
    age(50)
    found = policy.statistics
    assert found.count.sum() < 50
    for ours, theirs in zip(found.sums, stats.sums, strict=True):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_vast_half_life_changes_nothing():
    with_drift, without = (EbmUCB(**SHAPE, prior="evidence", drift=drift) for drift in (1e18, None))
    with_drift.update_many(*rows(200))
    without.update_many(*rows(200))
    assert_allclose(with_drift.predict(2, [0.3, 1.0]).mean, without.predict(2, [0.3, 1.0]).mean, rtol=1e-9)


@pytest.mark.parametrize("drift", [60.0, "learn"])
@pytest.mark.parametrize("policy", [EbmUCB, EbmTS, EbmRandUCB])
def test_playing_is_choosing_and_updating_in_turn(policy, drift):
    draw = SyntheticWorld(**SHAPE, change_every=100, population_moves=True).draw(1, 240)
    one, two = (policy(**SHAPE, prior="evidence", drift=drift) for _ in range(2))
    played = one.play(draw.tasks, draw.contexts, draw.rewards, stream(1, POLICY), everywhere=True)
    draws = stream(1, POLICY).standard_normal((240, 2))
    for t in range(240):
        task, x = int(draw.tasks[t]), draw.contexts[t]
        arm = two._choose(task, x, t + 1, draws[t])
        assert (arm, arm) == (played.arms[t], played.everywhere[t, task])
        two.update(task, arm, x, float(draw.rewards[t, arm]))
    assert (one.half_life, one.changes) == (two.half_life, two.changes)


def test_a_copy_goes_on_as_the_original():
    policy = EbmUCB(**SHAPE, prior="evidence", drift="learn")
    policy.update_many(*rows(150))
    twin = copy.deepcopy(policy)
    for one in (policy, twin):
        one.update_many(*rows(150, seed=1))
    assert_array_equal(policy.predict(1, [1.0, 2.0]).mean, twin.predict(1, [1.0, 2.0]).mean)
    assert_array_equal(policy.statistics.count, twin.statistics.count)


def test_a_change_of_everything_is_noticed_and_recovered_from():
    """Regret after a change of everything is near that before it; without drift it is several times as much."""
    world = SyntheticWorld(n_tasks=12, n_arms=3, n_features=2, change_every=1200, population_moves=True)
    learned, without = [], []
    for seed in (0, 1):
        policy = EbmUCB(n_tasks=12, n_arms=3, n_features=2, prior="evidence", drift="learn")
        learned.append(regret(world, policy, seed, 2400))
        without.append(regret(world, EbmUCB(n_tasks=12, n_arms=3, n_features=2, prior="evidence"), seed, 2400))
        everywhere = [step for step, task in policy.changes if task is None]
        assert len(everywhere) == 1
        assert 1200 < everywhere[0] < 1250
    assert sum(learned) < 0.4 * sum(without)


def test_drift_is_learned_where_there_is_some_and_only_there():
    # 10 tasks, 2,400 steps: a half-life of 60 visits, and none.
    half_lives = []
    for settings in ({"half_life": 600.0}, {}):
        policy = EbmUCB(n_tasks=10, n_arms=3, n_features=2, prior="evidence", drift="learn")
        regret(SyntheticWorld(n_tasks=10, n_arms=3, n_features=2, **settings), policy, 2, 2400)
        half_lives.append(policy.half_life)
    assert 250 <= half_lives[0] <= 2000
    assert half_lives[1] == math.inf


def test_sums_never_wind_up():
    """A direction that is seen once and never again fades to the population, and nothing fails."""
    policy = EbmUCB(**SHAPE, prior="evidence", drift=10.0)
    tasks, arms, contexts, rewards = rows(3000)
    contexts[100:, 1] = 0.0
    policy.update_many(tasks, arms, contexts, rewards)
    assert (policy.statistics.count > 0).all()
    believed = policy.predict(0, [1.0, 1.0])
    assert np.isfinite(believed.mean).all()
    assert np.isfinite(believed.sd).all()
    assert believed.sd.max() < 2.0 * policy.predict(0, [0.0, 1.0]).sd.max() + policy.predict(0, [1.0, 0.0]).sd.max()


@pytest.mark.parametrize("drift", [40.0, "learn"])
def test_values_of_any_size_are_learned(drift):
    policy = EbmUCB(**SHAPE, prior="evidence", drift=drift)
    tasks, arms, contexts, rewards = rows(120)
    policy.update_many(tasks, arms, contexts, rewards)
    for size in (1e10, 1e20, 1e49):
        policy.update(0, 0, [size, 1.0], -size)
        policy.update(1, 1, [1.0, 1.0], size)
    policy.update_many(tasks, arms, contexts, rewards)
    assert np.isfinite(policy.statistics.count).all()
    assert policy.choose(2, [1.0, 1.0], 300, np.random.default_rng(0)) in (0, 1)


@pytest.mark.parametrize("drift", ["learned", 0, -1.0, math.nan, math.inf, [3]])
def test_what_is_no_half_life_is_refused(drift):
    with pytest.raises(InvalidValue):
        EbmUCB(**SHAPE, drift=drift)


def test_a_learned_target_has_no_drift():
    with pytest.raises(InvalidValue, match="Replay"):
        Learned("ebm-ucb", drift="learn")


def test_words():
    assert "drift learned" in EbmUCB(**SHAPE, drift="learn").describe()
    assert "half-life 500 steps" in EbmUCB(**SHAPE, drift=500).describe()
    assert EbmUCB(**SHAPE).half_life == math.inf
    assert EbmUCB(**SHAPE).changes == []


# Clicks and counts.


def click_rows(n, seed=0, rewards="binary"):
    rng = np.random.default_rng([seed, 3])
    tasks, arms = rng.integers(SHAPE["n_tasks"], size=n), rng.integers(SHAPE["n_arms"], size=n)
    contexts = np.column_stack([np.ones(n), rng.normal(size=(n, SHAPE["n_features"] - 1))])
    values = (rng.random(n) < 0.3) if rewards == "binary" else rng.poisson(1.5, size=n)
    return tasks, arms, contexts, values.astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_old_clicks_of_a_policy_count_less(rewards):
    policy, without = (EbmUCB(**SHAPE, rewards=rewards, drift=drift) for drift in (120.0, None))
    for one in (policy, without):
        one.update_many(*click_rows(150, rewards=rewards))
    assert 20 < policy.statistics.count.sum() < 140
    assert without.statistics.count.sum() == 150


@pytest.mark.slow
def test_a_half_life_without_end_forgets_no_clicks():
    with_drift, without = (EbmUCB(**SHAPE, rewards="binary", drift=drift) for drift in (1e18, None))
    for policy in (with_drift, without):
        policy.update_many(*click_rows(200))
    assert_allclose(with_drift.predict(2, np.ones(SHAPE["n_features"])).mean,
                    without.predict(2, np.ones(SHAPE["n_features"])).mean, rtol=1e-12)  # fmt: skip
    assert (without.half_life, without.changes) == (math.inf, [])


@pytest.mark.slow
def test_a_policy_of_clicks_notices_a_swap_and_recovers():
    """Two arms swap their rates half way: regret after that, against a policy that never forgets."""
    rng = np.random.default_rng(4)
    tasks, contexts, uniform = rng.integers(10, size=3000), np.ones((3000, 1)), rng.random((3000, 1))
    rates = np.where(np.arange(3000)[:, None] < 1500, [0.4, 0.1], [0.1, 0.4])
    regret = {}
    for drift in (None, "learn"):
        policy = EbmUCB(n_tasks=10, n_arms=2, n_features=1, rewards="binary", drift=drift)
        arms = policy.play(tasks, contexts, (uniform < rates).astype(float), np.random.default_rng(1)).arms
        regret[drift] = (0.4 - rates[np.arange(3000), arms])[1500:].sum()
        noticed = policy.changes
    assert [task for _, task in noticed] == [None]
    assert 1500 < noticed[0][0] < 1650
    assert regret["learn"] < 0.3 * regret[None]
    assert "drift learned" in policy.describe()
