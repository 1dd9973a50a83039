"""Before and after the sums over pairs: what only knows the arm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels import lanes
from posse.kernels.evidence import pairs_of
from posse.kernels.lanes import N_COUNTS, new_lanes, sum_information, sum_moments
from posse.kernels.passes import (
    GAUSSIAN_SCATTER,
    LEVERAGE,
    N_SUMMARIES,
    RESIDUAL,
    REWARDS,
    SCATTER,
    SQUARED_LEVERAGE,
    TASKS,
    finish_moments,
    prepare_moments,
    unwhiten,
)
from posse.kernels.posterior import finish_shared, new_buffers
from posse.model import Prior, Statistics, new_belief, posterior

ARM, N_ARMS, N_TASKS = 1, 2, 11
SIZES = [1, 2, 3, 8]


def new_state(d, weights=True):
    """Statistics, a prior, task weights, and a belief whose shared part is not computed yet."""
    rng = np.random.default_rng(d)
    n = 60
    stats = Statistics.from_data(
        task=rng.integers(N_TASKS - 1, size=n),
        arm=rng.integers(N_ARMS, size=n),
        context=rng.standard_normal((n, d)) + 0.4,
        reward=1.0 + rng.standard_normal(n),
        n_tasks=N_TASKS,
        n_arms=N_ARMS,
    )
    half = rng.standard_normal((N_ARMS, d + 2, d))
    prior = Prior(
        covariance=half.transpose(0, 2, 1) @ half / d,
        noise_variance=[0.4, 0.9],
        shared_precision=rng.uniform(0.2, 2.0, (N_ARMS, d)),
    )
    belief = new_belief(stats, prior)
    if weights:
        belief.task_weight[:] = rng.uniform(0.4, 2.5, N_TASKS)
    for array in (belief.shared_covariance, belief.shared_moment, belief.shared_mean):
        array[ARM] = np.nan
    root = np.ascontiguousarray(np.linalg.cholesky(prior.covariance[ARM]).T)
    return stats, prior, belief, root


def after_information(belief, root):
    d = len(root)
    information = np.empty((d, d + 1))
    sum_information(
        pairs_of(belief, ARM), root, belief.noise_variance[ARM], belief.local_covariance, belief.local_mean, True,
        new_lanes(d), information,
    )  # fmt: skip
    precision, moment = np.empty((d, d)), belief.shared_moment[ARM]
    unwhiten(root, information, precision, moment)
    finish_shared(
        belief.shared_precision[ARM], belief.shared_location[ARM], precision, moment, belief.shared_covariance[ARM],
        belief.shared_mean[ARM], new_buffers(d).matrices,
    )  # fmt: skip
    return information


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("d", SIZES)
def test_information_becomes_the_shared_mean(d, weights):
    stats, prior, belief, root = new_state(d, weights)

    after_information(belief, root)

    post = posterior(stats, prior, belief.task_weight)
    assert_allclose(belief.shared_mean[ARM], post.shared_mean[ARM], rtol=1e-9, atol=1e-10)
    scale = np.abs(post.shared_covariance[ARM]).max()
    assert_allclose(belief.shared_covariance[ARM], post.shared_covariance[ARM], rtol=1e-9, atol=1e-10 * scale)
    assert (belief.shared_covariance[ARM] == belief.shared_covariance[ARM].T).all()
    # The moment is the mean times the precision: a reward adds to it.
    expected = np.linalg.solve(post.shared_covariance[ARM], post.shared_mean[ARM])
    assert_allclose(belief.shared_moment[ARM], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("d", SIZES)
def test_sums_become_the_second_moment_and_the_summary(d, weights):
    stats, prior, belief, root = new_state(d, weights)
    after_information(belief, root)
    post = posterior(stats, prior, belief.task_weight)
    shared_root, start = np.empty((d, d)), np.empty(d)
    prepare_moments(belief.shared_covariance[ARM], belief.shared_mean[ARM], root, shared_root, start)
    moments, counts = np.empty((d, d)), np.empty(N_COUNTS)
    n = int(belief.n_seen[ARM])
    sum_moments(
        pairs_of(belief, ARM), root, belief.noise_variance[ARM], belief.shared_mean[ARM], shared_root, start,
        np.empty(n), new_lanes(d), moments, counts,
    )  # fmt: skip
    second_moment, summary = np.full((d, d), np.nan), np.full(N_SUMMARIES, np.nan)

    finish_moments(
        belief.rewards[ARM], belief.noise_variance[ARM], root, moments, counts, n, second_moment, summary,
        new_buffers(d),
    )  # fmt: skip

    # The posterior of a task's deviation from the shared mean, by the joint Gaussian of both: E (theta - m0)(theta -
    # m0)', which is that of theta alone only if m0 were known.
    s2, Phi, m0 = prior.noise_variance[ARM], post.shared_covariance[ARM], post.shared_mean[ARM]
    second, residual = np.zeros((d, d)), 0.0
    own, free = [], []  # squared residuals of every task around its posterior mean, and their degrees of freedom
    for row in belief.seen[ARM, :n].tolist():
        task = int(belief.task_of[row])
        weight, A, b = belief.task_weight[task], stats.gram[ARM, task], stats.moment[ARM, task]
        local = np.linalg.inv(A + s2 * weight * np.linalg.inv(prior.covariance[ARM]))
        deviation = local @ (b - A @ m0)
        second += weight * (local @ A @ Phi @ A @ local + s2 * local + np.outer(deviation, deviation))
        mean, covariance = post.mean[ARM, task], post.covariance[ARM, task]
        own.append(stats.sum_of_squares[ARM, task] + mean @ (A @ mean - 2 * b))
        free.append(max(stats.count[ARM, task] - np.trace(local @ A), 0.0))
        residual += own[-1] + np.trace(A @ covariance)
    assert_allclose(second_moment, second, rtol=1e-8, atol=1e-8 * np.abs(second).max())
    assert (second_moment == second_moment.T).all()
    assert summary[TASKS] == n == (stats.count[ARM] > 0).sum()
    assert summary[REWARDS] == stats.count[ARM].sum()
    assert summary[RESIDUAL] == pytest.approx(residual, rel=1e-8)
    assert summary[LEVERAGE] == counts[lanes.LEVERAGE]
    assert summary[SQUARED_LEVERAGE] == counts[lanes.SQUARED_LEVERAGE]
    # How unevenly squares fall on tasks, and what that would be for Gaussian noise.
    own, free = np.array(own), np.array(free)
    share = own / (own.sum() / free.sum())
    assert summary[SCATTER] == pytest.approx(((share - free) ** 2).sum(), rel=1e-7)
    assert summary[GAUSSIAN_SCATTER] == pytest.approx(2 * free.sum(), rel=1e-9)
