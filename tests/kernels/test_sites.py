import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.families import LINKED
from posse.kernels.sites import CLOSE, expectations, site, site_again

BINARY, COUNT = (LINKED[name].code for name in ("binary", "count"))

GRID = np.linspace(-12.0, 12.0, 200_001)
DENSITY = np.exp(-0.5 * GRID**2)
DENSITY /= DENSITY.sum()

CASES = [
    (BINARY, 1.0, 0.3, 2.0),
    (BINARY, 0.0, 0.3, 2.0),
    (BINARY, 1.0, -6.0, 4.0),
    (BINARY, 1.0, 0.0, 100.0),
    (BINARY, 0.0, 10.0, 400.0),
    (COUNT, 0.0, 0.0, 1.0),
    (COUNT, 3.0, 0.0, 1.0),
    (COUNT, 0.0, 10.0, 9.0),
    (COUNT, 2.0, 8.0, 100.0),
    (COUNT, 1e6, 0.0, 1.0),
]


def logistic(eta):
    return 1 / (1 + np.exp(-eta))


def curves(family):
    """The expected reward and its first three derivatives by the predictor."""
    if family == COUNT:
        return [np.exp] * 4
    return [
        logistic,
        lambda eta: logistic(eta) * logistic(-eta),
        lambda eta: logistic(eta) * logistic(-eta) * (1 - 2 * logistic(eta)),
        lambda eta: logistic(eta) * logistic(-eta) * (1 - 6 * logistic(eta) * logistic(-eta)),
    ]


@pytest.mark.parametrize("family", [BINARY, COUNT])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.5), (-2.0, 1.0), (1.3, 3.0), (-5.0, 2.0), (0.5, 8.0)])
def test_expectations_are_those_of_quadrature(family, mean, sd):
    if family == COUNT and sd > 4:
        pytest.skip("the grid ends before the average of exp does")
    found = expectations.py_func(family, mean, sd * sd)
    for value, curve in zip(found, curves(family), strict=True):
        assert_allclose(value, curve(mean + sd * GRID) @ DENSITY, rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize(("family", "reward", "m", "v"), CASES)
def test_a_site_takes_the_belief_where_its_own_expectations_hold(family, reward, m, v):
    w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    mean, slope = expectations.py_func(family, e, q)[:2]
    scale = max(1.0, reward)
    assert_allclose(e, m + v * (reward - mean), rtol=1e-8, atol=1e-8 * scale)
    assert_allclose(w, slope, rtol=1e-7)


@pytest.mark.parametrize("weight", [0.6, 0.01, 1e-6])
@pytest.mark.parametrize(("family", "reward", "m", "v"), CASES)
def test_the_site_of_a_reward_that_has_faded_is_that_of_a_power_of_its_likelihood(family, reward, m, v, weight):
    w, h = site(family, reward, weight, m, v, m, v, CLOSE)
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    mean, slope = expectations.py_func(family, e, q)[:2]
    scale = max(1.0, weight * reward)
    assert_allclose(e, m + v * weight * (reward - mean), rtol=1e-8, atol=1e-8 * scale)
    assert_allclose(w, max(weight * slope, 1e-12), rtol=1e-7)
    if q * w < 1 - 1e-5:
        assert_allclose(site_again(family, reward, weight, e, q, w, h, 0.0), (w, h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("family", "reward", "m", "v"), CASES)
def test_a_site_is_near_to_what_the_reward_really_says(family, reward, m, v):
    # The exact belief after the reward, on a grid. A Gaussian cannot have its shape, but is close in place and width.
    w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    if q < 1e-4 or v > 5:
        return
    eta = e + np.sqrt(q) * GRID
    log_likelihood = reward * eta - (np.exp(eta) if family == COUNT else np.logaddexp(0, eta))
    log_density = log_likelihood - 0.5 * (eta - m) ** 2 / v
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ eta
    assert abs(mean - e) < 0.12 * np.sqrt(q)
    assert_allclose(density @ (eta - mean) ** 2, q, rtol=0.2)


@pytest.mark.parametrize(("family", "reward", "m", "v"), CASES)
def test_a_site_made_again_under_the_same_belief_is_the_same(family, reward, m, v):
    w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    if q * w > 1 - 1e-5:  # the belief before the reward cannot be told from one after it any more
        return
    assert_allclose(site_again(family, reward, 1.0, e, q, w, h, 0.0), (w, h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("offset", [0.7, -2.0])
@pytest.mark.parametrize(("family", "reward", "m", "v"), CASES)
def test_a_site_less_an_offset_is_the_same_factor_on_the_predictor(family, reward, m, v, offset):
    w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
    w, h = 1.1 * w, 1.1 * h  # a step away, so that there is something to make again
    q = 1 / (1 / v + w)
    e = q * (m / v + h)
    if not q * w < 1 - 1e-5:
        return
    again = site_again(family, reward, 1.0, e, q, w, h, 0.0)
    less = site_again(family, reward, 1.0, e - offset, q, w, h - w * offset, offset)
    assert_allclose((less[0], less[1] + less[0] * offset), again, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", [BINARY, COUNT])
@pytest.mark.parametrize("m", [-700.0, -40.0, 0.0, 40.0, 700.0])
@pytest.mark.parametrize("v", [1e-8, 1.0, 1e4])
def test_extreme_beliefs_give_finite_sites(family, m, v):
    for reward in (0.0, 1.0):
        w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
        assert np.isfinite([w, h]).all()
        assert w > 0


@pytest.mark.parametrize("family", [BINARY, COUNT])
@pytest.mark.parametrize("m", [-40.0, -12.4, -1.0, 0.0, 6.0, 40.0])
@pytest.mark.parametrize("v", [1e-6, 0.3, 16.0, 311.0, 1e4])
def test_sites_are_found_however_wide_the_belief(family, m, v):
    # A rate whose logarithm is -12 with a standard deviation of 18 has a mean of e^143: the way to its site is long.
    for reward in (0.0, 1.0) if family == BINARY else (0.0, 1.0, 7.0, 1000.0):
        w, h = site(family, reward, 1.0, m, v, m, v, CLOSE)
        q = 1 / (1 / v + w)
        e = q * (m / v + h)
        value, slope = expectations.py_func(family, e, q)[:2]
        left = (e - m - v * (reward - value)) / (1 + v * slope)  # what Newton's method would still move
        assert abs(left) < 1e-6 * np.sqrt(q)
        assert_allclose(w, max(slope, 1e-12), rtol=1e-4)
