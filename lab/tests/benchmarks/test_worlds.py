import json
import pickle
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse_lab.benchmarks.worlds import AlteredWorld, ClickWorld

PLAIN = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, contexts="intercept")
WORLDS = {
    "offset": AlteredWorld(world=PLAIN, offset=-7.5),
    "constant": AlteredWorld(world=PLAIN, offset=3.0, constant=2.0),
    "clicks": ClickWorld(n_tasks=4, n_arms=3, rate=0.1),
}
STREAM = ("tasks", "contexts", "expected", "rewards")


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_keeps_the_promises_of_all_worlds(name):
    world = WORLDS[name]
    draw = world.draw(5, 300)

    assert draw.contexts.shape == (300, world.n_features)
    assert draw.rewards.shape == draw.expected.shape == (300, world.n_arms)
    assert draw.arrival_probabilities.shape == (world.n_tasks,)
    again = pickle.loads(pickle.dumps(world)).draw(5, 300)
    for field in STREAM:
        assert_array_equal(getattr(draw, field), getattr(again, field))
        assert_array_equal(getattr(draw, field)[:90], getattr(world.draw(5, 90), field))
        assert (getattr(draw, field) != getattr(world.draw(6, 300), field)).any()
    assert json.loads(json.dumps(world.settings())) == world.settings()


def test_an_offset_is_in_rewards_and_coefficients():
    plain, shifted = PLAIN.draw(1, 50), WORLDS["offset"].draw(1, 50)

    assert_allclose(shifted.rewards, plain.rewards - 7.5)
    assert_allclose(np.einsum("ni,kni->nk", shifted.contexts, shifted.coefficients[:, shifted.tasks]), shifted.expected)
    assert_allclose(shifted.expected, plain.expected - 7.5)


def test_a_constant_arm_leaves_the_others_alone():
    plain, constant = PLAIN.draw(1, 50), WORLDS["constant"].draw(1, 50)

    assert_array_equal(constant.rewards[:, 0], np.full(50, 2.0))
    assert_array_equal(constant.expected[:, 0], np.full(50, 2.0))
    assert_allclose(constant.rewards[:, 1:], plain.rewards[:, 1:] + 3.0)
    believed = np.einsum("ni,kni->nk", constant.contexts, constant.coefficients[:, constant.tasks])
    assert_allclose(believed, constant.expected)


def test_clicks_come_as_often_as_expected():
    draw = ClickWorld(n_tasks=3, n_arms=4, rate=0.05).draw(0, 20_000)
    expected = draw.expected.mean(axis=0)

    assert set(np.unique(draw.rewards)) == {0.0, 1.0}
    # Five standard errors of a share of 20,000.
    assert (abs(draw.rewards.mean(axis=0) - expected) < 5 * np.sqrt(expected / 20_000)).all()
    assert expected.max() > 1.2 * expected.min()


def test_click_rates_differ_as_the_settings_say():
    same = ClickWorld(rate=0.03, arm_sd=0.0, task_sd=0.0, feature_sd=0.0).draw(0, 40)
    by_arm = ClickWorld(rate=0.03, arm_sd=0.5, task_sd=0.0, feature_sd=0.0).draw(0, 40)
    by_task = ClickWorld(rate=0.03, arm_sd=0.0, task_sd=0.5, feature_sd=0.0).draw(0, 40)

    assert_array_equal(same.expected, np.full((40, 5), 0.03))
    assert_array_equal(by_arm.expected, np.tile(by_arm.expected[0], (40, 1)))
    assert len(np.unique(by_arm.expected)) == 5
    assert len(np.unique(by_task.expected, axis=0)) == len(np.unique(by_task.tasks))
    assert (ClickWorld(rate=1.0, arm_sd=1.0).draw(0, 200).expected <= 1).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AlteredWorld(world=SyntheticWorld()), "expected a world with contexts='intercept', got 'mixed-gaus"),
        (lambda: AlteredWorld(world=PLAIN, offset="far"), "offset to be a number"),
        (lambda: AlteredWorld(world=PLAIN, constant="none"), "constant to be a number"),
        (lambda: ClickWorld(rate=1.5), "expected a rate of at most 1, got 1.5"),
        (lambda: ClickWorld(n_arms=0), "n_arms to be at least 1"),
        (lambda: ClickWorld(task_sd=-1), "task_sd to be at least 0"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(InvalidValue, match=words):
        make()


def test_settings_name_every_field():
    for world in WORLDS.values():
        said = world.settings()
        assert {field.name if field.name != "world" else "of" for field in fields(world)} <= set(said)
