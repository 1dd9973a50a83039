import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse.policies import OLSBandit
from posse.policies.forced import forced_arm

N, K, D = 3, 3, 2
DRAW = SyntheticWorld(n_tasks=N, n_arms=K, n_features=D, noise_sd=0.8).draw(seed=21, horizon=600)


def forced_sets(n_arms, pulls, last):
    """T_k = {(2^n - 1) K q + i : n >= 0, i = q (k - 1) + 1, ..., q k}, as a map from round to arm (from 0)."""
    forced = {}
    n = 0
    while (2**n - 1) * n_arms * pulls < last:
        for k in range(1, n_arms + 1):
            for i in range(pulls * (k - 1) + 1, pulls * k + 1):
                forced.setdefault((2**n - 1) * n_arms * pulls + i, k - 1)
        n += 1
    return forced


@pytest.mark.parametrize(("n_arms", "pulls"), [(1, 1), (2, 1), (3, 2), (5, 1), (5, 50), (7, 3)])
def test_forced_rounds_are_the_enumerated_sets(n_arms, pulls):
    last = 4_000
    forced = forced_sets(n_arms, pulls, last)
    assert [forced_arm(t, n_arms, pulls) for t in range(1, last + 1)] == [forced.get(t, -1) for t in range(1, last + 1)]


def test_each_task_is_forced_on_its_own_clock():
    forced = forced_sets(K, 2, DRAW.tasks.size)
    policy = OLSBandit(n_tasks=N, n_arms=K, n_features=D, pulls=2, start="schedule")
    arms = policy.play(DRAW.tasks, DRAW.contexts, DRAW.rewards, np.random.default_rng(0)).arms
    checked = 0
    for task in range(N):
        for clock, arm in enumerate(arms[DRAW.tasks == task], start=1):
            if clock in forced:
                assert arm == forced[clock]
                checked += 1
    assert checked > 3 * 5 * K * 2 - 1  # at least five blocks in each task


def test_the_round_robin_start_gives_every_arm_a_reward_per_feature():
    policy = OLSBandit(n_tasks=2, n_arms=3, n_features=4)
    rng = np.random.default_rng(0)
    played = policy.play(np.zeros(12, dtype=np.int64), rng.standard_normal((12, 4)), rng.standard_normal((12, 3)), rng)
    assert_array_equal(played.arms, [0, 1, 2] * 4)
    assert_array_equal(policy.statistics.count, [[4, 0]] * 3)


def fit(rows, start):
    """Least squares of one arm in one task, and what stands in for it."""
    X, y = np.array([x for x, _ in rows]).reshape(-1, D), np.array([reward for _, reward in rows])
    if len(rows) < D:
        if start == "round-robin":
            return np.zeros(D)
        if start == "ridge":
            return np.linalg.solve(X.T @ X + np.eye(D), X.T @ y)
    return np.linalg.lstsq(X, y, rcond=None)[0]


@pytest.mark.parametrize("gap", [0.2, 15.0])
@pytest.mark.parametrize(("start", "pulls"), [("round-robin", 1), ("schedule", 1), ("ridge", 1), ("schedule", 3)])
def test_decisions_are_those_of_plain_least_squares(start, pulls, gap):
    forced_at = forced_sets(K, pulls, DRAW.tasks.size)
    rng = np.random.default_rng(4)
    everything = {(arm, task): [] for arm in range(K) for task in range(N)}
    forced_only = {(arm, task): [] for arm in range(K) for task in range(N)}
    clock = np.zeros(N, dtype=int)
    expected, pruned = [], 0
    for t, (task, x) in enumerate(zip(DRAW.tasks, DRAW.contexts, strict=True)):
        draws = rng.standard_normal(K)
        clock[task] += 1
        forced = forced_at.get(clock[task])
        if start == "round-robin" and clock[task] <= K * D:
            forced = (clock[task] - 1) % K
        if forced is not None:
            arm = forced
        else:
            first = np.array([x @ fit(forced_only[k, task], start) for k in range(K)])
            scores = np.array([x @ fit(everything[k, task], start) for k in range(K)])
            alive = [k for k in range(K) if first[k] >= first.max() - gap / 2]
            arm = max(alive, key=lambda k: (scores[k], draws[k]))
            pruned += arm != scores.argmax()
        expected.append(arm)
        everything[arm, task].append((x, DRAW.rewards[t, arm]))
        if forced is not None:
            forced_only[arm, task].append((x, DRAW.rewards[t, arm]))

    policy = OLSBandit(n_tasks=N, n_arms=K, n_features=D, gap=gap, pulls=pulls, start=start)
    arms = policy.play(DRAW.tasks, DRAW.contexts, DRAW.rewards, np.random.default_rng(4)).arms
    assert_array_equal(arms, expected)
    # At a gap of 0.2 forced samples overrule the others now and then, so both estimates are under test.
    assert pruned > 0 or gap > 0.2


def test_a_free_pull_does_not_count_as_forced():
    """Gap 0 follows the forced samples alone, so a huge free reward of the other arm changes nothing."""
    policy = OLSBandit(n_tasks=1, n_arms=2, n_features=1, gap=0.0, start="schedule")
    policy.update(task=0, arm=0, context=[1.0], reward=1.0)  # rounds 1 and 2 are forced, 3 and 4 too
    policy.update(task=0, arm=1, context=[1.0], reward=0.0)
    policy.update(task=0, arm=0, context=[1.0], reward=1.0)
    policy.update(task=0, arm=1, context=[1.0], reward=0.0)
    policy.update(task=0, arm=1, context=[1.0], reward=100.0)  # round 5 is free
    assert policy.choose(task=0, context=[1.0], step=6, rng=np.random.default_rng(0)) == 0


def test_words():
    assert OLSBandit(n_tasks=1, n_arms=2, n_features=1).describe().startswith("h 15; q 1")


@pytest.mark.parametrize("settings", [{"gap": -1.0}, {"pulls": 0}, {"pulls": 1.5}, {"start": "random"}], ids=str)
def test_bad_settings(settings):
    with pytest.raises(InvalidValue, match=next(iter(settings))):
        OLSBandit(n_tasks=1, n_arms=2, n_features=1, **settings)
