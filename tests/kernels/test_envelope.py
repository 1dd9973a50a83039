"""Probabilities from the upper envelope against a fine grid of draws, cases worked by hand, and actual draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri
from scipy.stats import chisquare

from posse.kernels.envelope import envelope_probabilities, mass_between
from posse.kernels.select import RANDOMISED, explore

CELLS = 1_200_000  # of equal mass: a breakpoint is off by half a cell, and an arm has two


def wins(mean, width, centre=0.4, spread=0.1):
    mean, width = np.asarray(mean, dtype=np.float64), np.asarray(width, dtype=np.float64)
    out = np.full(mean.size, np.nan)
    envelope_probabilities(mean, width, centre, spread, out)
    return out


def on_a_grid(mean, width, centre=0.4, spread=0.1):
    """The share of equally likely draws that each arm wins; equal scores share theirs."""
    u = np.maximum(centre + spread * ndtri((np.arange(CELLS) + 0.5) / CELLS), 0.0)
    highest = np.full(CELLS, -np.inf)
    for m, w in zip(mean, width, strict=True):
        np.maximum(highest, m + u * w, out=highest)
    winners = [m + u * w == highest for m, w in zip(mean, width, strict=True)]
    ties = np.sum(winners, axis=0)
    return np.array([(here / ties).mean() for here in winners])


@pytest.mark.parametrize("n_arms", [1, 2, 3, 5, 12, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("centre", "spread"), [(0.4, 0.1), (0.3, 0.6), (0.0, 1.0)])
def test_it_is_the_share_of_draws_that_an_arm_wins(n_arms, centre, spread):
    rng = np.random.default_rng([n_arms, int(10 * spread)])
    # Means as far apart as standard deviations move them, so that several arms are on the envelope.
    mean, width = rng.normal(scale=0.1, size=n_arms), np.exp(rng.normal(size=n_arms))

    found = wins(mean, width, centre, spread)

    assert_allclose(found, on_a_grid(mean, width, centre, spread), atol=1e-6)
    if n_arms == 5 and spread > 0.1:
        assert (found > 0).sum() >= 2


def test_many_lines_on_one_envelope():
    # Tangents of a parabola: all of them are on the envelope, and each wins between the midpoints of its neighbours.
    at = np.linspace(0.0, 0.8, 200)
    found = wins(-at * at, 2 * at)

    middle = np.concatenate([[-np.inf], (at[:-1] + at[1:]) / 2, [np.inf]])
    expected = np.diff(ndtr((middle - 0.4) / 0.1))
    assert_allclose(found, expected, atol=1e-14)


def test_two_arms_cross_once():
    # 1 + 0.1 u against 0.8 + 0.6 u: the second is ahead above u = 0.4, the median, and u is never below 0.
    assert_allclose(wins([1.0, 0.8], [0.1, 0.6]), [0.5, 0.5], rtol=1e-14)
    assert_allclose(wins([1.0, 0.8], [0.1, 0.6], 0.5, 0.1), [ndtr(-1.0), ndtr(1.0)], rtol=1e-13)


def test_arms_without_a_difference_share():
    assert wins([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]).tolist() == pytest.approx([1 / 3] * 3, rel=1e-15)
    assert_allclose(wins([1.0, 0.8, 0.8], [0.1, 0.6, 0.6]), [0.5, 0.25, 0.25], rtol=1e-14)
    assert_allclose(wins([1.0, 1.0, 0.8, 0.0], [0.1, 0.1, 0.6, 0.6]), [0.25, 0.25, 0.5, 0.0], rtol=1e-14)


def test_at_zero_standard_deviations_equal_means_share():
    # Half of the draws give 0 standard deviations, where width says nothing; above it decides.
    assert_allclose(wins([1.0, 1.0, 0.0], [0.1, 0.6, 0.1], 0.0, 1.0), [0.25, 0.75, 0.0], rtol=1e-15)


def test_certain_arms():
    assert wins([0.3, 0.5, 0.5], [0.0, 0.0, 0.0]).tolist() == [0.0, 0.5, 0.5]
    assert_allclose(wins([0.5, 0.3], [0.0, 0.5]), [0.5, 0.5], rtol=1e-14)
    assert wins([7.0], [0.0]).tolist() == [1.0]


def test_three_lines_through_one_point_leave_the_middle_one_nothing():
    assert wins([1.0, 0.75, 0.5], [0.0, 0.5, 1.0], 0.5).tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12, 1e200])
def test_units_change_nothing(scale):
    rng = np.random.default_rng(3)
    mean, width = rng.normal(size=7), np.exp(rng.normal(size=7)) * 3

    assert_allclose(wins(scale * mean, scale * width), wins(mean, width), rtol=1e-9, atol=1e-15)


def test_means_and_widths_of_very_different_size():
    assert wins([1e300, -1e300, 0.0], [1e-300, 1.0, 1.0]).tolist() == [1.0, 0.0, 0.0]
    assert wins([1e-300, 0.0], [0.0, 1e300]).tolist() == pytest.approx([0.0, 1.0], abs=1e-4)  # all but u = 0


MEANS, WIDTHS = (
    st.sampled_from([0.0, 0.1, -0.3]) | st.floats(-1e3, 1e3),
    st.sampled_from([0.0, 1.0]) | st.floats(0, 1e3),
)


@given(st.lists(st.tuples(MEANS, WIDTHS), min_size=1, max_size=9), st.floats(0, 2), st.floats(1e-3, 2))
def test_probabilities_add_up_and_order_does_not_matter(lines, centre, spread):
    mean, width = np.array(lines).T
    found = wins(mean, width, centre, spread)

    assert (found >= 0).all()
    assert_allclose(found.sum(), 1.0, rtol=1e-14)
    assert_allclose(wins(mean[::-1], width[::-1], centre, spread)[::-1], found, rtol=1e-12, atol=1e-15)


def test_actual_draws_have_these_frequencies():
    rng = np.random.default_rng(11)
    mean, sd = np.array([1.0, 0.96, 0.89, 0.6]), np.array([0.1, 0.2, 0.36, 0.3])
    exploration = RANDOMISED.scaled(0.4)._replace(growing=False)
    expected = wins(mean, sd)

    arms = [explore(mean.copy(), sd, 1, exploration, rng.standard_normal(4)) for _ in range(20_000)]

    taken = np.bincount(arms, minlength=4)
    assert (taken[expected == 0] == 0).all()
    there = expected > 0
    assert there.sum() == 3
    # One seed, so the test cannot be unlucky; a wrong formula is off by far more than one draw in 1,000.
    assert chisquare(taken[there], 20_000 * expected[there]).pvalue > 1e-3


def test_tails_keep_their_digits():
    assert_allclose(mass_between(-9.0, -8.0), mass_between(8.0, 9.0), rtol=1e-15)
    assert_allclose(mass_between(-9.0, -8.0), ndtr(-8.0) - ndtr(-9.0), rtol=1e-12)
    assert mass_between(-np.inf, np.inf) == 1.0
