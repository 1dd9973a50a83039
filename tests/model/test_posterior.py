from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.linear_model import Ridge

from posse.errors import PosseError, ShapeError
from posse.model import Prior, Statistics, log_evidence, posterior

RELATIVE = 1e-8


def relative_difference(got, expected, axes):
    """Largest difference over the largest entry, separately for every vector or matrix that ``axes`` span."""
    scale = np.abs(expected).max(axis=axes)
    return float((np.abs(got - expected).max(axis=axes) / np.where(scale > 0, scale, 1.0)).max())


def reward_covariance(tasks, X, shared, own, noise):
    """Covariance of all rewards of an arm with the shared mean and every coefficient integrated out."""
    same_task = tasks[:, None] == tasks[None, :]
    return X @ shared @ X.T + same_task * (X @ own @ X.T) + noise * np.eye(tasks.size, dtype=int)


def condition_on_rows(log, prior, arm):
    """Mean and covariance of (shared mean, task 0, task 1, ...), conditioning their joint Gaussian with every row.

    In decimals with 40 digits: with a vague shared mean, doubles would lose eight of theirs on this road.
    """
    exact = np.vectorize(Decimal, otypes=[object])
    with localcontext(prec=40):
        tasks, X, y = log.of_arm(arm)
        X, own = exact(X), exact(prior.covariance[arm])
        n, d = X.shape
        shared = np.eye(d, dtype=int) / exact(prior.shared_precision[arm])
        noise = exact(prior.noise_variance[arm])
        blocks = np.repeat(np.arange(-1, log.n_tasks), d)  # -1 is the shared mean, which no task's own part touches
        same = (blocks[:, None] == blocks[None, :]) & (blocks[:, None] >= 0)
        before = np.tile(shared, (log.n_tasks + 1,) * 2) + same * np.tile(own, (log.n_tasks + 1,) * 2)
        cross = np.tile(shared @ X.T, (log.n_tasks + 1, 1))
        cross = cross + (blocks[:, None] == tasks[None, :]) * np.tile(own @ X.T, (log.n_tasks + 1, 1))
        # Eliminating the rewards from [[V, C', y], [C, P, 0]] leaves P - C V^-1 C' and -C V^-1 y.
        table = np.block(
            [
                [reward_covariance(tasks, X, shared, own, noise), cross.T, exact(y)[:, None]],
                [cross, before, exact(np.zeros((blocks.size, 1)))],
            ]
        )
        for k in range(n):
            table[k + 1 :, k:] -= np.outer(table[k + 1 :, k], table[k, k:] / table[k, k])
        rest = table[n:, n:].astype(float)
    means = -rest[:, -1].reshape(-1, d)
    covariances = rest[:, :-1].reshape(log.n_tasks + 1, d, log.n_tasks + 1, d)
    return means, np.array([covariances[block, :, block] for block in range(log.n_tasks + 1)])


def assert_equals_conditioning_on_rows(log, prior):
    post = posterior(log.statistics(), prior)
    for arm in range(log.n_arms):
        means, covariances = condition_on_rows(log, prior, arm)
        assert relative_difference(post.shared_mean[arm], means[0], -1) < RELATIVE
        assert relative_difference(post.shared_covariance[arm], covariances[0], (-1, -2)) < RELATIVE
        assert relative_difference(post.mean[arm], means[1:], -1) < RELATIVE
        assert relative_difference(post.covariance[arm], covariances[1:], (-1, -2)) < RELATIVE


def uneven_counts(d):
    """Tasks with 0, 1, d - 1, d and 50 rewards, in another order for the second arm."""
    return [[0, 1, d - 1, d, 50], [50, d, 0, d - 1, 1]]


def test_posterior_worked_by_hand():
    # One feature that is always 1. The shared mean varies by 4, a task around it by 3, a reward by 2. Task 0 has
    # rewards 4 and 2: their mean 3 has noise variance 1, so the task keeps 7 / 8 of it and the variance is 7 / 8.
    # Given the shared mean it varies by 3 + 1 = 4, as much as the shared mean itself: that one moves half way, to 1.5,
    # and its variance halves to 2. Task 1 has no rewards: it expects 1.5 and varies by 3 + 2.
    stats = Statistics.from_data(
        task=[0, 0], arm=[0, 0], context=[[1.0], [1.0]], reward=[4.0, 2.0], n_tasks=2, n_arms=1
    )
    prior = Prior(covariance=[[[3.0]]], noise_variance=2.0, shared_precision=0.25)

    post = posterior(stats, prior)

    assert_allclose(post.shared_mean, [[1.5]])
    assert_allclose(post.shared_covariance, [[[2.0]]])
    assert_allclose(post.mean, [[[2.625], [1.5]]])
    assert_allclose(post.covariance, [[[[0.875]], [[5.0]]]])


