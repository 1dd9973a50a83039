import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.engine import drift as engine
from posse.engine.commit import commit
from posse.engine.drift import (
    EVERYWHERE,
    TICKS,
    WORTH,
    Drift,
    HalfLives,
    Population,
    aged,
    predict_each,
    restarted,
    scale_sums,
    scaling,
    ticks_at,
)
from posse.engine.noticing import LARGEST_STEP, NOTHING, TASK, WORLD, Belief
from posse.families import linked_family_of
from posse.kernels.sums import Sums


def population(d=2, s2=0.5):
    covariance = np.array([[0.8, 0.3], [0.3, 0.5]])[:d, :d]
    return Population(np.array([0.4, -0.2])[:d], covariance, s2)


def test_ageing_twice_is_ageing_once():
    counts = np.array([0.3, 7.0, 5000.0])
    once = aged(counts, 3.0, 2.0) * counts
    twice = aged(counts, 1.0, 2.0) * counts
    twice = aged(twice, 2.0, 2.0) * twice
    assert_allclose(twice, once, rtol=1e-13)


def test_ageing_is_that_of_a_coefficient_that_returns_to_its_population():
    # One coefficient: its data's precision after a time is what is left when the belief has diffused.
    elapsed, half_life, counts = 1.5, 4.0, np.array([9.0])
    r, precision = 2.0 ** (-elapsed / half_life), WORTH * 9.0
    variance = r**2 / (1.0 + precision) + 1.0 - r**2
    assert_allclose(WORTH * counts * aged(counts, elapsed, half_life), 1.0 / variance - 1.0)


def test_what_old_rewards_are_worth_is_bounded_and_never_negative():
    counts = np.array([1e12, 1e-12, 0.0])
    left = counts * aged(counts, 1.0, 16.0)
    assert left[0] < 60
    assert_allclose(left[1:], counts[1:])  # too little to be aged any more
    assert_allclose(aged(np.array([5.0]), 1e9, 1.0), 0.0)
    assert_allclose(aged(np.array([5.0]), 1e9, math.inf), 1.0)


def test_a_restart_leaves_little_and_adds_nothing():
    counts = np.array([1e6, 3.0, 1e-3])
    assert_allclose(counts * restarted(counts), [engine.RESTART, engine.RESTART, 1e-3])


