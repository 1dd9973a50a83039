import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import trim_mean
from sklearn.linear_model import Lasso

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, NotFinite
from posse.policies import RMBandit
from posse.policies.forced import LASSO_SWEEPS, LASSO_TOLERANCE, lasso_towards, trimmed_mean

N, K, D = 6, 3, 3
DRAW = SyntheticWorld(n_tasks=N, n_arms=K, n_features=D, heterogeneity="sparse", noise_sd=0.7).draw(
    seed=13, horizon=500
)


@pytest.mark.parametrize("trim", [0.0, 0.1, 0.2, 0.25, 0.4, 0.49])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 13])
def test_the_trimmed_mean_is_scipys(count, trim):
    rows = np.random.default_rng(count).standard_normal((count + 2, 4))  # two rows beyond the count are not looked at
    out = np.empty(4)
    trimmed_mean(rows, count, trim, out)
    assert_allclose(out, trim_mean(rows[:count], trim, axis=0), rtol=1e-12)


def test_the_trimmed_mean_by_hand():
    # A fifth of five is one: the 0 and the 100 go, and (1 + 2 + 6) / 3 stays.
    out = np.empty(1)
    trimmed_mean(np.array([[6.0], [0.0], [100.0], [1.0], [2.0]]), 5, 0.2, out)
    assert out[0] == pytest.approx(3.0)


