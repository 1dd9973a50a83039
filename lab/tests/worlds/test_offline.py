import numpy as np
from numpy.testing import assert_allclose

from posse_lab.worlds.offline import full_information


def test_every_row_counts_for_every_arm():
    rng = np.random.default_rng(0)
    X, Y, tasks = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.integers(0, 3, 20)
    stats = full_information(X, tasks, Y, 4)

    for task in range(4):
        own = tasks == task
        for arm in range(2):
            assert_allclose(stats.gram[arm, task], X[own].T @ X[own], atol=1e-12)
            assert_allclose(stats.moment[arm, task], X[own].T @ Y[own, arm], atol=1e-12)
            assert_allclose(stats.sum_of_squares[arm, task], (Y[own, arm] ** 2).sum())
            assert stats.count[arm, task] == own.sum()
