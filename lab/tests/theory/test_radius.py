from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm

from posse.model import Prior, Statistics, posterior
from posse_lab.theory.constants import Constants
from posse_lab.theory.radius import bayes_radius, information, information_bound, radius, standardised_errors

DELTA = 0.1


def test_printed_radius_by_hand(constants):
    # m_1 = 20, m_2 = 0.5, t c_x = 30, sqrt(lambda lambda_d s2) = sqrt(0.0125); s2 d m_1 = 10; sigma N m_3 = 2 m_3.
    expected = 2.0 * np.sqrt(10.0 * np.log(30.5 / (np.sqrt(0.0125) * 0.1))) + 2.0 * 1.5 * np.sqrt(2.0)

    assert_allclose(radius(constants, 10, DELTA, "printed"), expected)
    assert_allclose(radius(constants, 10, DELTA, "printed", norm="own"), expected)


def test_repaired_radius_by_hand(constants):
    # Over sigma, N + 1 terms, t c_x / s2 = 120, and delta / 2 for each of two events.
    expected = 2.0 * np.sqrt(40.0 * np.log(2 * 120.5 / (np.sqrt(0.0125) * 0.1))) + 5.0 * 1.5 * np.sqrt(2.0)

    assert_allclose(radius(constants, 10, DELTA, "repaired"), expected)
    assert_allclose(radius(constants, 10, DELTA, "repaired", norm="own"), 0.5 * expected)


def test_repaired_radius_by_hand_with_loud_noise_and_one_feature(constants):
    # m_2 = 8, t c_x stays 30 as s2 = 4 would make it smaller; the tail bound needs two features, so one counts as two.
    loud = replace(constants, noise_sd=2.0, n_features=1)
    expected = 2.0 * np.sqrt(40.0 * np.log(2 * 38.0 / (np.sqrt(0.2) * 0.1))) + 5.0 * 1.5 * np.sqrt(2.0)

    assert_allclose(radius(loud, 10, DELTA, "repaired"), expected)


def test_corrected_radius_by_hand(constants):
    # c_2 = 24, c_4 = 20: 4 tasks with 2 features and 2.5 rewards each, and the shared mean.
    said = 2.0 * (4.0 * np.log(61.0) + np.log(81.0))
    expected = np.sqrt(said + 2.0 * np.log(10.0)) + 2.0 * 1.5 * np.sqrt(2.0)

    assert_allclose(information_bound(constants, 10), said)
    assert_allclose(radius(constants, 10, DELTA), expected)
    assert_allclose(radius(constants, 10, DELTA, norm="own"), 0.5 * np.sqrt(21.0) * expected)
    known = replace(constants, prior_distance=1.0)
    assert_allclose(radius(known, 10, DELTA), np.sqrt(said + 2.0 * np.log(10.0)) + 1.0)


@pytest.mark.parametrize("form", ["printed", "repaired", "corrected"])
def test_radius_grows_with_steps_and_confidence(constants, form):
    steps = [radius(constants, t, DELTA, form) for t in (1, 10, 100, 1_000)]
    levels = [radius(constants, 10, delta, form) for delta in (0.5, 0.1, 1e-3, 1e-9)]

    assert steps == sorted(set(steps))
    assert levels == sorted(set(levels))


def dense(run, stacked_prior, arm, n):
    """The regression in all tasks at once: design, noise variance, prior and posterior precision of an arm."""
    rows = np.flatnonzero(run.arms[:n] == arm)
    d = run.contexts.shape[1]
    Z = np.zeros((rows.size, run.n_tasks * d))
    for row, t in enumerate(rows):
        Z[row, run.tasks[t] * d : (run.tasks[t] + 1) * d] = run.contexts[t]
    s2 = run.prior.noise_variance[arm]
    before = np.linalg.inv(stacked_prior(run.prior, arm, run.n_tasks))
    return rows, Z, s2, before, before + Z.T @ Z / s2


@pytest.mark.parametrize("noise_sd", [0.1, 1.0, 3.0])
def test_the_posterior_is_one_ridge_regression_in_all_tasks(draw_run, stacked_prior, noise_sd):
    run = draw_run(3, noise_sd=noise_sd)
    post = posterior(run.statistics(), run.prior)

    for arm in range(2):
        rows, Z, s2, _, after = dense(run, stacked_prior, arm, 40)
        covariance = np.linalg.inv(after)
        assert_allclose(covariance @ Z.T @ run.rewards[rows] / s2, post.mean[arm].ravel(), rtol=1e-8)
        for task in range(3):
            block = slice(2 * task, 2 * task + 2)
            assert_allclose(covariance[block, block], post.covariance[arm, task], rtol=1e-8)


@pytest.mark.parametrize("noise_sd", [0.1, 1.0, 3.0])
def test_information_is_the_log_ratio_of_determinants(draw_run, stacked_prior, noise_sd):
    run = draw_run(4, noise_sd=noise_sd)
    said = information(run.statistics(), run.prior)

    for arm in range(2):
        _, _, _, before, after = dense(run, stacked_prior, arm, 40)
        assert_allclose(said[arm], np.linalg.slogdet(after)[1] - np.linalg.slogdet(before)[1])


