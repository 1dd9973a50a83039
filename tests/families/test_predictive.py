import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.families import linked_family_of
from posse.families.links import predicted


def integrals(family, reward, mean, variance):
    """Return log likelihood, precision and moment of the site by sums over a fine grid."""
    sd, highest = np.sqrt(variance), np.log(reward + 1.0) + 2.0 if family == "count" else 0.0
    eta = np.linspace(mean - 14 * sd, max(mean + 14 * sd, highest), 400_001)
    height, rate, slope, _ = linked_family_of(family).curve(np.asarray(reward), eta)
    height = height - 0.5 * (eta - mean) ** 2 / variance
    share = np.exp(height - height.max())
    total = share.sum() * (eta[1] - eta[0]) / np.sqrt(2 * np.pi * variance)
    share /= share.sum()
    precision = share @ slope
    return np.log(total) + height.max(), precision, reward - share @ rate + precision * (share @ eta)


@pytest.mark.parametrize(
    ("family", "reward"), [("binary", 0.0), ("binary", 1.0), ("count", 0.0), ("count", 3.0), ("count", 5000.0)]
)
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1e-4), (-3.0, 0.3), (1.0, 2.0), (-5.0, 9.0), (6.0, 4.0)])
def test_a_reward_is_as_probable_as_its_integral_says(family, reward, mean, variance):
    # Twenty nodes: nearly exact, but for beliefs that are 3 wide, whose integrand is no bell.
    found = predicted(linked_family_of(family), reward, np.array([mean, mean]), np.array([variance, variance]))
    rtol = 2e-3 if variance > 4 else 2e-4
    expected = integrals(family, reward, mean, variance)
    assert_allclose(found.log_likelihood, expected[0], rtol=rtol, atol=rtol)
    assert_allclose(found.precision, expected[1], rtol=50 * rtol, atol=rtol)
    assert_allclose(found.moment, expected[2], rtol=50 * rtol, atol=50 * rtol)


def test_probabilities_of_clicks_are_those_that_are_expected():
    clicks, mean, variance = linked_family_of("binary"), np.linspace(-6, 4, 11), np.full(11, 1.5)
    yes, no = (np.exp(predicted(clicks, reward, mean, variance).log_likelihood) for reward in (1.0, 0.0))
    assert_allclose(yes, clicks.expected(mean, np.sqrt(variance)), rtol=1e-4)
    assert_allclose(yes + no, 1.0, rtol=1e-5)


def test_a_context_of_zeros_says_nothing_wrong():
    found = predicted(linked_family_of("binary"), 1.0, np.zeros(1), np.zeros(1))
    assert_allclose(found.log_likelihood, np.log(0.5))
    assert np.isfinite([*found.precision, *found.moment]).all()


@pytest.mark.parametrize("family", ["binary", "count"])
def test_what_no_rate_explains_is_still_a_number(family):
    reward = 1.0 if family == "binary" else 1e6
    for mean, variance in ((-200.0, 0.1), (200.0, 0.1), (0.0, 1e4)):
        found = predicted(linked_family_of(family), reward, np.array([mean]), np.array([variance]))
        assert not np.isnan(found.log_likelihood).any()
