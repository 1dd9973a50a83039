import numpy as np
import pytest

from posse.kernels.select import Exploration, best, explore

PLAIN = Exploration(scale=1.0, growing=False, sampling=False)


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
    assert explore(mean.copy(), sd, 5, PLAIN._replace(scale=1.99), np.zeros(2)) == 0
    assert explore(mean.copy(), sd, 5, PLAIN._replace(scale=2.01), np.zeros(2)) == 1


def test_growing_exploration_is_times_the_root_of_the_logarithm_of_the_step():
    mean, sd, draws = np.array([0.7, -0.2]), np.array([0.3, 0.8]), np.zeros(2)
    for step in (2, 3, 100, 10_000):
        scores = mean.copy()
        explore(scores, sd, step, Exploration(scale=0.1, growing=True, sampling=False), draws)
        np.testing.assert_allclose(scores, mean + 0.1 * np.sqrt(np.log(step)) * sd)


def test_growing_exploration_at_step_one_is_that_of_step_two():
    first, second = np.array([1.0]), np.array([1.0])
    growing = Exploration(scale=0.1, growing=True, sampling=False)

    explore(first, np.array([2.0]), 1, growing, np.zeros(1))
    explore(second, np.array([2.0]), 2, growing, np.zeros(1))

    assert first == second > 1.0


def test_sampling_scales_each_arms_own_draw():
    mean, sd, draws = np.array([1.0, 1.0]), np.array([0.5, 2.0]), np.array([0.4, -0.3])
    scores = mean.copy()

    arm = explore(scores, sd, 7, Exploration(scale=0.5, growing=False, sampling=True), draws)

    np.testing.assert_allclose(scores, [1.0 + 0.5 * 0.5 * 0.4, 1.0 - 0.5 * 2.0 * 0.3])
    assert arm == 0
