import numpy as np
import pytest

from posse.kernels.select import OPTIMISTIC, RANDOMISED, SAMPLING, best, explore

PLAIN = OPTIMISTIC._replace(growing=False)


@pytest.mark.parametrize(
    ("scores", "draws", "arm"),
    [
        ([1.0, 3.0, 2.0], [9.0, 0.0, 9.0], 1),
        ([2.0, 1.0, 2.0], [0.1, 9.0, 0.2], 2),
        ([2.0, 1.0, 2.0], [0.2, 9.0, 0.1], 0),
        ([5.0, 5.0, 5.0], [-1.0, 0.5, 0.0], 1),
        ([-4.0], [0.0], 0),
        ([-np.inf, -5.0], [9.0, 0.0], 1),
    ],
)
def test_highest_score_wins_and_draws_break_ties(scores, draws, arm):
    assert best(np.array(scores), np.array(draws)) == arm


def test_ties_go_to_every_arm_alike():
    rng = np.random.default_rng(0)
    scores = np.array([2.0, 1.0, 2.0, 2.0])

    winners = np.array([best(scores, rng.standard_normal(4)) for _ in range(3000)])

    # Each of three equal arms wins 1000 times, give or take four standard deviations of 26.
    counts = np.bincount(winners, minlength=4)
    assert counts[1] == 0
    assert (np.abs(counts[[0, 2, 3]] - 1000) < 104).all()


def test_exploration_adds_so_many_standard_deviations():
    mean, sd = np.array([1.0, 0.0]), np.array([0.1, 0.6])

    # At 2 standard deviations both score 1.2; just below and above, one is ahead.
    assert explore(mean.copy(), sd, 5, PLAIN.scaled(1.99), np.zeros(2)) == 0
    assert explore(mean.copy(), sd, 5, PLAIN.scaled(2.01), np.zeros(2)) == 1


def test_growing_exploration_is_times_the_root_of_the_logarithm_of_the_step():
    mean, sd, draws = np.array([0.7, -0.2]), np.array([0.3, 0.8]), np.zeros(2)
    for step in (2, 3, 100, 10_000):
        scores = mean.copy()
        explore(scores, sd, step, OPTIMISTIC.scaled(0.1), draws)
        np.testing.assert_allclose(scores, mean + 0.1 * np.sqrt(np.log(step)) * sd)


def test_sampling_scales_each_arms_own_draw():
    mean, sd, draws = np.array([1.0, 1.0]), np.array([0.5, 2.0]), np.array([0.4, -0.3])
    scores = mean.copy()

    arm = explore(scores, sd, 7, SAMPLING.scaled(0.5)._replace(growing=False), draws)

    np.testing.assert_allclose(scores, [1.0 + 0.5 * 0.5 * 0.4, 1.0 - 0.5 * 2.0 * 0.3])
    assert arm == 0


def test_one_draw_moves_all_arms_together_and_never_below_their_means():
    mean, sd = np.array([1.0, 0.8]), np.array([0.5, 2.0])
    exploration = RANDOMISED.scaled(0.4)._replace(growing=False)
    for z, width in [(0.0, 0.4), (1.5, 0.4 + 0.1 * 1.5), (-2.0, 0.2), (-4.5, 0.0)]:
        scores = mean.copy()
        arm = explore(scores, sd, 7, exploration, np.array([z, 9.0]))
        np.testing.assert_allclose(scores, mean + width * sd, rtol=1e-15)
        assert arm == np.argmax(mean + width * sd)


def test_every_rule_is_a_centre_and_a_spread():
    mean, sd, draws = np.array([0.7, -0.2]), np.array([0.3, 0.8]), np.array([0.4, -1.3])
    for centre, spread in [(0.4, 0.05), (0.0, 0.15), (0.4, 0.0)]:
        scores = mean.copy()
        explore(scores, sd, 50, OPTIMISTIC._replace(centre=centre, spread=spread), draws)
        np.testing.assert_allclose(scores, mean + (centre + spread * draws) * np.sqrt(np.log(50)) * sd, rtol=1e-15)
