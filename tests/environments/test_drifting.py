import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue

COVARIANCE = [[2.0, 0.6], [0.6, 0.5]]
MOVING = [
    {"half_life": 40.0},
    {"half_life": 40.0, "population_moves": True},
    {"change_every": 30},
    {"change_every": 30, "change_share": 0.25, "half_life": 100.0},
    {"change_every": 30, "population_moves": True},
]


def world(**settings):
    return SyntheticWorld(n_tasks=4, n_arms=2, n_features=2, heterogeneity=COVARIANCE, **settings)


@pytest.mark.parametrize("settings", MOVING)
def test_a_longer_horizon_only_adds_steps_and_the_same_seed_gives_the_same(settings):
    short, long, same = (world(**settings).draw(3, horizon) for horizon in (80, 200, 80))
    for field in ("tasks", "contexts", "expected", "rewards"):
        assert_array_equal(getattr(long, field)[:80], getattr(short, field))
        assert_array_equal(getattr(same, field), getattr(short, field))
    assert short.coefficients is None
    json.dumps(world(**settings).settings())


def test_a_world_that_changes_begins_as_the_one_that_does_not():
    still, moving = world().draw(5, 100), world(change_every=50).draw(5, 100)
    assert_allclose(moving.expected[:50], still.expected[:50], rtol=1e-12)
    assert not np.isclose(moving.expected[50:], still.expected[50:]).any(axis=1).any()
    assert_array_equal(moving.tasks, still.tasks)
    assert_allclose(moving.rewards - moving.expected, still.rewards - still.expected, atol=1e-12)


def paths(settings, lag, runs=1500):
    """Return deviations of one task now and ``lag`` steps later, and their shared part, over many seeds."""
    one = SyntheticWorld(
        n_tasks=1, n_arms=1, n_features=1, heterogeneity=[[0.7]], contexts="intercept", shared_sd=0.5, **settings
    )
    expected = np.array([one.draw(seed, lag + 1).expected[[0, lag], 0] for seed in range(runs)])
    return np.cov(expected.T)


def test_drift_halves_a_deviation_in_a_half_life_and_keeps_the_law():
    covariance = paths({"half_life": 12.0}, lag=12)
    # Shared part 0.25 stays, 0.7 of the deviation halves. Four standard errors of 1,500 runs: 0.95 * 1.41 * 4 / 38.7.
    assert_allclose(covariance, [[0.95, 0.6], [0.6, 0.95]], atol=0.14)


def test_the_population_moves_with_the_same_half_life():
    covariance = paths({"half_life": 12.0, "population_moves": True}, lag=12)
    assert_allclose(covariance, [[0.95, 0.475], [0.475, 0.95]], atol=0.14)


def test_a_share_of_the_tasks_changes():
    wide = SyntheticWorld(n_tasks=400, n_arms=1, n_features=1, contexts="intercept", change_every=400, change_share=0.3)
    draw = wide.draw(1, 4000)
    first, second = {}, {}
    for t, task in enumerate(draw.tasks[:800].tolist()):
        (first if t < 400 else second).setdefault(task, float(draw.expected[t, 0]))
    both = sorted(set(first) & set(second))
    changed = np.mean([first[task] != second[task] for task in both])
    # About 160 tasks are met before and after: four standard errors.
    assert abs(changed - 0.3) < 4 * np.sqrt(0.21 / len(both))


@pytest.mark.parametrize(
    "settings",
    [
        {"half_life": 0.0},
        {"change_every": 0},
        {"change_every": 10, "change_share": 1.5},
        {"change_share": 0.5},
        {"population_moves": True},
        {"half_life": 10.0, "odd_share": 0.5},
    ],
)
def test_what_makes_no_sense_is_refused(settings):
    with pytest.raises(InvalidValue):
        world(**settings)


def test_settings_of_a_world_that_stays_are_as_before():
    assert not {"half_life", "change_every", "change_share", "population_moves"} & set(world().settings())
