from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse.model import Statistics, estimate_prior
from posse_lab.datasets import load_letter
from posse_lab.worlds import recorded_letter
from posse_lab.worlds.cells import Cells


def test_the_right_letter_pays_one(letter):
    data = letter()
    world = recorded_letter(data, n_tasks=4)

    first = data.X[:120]
    assert_allclose(world.contexts[:, 1:], (data.X[120:] - first.mean(axis=0)) / first.std(axis=0))
    assert (world.contexts[:, 0] == 1).all()
    assert_array_equal(world.rewards, np.eye(3)[data.labels[120:]])
    assert_array_equal(world.tasks, Cells.of(first[:, :4], 4).assign(data.X[120:, :4]))


def test_the_prior_is_fitted_to_rows_that_are_not_met(letter):
    data = letter()
    world = recorded_letter(data, n_tasks=4)

    X = np.column_stack([np.ones(120), (data.X[:120] - data.X[:120].mean(axis=0)) / data.X[:120].std(axis=0)])
    tasks = Cells.of(data.X[:120, :4], 4).assign(data.X[:120, :4])
    stats = Statistics.from_data(
        task=np.tile(tasks, 3),
        arm=np.repeat(np.arange(3), 120),
        context=np.tile(X, (3, 1)),
        reward=np.concatenate([data.labels[:120] == k for k in range(3)]).astype(float),
        n_tasks=4,
        n_arms=3,
    )
    assert_allclose(world.prior.covariance, estimate_prior(stats).prior.covariance, atol=1e-12)
    other = recorded_letter(replace(data, labels=np.append(data.labels[:120], (data.labels[120:] + 1) % 3)), n_tasks=4)
    assert_array_equal(other.prior.covariance, world.prior.covariance)


def test_bad_input_is_one_clear_error(letter):
    data = letter()
    with pytest.raises(InvalidValue, match="training_share to be greater than 0"):
        recorded_letter(data, training_share=0.0)
    with pytest.raises(InvalidValue, match="n_cells to be at most"):
        recorded_letter(letter(50), n_tasks=40)
    late = replace(data, labels=np.append(data.labels[:120] % 2, data.labels[120:]))
    with pytest.raises(InvalidValue, match="class 'C' has no row among the first 120 rows"):
        recorded_letter(late, n_tasks=4)


@pytest.mark.slow
def test_the_real_file(real_folder):
    data = load_letter(real_folder)
    world = recorded_letter(data)

    assert (world.n_tasks, world.n_arms, world.n_features, world.n_rows) == (16, 26, 17, 14_000)
    assert_array_equal(world.rewards.argmax(axis=1), data.labels[6000:])
    assert np.bincount(world.tasks).min() > 500