def test_log_evidence_worked_by_hand():
    # The two rewards of the test above vary by 4 + 3 + 2 = 9 each and covary by 7. Their sum direction has variance 16
    # and holds 6^2 / 2 = 18, their difference direction has variance 2 and holds 2^2 / 2 = 2.
    stats = Statistics.from_data(
        task=[0, 0], arm=[0, 0], context=[[1.0], [1.0]], reward=[4.0, 2.0], n_tasks=2, n_arms=1
    )
    prior = Prior(covariance=[[[3.0]]], noise_variance=2.0, shared_precision=0.25)

    expected = -0.5 * (2 * np.log(2 * np.pi) + np.log(16 * 2) + 18 / 16 + 2 / 2)
    assert_allclose(log_evidence(stats, prior), [expected])


@pytest.mark.parametrize("shared_precision", [None, 1e-3], ids=["firm", "vague"])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_posterior_equals_conditioning_on_every_row(d, shared_precision, draw_log, draw_prior):
    log = draw_log(uneven_counts(d), d, seed=11 + d)

    assert_equals_conditioning_on_rows(log, draw_prior(2, d, seed=d, shared_precision=shared_precision))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_posterior_equals_conditioning_on_every_row_when_the_covariance_is_singular(rank, draw_log, draw_prior):
    log = draw_log(uneven_counts(3), 3, seed=5)

    assert_equals_conditioning_on_rows(log, draw_prior(2, 3, seed=rank, rank=rank))


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("shared_precision", [None, 1e-3], ids=["firm", "vague"])
def test_log_evidence_is_the_density_of_the_whole_reward_vector(rank, shared_precision, draw_log, draw_prior):
    log = draw_log(uneven_counts(3), 3, seed=21)
    prior = draw_prior(2, 3, seed=4, rank=rank, shared_precision=shared_precision)

    for arm, evidence in enumerate(log_evidence(log.statistics(), prior)):
        tasks, X, y = log.of_arm(arm)
        shared = np.eye(3) / prior.shared_precision[arm]
        covariance = reward_covariance(tasks, X, shared, prior.covariance[arm], prior.noise_variance[arm])
        density = multivariate_normal.logpdf(y, cov=covariance)
        assert_allclose(evidence, density, rtol=RELATIVE)


def test_log_evidence_of_no_rewards_is_zero(draw_log, draw_prior):
    log = draw_log([[0, 0, 0], [4, 0, 9]], 3, seed=1)

    # Two log-determinants of size 1 cancel, which leaves a few units in the last place.
    assert_allclose(log_evidence(log.statistics(), draw_prior(2, 3, seed=1))[0], 0.0, atol=1e-14)


def test_log_evidence_sums_the_predictions_of_one_reward_after_the_other(draw_log, draw_prior):
    log = draw_log([[0, 1, 6, 12]], 3, seed=8)
    prior = draw_prior(1, 3, seed=8)
    seen = Statistics.zeros(n_tasks=4, n_arms=1, n_features=3)
    total = 0.0
    for row in range(log.task.size):
        x, y, task = log.context[row], log.reward[row], log.task[row]
        post = posterior(seen, prior)
        variance = x @ post.covariance[0, task] @ x + prior.noise_variance[0]
        total += norm.logpdf(y, x @ post.mean[0, task], np.sqrt(variance))
        seen += Statistics.from_data(task=[task], arm=[0], context=[x], reward=[y], n_tasks=4, n_arms=1)

    assert_allclose(log_evidence(seen, prior)[0], total, rtol=RELATIVE)