@pytest.mark.parametrize("penalty", [0.05, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("rows", [2, 5, 40])
def test_the_lasso_is_scikit_learns(rows, penalty):
    rng = np.random.default_rng(rows)
    X, centre = rng.standard_normal((rows, 4)), rng.standard_normal(4)
    y = X @ (centre + np.array([0.0, 1.5, 0.0, -0.3])) + 0.5 * rng.standard_normal(rows)
    out = np.empty(4)
    lasso_towards(X.T @ X, X.T @ y, float(rows), penalty, centre, out, np.empty(4))

    # (1/n) |r|^2 + eta |d|_1 is twice scikit-learn's (1/2n) |r|^2 + (eta/2) |d|_1.
    other = Lasso(alpha=penalty / 2, fit_intercept=False, tol=1e-12, max_iter=1_000_000).fit(X, y - X @ centre)
    # Sweeps end when no coordinate moves by more than 1e-6, or at the hundredth.
    assert_allclose(out, centre + other.coef_, atol=2e-5)
    assert_array_equal(out == centre, other.coef_ == 0)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_lasso_reaches_its_minimum_with_hardly_any_rewards(rows):
    """The Gram matrix is (nearly) singular then, and coordinates creep: the sweeps must not stop halfway."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, centre = rng.standard_normal((rows, 3)) + rng.choice([-1.0, 1.0], (rows, 3)), rng.standard_normal(3)
        y = X @ centre + X[:, 1] + 0.7 * rng.standard_normal(rows)
        penalty = 0.3 / np.sqrt(rows)

        def loss(beta, X=X, y=y, centre=centre, penalty=penalty):
            return ((y - X @ beta) ** 2).mean() + penalty * np.abs(beta - centre).sum()

        out = np.empty(3)
        lasso_towards(X.T @ X, X.T @ y, float(rows), penalty, centre, out, np.empty(3))
        other = Lasso(alpha=penalty / 2, fit_intercept=False, tol=1e-12, max_iter=1_000_000).fit(X, y - X @ centre)
        assert loss(out) < loss(centre + other.coef_) + 1e-6, seed


def test_no_penalty_gives_least_squares_and_a_vast_one_the_centre():
    rng = np.random.default_rng(1)
    X, y, centre, out = rng.standard_normal((30, 3)), rng.standard_normal(30), np.array([1.0, -2.0, 0.5]), np.empty(3)
    lasso_towards(X.T @ X, X.T @ y, 30.0, 0.0, centre, out, np.empty(3))
    assert_allclose(out, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-5)
    lasso_towards(X.T @ X, X.T @ y, 30.0, 1e6, centre, out, np.empty(3))
    assert_array_equal(out, centre)


def test_the_lasso_by_hand():
    """One feature, x = 1 twice, rewards 3 and 5, centre 1: 2 b - 8 + n eta / 2 = 0 with eta = 1, so b = 3.5."""
    out = np.empty(1)
    lasso_towards(np.array([[2.0]]), np.array([8.0]), 2.0, 1.0, np.array([1.0]), out, np.empty(1))
    assert out[0] == pytest.approx(3.5)


def test_a_feature_that_was_never_seen_stays_at_the_centre():
    out = np.empty(2)
    centre = np.array([0.3, -0.7])
    lasso_towards(np.array([[4.0, 0.0], [0.0, 0.0]]), np.array([8.0, 0.0]), 4.0, 0.0, centre, out, np.empty(2))
    assert_allclose(out, [2.0, -0.7])


def robust(rows, penalty_of, trim=0.2):
    """Baselines.md 1.1 for one arm: rows is a list over tasks of (X, y); the coefficients of every task come back."""
    if not sum(len(y) for _, y in rows):
        return None
    usable = [np.linalg.lstsq(X, y, rcond=None)[0] for X, y in rows if len(y) >= D and np.linalg.cond(X.T @ X) < 1e8]
    if usable:
        centre = trim_mean(np.array(usable), trim, axis=0)
    else:
        X, y = np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])
        centre = np.linalg.solve(X.T @ X + np.eye(D), X.T @ y)
    estimate = np.tile(centre, (N, 1))
    for task, (X, y) in enumerate(rows):
        if len(y):
            estimate[task] += coordinate_descent(X, y - X @ centre, penalty_of(len(y)))
    return estimate


def coordinate_descent(X, y, penalty):
    """The lasso by the sweeps of baselines.md 1.1, on the rows; decisions depend on where these end."""
    # Plain floats: thousands of sweeps over three coordinates are no work for arrays.
    gram, moment, cut = (X.T @ X).tolist(), (X.T @ y).tolist(), len(y) * penalty / 2
    coefficients = [0.0] * D
    for _ in range(LASSO_SWEEPS):
        change = 0.0
        for i in range(D):
            pull = moment[i] - sum(gram[i][j] * coefficients[j] for j in range(D) if j != i)
            value = math.copysign(max(abs(pull) - cut, 0.0), pull) / gram[i][i]
            change = max(change, abs(value - coefficients[i]))
            coefficients[i] = value
        if change < LASSO_TOLERANCE:
            break
    return coefficients


def plain(*, variant, pulls, gap, forced_penalty, penalty, accumulate=False, refresh_every=1, horizon):
    """Baselines.md 1.2 from stored rows."""
    rng = np.random.default_rng(6)
    estimates, forced_estimates = np.zeros((K, N, D)), np.zeros((K, N, D))
    log = []  # (task, arm, x, reward, forced)
    batch_start, block, overruled = 0, K * pulls, 0

    def refit(out, arm, log, penalty_of):
        rows = [[(x, y) for j, k, x, y in log if j == task and k == arm] for task in range(N)]
        new = robust(
            [(np.array([x for x, _ in r]).reshape(-1, D), np.array([y for _, y in r])) for r in rows], penalty_of
        )
        if new is not None:
            out[arm] = new

    for t in range(1, horizon + 1):
        task, x = DRAW.tasks[t - 1], DRAW.contexts[t - 1]
        draws = rng.standard_normal(K)
        forced = None
        if variant == "batched":
            if t <= block:
                forced = int(draws.argmax())
        else:
            n = 0
            while (2**n - 1) * block < t:
                if t - (2**n - 1) * block <= block:
                    forced = (t - (2**n - 1) * block - 1) // pulls
                    break
                n += 1
        if forced is not None:
            arm = forced
        else:
            first, scores = forced_estimates[:, task] @ x, estimates[:, task] @ x
            alive = [k for k in range(K) if first[k] >= first.max() - gap / 2]
            arm = max(alive, key=lambda k: (scores[k], draws[k]))
            overruled += arm != scores.argmax()
        log.append((task, arm, x, DRAW.rewards[t - 1, arm], forced is not None))
        everything = [row[:4] for row in log]
        from_forced = [row[:4] for row in log if row[4]]

        def falling(n, t=t):
            return penalty * np.sqrt((np.log(max(t, 2)) + np.log(D)) / n)

        def constant(n):
            return forced_penalty

        if variant == "batched":
            if t in {block * 2**m for m in range(12)}:
                for k in range(K):
                    if t == block:
                        refit(forced_estimates, k, from_forced, constant)
                    refit(estimates, k, everything if accumulate else everything[batch_start:], falling)
                batch_start = t
        elif t % refresh_every == 0:
            for k in range(K) if refresh_every > 1 else [arm]:
                refit(estimates, k, everything, falling)
                refit(forced_estimates, k, from_forced, constant)
    return np.array([row[1] for row in log]), overruled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "horizon"),
    [
        ({"variant": "batched", "pulls": 20, "gap": 1.0}, 500),
        ({"variant": "batched", "pulls": 3, "gap": 1.5}, 500),  # too few pulls for least squares in any task
        ({"variant": "batched", "pulls": 20, "gap": 15.0, "accumulate": True}, 500),
        ({"variant": "scheduled", "pulls": 4, "gap": 1.0}, 160),
        ({"variant": "scheduled", "pulls": 4, "gap": 1.0, "refresh_every": 5}, 300),
    ],
    ids=str,
)
def test_decisions_are_those_of_the_plain_algorithm(settings, horizon):
    settings |= {"forced_penalty": 0.3, "penalty": 0.15}
    policy = RMBandit(n_tasks=N, n_arms=K, n_features=D, **settings)
    arms = policy.play(
        DRAW.tasks[:horizon], DRAW.contexts[:horizon], DRAW.rewards[:horizon], np.random.default_rng(6)
    ).arms
    expected, overruled = plain(**settings, horizon=horizon)
    assert_array_equal(arms, expected)
    assert (overruled > 0) == (settings["gap"] < 15)


def test_variant_a_forces_750_of_the_first_1000_rounds():
    policy = RMBandit(n_tasks=2, n_arms=5, n_features=1, variant="scheduled", pulls=50, refresh_every=50)
    world = SyntheticWorld(n_tasks=2, n_arms=5, n_features=1)
    draw = world.draw(seed=0, horizon=2_000)
    arms = policy.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(0)).arms
    one_block = np.repeat(np.arange(5), 50)
    for first in (1, 251, 751, 1751):
        assert_array_equal(arms[first - 1 : first + 249], one_block)
    free = np.concatenate([arms[500:750], arms[1000:1750]])
    # Free rounds follow the estimates: a pattern of blocks there would be a schedule gone astray.
    assert np.mean(free[1:] == free[:-1]) < 0.95


def test_estimates_move_only_at_the_end_of_a_batch():
    policy = RMBandit(n_tasks=N, n_arms=K, n_features=D, pulls=10)
    rng = np.random.default_rng(3)
    probes = rng.standard_normal((20, D))

    def answers():
        return [policy.choose(task, x, 1, np.random.default_rng(0)) for x in probes for task in range(N)]

    block = K * 10
    arms = policy.play(DRAW.tasks[:block], DRAW.contexts[:block], DRAW.rewards[:block], rng).arms
    assert set(arms) == {0, 1, 2}
    before, moved = answers(), []
    for t in range(block, 500):
        arm = t % K
        policy.update(task=int(DRAW.tasks[t]), arm=arm, context=DRAW.contexts[t], reward=DRAW.rewards[t, arm])
        now = answers()
        if now != before:
            moved.append(t + 1)
        before = now
    assert moved == [60, 120, 240, 480]


def test_exploration_is_uniform_and_its_length_counts_pulls_per_arm_or_per_arm_and_task():
    tasks = np.arange(4_000, dtype=np.int64) % 4
    contexts, rewards = np.ones((4_000, 1)), np.tile([0.0, 5.0], (4_000, 1))
    for per_task, length in [(False, 2 * 200), (True, 2 * 200 * 4)]:
        policy = RMBandit(n_tasks=4, n_arms=2, n_features=1, pulls=200, pulls_per_task=per_task)
        arms = policy.play(tasks, contexts, rewards, np.random.default_rng(0)).arms
        # Fair coins: the share of heads has standard error 0.5 / sqrt(length), and four of them is one in 16,000.
        assert abs(arms[:length].mean() - 0.5) < 4 * 0.5 / np.sqrt(length)
        assert (arms[length:] == 1).all()


def test_words():
    assert RMBandit(n_tasks=1, n_arms=2, n_features=1).describe() == "batched; h 15; q 50; η 0.2, 0.2; trim 0.2"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"variant": "a"}, InvalidValue),
        ({"gap": -1.0}, InvalidValue),
        ({"pulls": 0}, InvalidValue),
        ({"forced_penalty": -0.1}, InvalidValue),
        ({"penalty": np.nan}, NotFinite),
        ({"trim": 0.5}, InvalidValue),
        ({"trim": -0.1}, InvalidValue),
        ({"refresh_every": 0}, InvalidValue),
    ],
    ids=str,
)
def test_bad_settings(settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        RMBandit(n_tasks=1, n_arms=2, n_features=1, **settings)
