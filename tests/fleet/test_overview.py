import json

import numpy as np
import pytest

from posse import Posse

X = np.array([0.3, -0.8])


def test_coefficients_predict_what_is_expected(fleet_of):
    fleet = fleet_of(50, robust=True)
    x = np.array([1.0, *X])
    for task in ("t1", "never seen"):
        found, expected = fleet.coefficients(task), fleet.expected(task, X)
        assert found.columns == ("intercept", "a", "b")
        for arm in fleet.arms:
            assert found.mean[arm] @ x == pytest.approx(expected.mean[arm], rel=1e-9)
            assert np.sqrt(x @ found.covariance[arm] @ x) == pytest.approx(expected.sd[arm], rel=1e-9)


def test_an_overview_is_of_what_was_learned(fleet_of):
    fleet = fleet_of(90)
    fleet.decide("t1", X)
    fleet.retire_arm("green")
    view = fleet.overview(2)
    assert (view.n_tasks, view.n_rewards, view.n_decisions, view.n_pending) == (5, 90, 1, 1)
    stats = fleet.statistics
    assert [(arm.arm, arm.retired, arm.rewards) for arm in view.arms] == [
        (name, name == "green", stats.count[place].sum()) for place, name in enumerate(["red", "green", "blue"])
    ]
    per_task = stats.count.sum(axis=0)
    assert [task.rewards for task in view.tasks] == sorted(per_task, reverse=True)[:2]
    assert [per_task[fleet.tasks.index(task.task)] for task in view.tasks] == [task.rewards for task in view.tasks]
    assert json.loads(json.dumps(view.to_json()))["n_tasks"] == 5
    assert fleet_of(0).overview().tasks == []


@pytest.mark.parametrize(
    ("family", "words", "scale"),
    [
        ("number", "evidence prior: ", "where tasks differ most:"),
        ("binary", "evidence prior, binary rewards: ", "(coefficients of the logit)"),
        ("count", "evidence prior, count rewards: ", "(coefficients of the log rate)"),
    ],
)
def test_an_overview_names_the_family(family, words, scale):
    fleet = Posse(["red", "green"], ["a"], rewards=family, seed=1)
    fleet.learn_many([{"task": f"t{row % 3}", "arm": "red", "a": float(row), "reward": row % 2} for row in range(12)])

    text = repr(fleet.overview())

    assert words in text
    assert scale in text