def test_no_rewards_say_nothing(draw_run):
    assert_allclose(information(draw_run(4).statistics(0), draw_run(4).prior), 0.0, atol=1e-12)


def test_information_stays_below_its_bound(draw_run):
    for seed, noise_sd in product(range(10), (0.1, 1.0, 3.0)):
        run = draw_run(seed, noise_sd=noise_sd, n_arms=1)
        assert information(run.statistics(), run.prior)[0] < information_bound(run.constants, 40)


def test_information_bound_is_tight_without_a_shared_mean_to_learn():
    # One feature, contexts as large as they may be, the same number in every task, the shared mean all but known.
    prior = Prior(covariance=[[[2.0]]], noise_variance=0.3, shared_precision=1e9)
    task = np.repeat(np.arange(3), 4)
    stats = Statistics.from_data(
        task=task, arm=0 * task, context=np.full((12, 1), 1.5), reward=np.zeros(12), n_tasks=3, n_arms=1
    )
    constants = Constants.of(prior, np.ones((1, 3, 1)), [[1.5]])

    assert_allclose(information(stats, prior)[0], information_bound(constants, 12), rtol=1e-6)


@pytest.mark.parametrize("noise_sd", [0.1, 1.0, 3.0])
def test_error_is_at_most_noise_plus_prior_distance(draw_run, stacked_prior, noise_sd):
    # The deterministic half of the corrected proof, with the noise that really occurred.
    for seed in range(20):
        run = draw_run(seed, noise_sd=noise_sd)
        post = posterior(run.statistics(), run.prior)
        worst = standardised_errors(post, run.coefficients).max(axis=1)
        for arm in range(2):
            rows, Z, s2, before, after = dense(run, stacked_prior, arm, 40)
            theta = run.coefficients[arm].ravel()
            score = Z.T @ (run.rewards[rows] - Z @ theta) / s2
            noise = np.sqrt(score @ np.linalg.solve(after, score))
            assert worst[arm] <= noise + np.sqrt(theta @ before @ theta)


def test_self_normalised_noise_rarely_exceeds_its_bound_at_any_step(draw_run, stacked_prior):
    # The random half: at some step the squared noise exceeds information + 2 log(1 / delta) with probability at most
    # delta. An adversary keeps pulling until it does, which is what "for all steps together" is about.
    delta, n_runs, exceeded = 0.3, 150, 0
    for seed in range(n_runs):
        run = draw_run(seed, n_arms=1, n_steps=25, n_tasks=2)
        theta = run.coefficients[0].ravel()
        for n in range(1, 26):
            _, Z, s2, before, after = dense(run, stacked_prior, 0, n)
            score = Z.T @ (run.rewards[:n] - Z @ theta) / s2
            said = np.linalg.slogdet(after)[1] - np.linalg.slogdet(before)[1]
            if score @ np.linalg.solve(after, score) > said - 2.0 * np.log(delta):
                exceeded += 1
                break

    assert 0 < exceeded / n_runs < delta + 3 * np.sqrt(delta * (1 - delta) / n_runs)


