"""Noise and level of every arm and their centres, against the quadratic form that one step minimises."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels import levels
from posse.kernels.levels import (
    COUNT,
    COVARIANCE_SHARE,
    LEVEL,
    LEVEL_LEVEL,
    LEVEL_PULL,
    LEVEL_SLOPE,
    LOG_LEVEL,
    LOG_NOISE,
    LOG_SD,
    MOST_SAID,
    N_SLOPES,
    NOISE,
    NOISE_HELD,
    NOISE_LEVEL,
    NOISE_NOISE,
    NOISE_PULL,
    NOISE_SHARE,
    NOISE_SLOPE,
    SCARCE,
)

D, SIZE = 3, 2.0


def some_arms(n_arms=4, seed=0):
    """Slopes that ask for small moves, so that no bound is met."""
    rng = np.random.default_rng(seed)
    slopes = np.zeros((n_arms, N_SLOPES))
    slopes[:, LOG_NOISE] = math.log(0.9) + 0.3 * rng.standard_normal(n_arms)
    slopes[:, LOG_LEVEL] = math.log(0.1) + 0.3 * rng.standard_normal(n_arms)
    slopes[:, NOISE_SLOPE], slopes[:, LEVEL_SLOPE] = 10 * rng.standard_normal((2, n_arms))
    slopes[:, NOISE_NOISE], slopes[:, LEVEL_LEVEL] = rng.uniform(30, 90, (2, n_arms))
    slopes[:, NOISE_LEVEL] = rng.uniform(2, 9, n_arms)
    slopes[:, COUNT] = 1e6
    return slopes, np.array([math.log(0.8), math.log(0.12)])


def dense_step(slopes, centre):
    """Minimise the form of (centre, arms), arm by arm, with less of what an arm says about the centre if it is much."""
    start = [math.log(NOISE_SHARE * SIZE), math.log(COVARIANCE_SHARE * SIZE / D)]
    away = np.array(start) - centre
    matrix = np.eye(2) / LOG_SD**2
    matrix[0, 0] += NOISE_HELD / (1 + (away[0] / LOG_SD) ** 4)
    right = matrix @ away
    parts = []
    for row in slopes:
        at = row[[LOG_NOISE, LOG_LEVEL]] - centre
        share = 1 / (1 + at[0] ** 2 + LEVEL_PULL * D / NOISE_PULL * at[1] ** 2)
        pull = share * np.diag([NOISE_PULL, LEVEL_PULL * D])
        # 1/2 (at + move - moved centre)' pull (...) - slope' move + 1/2 move' information move, the move taken out
        whole = pull + np.reshape(row[[NOISE_NOISE, NOISE_LEVEL, NOISE_LEVEL, LEVEL_LEVEL]], (2, 2))
        wish = row[[NOISE_SLOPE, LEVEL_SLOPE]] - pull @ at
        said = pull - pull @ np.linalg.solve(whole, pull)
        asked = np.linalg.solve(said, pull @ (at + np.linalg.solve(whole, wish)))
        most = share * MOST_SAID * np.array([1.0, D]) if len(slopes) > 1 else np.inf  # an arm alone says all it knows
        less = np.sqrt(np.minimum(1.0, most / np.diag(said)))
        said = less[:, None] * said * less
        matrix, right = matrix + said, right + said @ asked
        parts.append((pull, whole, wish))
    moved = np.linalg.solve(matrix, right)
    return np.concatenate([moved, *(np.linalg.solve(whole, wish + pull @ moved) for pull, whole, wish in parts)])


def move(slopes, centre):
    """One step where no arm's rewards were all the same."""
    return levels.move_levels(slopes, centre, np.zeros(len(slopes), dtype=bool), SIZE, D)


@pytest.mark.parametrize("n_arms", [1, 2, 7])
def test_one_step_minimises_the_quadratic_form(n_arms):
    slopes, centre = some_arms(n_arms, seed=n_arms)
    moves = dense_step(slopes, centre)
    before, old = slopes.copy(), centre.copy()

    largest = move(slopes, centre)

    assert_allclose(centre - old, moves[:2], rtol=1e-9)
    assert_allclose(slopes[:, LOG_NOISE] - before[:, LOG_NOISE], moves[2::2], rtol=1e-9, atol=1e-12)
    assert_allclose(slopes[:, LOG_LEVEL] - before[:, LOG_LEVEL], moves[3::2], rtol=1e-9, atol=1e-12)
    assert largest == pytest.approx(np.abs(moves).max(), rel=1e-9)
    assert_allclose(slopes[:, 2:], before[:, 2:], rtol=0)


def rest(wish_noise, wish_level, information, counts=1e12):
    """Move until nothing moves: arm k would like its own logarithms, known this well.

    The slope of a log variance is n / 2 (r / v - 1), so no arm ever asks for less than one unit down at a time.
    """
    K = len(wish_noise)
    slopes, centre = np.zeros((K, N_SLOPES)), np.zeros(2)
    slopes[:, COUNT] = counts
    for _ in range(2000):
        slopes[:, NOISE_SLOPE] = information * (np.exp(wish_noise - slopes[:, LOG_NOISE]) - 1)
        slopes[:, LEVEL_SLOPE] = information * (np.exp(wish_level - slopes[:, LOG_LEVEL]) - 1)
        slopes[:, NOISE_NOISE] = slopes[:, LEVEL_LEVEL] = information
        if move(slopes, centre) < 1e-10:
            return slopes, centre
    raise AssertionError("did not come to rest")


