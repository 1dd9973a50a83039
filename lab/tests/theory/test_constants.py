from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, NotPositiveDefinite
from posse.model import Prior
from posse_lab.theory.constants import Constants, prior_distance


def test_derived_constants_by_hand(constants):
    # d c_x = 6, s2 = 1/4, lambda_1 / lambda_d = 4.
    assert_allclose(constants.c_1, 12.0 / np.log(1.0 + 48.0))
    assert_allclose(constants.c_2, 3.0 / (0.25 * 0.5))
    assert_allclose(constants.c_3, 960.0 * 49.0 / np.log(1.0 + 3840.0))
    assert_allclose(constants.c_4, 20.0)
    assert_allclose((constants.m_1, constants.m_2), (20.0, 0.5))
    assert_allclose(constants.m_3, 1.5 * np.sqrt(2.0))
    assert_allclose(constants.step_regret_bound, 2.0 * np.sqrt(6.0) * 1.5)


def test_maxima_take_the_other_side_where_the_shared_mean_is_sure(constants):
    sure = replace(constants, shared_precision=5.0)

    assert (sure.m_1, sure.m_2) == (1.0, 5.0)


def test_bias_is_the_prior_distance_where_it_is_known(constants):
    assert_allclose(constants.bias, 2.0 * 1.5 * np.sqrt(2.0))
    assert replace(constants, prior_distance=0.25).bias == 0.25


def test_constants_are_read_off_a_world(draw_run):
    run = draw_run(0)
    constants = run.constants

    inverse = np.linalg.eigvalsh(np.linalg.inv(run.prior.covariance))
    assert_allclose((constants.precision_min, constants.precision_max), (inverse.min(), inverse.max()))
    assert_allclose((constants.noise_sd, constants.shared_precision), (0.7, 0.4))
    assert_allclose(constants.coefficient_bound, np.linalg.norm(run.coefficients, axis=-1).max())
    assert_allclose(2 * constants.context_bound, (np.linalg.norm(run.contexts, axis=1) ** 2).max())
    assert (constants.n_arms, constants.n_tasks, constants.n_features) == (2, 3, 2)


@pytest.mark.parametrize("shared_precision", [0.001, 2.5, [[0.3, 4.0], [2.0, 0.1]]])
def test_prior_distance_is_that_of_the_stacked_coefficients(draw_run, stacked_prior, shared_precision):
    run = draw_run(1, n_tasks=4)
    prior = Prior(covariance=run.prior.covariance, noise_variance=1.0, shared_precision=shared_precision)

    distance = prior_distance(prior, run.coefficients)

    for arm in range(2):
        theta = run.coefficients[arm].ravel()
        assert_allclose(distance[arm] ** 2, theta @ np.linalg.solve(stacked_prior(prior, arm, 4), theta))


def test_prior_distance_is_never_above_what_the_assumption_implies(draw_run):
    for seed in range(20):
        constants = draw_run(seed, n_features=3).constants
        assert constants.prior_distance <= np.sqrt(constants.n_tasks) * constants.m_3
        assert constants.bias == constants.prior_distance


def test_squared_prior_distance_of_drawn_worlds_is_chi_square(draw_run):
    # 3 tasks with 2 features: mean 6, variance 12; 400 arms, so the mean has a standard deviation of 0.17.
    squares = [prior_distance(run.prior, run.coefficients) ** 2 for run in map(draw_run, range(200))]

    assert abs(np.mean(squares) - 6.0) < 4 * 0.174


def test_one_noise_variance_for_all_arms_is_needed(draw_run):
    run = draw_run(2)
    uneven = Prior(covariance=run.prior.covariance, noise_variance=[1.0, 2.0], shared_precision=1.0)
    with pytest.raises(InvalidValue, match="one noise variance for all arms and features, but it goes from 1 to 2"):
        Constants.of(uneven, run.coefficients, run.contexts)
    uneven = Prior(covariance=run.prior.covariance, noise_variance=1.0, shared_precision=[[1.0, 3.0], [1.0, 3.0]])
    with pytest.raises(InvalidValue, match="one shared precision"):
        Constants.of(uneven, run.coefficients, run.contexts)


def test_a_singular_covariance_is_refused(draw_run):
    run = draw_run(2)
    flat = Prior(covariance=[np.eye(2), np.ones((2, 2))], noise_variance=1.0, shared_precision=1.0)

    for call in (
        lambda: Constants.of(flat, run.coefficients, run.contexts),
        lambda: prior_distance(flat, run.coefficients),
    ):
        with pytest.raises(NotPositiveDefinite, match="arm 1 has smallest eigenvalue"):
            call()
