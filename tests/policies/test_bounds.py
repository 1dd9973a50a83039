import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import NotFinite, ShapeError
from posse.policies import Oracle, Random


def test_random_pulls_every_arm_equally_often():
    n = 20_000
    played = Random(n_tasks=2, n_arms=4, n_features=1).play(
        np.zeros(n, dtype=np.int64), np.ones((n, 1)), np.zeros((n, 4)), np.random.default_rng(0), everywhere=True
    )
    # A share has standard error sqrt(0.25 * 0.75 / n) = 0.003; four of them.
    assert np.abs(np.bincount(played.arms, minlength=4) / n - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / n)


def test_the_oracle_pulls_the_best_arm_of_the_task():
    draw = SyntheticWorld(n_tasks=5, n_arms=4, n_features=3).draw(seed=2, horizon=300)
    oracle = Oracle(n_tasks=5, n_arms=4, n_features=3, coefficients=draw.coefficients)
    played = oracle.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(0), everywhere=True)
    assert_array_equal(played.arms, draw.expected.argmax(axis=1))
    everywhere = np.einsum("td,kjd->tjk", draw.contexts, draw.coefficients).argmax(axis=-1)
    assert_array_equal(played.everywhere, everywhere)


def test_bad_coefficients():
    with pytest.raises(ShapeError, match=r"\(2, 3, 1\).*\(3, 2, 1\)"):
        Oracle(n_tasks=3, n_arms=2, n_features=1, coefficients=np.zeros((3, 2, 1)))
    with pytest.raises(NotFinite):
        Oracle(n_tasks=1, n_arms=1, n_features=1, coefficients=[[[np.nan]]])
