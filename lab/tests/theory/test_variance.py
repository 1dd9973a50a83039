from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.model import Prior, posterior
from posse_lab.theory.constants import Constants
from posse_lab.theory.radius import information
from posse_lab.theory.variance import variance_bound_joint, variance_bound_own, variance_bound_shared, variance_sums

NOISE = [0.1, 1.0, 3.0]


def walk(run, prior=None):
    return variance_sums(prior or run.prior, run.tasks, run.arms, run.contexts, run.n_tasks)


@pytest.mark.parametrize("noise_sd", NOISE)
@pytest.mark.parametrize("shared_precision", [0.001, 2.0])
def test_every_step_agrees_with_the_posterior_and_with_the_printed_terms(draw_run, noise_sd, shared_precision):
    run = draw_run(0, noise_sd=noise_sd, shared_precision=shared_precision)
    sums, s2 = walk(run), noise_sd**2

    for t, (task, arm, x) in enumerate(zip(run.tasks, run.arms, run.contexts, strict=True)):
        stats = run.statistics(t)
        post = posterior(stats, run.prior)
        inverse = np.linalg.inv(run.prior.covariance[arm])
        own = np.linalg.inv(stats.gram[arm, task] + s2 * inverse)
        h = s2 * inverse @ own @ x
        # 1e-7: a vague shared mean costs the inverses here half of their digits.
        assert_allclose((sums.own + sums.shared)[t], x @ post.covariance[arm, task] @ x, rtol=1e-7)
        assert_allclose(sums.own[t], s2 * x @ own @ x, rtol=1e-7)
        assert_allclose(sums.shared[t], h @ post.shared_covariance[arm] @ h, rtol=1e-7)


def test_a_long_run_keeps_its_digits(draw_run):
    run = draw_run(1, noise_sd=0.01, shared_precision=0.001, n_steps=2_000)
    post = posterior(run.statistics(1_999), run.prior)
    arm, task, x = run.arms[-1], run.tasks[-1], run.contexts[-1]

    assert_allclose((walk(run).own + walk(run).shared)[-1], x @ post.covariance[arm, task] @ x, rtol=1e-7)


def test_a_singular_covariance_and_uneven_noise_are_walked_too(draw_run):
    run = draw_run(2)
    prior = Prior(
        covariance=[[[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2))],
        noise_variance=[0.3, 2.0],
        shared_precision=[[0.2, 0.9], [3.0, 0.4]],
    )
    sums = walk(run, prior)

    for t in range(40):
        covariance = posterior(run.statistics(t), prior).covariance[run.arms[t], run.tasks[t]]
        assert_allclose((sums.own + sums.shared)[t], run.contexts[t] @ covariance @ run.contexts[t])


def test_information_adds_up(draw_run):
    run = draw_run(3)
    sums = walk(run)

    steps = np.log1p((sums.own + sums.shared) / run.prior.noise_variance[run.arms])
    assert_allclose(np.bincount(run.arms, steps), information(run.statistics(), run.prior))


@pytest.mark.parametrize("noise_sd", NOISE)
@pytest.mark.parametrize("greedy", [False, True])
def test_lemmas_hold_on_random_and_on_greedy_runs(draw_run, noise_sd, greedy):
    # Greedy: the context in the direction that is least known, as long as it may be, which makes the sums large.
    for seed, shared_precision in product(range(4), (0.01, 3.0)):
        run = draw_run(seed, noise_sd=noise_sd, shared_precision=shared_precision, n_steps=30)
        if greedy:
            for t in range(30):
                covariance = posterior(run.statistics(t), run.prior).covariance[run.arms[t], run.tasks[t]]
                run.contexts[t] = 2.0 * np.linalg.eigh(covariance)[1][:, -1]
        constants = Constants.of(run.prior, run.coefficients, run.contexts)
        sums = walk(run)
        arrivals = np.bincount(run.tasks, minlength=3)
        for arm in range(2):
            pulled = run.arms == arm
            shared = sums.shared[pulled].sum()
            assert shared <= variance_bound_shared(constants, "sharpened") <= variance_bound_shared(constants)
            for task in range(3):
                here = pulled & (run.tasks == task)
                assert sums.own[here].sum() <= variance_bound_own(constants, int(here.sum()))
        assert (sums.own + sums.shared).sum() <= sum(variance_bound_joint(constants, arrivals))
        for clip in (0.01, 0.5):
            total = sums.own + sums.shared
            assert np.minimum(total, clip).sum() <= sum(variance_bound_joint(constants, arrivals, clip))


def one_reward(noise_variance, shared_precision):
    prior = Prior(covariance=[[[2.0]]], noise_variance=noise_variance, shared_precision=shared_precision)
    sums = variance_sums(prior, tasks=[0], arms=[0], contexts=[[1.5]], n_tasks=1)
    return sums, Constants.of(prior, [[[1.0]]], [[1.5]])


@pytest.mark.parametrize("noise_variance", [0.01, 1.0, 9.0])
def test_first_lemma_is_an_equality_for_one_reward_in_one_dimension(noise_variance):
    sums, constants = one_reward(noise_variance, 0.5)

    assert_allclose(sums.own[0], 2.25 * 2.0)
    assert_allclose(variance_bound_own(constants, 1), sums.own[0])


def test_second_lemma_is_within_twice_what_occurs():
    # x² Sigma / s2 = 1, so that its factor 1 + x² Sigma / s2 is 2 and the logarithms cancel.
    sums, constants = one_reward(2.25 * 2.0, 0.3)

    assert_allclose(sums.shared[0], 2.25 / 0.3)
    assert_allclose(variance_bound_shared(constants), 2.0 * sums.shared[0])


def test_joint_bound_is_nearly_reached_by_one_reward():
    sums, constants = one_reward(0.02, 0.3)
    bound = sum(variance_bound_joint(constants, [1]))

    assert (sums.own + sums.shared)[0] <= bound < 1.1 * (sums.own + sums.shared)[0]


def test_printed_and_sharpened_shared_bound_by_hand(constants):
    # d c_x = 6, lambda_1 / lambda_d = 4, 1 + d c_x / (s2 lambda_d) = 49, 1 + c_4 N = 81.
    assert_allclose(variance_bound_own(constants, 5), 2.0 * 12.0 / np.log(49.0) * np.log(121.0))
    assert_allclose(variance_bound_shared(constants), 2.0 * 960.0 * 49.0 / np.log(3841.0) * np.log(81.0))
    assert_allclose(variance_bound_shared(constants, "sharpened"), 2.0 * 240.0 * 49.0 / np.log(961.0) * np.log(81.0))


def test_joint_bound_by_hand(constants):
    # w = 6 / s2 (2 + 10) = 288; K = 3 arms that share 1, 2, 3 and 0 arrivals.
    own = np.log1p(8.0) + np.log1p(16.0) + np.log1p(24.0)
    scale = 0.25 * 288.0 / np.log(289.0) * 3.0 * 2.0
    assert_allclose(variance_bound_joint(constants, [1, 2, 3, 0]), (scale * own, scale * np.log(81.0)))
    scale = 2.0 / np.log(9.0) * 3.0 * 2.0
    assert_allclose(variance_bound_joint(constants, [1, 2, 3, 0], clip=2.0), (scale * own, scale * np.log(81.0)))
