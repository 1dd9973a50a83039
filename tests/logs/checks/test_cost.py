import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.logs import Log, check_log, read_log


def cost_of(log):
    return next((finding for finding in check_log(log) if finding.code == "exploration-cost"), None)


def logged(**changes):
    return Log(
        {
            "task": ["t"] * 3,
            "arm": ["x", "y", "x"],
            "reward": [1.0, 0.0, 2.0],
            "eligible": [["x", "y"], ["x", "y"], ["x", "y", "z"]],
            "probabilities": [[0.9, 0.1], [0.5, 0.5], [0.8, 0.2, 0.0]],
            "expected_rewards": [[3.0, 1.0], [1.0, 1.0], [5.0, 2.0, -1.0]],
            **changes,
        }
    )


def test_the_cost_of_exploring_by_hand():
    # Costs 0.2, 0 and 0.6; at random 1, 0 and 3.
    finding = cost_of(logged())

    assert (finding.severity, finding.rows) == ("note", 3)
    assert "exploring cost 0.267 per decision, 20.00% of the 1.33 that playing at random would" in finding.message


def test_rows_without_expectations_are_left_out():
    finding = cost_of(logged(expected_rewards=[[3.0, 1.0], None, [5.0, 2.0]]))

    assert finding.rows == 1
    assert "cost 0.2 per decision, 20.00%" in finding.message


@pytest.mark.parametrize(
    "changes",
    [
        {"expected_rewards": [None] * 3},
        {"probabilities": [None] * 3},
        {"expected_rewards": [[2.0, 2.0], [1.0, 1.0], [0.0, 0.0, 0.0]]},  # nothing to lose
        {"expected_rewards": [[np.nan, 2.0], None, [np.inf, 0.0, 0.0]]},
        {"probabilities": [[0.9, 0.3], [0.9, 0.9], [1.0, 0.2, 0.0]]},  # not probabilities
    ],
)
def test_nothing_is_said_about_what_is_not_known(changes):
    assert cost_of(logged(**changes)) is None


def test_a_log_without_any_of_it_says_nothing(make_log):
    assert cost_of(make_log()) is None


def test_a_fleet_logs_what_it_expects_and_the_budget_is_what_it_says(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "log.jsonl"
    # Exploration 0 leaves the budget alone to cost anything, and the best arm in every row as the rest.
    fleet = Posse(arms=list("abc"), features=["x"], seed=1, exploration=0, evaluation_budget=0.05, log=path)
    table = pl.DataFrame({"task": [0, 1] * 60, "arm": list("abc") * 40, "x": rng.normal(size=120)})
    worth = table["arm"].replace_strict({"a": 1.0, "b": 0.0, "c": -2.0}, return_dtype=pl.Float64)
    fleet.learn_many(table.with_columns(reward=worth + 0.1 * rng.normal(size=120)))
    for x in rng.normal(size=40):
        decision = fleet.decide(0, [x])
        fleet.reward(decision.id, 0.5)

    log = read_log(path)

    assert log.frame["expected_rewards"].list.len().to_list() == [3] * 40
    finding = cost_of(log)
    assert finding.rows == 40
    share = float(finding.message.split("per decision, ")[1].split("%")[0])
    # At most the budget; nearly all of it, as no arm is good enough to be capped.
    assert 4.5 < share <= 5.0
