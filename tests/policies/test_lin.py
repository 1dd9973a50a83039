import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, NotFinite, UnknownTask
from posse.policies import LinTS, LinUCB

N, K, D = 3, 4, 2
DRAW = SyntheticWorld(n_tasks=N, n_arms=K, n_features=D, noise_sd=0.6).draw(seed=9, horizon=600)


def plain(draw, rng, *, exploration, growing, ridge, pooled, sampling):
    """LinUCB and LinTS of baselines.md section 3, every regression solved anew."""
    places = 1 if pooled else N
    V = np.tile(ridge * np.eye(D), (K, places, 1, 1))
    b = np.zeros((K, places, D))
    arms = []
    for t, (task, x) in enumerate(zip(draw.tasks, draw.contexts, strict=True), start=1):
        place = 0 if pooled else task
        draws = rng.standard_normal(K)
        scale = exploration * (math.sqrt(math.log(max(t, 2))) if growing else 1.0)
        scores = []
        for arm in range(K):
            inverse = np.linalg.inv(V[arm, place])
            sd = math.sqrt(x @ inverse @ x)
            scores.append(x @ inverse @ b[arm, place] + scale * sd * (draws[arm] if sampling else 1.0))
        arm = max(range(K), key=lambda k: (scores[k], draws[k]))
        V[arm, place] += np.outer(x, x)
        b[arm, place] += x * draw.rewards[t - 1, arm]
        arms.append(arm)
    return np.array(arms)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(("schedule", "exploration", "ridge"), [("constant", 1.0, 1.0), ("sqrt-log", 0.3, 2.5)])
@pytest.mark.parametrize("policy", [LinUCB, LinTS])
def test_decisions_are_those_of_plain_ridge_regressions(policy, schedule, exploration, ridge, pooled):
    settings = {"exploration": exploration, "ridge": ridge, "pooled": pooled}
    compiled = policy(n_tasks=N, n_arms=K, n_features=D, schedule=schedule, **settings)
    arms = compiled.play(DRAW.tasks, DRAW.contexts, DRAW.rewards, np.random.default_rng(2)).arms
    expected = plain(
        DRAW, np.random.default_rng(2), growing=schedule == "sqrt-log", sampling=policy is LinTS, **settings
    )
    assert_array_equal(arms, expected)


def test_two_rewards_by_hand():
    """Ridge 2: V = 2 + 1 + 9 = 12, b = 4 + 3 * 2 = 10. At x = 2 the mean is 20 / 12 and the variance 4 / 12."""
    policy = LinUCB(n_tasks=2, n_arms=2, n_features=1, ridge=2.0)
    policy.update(task=1, arm=0, context=[1.0], reward=4.0)
    policy.update(task=1, arm=0, context=[3.0], reward=2.0)
    belief = policy.predict(task=1, context=[2.0])
    assert_allclose(belief.mean, [20 / 12, 0])
    assert_allclose(belief.sd, np.sqrt([4 / 12, 4 / 2]))
    untouched = policy.predict(task=0, context=[2.0])
    assert_allclose(untouched.mean, [0, 0])


def test_the_mean_is_scikit_learns_ridge():
    policy = LinUCB(n_tasks=1, n_arms=1, n_features=D, ridge=0.7)
    X, y = DRAW.contexts[:40], DRAW.rewards[:40, 0]
    for x, reward in zip(X, y, strict=True):
        policy.update(task=0, arm=0, context=x, reward=reward)
    other = Ridge(alpha=0.7, fit_intercept=False).fit(X, y)
    assert_allclose(policy.predict(task=0, context=[1.3, -0.4]).mean, other.predict([[1.3, -0.4]]), rtol=1e-10)


def test_a_vanishing_ridge_gives_least_squares():
    policy = LinUCB(n_tasks=1, n_arms=1, n_features=D, ridge=1e-9)
    X, y = DRAW.contexts[:40], DRAW.rewards[:40, 0]
    for x, reward in zip(X, y, strict=True):
        policy.update(task=0, arm=0, context=x, reward=reward)
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    # The start value 1e9 of the inverse costs nine of sixteen digits.
    assert_allclose(policy.predict(task=0, context=[1.3, -0.4]).mean[0], beta @ [1.3, -0.4], rtol=1e-6)


