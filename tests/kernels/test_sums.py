import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from posse.kernels.sums import Sums, add_reward, add_rows


def no_sums(n_arms, n_tasks, d):
    shape = (n_arms, n_tasks)
    return Sums(np.zeros((*shape, d, d)), np.zeros((*shape, d)), np.zeros(shape), np.zeros(shape))


def test_one_reward_worked_by_hand():
    sums = no_sums(2, 3, 2)

    add_reward(sums, 1, 2, np.array([2.0, -3.0]), 5.0)

    assert_array_equal(sums.gram[1, 2], [[4.0, -6.0], [-6.0, 9.0]])
    assert_array_equal(sums.moment[1, 2], [10.0, -15.0])
    assert sums.sum_of_squares[1, 2] == 25.0
    assert sums.counts[1, 2] == 1.0
    for field in sums:
        touched = field[1, 2].copy()
        field[1, 2] = 0.0
        assert not field.any()  # nothing else was written to
        field[1, 2] = touched


def test_many_rewards_equal_a_scatter_add():
    rng = np.random.default_rng(0)
    n, n_arms, n_tasks, d = 500, 3, 4, 5
    arms, tasks = rng.integers(n_arms, size=n), rng.integers(n_tasks, size=n)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    sums, expected = no_sums(n_arms, n_tasks, d), no_sums(n_arms, n_tasks, d)

    add_rows(sums, tasks, arms, X, y)

    np.add.at(expected.gram, (arms, tasks), X[:, :, None] * X[:, None, :])
    np.add.at(expected.moment, (arms, tasks), X * y[:, None])
    np.add.at(expected.sum_of_squares, (arms, tasks), y**2)
    np.add.at(expected.counts, (arms, tasks), 1.0)
    for got, wanted in zip(sums, expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
