"""What every world made from data promises."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue
from posse_lab.worlds import (
    FittedWorld,
    PopulationWorld,
    RecordedWorld,
    RegressionWorld,
    activity_protocol,
    population_from_movielens,
    recorded_activity,
    recorded_letter,
    recorded_movielens,
    recorded_sarcos,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
TASKS = np.arange(60) % 4
SMALL = {"n_tasks": 4, "n_components": 5}

MAKERS = {
    "population": lambda _: PopulationWorld(
        name="toy", contexts=ROWS, centres=RNG.normal(size=(2, 3)), covariance=np.ones((2, 3)), noise_sd=0.4
    ),
    "fitted": lambda _: FittedWorld(
        name="toy", contexts=ROWS, tasks=TASKS, coefficients=RNG.normal(size=(2, 4, 3)), noise_sd=0.4
    ),
    "recorded": lambda _: RecordedWorld(name="toy", contexts=ROWS, tasks=TASKS, rewards=RNG.normal(size=(60, 2))),
    "sarcos": lambda get: RegressionWorld.from_sarcos(get("sarcos")(), n_tasks=3),
    "sarcos, two files": lambda get: RegressionWorld.from_sarcos(
        get("sarcos")(), n_tasks=3, contexts=get("sarcos")(90, "train", seed=5)
    ),
    "letter, split": lambda get: RegressionWorld.from_letter(get("letter")(), n_tasks=3, training_share=0.3),
    "activity protocol": lambda get: activity_protocol(get("activity")(), **SMALL),
    "recorded activity": lambda get: recorded_activity(get("activity")(), **SMALL),
    "recorded letter": lambda get: recorded_letter(get("letter")(), n_tasks=4),
    "recorded sarcos": lambda get: recorded_sarcos(get("sarcos")(), n_tasks=4),
    "recorded sarcos, two files": lambda get: recorded_sarcos(
        get("sarcos")(), n_tasks=4, contexts=get("sarcos")(90, "train", seed=5)
    ),
    "movielens": lambda get: population_from_movielens(get("movielens")(), n_factors=3, n_arms=2),
    "recorded movielens": lambda get: recorded_movielens(get("movielens")(), n_factors=3, n_arms=3),
    "recorded movielens, 10M": lambda get: recorded_movielens(
        get("movielens")(groups=False), n_factors=3, n_arms=3, n_groups=3
    ),
}
STREAM = ("tasks", "contexts", "expected", "rewards")


@pytest.fixture(params=MAKERS)
def world(request):
    return MAKERS[request.param](request.getfixturevalue)


def same(one, other):
    for field in (*STREAM, "arrival_probabilities"):
        assert_array_equal(getattr(one, field), getattr(other, field))
    if one.coefficients is not None:
        assert_array_equal(one.coefficients, other.coefficients)
    if one.prior is not None:
        assert_array_equal(one.prior.covariance, other.prior.covariance)


def test_promises(world):
    horizon = world.n_rows
    draw = world.draw(5, horizon)

    # Shapes are those that were announced.
    assert draw.contexts.shape == (horizon, world.n_features)
    assert draw.rewards.shape == draw.expected.shape == (horizon, world.n_arms)
    assert draw.arrival_probabilities.shape == (world.n_tasks,)
    assert draw.arrival_probabilities.sum() == pytest.approx(1)
    assert draw.tasks.dtype == np.int64
    assert set(draw.tasks) <= set(range(world.n_tasks))
    if draw.prior is not None:
        draw.prior.require_shape(n_arms=world.n_arms, n_features=world.n_features)

    # The same seed gives the same draw, in a copy sent to a worker too; another one another.
    same(draw, world.draw(5, horizon))
    same(draw, pickle.loads(pickle.dumps(world)).draw(5, horizon))
    for field in STREAM:
        assert (getattr(world.draw(6, horizon), field) != getattr(draw, field)).any(), field

    # A longer horizon only adds steps at the end.
    short = world.draw(5, horizon // 3)
    for field in STREAM:
        assert_array_equal(getattr(draw, field)[: horizon // 3], getattr(short, field))

    # No row comes twice, so there is a longest horizon.
    assert len(np.unique(draw.contexts, axis=0)) == horizon
    words = f"horizon to be at most {horizon}, the rows of .*, since no context comes twice, got {horizon + 1}"
    with pytest.raises(InvalidValue, match=words):
        world.draw(5, horizon + 1)
    with pytest.raises(InvalidValue, match="seed to be at least 0"):
        world.draw(-1, horizon)
    with pytest.raises(InvalidValue, match="horizon to be at least 1"):
        world.draw(0, 0)

    # Settings are plain and say what this is.
    settings = world.settings()
    assert json.loads(json.dumps(settings)) == settings
    assert {"world", "data", "sha256", "n_rows", "n_tasks", "n_arms", "n_features"} <= set(settings)
    assert settings["n_rows"] == horizon


def test_building_again_gives_the_same_world(request):
    for name in list(MAKERS)[3:]:
        one, again = (MAKERS[name](request.getfixturevalue) for _ in range(2))
        same(one.draw(1, 30), again.draw(1, 30))
        assert one.settings() == again.settings()
