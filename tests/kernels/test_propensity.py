"""Win probabilities against adaptive quadrature, exact cases and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm

from posse.kernels.propensity import win_probabilities


def wins(mean, sd):
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    out = np.empty_like(mean)
    win_probabilities(mean, sd, np.empty((4, 8 * max(mean.size, 2))), out)
    return out


def by_quadrature(mean, sd):
    """The integral of each arm by itself, adaptive, cut where any factor of the product changes."""
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    found = []
    for k in range(len(mean)):
        others = np.arange(len(mean)) != k

        def integrand(z, k=k, others=others):
            below = (mean[k] + sd[k] * z - mean[others]) / sd[others]
            return norm.pdf(z) * np.exp(log_ndtr(below).sum())

        steps = [(mean[j] + c * sd[j] - mean[k]) / sd[k] for j in np.flatnonzero(others) for c in (-6, -2, 0, 2, 6)]
        cuts = [-9.0, *sorted(step for step in steps if -9 < step < 9), 9.0]
        pieces = itertools.pairwise(cuts)
        found.append(sum(quad(integrand, a, b, epsabs=1e-11, epsrel=1e-9, limit=200)[0] for a, b in pieces))
    return np.array(found)


@pytest.mark.parametrize("n_arms", [2, 3, 5, 12])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_integral_to_a_millionth(n_arms, seed):
    rng = np.random.default_rng([n_arms, seed])
    mean, sd = rng.normal(size=n_arms), np.exp(rng.normal(size=n_arms))

    assert_allclose(wins(mean, sd), by_quadrature(mean, sd), atol=1e-8)


@pytest.mark.parametrize("narrow", [1e-2, 1e-4, 1e-7])
def test_arms_of_very_different_spread(narrow):
    mean, sd = [0.0, 0.3, 0.31, -1.0], [1.0, narrow, 3 * narrow, 0.5]

    assert_allclose(wins(mean, sd), by_quadrature(mean, sd), atol=1e-7)


def test_two_arms_have_a_formula():
    for gap, first, second in [(0.0, 1.0, 2.0), (1.5, 0.3, 0.4), (-4.0, 1.0, 0.01), (30.0, 1.0, 1.0)]:
        expected = norm.cdf(gap / np.hypot(first, second))
        assert_allclose(wins([gap, 0.0], [first, second]), [expected, 1 - expected], atol=1e-8)


def test_equal_arms_share_equally():
    assert_allclose(wins([2.0] * 7, [0.3] * 7), np.full(7, 1 / 7), rtol=1e-9)


def test_one_arm_always_wins():
    assert wins([-3.0], [2.0]) == [1.0]
    assert wins([-3.0], [0.0]) == [1.0]


def test_certain_scores():
    assert_allclose(wins([1.0, 3.0, 3.0], [0.0, 0.0, 0.0]), [0.0, 0.5, 0.5])
    expected = norm.cdf(1.0)  # N(0, 1) stays below 1
    assert_allclose(wins([0.0, 1.0, 0.5], [1.0, 0.0, 0.0]), [1 - expected, expected, 0.0], atol=1e-8)
    assert_allclose(wins([0.0, 1.0, 1.0], [1.0, 0.0, 0.0]), [1 - expected, expected / 2, expected / 2], atol=1e-8)


def test_as_often_as_draws_win():
    rng = np.random.default_rng(3)
    mean, sd = np.array([0.5, 0.0, -0.2, 0.4]), np.array([0.2, 1.0, 2.0, 0.6])
    winners = (mean + sd * rng.standard_normal((400_000, 4))).argmax(axis=1)

    # A share of 400,000 has a standard error of at most 0.0008; four of them.
    assert_allclose(wins(mean, sd), np.bincount(winners, minlength=4) / 400_000, atol=0.0032)


@given(st.data())
def test_they_are_probabilities_whatever_the_units(data):
    n_arms = data.draw(st.integers(1, 8))
    means = st.integers(-5000, 5000).map(lambda thousandths: thousandths / 1000)
    spreads = st.one_of(st.just(0.0), st.floats(1e-9, 3.0))
    mean = np.array(data.draw(st.lists(means, min_size=n_arms, max_size=n_arms)))
    sd = np.array(data.draw(st.lists(spreads, min_size=n_arms, max_size=n_arms)))
    unit = data.draw(st.sampled_from([2.0**-60, 1.0, 2.0**60]))
    found = wins(mean, sd)

    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert_allclose(wins(unit * mean, unit * sd), found, atol=1e-12)  # a power of two changes no digit


@pytest.mark.parametrize("tiny", [5e-324, 1e-308, 1e-200])
def test_spreads_that_no_arithmetic_can_use_are_certain(tiny):
    assert wins([0.0], [tiny]) == [1.0]
    assert_allclose(wins([0.0, 0.0], [tiny, tiny]), [0.5, 0.5])
    assert_allclose(wins([0.0, 1.0], [tiny, 1.0]), [norm.cdf(-1.0), norm.cdf(1.0)], atol=1e-8)


def test_a_better_mean_never_loses():
    low, high = (wins([value, 0.2, -0.1], [0.5, 1.0, 0.1])[0] for value in (0.1, 0.3))

    assert low < high


def by_fine_panels(mean, sd):
    """All arms over very many narrow panels: for more arms than adaptive quadrature has patience for."""
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    low, high = (mean - 9 * sd).max(), (mean + 9 * sd).max()
    nodes, weights = np.polynomial.legendre.leggauss(10)
    edges = np.linspace(low, high, int(np.ceil((high - low) / (0.3 * sd.min()))) + 1)
    half = np.diff(edges)[:, None] / 2
    at, weight = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    z = (at[:, None] - mean) / sd
    log_all = log_ndtr(z).sum(axis=1)
    return np.array(
        [(weight * norm.pdf(z[:, k]) / sd[k] * np.exp(log_all - log_ndtr(z[:, k]))).sum() for k in range(mean.size)]
    )


@pytest.mark.parametrize("n_arms", [5, 9, 26, 60, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spread_of_means", [0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("spread_of_sds", [0.0, 0.5, 1.0])
def test_many_arms(n_arms, spread_of_means, spread_of_sds):
    """The highest of many arms changes faster than any of them."""
    rng = np.random.default_rng([n_arms, 7])
    mean, sd = rng.normal(0, spread_of_means, n_arms), np.exp(rng.normal(0, spread_of_sds, n_arms))

    assert_allclose(wins(mean, sd), by_fine_panels(mean, sd), atol=5e-7)
