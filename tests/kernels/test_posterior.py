import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.kernels.posterior import (
    finish,
    new_buffers,
    observe,
    predict,
    rebuild,
    residual_sum_of_squares,
    sum_over_tasks,
)
from posse.kernels.select import OPTIMISTIC, explore
from posse.model import Prior, Statistics, new_belief, posterior

# fast-step.md measured a drift of 1e-10 (d = 3, 2,000 steps) to 1e-7 (d = 21, 5,000 steps) between rank-one steps and
# direct computation.
DRIFT = 1e-7


def draw_prior(n_arms, d, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    root = 0.7 * rng.standard_normal((n_arms, d, rank or d))
    return Prior(
        covariance=root @ np.swapaxes(root, 1, 2) + (0.0 if rank else 0.15) * np.eye(d),
        noise_variance=np.linspace(0.4, 1.9, n_arms),
        shared_precision=np.linspace(0.03, 2.3, n_arms),
    )


def no_statistics(n_arms, n_tasks, d):
    return Statistics.zeros(n_arms=n_arms, n_tasks=n_tasks, n_features=d)


def predictions(belief, task, x):
    mean, sd = np.empty(belief.n_seen.size), np.empty(belief.n_seen.size)
    predict(belief, task, x, new_buffers(x.size), mean, sd)
    return mean, sd


def assert_predicts_like(belief, post, x, tolerance):
    """Compare predictions of every arm and task with those of a posterior."""
    for task in range(post.mean.shape[1]):
        mean, sd = predictions(belief, task, x)
        expected_sd = np.sqrt(np.einsum("a,kab,b->k", x, post.covariance[:, task], x))
        assert_allclose(sd, expected_sd, rtol=tolerance)
        # A mean may be anywhere near zero; what it must not be off by is a part of its own uncertainty or size.
        expected = post.mean[:, task] @ x
        assert_allclose(mean, expected, rtol=tolerance, atol=tolerance * np.abs(post.mean[:, task]).max())


def play(belief, n_steps, rng):
    """Rewards as a UCB policy would meet them: tasks come unevenly, arms are chosen by what was learned."""
    (n_arms, d), n_tasks = belief.shared_mean.shape, belief.task_weight.size
    coefficients = rng.standard_normal((n_arms, 1, d)) + 0.7 * rng.standard_normal((n_arms, n_tasks, d))
    arrival = np.linspace(0.05, 1.0, n_tasks - 1)
    arrival = np.append(arrival / arrival.sum(), 0.0)  # the last task never comes
    buffers, mean, sd = new_buffers(d), np.empty(n_arms), np.empty(n_arms)
    for step in range(1, n_steps + 1):
        task, x = rng.choice(n_tasks, p=arrival), rng.standard_normal(d) + 0.2
        predict(belief, task, x, buffers, mean, sd)
        arm = explore(mean, sd, step, OPTIMISTIC.scaled(0.5), rng.standard_normal(n_arms))
        reward = x @ coefficients[arm, task] + 0.8 * rng.standard_normal()
        observe(belief, arm, task, x, reward, buffers)


@pytest.mark.parametrize("rank", [None, 1], ids=["full", "singular"])
@pytest.mark.parametrize("d", [3, 8])
def test_rank_one_steps_equal_direct_computation_after_2000_rewards(d, rank):
    rng = np.random.default_rng(d)
    n_arms, n_tasks = 3, 7
    prior, stats = draw_prior(n_arms, d, rank=rank), no_statistics(n_arms, n_tasks, d)
    belief = new_belief(stats, prior)

    for _ in range(4):
        play(belief, 500, rng)
        # The statistics are the arrays that the belief learns into.
        assert_predicts_like(belief, posterior(stats, prior), rng.standard_normal(d), DRIFT)

    post = posterior(stats, prior)
    assert stats.count.sum() == 2000
    assert (stats.count > 0).sum() > 10  # many (arm, task) were played, so the shared mean was learned from several
    assert_allclose(belief.shared_mean, post.shared_mean, rtol=DRIFT, atol=DRIFT)
    for arm in range(n_arms):
        scale = np.abs(post.shared_covariance[arm]).max()
        assert_allclose(belief.shared_covariance[arm], post.shared_covariance[arm], atol=DRIFT * scale)


def test_one_step_worked_by_hand():
    # One feature. The shared mean varies by 4, a task by 3 around it, a reward by 2; one reward of 6 at x = 1. The
    # reward varies by 9: the task keeps 7/9 of it and 7 - 49/9 = 14/9 of variance, the shared mean 4/9 and 20/9. A task
    # that saw nothing expects 4/9 of it, and varies by 3 + 20/9 = 47/9.
    belief = new_belief(no_statistics(1, 2, 1), Prior(covariance=[[[3.0]]], noise_variance=2.0, shared_precision=0.25))

    observe(belief, 0, 0, np.array([1.0]), 6.0, new_buffers(1))

    for task, (mean, variance) in enumerate([(6 * 7 / 9, 14 / 9), (6 * 4 / 9, 47 / 9)]):
        for x in (1.0, -2.0):
            got_mean, got_sd = predictions(belief, task, np.array([x]))
            assert_allclose(got_mean, [x * mean])
            assert_allclose(got_sd, [abs(x) * np.sqrt(variance)])


def test_predictions_before_any_reward_are_the_priors():
    prior = draw_prior(3, 4)
    belief = new_belief(no_statistics(3, 2, 4), prior)
    x = np.array([0.3, -1.0, 2.0, 0.7])

    mean, sd = predictions(belief, 1, x)

    assert_array_equal(mean, 0.0)
    expected = np.einsum("a,kab,b->k", x, prior.covariance, x) + x @ x / prior.shared_precision
    assert_allclose(sd, np.sqrt(expected), rtol=1e-12)


def test_predicting_leaves_no_trace():
    belief = new_belief(no_statistics(2, 3, 3), draw_prior(2, 3))
    play(belief, 40, np.random.default_rng(1))
    # Local parts of tasks without rewards mean nothing and may hold anything, NaN included: compare bytes.
    before = [field.tobytes() for field in (*belief.sums, *belief[1:])]

    predictions(belief, 1, np.array([1.0, 2.0, 3.0]))

    assert [field.tobytes() for field in (*belief.sums, *belief[1:])] == before


@pytest.mark.parametrize("rank", [None, 1, 2], ids=["full", "rank one", "rank two"])
def test_rebuilding_equals_the_posterior(rank):
    rng = np.random.default_rng(9)
    n_arms, n_tasks, d = 2, 5, 4
    counts = np.array([[0, 1, d - 1, d, 50], [50, 2, 0, 0, 9]])
    arm, task = (np.repeat(label.ravel(), counts.ravel()) for label in np.indices(counts.shape))
    X = rng.standard_normal((arm.size, d)) + 0.4
    stats = Statistics.from_data(
        task=task, arm=arm, context=X, reward=2 * rng.standard_normal(arm.size), n_tasks=n_tasks, n_arms=n_arms
    )
    prior = draw_prior(n_arms, d, seed=3, rank=rank)

    belief, post = new_belief(stats, prior), posterior(stats, prior)

    # Both compute from the same sums, by different factors of Sigma.
    assert_allclose(belief.shared_mean, post.shared_mean, rtol=1e-9, atol=1e-11)
    assert_allclose(belief.shared_covariance, post.shared_covariance, rtol=1e-9, atol=1e-11)
    for x in rng.standard_normal((3, d)):
        assert_predicts_like(belief, post, x, 1e-9)


def test_rebuilding_removes_drift_and_nothing_else():
    rng = np.random.default_rng(2)
    prior, stats = draw_prior(2, 3), no_statistics(2, 4, 3)
    belief = new_belief(stats, prior)
    play(belief, 300, rng)
    drifted = belief.shared_mean.copy()
    belief.shared_covariance[0] *= 1.5
    belief.local_mean[:4] += 0.1

    for arm in range(2):
        rebuild(belief, arm, new_buffers(3))

    assert_allclose(belief.shared_mean, drifted, rtol=DRIFT)
    assert_predicts_like(belief, posterior(stats, prior), rng.standard_normal(3), 1e-9)


def test_sum_over_tasks_may_be_taken_in_blocks():
    rng = np.random.default_rng(5)
    prior, stats = draw_prior(1, 3), no_statistics(1, 6, 3)
    belief = new_belief(stats, prior)
    play(belief, 60, rng)
    buffers = new_buffers(3)
    rebuild(belief, 0, buffers)
    once = belief.shared_mean.copy(), belief.shared_covariance.copy()

    precision = np.zeros((3, 3))
    belief.shared_moment[0] = 0.0
    for first, last in ((0, 2), (2, 3), (3, belief.n_seen[0])):
        sum_over_tasks(belief, 0, first, last, buffers, precision, belief.shared_moment[0])
    finish(belief, 0, precision, buffers)

    assert_allclose(belief.shared_mean, once[0], rtol=1e-12)
    assert_allclose(belief.shared_covariance, once[1], rtol=1e-12)


def test_seen_tasks_are_listed_in_the_order_of_their_first_reward():
    belief = new_belief(no_statistics(2, 4, 1), draw_prior(2, 1))
    buffers, x = new_buffers(1), np.array([1.0])

    for arm, task in [(0, 3), (0, 1), (1, 2), (0, 3), (0, 0), (0, 1)]:
        observe(belief, arm, task, x, 0.5, buffers)

    assert_array_equal(belief.n_seen, [3, 1])
    assert_array_equal(belief.task_of[belief.seen[0, :3]], [3, 1, 0])
    assert_array_equal(belief.task_of[belief.seen[1, :1]], [2])
    assert_array_equal(belief.rewards, [5.0, 1.0])


@pytest.mark.parametrize("rank", [None, 1], ids=["full", "singular"])
def test_residual_sum_of_squares_equals_that_over_rows(rank):
    rng = np.random.default_rng(4)
    n_arms, n_tasks, d, n = 2, 5, 3, 120
    task, arm = rng.integers(n_tasks - 1, size=n), rng.integers(n_arms, size=n)
    X, y = rng.standard_normal((n, d)), 1.0 + 2 * rng.standard_normal(n)
    stats = Statistics.from_data(task=task, arm=arm, context=X, reward=y, n_tasks=n_tasks, n_arms=n_arms)
    prior = draw_prior(n_arms, d, seed=1, rank=rank)
    belief, post = new_belief(stats, prior), posterior(stats, prior)

    for k in range(n_arms):
        residuals = (y - np.einsum("na,na->n", X, post.mean[k, task]))[arm == k]
        assert_allclose(residual_sum_of_squares(belief, k, new_buffers(d)), residuals @ residuals, rtol=1e-10)


def test_features_on_very_different_scales_are_predicted_like_the_posterior_does():
    # The same regression in other units: coefficients of feature 2 are 1e9 times smaller than those of feature 0.
    rng = np.random.default_rng(6)
    unit = np.array([1.0, 1.0, 1e9])
    n, n_tasks = 90, 3
    task = np.arange(n) % n_tasks
    X = rng.standard_normal((n, 3)) * unit
    y = np.einsum("na,na->n", X, ((1.0 + rng.standard_normal((n_tasks, 3))) / unit)[task]) + rng.standard_normal(n)
    stats = Statistics.from_data(task=task, arm=np.zeros(n, dtype=int), context=X, reward=y, n_tasks=n_tasks, n_arms=1)
    prior = Prior(covariance=[np.diag(1.3 / unit**2)], noise_variance=0.8, shared_precision=0.5)

    # Feature 2 squared is 1e18 times feature 0 squared, so the posterior itself holds about 1e-7 here.
    assert_predicts_like(new_belief(stats, prior), posterior(stats, prior), rng.standard_normal(3) * unit, 1e-4)


def test_rebuilt_shared_mean_keeps_its_digits_when_the_noise_is_at_the_estimators_floor():
    # One feature: G_j = A_j / (s2 + Sigma A_j) and g_j = b_j / (s2 + Sigma A_j) in closed form, without the difference
    # of numbers 1e9 times their size that (A - A Ct A) / s2 is. 1e-6 is the floor of the paper's noise estimate.
    rng = np.random.default_rng(4)
    n_tasks, n, noise_variance, variance, precision = 6, 6000, 1e-6, 1.7, 0.3
    task, x = np.arange(n) % n_tasks, rng.standard_normal(n)
    y = x * (2.0 + rng.standard_normal(n_tasks))[task] + 1e-3 * rng.standard_normal(n)
    stats = Statistics.from_data(
        task=task, arm=np.zeros(n, dtype=int), context=x[:, None], reward=y, n_tasks=n_tasks, n_arms=1
    )

    belief = new_belief(
        stats, Prior(covariance=[[[variance]]], noise_variance=noise_variance, shared_precision=precision)
    )

    weight = 1 / (noise_variance + variance * stats.gram[0, :, 0, 0])
    shared_variance = 1 / (precision + (stats.gram[0, :, 0, 0] * weight).sum())
    assert_allclose(belief.shared_covariance, [[[shared_variance]]], rtol=1e-8)
    assert_allclose(belief.shared_mean, [[shared_variance * (stats.moment[0, :, 0] * weight).sum()]], rtol=1e-8)