def test_an_outlying_arm_moves_neither_the_centre_nor_itself():
    noise, level = np.array([0.1, -0.1, 0.05, -0.05]), np.array([0.1, 0.0, -0.1, 0.0])
    without, centre = rest(noise, level, 200.0)
    slopes, moved = rest(np.append(noise, -12.0), np.append(level, 0.0), 200.0)

    # 12 units away on the log scale the pull is 1 / 145 of what it is nearby. Drawn as the others are, the arm would
    # move the centre by about 12 / 5.
    assert_allclose(moved, centre, atol=0.05)
    assert_allclose(slopes[:4, LOG_NOISE], without[:, LOG_NOISE], atol=0.05)
    assert slopes[4, LOG_NOISE] == pytest.approx(-12.0, abs=0.05)


def test_arms_like_the_others_share_what_they_know():
    # Arms of little information lie near the centre, those of plenty where they would like to be.
    noise = np.array([0.3, -0.3, 0.3, -0.3])
    poor, rich = (rest(noise, np.zeros(4), information)[0][:, LOG_NOISE] for information in (6.0, 6000.0))

    # 6 against a pull of about 60 leaves a tenth of the distance; 6000, all of it.
    assert np.ptp(poor) < 0.15 * 0.6
    assert np.ptp(rich) > 0.97 * 0.6


def test_an_arm_unlike_the_others_in_one_way_is_let_go_in_both():
    near, far = levels.ordinary(0.0, 0.0, D), levels.ordinary(-5.0, 0.0, D)

    assert near == 1.0
    assert far == pytest.approx(1 / 26)
    assert levels.ordinary(0.0, 5.0, D) == pytest.approx(1 / (1 + 25 * LEVEL_PULL * D / NOISE_PULL))


def test_the_least_noise_falls_like_one_over_the_rewards():
    centre = math.log(0.7)
    at = np.exp([levels.least_noise(centre, count, SIZE, False) for count in (0.0, SCARCE, 1e4, 1e5)])

    assert at[0] == pytest.approx(0.7)
    assert at[1] == pytest.approx(0.35)
    assert at[3] / at[2] == pytest.approx(0.1, rel=0.01)
    assert math.exp(levels.least_noise(centre, 1e30, SIZE, False)) == pytest.approx(levels.QUIET * SIZE)


def test_rewards_that_were_all_the_same_fall_from_the_start_and_not_from_a_centre_that_fell():
    fallen, risen = math.log(1e-6), math.log(50.0 * SIZE)
    start = levels.NOISE_SHARE * SIZE

    assert math.exp(levels.least_noise(fallen, SCARCE, SIZE, True)) == pytest.approx(0.5 * start)
    assert math.exp(levels.least_noise(fallen, SCARCE, SIZE, False)) == pytest.approx(0.5e-6)
    assert math.exp(levels.least_noise(risen, SCARCE, SIZE, True)) == pytest.approx(25.0 * SIZE)


def test_an_arm_without_noise_stops_at_the_least_that_its_rewards_allow():
    # Five arms; the first has no noise at all. To come to rest there, what would go below the floor must not count.
    counts = np.array([70.0, 1e6, 1e6, 1e6, 1e6])
    slopes, centre = rest(np.array([-50.0, 0.1, 0.0, -0.1, 0.0]), np.zeros(5), 200.0, counts)

    assert slopes[0, LOG_NOISE] == pytest.approx(centre[NOISE] + math.log(SCARCE / (70.0 + SCARCE)), abs=1e-9)
    assert_allclose(slopes[1:, LOG_NOISE], 0.0, atol=0.3)


def test_no_step_is_longer_than_its_bound():
    slopes, centre = some_arms()
    slopes[:, NOISE_SLOPE], slopes[:, LEVEL_SLOPE] = 1e6, -1e6
    before, old = slopes.copy(), centre.copy()

    assert move(slopes, centre) == pytest.approx(levels.LARGEST_MOVE)
    assert np.abs(centre - old).max() <= levels.LARGEST_MOVE + 1e-12
    assert np.abs(slopes - before)[:, :2].max() <= levels.LARGEST_MOVE + 1e-12
    assert centre[LEVEL] < old[LEVEL]


def test_where_a_variance_vanishes_its_curvature_is_its_slope():
    assert levels.curvature(3.0, 2.0) == 3.0
    assert levels.curvature(3.0, -7.0) == 7.0


def test_an_arm_with_nearly_all_rewards_does_not_take_the_centre_with_it():
    # One arm always pays 0 and is pulled more and more often; the others have hardly any rewards, with a noise of 1.
    slopes, centre = np.zeros((3, N_SLOPES)), np.array([math.log(0.5), math.log(0.1)])
    slopes[:, LOG_NOISE], slopes[:, LOG_LEVEL] = centre
    for often in np.geomspace(10.0, 400.0, 40):
        rewards = np.array([often, 0.3, 1.0])
        squares = rewards * [0.0, 1.0, 1.0]
        slopes[:, NOISE_SLOPE] = 0.5 * (squares / np.exp(slopes[:, LOG_NOISE]) - rewards)
        slopes[:, NOISE_NOISE], slopes[:, COUNT] = 0.5 * rewards, rewards
        move(slopes, centre)
    assert (np.exp(slopes[1:, LOG_NOISE]) > 0.2).all()
    assert np.exp(slopes[0, LOG_NOISE]) < 0.05
