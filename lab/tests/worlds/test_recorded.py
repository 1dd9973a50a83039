from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse import simulate
from posse.errors import InvalidValue, ShapeError
from posse.model import Prior
from posse.policies import HierTS
from posse_lab.worlds import RecordedWorld

RNG = np.random.default_rng(6)
ROWS, TASKS, REWARDS = RNG.normal(size=(40, 2)), np.repeat([0, 1, 2], [25, 5, 10]), RNG.normal(size=(40, 3))


def world_of(**settings):
    return RecordedWorld(**{"name": "toy", "contexts": ROWS, "tasks": TASKS, "rewards": REWARDS, **settings})


def test_rows_stay_together_and_come_once():
    expected = REWARDS.round()
    draw = world_of(expected=expected).draw(2, 40)

    place = {row.tobytes(): number for number, row in enumerate(ROWS)}
    order = [place.pop(row.tobytes()) for row in draw.contexts]
    assert not place
    assert_array_equal(draw.tasks, TASKS[order])
    assert_array_equal(draw.rewards, REWARDS[order])
    assert_array_equal(draw.expected, expected[order])
    assert_allclose(draw.arrival_probabilities, [25 / 40, 5 / 40, 10 / 40])


def test_regret_is_measured_with_the_rewards_unless_more_is_known():
    draw = world_of().draw(2, 40)
    assert_array_equal(draw.expected, draw.rewards)
    assert draw.coefficients is None
    assert draw.prior is None


def test_policies_can_be_compared_in_it():
    prior = Prior.isotropic(n_arms=3, n_features=2)
    policies = {"ebmUCB": "ebm-ucb", "HierTS": partial(HierTS, prior="known"), "random": "random"}
    result = simulate(world_of(prior=prior), policies, horizon=40, seeds=2)
    assert (result.final_regret["regret"] > 0).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"rewards": REWARDS[:30]}, ShapeError, "equally many rows, but they have 40 and 30"),
        ({"rewards": REWARDS[:, 0]}, ShapeError, "rewards to be a table"),
        ({"expected": REWARDS[:, :2]}, ShapeError, r"expected to have the shape of the rewards, \(40, 3\)"),
        ({"tasks": TASKS * 2}, InvalidValue, "task 1 has no rows to meet"),
        ({"tasks": TASKS * 10**15}, InvalidValue, "task 1 has no rows to meet"),
        ({"tasks": TASKS + 1}, InvalidValue, "task 0 has no rows to meet"),
        ({"prior": Prior.isotropic(n_arms=3, n_features=1)}, ShapeError, "the prior is for 3 arms and 1 features"),
    ],
)
def test_bad_input_is_one_clear_error(change, error, words):
    with pytest.raises(error, match=words):
        world_of(**change)