@pytest.mark.parametrize(("packed", "as_steps"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("rows", [None, np.array([2, 0])])
def test_what_has_faded_away_counts_as_never_met(packed, as_steps, rows):
    gram = np.tile([[4.0, 1e-8, 1.0], [1e-8, 1e-7, 2e-8], [1.0, 2e-8, 9.0]], (3, 1, 1))
    moment = np.tile([1.0, 1e-6, 2.0], (3, 1))
    upper = np.triu_indices(3)
    stored = gram[:, upper[0], upper[1]].copy() if packed else gram.copy()
    sums = Sums(stored, moment.copy(), np.full(3, 7.0), np.full(3, 5.0))
    some = [0, 1] if rows is None else rows.tolist()
    scale = (lambda *given: commit(scaling(*given))) if as_steps else scale_sums
    scale(sums, np.array([0.5, 0.25]), np.array([1.0, 1.0, 1e9]), rows)
    for row in range(3):
        factor = dict(zip(some, (0.5, 0.25), strict=True)).get(row)
        expected = gram[row] if factor is None else factor * gram[row] * np.outer([1, 0, 0], [1, 0, 0])
        assert_allclose(sums.gram[row], expected[upper] if packed else expected)
        assert_allclose(sums.moment[row], moment[row] if factor is None else factor * moment[row] * [1, 0, 0])
        assert_allclose([sums.sum_of_squares[row], sums.counts[row]], np.array([7.0, 5.0]) * (factor or 1.0))


def test_predictions_are_those_of_the_posterior():
    rng = np.random.default_rng(3)
    X, y, x, p = rng.normal(size=(7, 2)), rng.normal(size=7), np.array([0.7, -1.3]), population()
    mean, variance = predict_each((X.T @ X)[None], (X.T @ y)[None], x, p)
    covariance = np.linalg.inv(np.linalg.inv(p.covariance) + X.T @ X / p.noise_variance)
    expected = covariance @ (np.linalg.solve(p.covariance, p.mean) + X.T @ y / p.noise_variance)
    assert_allclose(mean, x @ expected)
    assert_allclose(variance, x @ covariance @ x)


@pytest.mark.parametrize(("half_life", "expected"), [(math.inf, {math.inf}), (50.0, {25.0, 50.0, 100.0})])
def test_the_half_life_under_which_rewards_were_drawn_is_found(half_life, expected):
    # 10 tasks, 1,000 rewards each: true and other half-lives differ by dozens of nats. A reward is worth what ageing
    # takes it to be worth: the mean variance of a coefficient over that of the noise.
    s2 = 0.65 / WORTH
    rng, p = np.random.default_rng(5), population(s2=s2)
    root = np.linalg.cholesky(p.covariance)
    drift = Drift(None, [12.5, 25.0, 50.0, 100.0, 200.0], n_arms=1, n_features=2)
    deviation = rng.normal(size=(10, 2)) @ root.T
    for step in range(1000):
        r = 2.0 ** (-1.0 / half_life)
        deviation = r * deviation + math.sqrt(1 - r * r) * rng.normal(size=(10, 2)) @ root.T
        for task in range(10):
            x = rng.normal(size=2)
            reward = float(x @ (p.mean + deviation[task]) + math.sqrt(s2) * rng.normal())
            drift.half_lives.learn(float(step), task, 0, x, reward, p)
        drift.use(drift.best_half_life(), float(step))
    assert drift.half_life in expected


def notice(drift, rewards, tasks, mean=0.0, sd=0.1):
    """Return what each reward shows, where every task is believed to pay ``mean``."""
    p = population()
    x = np.array([1.0, 0.0])
    belief = Belief(mean, sd, mean, math.sqrt(0.8))
    return [
        drift.note(float(step), task, 0, x, float(reward), belief, p)
        for step, (task, reward) in enumerate(zip(tasks, rewards, strict=True))
    ]


def new_drift():
    return Drift(None, [100.0], n_arms=1, n_features=2)


def test_a_task_that_jumps_is_noticed_and_the_others_are_left_alone():
    rng = np.random.default_rng(0)
    drift, tasks = new_drift(), np.tile(np.arange(20), 30)
    rewards = math.sqrt(0.5) * rng.normal(size=tasks.size)
    rewards[tasks == 3] += 2.5
    found = notice(drift, rewards, tasks.tolist())
    assert WORLD not in found
    assert {change.task for change in drift.changes} == {3}
    assert drift.changes[0].time < 20 * 15


def test_a_jump_of_all_tasks_is_noticed_within_a_few_dozen_rewards():
    rng = np.random.default_rng(1)
    drift, tasks = new_drift(), rng.integers(20, size=60)
    rewards = np.where(rng.random(60) < 0.5, 2.0, -2.0) + math.sqrt(0.5) * rng.normal(size=60)
    found = notice(drift, rewards, tasks.tolist())
    assert found.index(WORLD) < 36
    assert drift.changes[0].task == EVERYWHERE
    assert found[: found.index(WORLD)].count(TASK) == 0


def test_a_change_may_be_reported_without_being_applied():
    drift = new_drift()
    p, x, belief = population(), np.array([1.0, 0.0]), Belief(0.0, 0.1, 0.0, 0.9)
    found = [drift.note(1.0, 0, 0, x, 3.0, belief, p, defer=True) for _ in range(12)]
    assert TASK in found
    assert drift.changes == []
    drift.restart(5.0, 0)
    assert drift.changes == [(5.0, 0)]
    assert drift.half_lives.counts.max() <= engine.RESTART


def test_nothing_is_noticed_where_nothing_changes():
    # 20 tasks, 4,000 rewards; by Wald a sum reaches 10 from a new low with a probability of 1 in 22,000 at most.
    rng = np.random.default_rng(2)
    drift, tasks = new_drift(), rng.integers(20, size=4000)
    found = notice(drift, math.sqrt(0.51) * rng.normal(size=4000), tasks.tolist())
    assert set(found) == {NOTHING}


def test_one_outlier_is_no_change():
    drift = new_drift()
    assert notice(drift, [0.0, 1e6, 0.0], [0, 0, 0]) == [NOTHING] * 3
    assert max(drift.detectors["other"].task_sums.values(), default=0.0) <= LARGEST_STEP


def test_a_task_that_is_forgotten_leaves_nothing():
    drift = new_drift()
    notice(drift, [3.0, 3.0, 3.0], [4, 4, 5])
    commit(drift.forgetting([4]))
    for detector in drift.detectors.values():
        assert 4 not in detector.task_sums
        assert 4 not in detector.world_shares
    assert set(drift.half_lives.tasks) == {5}
    notice(drift, [1.0], [6])  # takes the place
    assert len(set(drift.half_lives.pairs.values())) == 2


def test_sums_under_every_half_life_fit_in_bounded_memory():
    many = HalfLives([math.inf] * 9, n_arms=1000, n_features=30)
    assert many.n_tasks == 1
    some = HalfLives([math.inf] * 9, n_arms=5, n_features=10)
    assert some.n_tasks == engine.WATCHED


def test_ageing_is_due_every_sixteenth_of_a_half_life_and_never_before_the_first_reward():
    drift = Drift(32.0, [], n_arms=1, n_features=1)
    assert [drift.elapsed(now) for now in (100.0, 101.0, 102.0, 103.0, 110.0, 50.0, 112.0)] == [0, 0, 2, 0, 8, 0, 2]


def test_the_time_of_a_tick_is_at_that_tick():
    half_life = 86.4  # a sixteenth of it has no exact number
    drift = Drift(half_life, [], 1, 1)
    for number in range(1, 3000):
        at = number * half_life / TICKS
        assert drift.passed(at)[1] == at
        assert ticks_at(np.array([at, at + 0.1]), half_life / TICKS).tolist() == [number, number]


# Clicks and counts.


def new_linked_drift(family, candidates=(100.0,)):
    return Drift(None, candidates, n_arms=1, n_features=2, family=linked_family_of(family))


def drawn(rng, family, predictor):
    mean = linked_family_of(family).mean_of(predictor)
    return (rng.random(mean.shape) < mean).astype(float) if family == "binary" else rng.poisson(mean).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize(("half_life", "expected"), [(math.inf, {math.inf}), (50.0, {25.0, 50.0, 100.0})])
def test_the_half_life_under_which_clicks_were_drawn_is_found(family, half_life, expected):
    # A click says little: tasks that differ by 2 on the scale of the predictor, 10 of them with 600 rewards each.
    rng, p = np.random.default_rng(5), Population(np.array([-0.5, 0.3]), np.diag([4.0, 1.0]), 1.0)
    if family == "count":
        p = Population(np.array([0.2, 0.1]), np.diag([0.5, 0.2]), 1.0)
    root = np.linalg.cholesky(p.covariance)
    drift = new_linked_drift(family, [12.5, 25.0, 50.0, 100.0, 200.0])
    deviation = rng.normal(size=(10, 2)) @ root.T
    for step in range(600):
        r = 2.0 ** (-1.0 / half_life)
        deviation = r * deviation + math.sqrt(1 - r * r) * rng.normal(size=(10, 2)) @ root.T
        contexts = rng.normal(size=(10, 2)) * [0, 1] + [1, 0]
        rewards = drawn(rng, family, (contexts * (p.mean + deviation)).sum(axis=1))
        for task in range(10):
            drift.half_lives.learn(float(step), task, 0, contexts[task], float(rewards[task]), p)
        drift.use(drift.best_half_life(), float(step))
    assert drift.half_life in expected


def notice_linked(drift, family, predictors, tasks, seed=0, mean=-1.0, sd=0.2):
    """Return what each reward shows, where every task is believed to have the predictor ``mean``."""
    rewards = drawn(np.random.default_rng(seed), family, np.asarray(predictors, dtype=float))
    p, x, belief = Population(np.array([mean, 0.0]), np.eye(2), 1.0), np.array([1.0, 0.0]), Belief(mean, sd, mean, 1.0)
    return [
        drift.note(float(step), task, 0, x, float(reward), belief, p)
        for step, (task, reward) in enumerate(zip(tasks, rewards, strict=True))
    ]


@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("by", [-2.5, 2.0])
def test_a_task_whose_clicks_change_is_noticed_and_the_others_are_left_alone(family, by):
    drift, tasks = new_linked_drift(family), np.tile(np.arange(20), 100)
    found = notice_linked(drift, family, np.where(tasks == 3, -1.0 + by, -1.0), tasks.tolist())
    assert WORLD not in found
    assert {change.task for change in drift.changes} == {3}
    # A click where one in four was expected says 0.3 nats at most, and 8 are asked for.
    assert drift.changes[0].time < 20 * 60


@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("by", [-2.0, 1.5])
def test_a_change_of_all_clicks_is_noticed(family, by):
    rng = np.random.default_rng(1)
    drift, tasks = new_linked_drift(family), rng.integers(50, size=400)
    found = notice_linked(drift, family, np.full(400, -1.0 + by), tasks.tolist())
    assert found.index(WORLD) < 150
    assert drift.changes[0].task == EVERYWHERE
    assert found[: found.index(WORLD)].count(TASK) == 0


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("off", [-0.1, 0.0, 0.1])
@pytest.mark.parametrize("mean", [-4.0, -1.0])
def test_clicks_that_are_predicted_a_little_wrong_are_no_change(family, off, mean):
    # Sums fall as long as it is less than half of a shift, which is 1 for all tasks, and 1.5 for one of them. Where
    # predictions are right, one of 4,000 rewards reaches 10.5 with a probability of 0.1 at most; 0.1 off, 0.4 or so.
    rng = np.random.default_rng(2)
    drift, tasks = new_linked_drift(family), rng.integers(20, size=4000)
    found = notice_linked(drift, family, np.full(4000, mean + off), tasks.tolist(), mean=mean, seed=4)
    assert WORLD not in found
    assert found.count(TASK) <= (1 if off else 0)


def test_one_huge_count_is_no_change():
    drift = new_linked_drift("count")
    p, x, belief = population(), np.array([1.0, 0.0]), Belief(0.0, 0.3, 0.0, 1.0)
    found = [drift.note(float(step), 0, 0, x, count, belief, p) for step, count in enumerate([1.0, 1e9, 2.0])]
    assert found == [NOTHING] * 3
    assert max(detector.world_sum for detector in drift.detectors.values()) <= 2 * LARGEST_STEP
    assert np.isfinite(drift.half_lives.score).all()
    assert np.isfinite(drift.half_lives.gram).all()


def test_a_task_of_which_nothing_is_known_cannot_have_changed():
    drift = new_linked_drift("binary")
    p, x = population(), np.array([1.0, 0.0])
    for mean, sd, noticed in ((3.0, 1.0, False), (3.0, 0.3, True)):
        for step in range(12):
            drift.note(float(step), 7, 0, x, 0.0, Belief(mean, sd, mean, 1.0), p)
        assert bool(drift.changes) == noticed