def test_posterior_and_evidence_equal_those_of_a_gaussian_process(draw_log, draw_prior):
    d, n_tasks = 3, 5
    log = draw_log([[0, 1, 2, 3, 25]], d, seed=2)
    prior = draw_prior(1, d, seed=2)
    root = np.linalg.cholesky(prior.covariance[0])

    def features(X, tasks):
        # Inner products of these are the model's covariance of expected rewards: a shared block and one per task.
        wide = np.zeros((len(X), d * (1 + n_tasks)))
        wide[:, :d] = X / np.sqrt(prior.shared_precision[0])
        for row, task in enumerate(tasks):
            wide[row, d * (1 + task) : d * (2 + task)] = X[row] @ root
        return wide

    process = GaussianProcessRegressor(
        kernel=DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"), alpha=prior.noise_variance[0], optimizer=None
    ).fit(features(log.context, log.task), log.reward)
    asked = np.random.default_rng(0).standard_normal((n_tasks, d))
    mean, sd = process.predict(features(asked, range(n_tasks)), return_std=True)

    post = posterior(log.statistics(), prior)

    assert_allclose(np.einsum("na,na->n", asked, post.mean[0]), mean, rtol=1e-7)
    assert_allclose(np.sqrt(np.einsum("na,nab,nb->n", asked, post.covariance[0], asked)), sd, rtol=1e-7)
    assert_allclose(log_evidence(log.statistics(), prior)[0], process.log_marginal_likelihood_value_, rtol=1e-8)


def test_vast_covariance_gives_each_task_its_own_least_squares(draw_log):
    log = draw_log([[3, 8, 40]], 3, seed=3)
    # What is left of the shared mean is of the order s2 / (1e8 times the smallest eigenvalue of a Gram matrix, here
    # above 0.01): below 1e-6.
    prior = Prior.isotropic(n_arms=1, n_features=3, variance=1e8, noise_variance=0.6, shared_precision=0.4)

    post = posterior(log.statistics(), prior)

    for task in range(3):
        X, y = log.of_task(0, task)
        assert_allclose(post.mean[0, task], np.linalg.lstsq(X, y)[0], rtol=1e-5)
        assert_allclose(post.covariance[0, task], 0.6 * np.linalg.inv(X.T @ X), rtol=1e-4)


def test_zero_covariance_pools_all_tasks_into_one_ridge_regression(draw_log):
    log = draw_log([[0, 1, 3, 40]], 3, seed=3)
    prior = Prior.isotropic(n_arms=1, n_features=3, variance=0.0, noise_variance=0.6, shared_precision=0.4)
    _, X, y = log.of_arm(0)
    ridge = Ridge(alpha=0.6 * 0.4, fit_intercept=False, solver="cholesky").fit(X, y)

    post = posterior(log.statistics(), prior)

    pooled_covariance = np.linalg.inv(0.4 * np.eye(3) + X.T @ X / 0.6)
    assert_allclose(post.shared_mean[0], ridge.coef_, rtol=1e-9)
    assert_allclose(post.mean[0], np.tile(ridge.coef_, (4, 1)), rtol=1e-9)
    assert_allclose(post.covariance[0], np.tile(pooled_covariance, (4, 1, 1)), rtol=1e-9)


def test_shared_mean_pinned_to_zero_gives_each_task_its_own_ridge_regression(draw_log):
    log = draw_log([[0, 1, 3, 40]], 3, seed=3)
    # A shared precision of 1e9 leaves the shared mean within about 1e-7 of zero.
    prior = Prior.isotropic(n_arms=1, n_features=3, variance=1.7, noise_variance=0.6, shared_precision=1e9)

    post = posterior(log.statistics(), prior)

    assert_allclose(post.mean[0, 0], 0.0, atol=1e-6)
    for task in range(1, 4):
        X, y = log.of_task(0, task)
        ridge = Ridge(alpha=0.6 / 1.7, fit_intercept=False, solver="cholesky").fit(X, y)
        assert_allclose(post.mean[0, task], ridge.coef_, rtol=1e-5, atol=1e-6)


def test_task_without_rewards_has_the_populations_belief(draw_log, draw_prior):
    log = draw_log([[0, 7, 30], [5, 5, 5]], 3, seed=6)
    prior = draw_prior(2, 3, seed=6)

    post = posterior(log.statistics(), prior)

    assert_allclose(post.mean[0, 0], post.shared_mean[0], rtol=1e-14)
    assert_allclose(post.covariance[0, 0], prior.covariance[0] + post.shared_covariance[0], rtol=1e-12)


