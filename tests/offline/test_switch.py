import numpy as np
import pytest

from posse.offline.estimators import doubly_robust, importance_weights, switch_threshold


def problem(seed, heavy, n=400):
    rng = np.random.default_rng(seed)
    logged = np.full((n, 2), 0.5)
    logged[:heavy] = [0.999, 0.001]
    target = np.full((n, 2), 0.5)
    expected = np.tile([1.0, 2.0], (n, 1))
    arms = (rng.random(n) < logged[:, 1]).astype(int)
    arms[0] = 1 if heavy else arms[0]
    rewards = expected[np.arange(n), arms] + rng.standard_normal(n)
    weights = importance_weights(target, arms, logged[np.arange(n), arms])
    return target, expected, weights, arms, rewards, np.arange(n) % 20, logged


def test_equal_weights_leave_nothing_to_the_model():
    assert switch_threshold(*problem(0, heavy=0)) == np.inf


def test_a_huge_weight_is_left_to_the_model():
    seen = problem(0, heavy=1)
    threshold = switch_threshold(*seen)

    assert seen[2].max() == 500
    assert 1 <= threshold < 500
    assert doubly_robust(*seen[:5], threshold=threshold).numerator[0] == pytest.approx(1.5)


def test_the_bound_by_hand():
    # Two tasks of one row, one arm, weights 1 and 9; the model expects 0 and rewards are 1, so its errors are 1. No
    # switching: rows 1 and 9, variance (16 + 16) / 4 = 8. Switching: rows 1 and 0, variance 0.125, and what is left to
    # the model is the second row, half of the target's decisions, or 9 / 2 if it must be guessed from the weights.
    weights, arms, rewards, tasks = np.array([1.0, 9.0]), np.zeros(2, int), np.ones(2), np.array([0, 1])
    seen = (np.ones((2, 1)), np.zeros((2, 1)), weights, arms, rewards, tasks)

    assert switch_threshold(*seen, np.array([[1.0], [1 / 9]])) < 9  # 0.125 + 0.25 is less than 8
    assert switch_threshold(*seen) == np.inf  # 0.125 + 20.25 is not


def test_no_weight_at_all_switches_nothing():
    target, expected, weights, arms, rewards, tasks, _ = problem(0, heavy=0)

    assert switch_threshold(target, expected, 0 * weights, arms, rewards, tasks) == np.inf


def test_units_of_the_rewards_do_not_matter():
    target, expected, weights, arms, rewards, tasks, logged = problem(1, heavy=3)
    once = switch_threshold(target, expected, weights, arms, rewards, tasks, logged)

    assert once < np.inf
    assert switch_threshold(target, 8 * expected, weights, arms, 8 * rewards, tasks, logged) == once


def test_without_logged_probabilities_less_is_left_to_the_model():
    seen = problem(0, heavy=1)

    assert switch_threshold(*seen[:6]) >= switch_threshold(*seen)