@pytest.mark.parametrize("noise_sd", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("shared_precision", [0.01, 5.0])
def test_the_two_norms_differ_by_the_factors_given(draw_run, noise_sd, shared_precision):
    for seed in range(5):
        run = draw_run(seed, noise_sd=noise_sd, shared_precision=shared_precision)
        post, s2 = posterior(run.statistics(), run.prior), noise_sd**2
        for arm, task in product(range(2), range(3)):
            gram = run.statistics().gram[arm, task]
            own = s2 * np.linalg.inv(gram + s2 * np.linalg.inv(run.prior.covariance[arm]))
            ratios = np.linalg.eigvals(np.linalg.solve(own, post.covariance[arm, task])).real
            assert (ratios >= 1 - 1e-9).all()
            assert (ratios <= 1 + run.constants.c_4).all()


def fixed_design(noise_sd, n_runs):
    """Errors over fresh noise, the coefficients and a design that no reward influenced kept."""
    rng = np.random.default_rng(5)
    prior = Prior(covariance=[np.eye(2)], noise_variance=noise_sd**2, shared_precision=1.0)
    coefficients = np.array([[[0.9, -0.4], [0.2, 0.8], [-0.5, -0.5]]])
    tasks, contexts = np.tile(np.arange(3), 20), rng.uniform(-1, 1, (60, 2))
    expected = (contexts * coefficients[0, tasks]).sum(axis=1)
    errors = []
    for _ in range(n_runs):
        stats = Statistics.from_data(
            task=tasks,
            arm=0 * tasks,
            context=contexts,
            reward=expected + noise_sd * rng.standard_normal(60),
            n_tasks=3,
            n_arms=1,
        )
        errors.append(standardised_errors(posterior(stats, prior), coefficients, [0.6, 0.8])[0, 0])
    return np.array(errors), Constants.of(prior, coefficients, contexts)


def test_printed_second_line_fails_for_small_noise_and_the_corrected_holds():
    # The noise part of a standardised error is near N(0, 1) whatever sigma; the printed radius is proportional to it.
    errors, constants = fixed_design(0.01, 200)
    printed, corrected = radius(constants, 61, DELTA, "printed"), radius(constants, 61, DELTA)

    assert printed < 0.14  # P(|Z| < 0.14) = 0.11, where 0.9 is promised
    assert (errors <= printed).mean() < 0.25
    assert (errors <= corrected).all()
    assert errors.max() > 2.0


def test_printed_second_line_holds_at_noise_one():
    errors, constants = fixed_design(1.0, 200)

    assert (errors <= radius(constants, 61, DELTA, "printed")).all()


def opposed_tasks(size):
    """Two tasks seen in nearly the same direction that disagree, and a third that is never seen."""
    angle = np.sqrt(2 * 0.001) / 2
    first, second = np.array([np.cos(angle), np.sin(angle)]), np.array([np.cos(angle), -np.sin(angle)])
    coefficients = size * np.array([[first, -second, [0.0, -1.0]]])
    tasks = np.repeat([0, 1], 50)
    contexts = np.where(tasks[:, None] == 0, first, second)
    prior = Prior(covariance=[np.eye(2)], noise_variance=1.0, shared_precision=0.001)
    return prior, coefficients, tasks, contexts


def test_printed_first_line_fails_at_noise_one_where_tasks_oppose_each_other():
    # The shared mean is pulled to 22 times the size of any coefficient, which the proof bounds by 3 times.
    prior, coefficients, tasks, contexts = opposed_tasks(100.0)
    constants = Constants.of(prior, coefficients, contexts)
    expected = (contexts * coefficients[0, tasks]).sum(axis=1)
    for seed in range(10):
        rewards = expected + np.random.default_rng(seed).standard_normal(100)
        stats = Statistics.from_data(task=tasks, arm=0 * tasks, context=contexts, reward=rewards, n_tasks=3, n_arms=1)
        post = posterior(stats, prior)
        # No rewards in the third task: Ct is Sigma / s2 = I, so its norm is the length.
        error = np.linalg.norm(post.mean[0, 2] - coefficients[0, 2])

        assert error > 3 * radius(constants, 101, DELTA, "printed", norm="own")
        assert error <= radius(constants, 101, DELTA, norm="own")
        assert standardised_errors(post, coefficients)[0, 2] <= radius(constants, 101, DELTA)


def test_spectral_norm_is_not_bounded_by_the_order_of_eigenvalues():
    # M = G_1 + G_2 + lambda I is above G_1, and yet M^-1 G_1 stretches: up to sqrt(lambda_1 / lambda) / 2 = 16 or so.
    _, _, tasks, contexts = opposed_tasks(1.0)
    grams = [contexts[tasks == task].T @ contexts[tasks == task] for task in (0, 1)]
    seen = [gram @ np.linalg.inv(np.eye(2) + gram) for gram in grams]  # X'V^-1 X with Sigma = I and s2 = 1
    M = seen[0] + seen[1] + 0.001 * np.eye(2)

    assert (np.linalg.eigvalsh(M - seen[0]) > 0).all()
    assert 11 < np.linalg.norm(np.linalg.solve(M, seen[0]), 2) < 12


def test_bayes_radius_is_the_chi_quantile():
    assert_allclose(bayes_radius(1, 0.03), norm.ppf(0.985))
    assert_allclose(bayes_radius(7, 1e-12), np.sqrt(chi2.isf(1e-12, 7)))
    # What a union bound would use is wider.
    assert bayes_radius(1, 0.03) < np.sqrt(2 * np.log(2 / 0.03))


def test_bayes_radius_covers_exactly_under_posterior_sampling(sample_posteriors):
    # Coefficients from the prior, arms by Thompson sampling, the context of the last step chosen as the one with the
    # largest predicted reward. 250 worlds with four (arm, task) each: at worst, as if the four were one, coverage has
    # a standard deviation of sqrt(0.2 * 0.8 / 250) = 0.025.
    rng = np.random.default_rng(6)
    directions = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)
    covered, covered_one = [], []
    for _ in range(250):
        beta, post, _ = sample_posteriors(rng, 15)
        covered.append((standardised_errors(post, beta) <= bayes_radius(2, 0.2)).mean())
        x = directions[(directions @ post.mean[0, 0]).argmax()]
        covered_one.append(standardised_errors(post, beta, x)[0, 0] <= bayes_radius(1, 0.2))

    assert abs(np.mean(covered) - 0.8) < 4 * 0.025
    assert abs(np.mean(covered_one) - 0.8) < 4 * 0.025


def test_standardised_error_is_largest_over_contexts(draw_run):
    run = draw_run(7)
    post = posterior(run.statistics(), run.prior)
    angles = np.linspace(0, np.pi, 2_000)
    around = [standardised_errors(post, run.coefficients, [np.cos(a), np.sin(a)]) for a in angles]

    assert_allclose(np.max(around, axis=0), standardised_errors(post, run.coefficients), rtol=1e-4)