def test_arm_without_rewards_has_the_priors_belief(draw_log, draw_prior):
    log = draw_log([[4, 7], [0, 0]], 3, seed=6)
    prior = draw_prior(2, 3, seed=6)

    post = posterior(log.statistics(), prior)

    shared = np.eye(3) / prior.shared_precision[1]
    assert_allclose(post.shared_mean[1], 0.0)
    assert_allclose(post.shared_covariance[1], shared, rtol=1e-14)
    assert_allclose(post.covariance[1], np.tile(prior.covariance[1] + shared, (2, 1, 1)), rtol=1e-14)


def test_arms_do_not_touch_each_other(draw_log, draw_prior):
    log = draw_log(uneven_counts(3), 3, seed=9)
    prior = draw_prior(2, 3, seed=9)
    alone = log._replace(reward=np.where(log.arm == 0, log.reward, 100.0))

    both, changed = posterior(log.statistics(), prior), posterior(alone.statistics(), prior)

    assert_allclose(changed.mean[0], both.mean[0], rtol=1e-14)
    assert np.abs(changed.mean[1] - both.mean[1]).max() > 1.0


def test_shared_mean_keeps_its_digits_when_the_noise_is_at_the_estimators_floor():
    # One feature: G_j = A_j / (s2 + Sigma A_j) in closed form. Written as (A - A Ct A) / s2 it is a difference of
    # numbers 1e9 times its size, which costs nine digits. 1e-6 is the floor of the paper's noise estimate.
    rng = np.random.default_rng(4)
    n_tasks, n_rows, noise_variance, variance, precision = 6, 6000, 1e-6, 1.7, 0.3
    task = np.arange(n_rows) % n_tasks
    x = rng.standard_normal(n_rows)
    y = x * (2.0 + rng.standard_normal(n_tasks))[task] + 1e-3 * rng.standard_normal(n_rows)
    stats = Statistics.from_data(
        task=task, arm=np.zeros(n_rows, dtype=int), context=x[:, None], reward=y, n_tasks=n_tasks, n_arms=1
    )
    prior = Prior(covariance=[[[variance]]], noise_variance=noise_variance, shared_precision=precision)

    post = posterior(stats, prior)

    A, b = stats.gram[0, :, 0, 0], stats.moment[0, :, 0]
    shared_variance = 1 / (precision + (A / (noise_variance + variance * A)).sum())
    shared_mean = shared_variance * (b / (noise_variance + variance * A)).sum()
    assert_allclose(post.shared_covariance[0], [[shared_variance]], rtol=RELATIVE)
    assert_allclose(post.shared_mean[0], [shared_mean], rtol=RELATIVE)


# Generated inputs. Half-precision floats keep the numbers readable, and bounds keep A Sigma / s2 below 1e5, so
# rounding stays below 1e-10 of the largest entry and 1e-8 leaves room.
BOUNDED = {"width": 16, "allow_nan": False, "allow_infinity": False}
generated = settings(max_examples=40, derandomize=True, deadline=None)


@st.composite
def problems(draw, max_rows=12):
    """Arguments of Statistics.from_data, and a prior whose covariance may be singular or zero."""
    n_tasks, n_arms, d = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    n = draw(st.integers(0, max_rows))
    data = {
        "task": draw(arrays(np.int64, n, elements=st.integers(0, n_tasks - 1))),
        "arm": draw(arrays(np.int64, n, elements=st.integers(0, n_arms - 1))),
        "context": draw(arrays(np.float64, (n, d), elements=st.floats(-3, 3, **BOUNDED))),
        "reward": draw(arrays(np.float64, n, elements=st.floats(-8, 8, **BOUNDED))),
        "n_tasks": n_tasks,
        "n_arms": n_arms,
    }
    root = draw(arrays(np.float64, (n_arms, d, d), elements=st.floats(-2, 2, **BOUNDED)))
    positive = arrays(np.float64, n_arms, elements=st.floats(0.125, 4, **BOUNDED))
    prior = Prior(
        covariance=root @ np.swapaxes(root, 1, 2), noise_variance=draw(positive), shared_precision=draw(positive)
    )
    return data, prior


def assert_close(got, expected):
    assert_allclose(got, expected, rtol=1e-8, atol=1e-8 * max(1.0, float(np.abs(expected).max(initial=0.0))))


