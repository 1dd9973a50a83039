"""Kernels that move between features as they came and features less their means, against the matrix they stand for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels.centring import shift_coefficients, shift_covariance, shift_moment, shift_precision


@pytest.fixture(params=[-1, 0, 2])
def case(request):
    rng, d = np.random.default_rng(3), 4
    intercept, mean = np.arange(d) == request.param, rng.normal(size=d) * 10
    mean[request.param] = 0.0
    turn = np.eye(d)
    if request.param >= 0:
        turn[:, request.param] -= mean
    A = rng.normal(size=(6, d))
    return mean, intercept, turn, A.T @ A, rng.normal(size=d)


def test_sums_of_products_are_those_of_centred_columns(case):
    mean, intercept, turn, matrix, vector = case
    precision, moment = matrix.copy(), vector.copy()
    shift_precision(precision, mean, intercept, 1.0)
    shift_moment(moment, mean, intercept, 1.0)
    assert_allclose(precision, turn @ matrix @ turn.T, rtol=1e-12)
    assert_allclose(moment, turn @ vector, rtol=1e-12)


def test_coefficients_go_the_other_way_round(case):
    mean, intercept, turn, matrix, vector = case
    covariance, coefficients = matrix.copy(), vector.copy()
    shift_covariance(covariance, mean, intercept, 1.0)
    shift_coefficients(coefficients, mean, intercept, 1.0)
    there = np.linalg.inv(turn).T
    assert_allclose(covariance, there @ matrix @ there.T, rtol=1e-9)
    assert_allclose(coefficients, there @ vector, rtol=1e-12)
    x = np.arange(1.0, 5.0)
    assert_allclose((turn @ x) @ coefficients, x @ vector)  # the same prediction
