import math

import numpy as np
import pytest

from posse import FeatureSpec, Posse
from posse.errors import (
    InvalidValue,
    NotFinite,
    PosseError,
    ShapeError,
    UnknownPolicy,
)
from posse.model import Prior

X = np.array([0.3, -0.8])


WRONG_SETTINGS = [
    ({"policy": "ebm"}, UnknownPolicy),
    ({"policy": None}, UnknownPolicy),
    ({"policy": ["ebm-ts"]}, UnknownPolicy),
    ({"policy": "lin-ucb", "prior": "paper"}, InvalidValue),
    ({"policy": "random", "prior": Prior.isotropic(n_arms=3, n_features=3)}, InvalidValue),
    ({"policy": "hier-ts"}, UnknownPolicy),
    ({"prior": "paper-literal"}, InvalidValue),
    ({"prior": "best"}, InvalidValue),
    ({"prior": 3}, InvalidValue),
    ({"prior": Prior.isotropic(n_arms=2, n_features=3)}, ShapeError),
    ({"prior": Prior.isotropic(n_arms=3, n_features=2)}, ShapeError),
    ({"robust": True, "prior": "paper"}, InvalidValue),
    ({"robust": True, "policy": "lin-ucb"}, InvalidValue),
    ({"floor": 0.34}, InvalidValue),
    ({"floor": -0.1}, InvalidValue),
    ({"floor": math.nan}, NotFinite),
    ({"evaluation_budget": -0.01}, InvalidValue),
    ({"evaluation_budget": 1.01}, InvalidValue),
    ({"evaluation_budget": "1 %"}, InvalidValue),
    ({"evaluation_budget": None}, InvalidValue),
    ({"evaluation_budget": math.nan}, NotFinite),
    ({"exploration": -1}, InvalidValue),
    ({"exploration": math.inf}, NotFinite),
    ({"refresh_growth": -1}, InvalidValue),
    ({"time_to_live": 0}, InvalidValue),
    ({"time_to_live": math.inf}, NotFinite),
    ({"absent_reward": math.nan}, NotFinite),
    ({"absent_reward": "0"}, InvalidValue),
    ({"absent_reward": 1e51}, NotFinite),
    ({"seed": -1}, InvalidValue),
    ({"seed": 2**128}, InvalidValue),
    ({"seed": 1.0}, InvalidValue),
    ({"seed": True}, InvalidValue),
    ({"arms": []}, InvalidValue),
    ({"arms": ["a", "a"]}, InvalidValue),
    ({"arms": "ab"}, InvalidValue),
    ({"arms": ["a", 1]}, InvalidValue),
    ({"arms": [""]}, InvalidValue),
    ({"arms": [None]}, InvalidValue),
    ({"features": ["a", "a"]}, InvalidValue),
    ({"features": "ab"}, InvalidValue),
    ({"log": "log.csv"}, InvalidValue),
]


@pytest.mark.parametrize(("settings", "error"), WRONG_SETTINGS)
def test_settings_are_checked(settings, error):
    with pytest.raises(error) as caught:
        Posse(**{"arms": ["x", "y", "z"], "features": ["a", "b"]} | settings)
    assert len(str(caught.value)) > 15


@pytest.mark.parametrize(
    "settings",
    [
        {"features": []},
        {"floor": 1 / 3},
        {"evaluation_budget": 1},
        {"evaluation_budget": 0.01, "floor": 0.01},
        {"evaluation_budget": 0.01, "policy": "random"},
        {"exploration": 0},
        {"seed": 2**128 - 1},
        {"seed": np.int64(3)},
        {"arms": (name for name in "xyz")},
        {"arms": {"x": 1, "y": 2, "z": 3}},
        {"time_to_live": None},
        {"time_to_live": 1, "absent_reward": 0},
        {"policy": "ebm-ts", "prior": Prior.isotropic(n_arms=3, n_features=3)},
        {"features": FeatureSpec(["a", "b"])},
    ],
)
def test_settings_that_are_fine(settings):
    fleet = Posse(**{"arms": ["x", "y", "z"], "features": ["a", "b"]} | settings)
    context = [0.5] * len(fleet.features.names)

    decision = fleet.decide("t", context)

    assert math.fsum(decision.probabilities.values()) == pytest.approx(1)
    assert fleet.reward(decision.id, 1.0)


def test_an_unknown_policy_names_the_nearest():
    with pytest.raises(UnknownPolicy, match="did you mean 'ebm-ts'"):
        Posse(arms=["x"], features=["a"], policy="ebm_ts")


def test_policies_that_treat_tasks_alone_learn_nothing_from_others(fleet_of):
    fleet = fleet_of(100, policy="lin-ucb")
    expected = fleet.expected("never seen", X)
    assert list(expected.mean.values()) == pytest.approx([0, 0, 0], abs=1e-6)
    # A ridge of one: the prior variance of every coefficient, the intercept among them.
    assert list(expected.sd.values()) == pytest.approx([np.sqrt(1 + X @ X)] * 3)


def test_a_task_alone_is_ridge_regression(fleet_of, table):
    rows = table(60)
    fleet = fleet_of(0, policy="lin-ucb")
    fleet.learn_many(rows)
    mine = rows.filter(task="t2", arm="blue")
    A = np.column_stack([np.ones(len(mine)), mine["a"], mine["b"]])
    precision = A.T @ A + np.eye(3)
    x = np.array([1.0, *X])

    expected = fleet.expected("t2", X)

    assert expected.mean["blue"] == pytest.approx(x @ np.linalg.solve(precision, A.T @ mine["reward"].to_numpy()))
    assert expected.sd["blue"] == pytest.approx(np.sqrt(x @ np.linalg.solve(precision, x)))


@pytest.mark.parametrize("wrong", ["5", "arms", "reward_many ids", "reward_many values", "eligible rows"])
def test_what_is_no_sequence_gets_one_clear_error(fleet_of, wrong):
    fleet = fleet_of()
    with pytest.raises(PosseError):
        {
            "5": lambda: fleet.decide("t1", X, eligible=5),
            "arms": lambda: Posse(arms=5, features=["a"]),
            "reward_many ids": lambda: fleet.reward_many(5, [1.0]),
            "reward_many values": lambda: fleet.reward_many(["a"], 5),
            "eligible rows": lambda: fleet.decide_many(["t1"], [X], eligible=5),
        }[wrong]()


@pytest.mark.parametrize("call", ["decide", "decide_many", "probabilities"])
def test_explore_is_true_or_false(fleet_of, snapshot, call):
    fleet = fleet_of(10)
    before = snapshot(fleet)
    with pytest.raises(PosseError, match="explore"):
        {
            "decide": lambda: fleet.decide("t1", X, explore=[]),
            "decide_many": lambda: fleet.decide_many(["t1"], [X], explore=[]),
            "probabilities": lambda: fleet.probabilities(["t1"], [X], explore=[]),
        }[call]()
    assert snapshot(fleet) == before