def rows(data, which):
    return {name: value[which] if isinstance(value, np.ndarray) else value for name, value in data.items()}


@generated
@given(problems())
def test_covariances_are_symmetric_and_positive_semidefinite(problem):
    data, prior = problem
    post = posterior(Statistics.from_data(**data), prior)

    for covariance in (post.covariance, post.shared_covariance):
        assert_allclose(covariance, np.swapaxes(covariance, -1, -2), rtol=1e-13, atol=0)
        values = np.linalg.eigvalsh(covariance)
        assert (values >= -1e-10 * values[..., -1:].max()).all()


@generated
@given(problems(), st.integers(0, 12))
def test_more_rewards_never_widen_a_belief(problem, cut):
    data, prior = problem
    less = posterior(Statistics.from_data(**rows(data, slice(None, cut))), prior)
    more = posterior(Statistics.from_data(**data), prior)

    for before, after in ((less.covariance, more.covariance), (less.shared_covariance, more.shared_covariance)):
        assert (np.linalg.eigvalsh(before - after) >= -1e-9 * np.abs(before).max()).all()


@generated
@given(problems(), st.randoms(use_true_random=False))
def test_relabelling_tasks_permutes_the_posterior(problem, random):
    data, prior = problem
    label = list(range(data["n_tasks"]))
    random.shuffle(label)
    label = np.array(label)
    plain = posterior(Statistics.from_data(**data), prior)
    renamed = posterior(Statistics.from_data(**{**data, "task": label[data["task"]]}), prior)

    assert_close(renamed.mean[:, label], plain.mean)
    assert_close(renamed.covariance[:, label], plain.covariance)
    assert_close(renamed.shared_mean, plain.shared_mean)


@generated
@given(problems(), st.floats(0.125, 8, width=16))
def test_rewards_in_another_unit_scale_the_posterior(problem, unit):
    data, prior = problem
    scaled_prior = Prior(
        covariance=unit**2 * prior.covariance,
        noise_variance=unit**2 * prior.noise_variance,
        shared_precision=prior.shared_precision / unit**2,
    )
    stats = Statistics.from_data(**data)
    scaled_stats = Statistics.from_data(**{**data, "reward": unit * data["reward"]})
    plain, scaled = posterior(stats, prior), posterior(scaled_stats, scaled_prior)

    assert_close(scaled.mean, unit * plain.mean)
    assert_close(scaled.covariance, unit**2 * plain.covariance)
    # A density per unit: each reward contributes one factor 1 / unit.
    per_unit = stats.count.sum(axis=1) * np.log(unit)
    assert_close(log_evidence(scaled_stats, scaled_prior), log_evidence(stats, prior) - per_unit)


@generated
@given(problems(), st.floats(0, 2 * np.pi))
def test_turning_the_features_turns_the_posterior(problem, angle):
    data, prior = problem
    d = data["context"].shape[1]
    turn = np.eye(d)
    if d > 1:
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    turned_prior = Prior(
        covariance=turn @ prior.covariance @ turn.T,
        noise_variance=prior.noise_variance,
        shared_precision=prior.shared_precision,
    )
    stats = Statistics.from_data(**data)
    turned_stats = Statistics.from_data(**{**data, "context": data["context"] @ turn.T})
    plain, turned = posterior(stats, prior), posterior(turned_stats, turned_prior)

    assert_close(turned.mean, plain.mean @ turn.T)
    assert_close(turned.covariance, turn @ plain.covariance @ turn.T)
    assert_close(log_evidence(turned_stats, turned_prior), log_evidence(stats, prior))


@pytest.mark.parametrize("ask", [posterior, log_evidence])
@pytest.mark.parametrize(("n_arms", "n_features"), [(2, 3), (1, 2)])
def test_prior_for_other_arms_or_features_is_refused(ask, n_arms, n_features):
    stats = Statistics.zeros(n_tasks=4, n_arms=1, n_features=3)
    prior = Prior.isotropic(n_arms=n_arms, n_features=n_features)

    expected = f"prior is for {n_arms} arms and {n_features} features, but 1 arms and 3 features"
    with pytest.raises(ShapeError, match=expected) as caught:
        ask(stats, prior)
    assert isinstance(caught.value, PosseError)
    assert isinstance(caught.value, ValueError)
