import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.model import Statistics, estimate_prior, posterior
from posse.model.reml import fit_reml

MixedLM = pytest.importorskip("statsmodels.regression.mixed_linear_model").MixedLM


def draw(n_tasks, n_rows, covariance, seed, noise=1.1):
    rng = np.random.default_rng(seed)
    d = len(covariance)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = np.column_stack([np.ones(task.size), rng.standard_normal((task.size, d - 1)) + 0.5])
    values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=float))
    beta = 2.0 + rng.standard_normal((n_tasks, d)) @ (vectors * np.sqrt(values.clip(0))).T
    y = (X * beta[task]).sum(axis=1) + noise * rng.standard_normal(task.size)
    return task, X, y


def statistics(task, X, y):
    arm = np.zeros(task.size, dtype=int)
    return Statistics.from_data(task=task, arm=arm, context=X, reward=y, n_tasks=int(task.max()) + 1, n_arms=1)


@pytest.mark.parametrize("seed", range(3))
def test_an_interior_maximum_is_that_of_statsmodels(seed):
    task, X, y = draw(40, 15, [[1.5, 0.4], [0.4, 0.8]], seed)
    ours = estimate_prior(statistics(task, X, y), "reml")
    theirs = MixedLM(y, X, groups=task, exog_re=X).fit(reml=True)

    assert_allclose(ours.prior.covariance[0], np.asarray(theirs.cov_re), rtol=1e-3)
    assert_allclose(ours.prior.noise_variance, theirs.scale, rtol=1e-3)
    assert_allclose(posterior(statistics(task, X, y), ours.prior).shared_mean[0], theirs.fe_params, rtol=1e-3)
    assert ours.report.log_evidence >= theirs.llf - 1e-6
    assert ours.report.log_evidence == pytest.approx(theirs.llf, abs=1e-4)
    assert ours.report.converged


def test_a_maximum_at_the_boundary_comes_back_singular_and_says_so():
    # Only the intercept differs between tasks.
    task, X, y = draw(30, 8, np.diag([1.0, 0.0, 0.0]), seed=4)
    estimate = estimate_prior(statistics(task, X, y), "reml")
    values = estimate.report.eigenvalues[0]

    assert values[0] == pytest.approx(0, abs=1e-12)
    assert values[-1] > 0.3
    assert estimate.report.converged
    assert any("boundary" in note for note in estimate.report.notes)


def test_tasks_without_any_difference_give_a_zero_covariance():
    found = 0
    for seed in range(12):
        task, X, y = draw(10, 12, np.zeros((1, 1)), seed)
        fit = fit_reml(statistics(task, X, y), 0)
        pooled = np.linalg.lstsq(X, y, rcond=None)
        if fit.rank == 0:
            found += 1
            # Full pooling: the fixed effects and the noise of one regression.
            assert_allclose(fit.shared_mean, pooled[0], rtol=1e-6)
            assert_allclose(fit.noise_variance, pooled[1][0] / (y.size - 1), rtol=1e-6)
    # Without any difference between tasks the maximum is at the boundary in about half of all samples.
    assert 2 <= found <= 10


def test_units_only_rescale():
    task, X, y = draw(25, 10, [[1.5, 0.4], [0.4, 0.8]], seed=9)
    plain = fit_reml(statistics(task, X, y), 0)
    other = fit_reml(statistics(task, X * [1.0, 1e4], y * 1e-3), 0)

    scale = np.array([1e-3, 1e-7])
    assert_allclose(other.covariance / np.outer(scale, scale), plain.covariance, rtol=1e-5)
    assert_allclose(other.noise_variance / 1e-6, plain.noise_variance, rtol=1e-6)
    assert_allclose(other.shared_mean / scale, plain.shared_mean, rtol=1e-6)


@pytest.mark.parametrize(
    ("random", "at"), [([True, True], [0.9, -0.2, 0.6]), ([True, False], [0.9]), ([False, True], [0.6])]
)
def test_the_slope_of_the_deviance_is_its_difference(random, at):
    from posse.model.reml import _Criterion

    stats = statistics(*draw(12, 9, [[1.5, 0.4], [0.4, 0.8]], seed=1))
    criterion = _Criterion(stats, 0, np.array([1.0, 1.4]), np.array(random))
    at = np.array(at)
    _, slope = criterion(at)
    h = 1e-6
    steps = [(criterion(at + h * e)[0] - criterion(at - h * e)[0]) / (2 * h) for e in np.eye(at.size)]

    assert_allclose(slope, steps, rtol=1e-6)


def test_too_little_data_is_said_and_leaves_a_finite_prior():
    rows = {"task": [0, 1], "arm": [0, 0], "context": [[1.0, 2.0], [1.0, 3.0]], "reward": [1.0, 2.0]}
    estimate = estimate_prior(Statistics.from_data(**rows, n_tasks=2, n_arms=2), "reml")

    assert np.isfinite(estimate.prior.covariance).all()
    assert estimate.report.covariance_at_start.all()
    assert any("no restricted likelihood" in note for note in estimate.report.notes)
