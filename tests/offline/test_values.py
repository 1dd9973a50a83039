"""Logs that say what rewards were worth, and policies that are judged by the money."""

import json

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.errors import InvalidValue, UnknownArm
from posse.logs import Log, check_log, read_log, write_log
from posse.offline import Fleet, Learned, LoggedBandit, Uniform, evaluate

ARMS = ("coffee", "sandwich", "cake")
VALUES = {"coffee": 1.6, "sandwich": 2.8, "cake": 0.9}
COSTS = {"coffee": 0.05}
RATES = {"coffee": 0.5, "sandwich": 0.2, "cake": 0.4}


def logged(path, rows=1500, *, policy="random", **settings):
    """The log of a fleet that sold something for a while."""
    rng = np.random.default_rng(11)
    fleet = Posse(ARMS, ["hour"], policy, seed=2, values=VALUES, costs=COSTS, log=path, clock=lambda: 1e9, **settings)
    tasks, hours = [f"t{task}" for task in rng.integers(0, 12, rows)], rng.normal(size=(rows, 1))
    decisions = fleet.decide_many(tasks, hours)
    fleet.reward_many(decisions, [float(rng.random() < RATES[arm]) for arm in decisions.arm])
    return fleet


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "log.jsonl"
    logged(path)
    return Log(read_log(path).frame, rewards="binary")


def test_a_log_keeps_the_prices_that_were_used(tmp_path):
    path = tmp_path / "log.jsonl"
    fleet = Posse(ARMS, None, seed=1, values=VALUES, costs=COSTS, log=path, clock=lambda: 1e9)
    fleet.decide("a")
    fleet.decide("a", eligible=["coffee", "cake"], values={"cake": 7.0})
    fleet.set_values({"coffee": 2.0})
    fleet.decide("a", k=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["values"] == [1.6, 2.8, 0.9]
    assert lines[1]["values"] == [1.6, 7.0]
    assert lines[1]["costs"] == [0.05, 0.0]
    assert lines[2]["values"] == [2.0, 2.8, 0.9]
    frame = read_log(path).frame
    assert frame["values"].to_list() == [line["values"] for line in lines]
    assert frame["costs"].to_list() == [line["costs"] for line in lines]
    for name in ("again.jsonl", "again.parquet"):
        write_log(read_log(path), tmp_path / name)
        assert read_log(tmp_path / name).frame.equals(frame)


def test_logs_without_prices_have_no_such_columns(tmp_path):
    path = tmp_path / "log.jsonl"
    fleet = Posse(ARMS, None, seed=1, log=path)
    fleet.reward(fleet.decide("a"), 1.0)
    assert "values" not in path.read_text()
    assert "values" not in read_log(path).frame.columns
    table = Log({"task": ["a", "b"], "arm": ["x", "y"], "reward": [1.0, 0.0], "costs": [1.0, 2.0]})
    assert "costs" not in table.frame.columns
    assert table.unknown == ("costs",)


def test_a_negative_price_in_a_log_is_refused():
    with pytest.raises(InvalidValue, match="values must be a list of numbers from 0 on"):
        Log({"task": ["a"], "arm": ["x"], "reward": [1.0], "eligible": [["x", "y"]], "values": [[1.0, -2.0]]})


def test_policies_are_judged_by_the_money(log):
    data = LoggedBandit.from_log(log)
    frame = log.frame
    values, costs = (
        frame["arm"].replace_strict(VALUES),
        frame["arm"].replace_strict({**dict.fromkeys(ARMS, 0.0), **COSTS}),
    )
    earned = (values * frame["reward"] - costs).to_numpy()
    np.testing.assert_allclose(data.money, earned)
    best = max(ARMS, key=lambda arm: VALUES[arm] * RATES[arm] - COSTS.get(arm, 0.0))
    assert best == "coffee"
    found = evaluate(log, [Uniform(), Learned("ebm-rand-ucb")])
    assert found.on_policy.value == pytest.approx(earned.mean())
    table = found.table.filter(pl.col("estimator").is_in(["ips", "dm", "dr"]))
    truth = np.mean([VALUES[arm] * RATES[arm] - COSTS.get(arm, 0.0) for arm in ARMS])
    for row in table.filter(pl.col("target") == "uniform").iter_rows(named=True):
        assert row["value"] == pytest.approx(truth, abs=0.06)
    chosen = Learned("ebm-rand-ucb", exploration=0.0).probabilities(data).mean(axis=0)
    assert data.arm_labels[int(chosen.argmax())] == best
    assert any("in money" in note for note in found.notes)


def test_given_prices_stand_in_for_those_of_the_log(log):
    plain = Log(log.frame.drop("values", "costs"), rewards="binary")
    found = evaluate(plain, Uniform(), values=VALUES, costs=COSTS)
    assert found.on_policy.value == pytest.approx(evaluate(log, Uniform()).on_policy.value)
    cents = evaluate(log, Uniform(), values={arm: 100 * value for arm, value in VALUES.items()})
    assert cents.on_policy.value > 50 * found.on_policy.value
    with pytest.raises(InvalidValue, match="expected a value of every arm of the log, got none of 'cake'"):
        evaluate(plain, Uniform(), values={"coffee": 1.0, "sandwich": 1.0})
    with pytest.raises(UnknownArm, match="no arm 'tea'"):
        evaluate(plain, Uniform(), costs={"tea": 1.0})


def test_a_log_that_has_prices_in_some_rows_only_is_refused(log):
    part = pl.when(pl.int_range(pl.len()) > 3).then("values")
    with pytest.raises(InvalidValue, match="expected values of the 3 eligible arms in every row"):
        evaluate(Log(log.frame.with_columns(part.alias("values"))), Uniform())


def test_a_fleet_decides_by_the_prices_of_the_request(log):
    data = LoggedBandit.from_log(log)
    fleet = Posse(ARMS, ["hour"], seed=3, rewards="binary", values=dict.fromkeys(ARMS, 1.0), clock=lambda: 0.0)
    fleet.learn_many(log.frame.head(300))
    found = Fleet(fleet, explore=False).probabilities(data)
    fleet.set_values(VALUES, COSTS)
    tasks = [data.task_labels[task] for task in data.tasks]
    own = fleet.probabilities(tasks, data.raw, explore=False)
    np.testing.assert_allclose(found, own[:, [fleet.arms.index(arm) for arm in data.arm_labels]])


def test_what_exploring_cost_is_in_money(tmp_path):
    notes = {}
    for factor in (1.0, 100.0):
        path = tmp_path / f"{factor}.jsonl"
        fleet = Posse(
            ARMS, None, seed=2, values={arm: factor * value for arm, value in VALUES.items()}, log=path, floor=0.1,
        )  # fmt: skip
        fleet.learn_many({"task": ["a"] * 6, "arm": [*ARMS, *ARMS], "reward": [0.3, 0.1, 0.5, 0.4, 0.2, 0.6]})
        for _ in range(40):
            fleet.reward(fleet.decide("a"), 0.5)
        notes[factor] = next(one.message for one in check_log(read_log(path)) if one.code == "exploration-cost")
    cost = {factor: float(note.split("cost ")[1].split()[0]) for factor, note in notes.items()}
    assert cost[100.0] == pytest.approx(100 * cost[1.0], rel=0.02)