def test_pooling_is_one_task_for_all():
    pooled = LinUCB(n_tasks=N, n_arms=K, n_features=D, pooled=True)
    single = LinUCB(n_tasks=1, n_arms=K, n_features=D)
    played = pooled.play(DRAW.tasks, DRAW.contexts, DRAW.rewards, np.random.default_rng(0), everywhere=True)
    alone = single.play(np.zeros_like(DRAW.tasks), DRAW.contexts, DRAW.rewards, np.random.default_rng(0))
    assert_array_equal(played.arms, alone.arms)
    assert_array_equal(played.everywhere, np.repeat(played.arms[:, None], N, axis=1))
    assert pooled.statistics.n_tasks == 1
    with pytest.raises(UnknownTask):
        pooled.choose(task=N, context=DRAW.contexts[0], step=1, rng=np.random.default_rng(0))


def test_tasks_alone_do_not_touch_each_other():
    policy = LinUCB(n_tasks=N, n_arms=K, n_features=D)
    policy.play(DRAW.tasks, DRAW.contexts, DRAW.rewards, np.random.default_rng(0))
    before = policy.predict(task=1, context=[1.0, 1.0])
    policy.update(task=0, arm=2, context=[1.0, 1.0], reward=1000.0)
    after = policy.predict(task=1, context=[1.0, 1.0])
    assert_array_equal(before.mean, after.mean)


def test_zero_exploration_is_greedy_and_ties_fall_to_the_stream():
    policy = LinTS(n_tasks=1, n_arms=3, n_features=1, exploration=0.0)
    arms = [policy.choose(0, [1.0], 1, np.random.default_rng(seed)) for seed in range(40)]
    assert arms == [int(np.random.default_rng(seed).standard_normal(3).argmax()) for seed in range(40)]
    policy.update(task=0, arm=1, context=[1.0], reward=0.1)
    assert {policy.choose(0, [1.0], 1, np.random.default_rng(seed)) for seed in range(40)} == {1}


@pytest.mark.parametrize(("step", "growth"), [(1, math.log(2)), (2, math.log(2)), (3, math.log(3)), (50, math.log(50))])
@pytest.mark.parametrize("schedule", ["constant", "sqrt-log"])
def test_exploration_is_constant_or_grows_as_the_root_of_the_log_of_the_step(schedule, step, growth):
    """After a reward of 1 at x = 1, ridge 1, the arms have means 0 and 1/2, sds 1 and sqrt(1/2): level at one scale."""
    level = 0.5 / (1 - math.sqrt(0.5)) / (math.sqrt(growth) if schedule == "sqrt-log" else 1.0)
    for factor, arm in [(1 + 1e-9, 0), (1 - 1e-9, 1)]:
        policy = LinUCB(n_tasks=1, n_arms=2, n_features=1, exploration=level * factor, schedule=schedule)
        policy.update(task=0, arm=1, context=[1.0], reward=1.0)
        assert policy.choose(task=0, context=[1.0], step=step, rng=np.random.default_rng(0)) == arm


def test_words():
    assert LinUCB(n_tasks=1, n_arms=1, n_features=1).describe().startswith("exploration 1, constant; ridge 1")
    words = LinTS(n_tasks=1, n_arms=1, n_features=1, exploration=0.1, schedule="sqrt-log", pooled=True).describe()
    assert words.startswith("exploration 0.1 √log t; ridge 1")
    assert "pooled" in words


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"ridge": 0.0}, InvalidValue),
        ({"ridge": -1.0}, InvalidValue),
        ({"ridge": np.nan}, NotFinite),
        ({"exploration": -1.0}, InvalidValue),
        ({"exploration": np.inf}, NotFinite),
        ({"schedule": "log"}, InvalidValue),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", [LinUCB, LinTS])
def test_bad_settings(policy, settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        policy(n_tasks=1, n_arms=1, n_features=1, **settings)
