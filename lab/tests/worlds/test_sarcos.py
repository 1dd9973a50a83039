import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse_lab.datasets import Sarcos, load_sarcos
from posse_lab.worlds import recorded_sarcos
from posse_lab.worlds.cells import Cells
from posse_lab.worlds.rows import split_at_random


def test_an_arm_pays_the_real_torque_of_its_joint(sarcos):
    data = sarcos()
    world = recorded_sarcos(data, n_tasks=4)

    fit, met = split_at_random(400, 0.3, "share", 0)
    assert_allclose(world.contexts[:, 1:] * data.X[fit].std(axis=0) + data.X[fit].mean(axis=0), data.X[met])
    assert_allclose(world.rewards * data.y[fit].std(axis=0) + data.y[fit].mean(axis=0), data.y[met])
    assert_array_equal(world.tasks, Cells.of(data.X[fit, :7], 4).assign(data.X[met, :7]))
    assert (world.contexts[:, 0] == 1).all()


def test_another_split_is_another_world(sarcos):
    one, other = (recorded_sarcos(sarcos(), n_tasks=4, split_seed=seed) for seed in (0, 1))
    assert (one.contexts != other.contexts).any()
    assert one.settings() != other.settings()


def joined(sarcos):
    """A training file that holds some rows of the test file, as SARCOS is said to."""
    test, new = sarcos(150), sarcos(500, "train", seed=9)
    order = np.random.default_rng(0).permutation(600)
    X, y = np.vstack([new.X, test.X[:100]])[order], np.vstack([new.y, test.y[:100]])[order]
    return test, Sarcos(X, y, (), (), "train", new.file, new.sha256), order < 500


def test_rows_of_the_training_file_that_were_fitted_to_are_not_met(sarcos):
    test, train, new = joined(sarcos)
    world = recorded_sarcos(test, n_tasks=4, contexts=train)

    assert world.n_rows == 500
    assert_allclose(world.contexts[:, 1:] * test.X.std(axis=0) + test.X.mean(axis=0), train.X[new])
    assert_allclose(world.rewards * test.y.std(axis=0) + test.y.mean(axis=0), train.y[new])
    settings = world.settings()
    assert settings["met_rows"] == "sarcos train without the rows of sarcos test"
    assert (settings["sha256"], settings["met_sha256"]) == ("5a2c test", "5a2c train")
    assert settings["n_fit_rows"] == 150


def test_bad_input_is_one_clear_error(sarcos):
    with pytest.raises(InvalidValue, match="every row of sarcos test is in sarcos test too"):
        recorded_sarcos(sarcos(), contexts=sarcos())
    with pytest.raises(InvalidValue, match="training_share to be less than 1"):
        recorded_sarcos(sarcos(), training_share=1.0)
    with pytest.raises(InvalidValue, match=r"n_cells to be at most 3, .* got 32"):
        recorded_sarcos(sarcos(12))


@pytest.mark.slow
def test_the_real_file(real_folder):
    data = load_sarcos(real_folder)
    world = recorded_sarcos(data)

    assert (world.n_tasks, world.n_arms, world.n_features, world.n_rows) == (32, 7, 22, 3115)
    assert np.bincount(world.tasks).min() > 50
    known = {row.tobytes() for row in data.y.round(6)}
    fit, _ = split_at_random(4449, 0.3, "share", 0)
    torques = (world.rewards * data.y[fit].std(axis=0) + data.y[fit].mean(axis=0)).round(6)
    assert {row.tobytes() for row in torques} <= known
