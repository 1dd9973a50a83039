"""Updates that raise leave everything as it was: wrong inputs, a log that cannot be written, memory that runs out."""

import math

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse
from posse.errors import (
    ExpiredDecision,
    InvalidValue,
    NotFinite,
    PosseError,
    RewardConflict,
    ShapeError,
    UnknownArm,
    UnknownDecision,
    UnknownTask,
)
from posse.features import numeric

X = np.array([0.3, -0.8])


# Wrong inputs


def wrong_rows(rows):
    """Tables that cannot be learned, each with one thing wrong, mostly in the last row."""

    def last(column, value):
        values = rows[column].to_list()
        return rows.with_columns(pl.Series(column, [*values[:-1], value], strict=False))

    return {
        "unknown arm": (last("arm", "nobody"), UnknownArm),
        "null arm": (last("arm", None), InvalidValue),
        "arm of the wrong kind": (rows.with_columns(arm=pl.lit(1)), InvalidValue),
        "null task": (last("task", None), InvalidValue),
        "empty task": (last("task", ""), InvalidValue),
        "task of the wrong kind": (rows.with_columns(task=pl.lit(1)), InvalidValue),
        "float task": (rows.with_columns(task=pl.lit(1.5)), InvalidValue),
        "null reward": (last("reward", None), InvalidValue),
        "NaN reward": (last("reward", math.nan), NotFinite),
        "infinite reward": (last("reward", math.inf), NotFinite),
        "large reward": (last("reward", 1e51), NotFinite),
        "text reward": (rows.with_columns(reward=pl.lit("1")), InvalidValue),
        "null context": (last("a", None), InvalidValue),
        "NaN context": (last("b", math.nan), InvalidValue),
        "infinite context": (last("b", math.inf), NotFinite),
        "large context": (last("a", 1e51), NotFinite),
        "text context": (rows.with_columns(a=pl.lit("1")), InvalidValue),
        "no task column": (rows.drop("task"), InvalidValue),
        "no arm column": (rows.drop("arm"), InvalidValue),
        "no reward column": (rows.drop("reward"), InvalidValue),
        "no context column": (rows.drop("a"), InvalidValue),
        "not a table": (5, InvalidValue),
    }


WRONG_TABLES = list(wrong_rows(pl.DataFrame({"task": ["t"], "arm": ["x"], "a": [1.0], "b": [1.0], "reward": [1.0]})))


@pytest.mark.parametrize("n_rows", [3, 300])
@pytest.mark.parametrize("what", WRONG_TABLES)
def test_a_wrong_table(fleet_of, table, snapshot, what, n_rows):
    fleet = fleet_of()
    fleet.decide("t1", X)
    before = snapshot(fleet)
    wrong, error = wrong_rows(table(n_rows, 1, n_tasks=12))[what]
    with pytest.raises(error):
        fleet.learn_many(wrong)
    assert snapshot(fleet) == before


def test_a_wrong_table_teaches_no_scaling(table, snapshot):
    fleet = Posse(arms=["red", "green", "blue"], features=FeatureSpec([numeric("a", scale="standard"), "b"]), seed=1)
    before = snapshot(fleet)
    wrong_tables = wrong_rows(table(20))
    del wrong_tables["task of the wrong kind"]  # of a new fleet tasks may be numbers
    for wrong, error in wrong_tables.values():
        with pytest.raises(error):
            fleet.learn_many(wrong)
        assert snapshot(fleet) == before
    for update in (
        lambda: fleet.decide("t1", X),
        lambda: fleet.decide_many(["t1"], [X]),
        lambda: fleet.expected("t", X),
    ):
        with pytest.raises(InvalidValue, match="scaling"):
            update()
        assert snapshot(fleet) == before
    fleet.learn_many(table(20))
    assert fleet.features.ready


WRONG_CALLS = {
    "decide: short context": (lambda f: f.decide("new", [1.0]), ShapeError),
    "decide: NaN context": (lambda f: f.decide("new", [1.0, math.nan]), InvalidValue),
    "decide: missing feature": (lambda f: f.decide("new", {"a": 1.0}), InvalidValue),
    "decide: other feature": (lambda f: f.decide("new", {"a": 1.0, "b": 1.0, "c": 1.0}), InvalidValue),
    "decide: text context": (lambda f: f.decide("new", "ab"), InvalidValue),
    "decide: no context": (lambda f: f.decide("new", None), InvalidValue),
    "decide: unknown arm": (lambda f: f.decide("new", X, ["red", "nobody"]), UnknownArm),
    "decide: arm twice": (lambda f: f.decide("new", X, ["red", "red"]), InvalidValue),
    "decide: no arm": (lambda f: f.decide("new", X, []), InvalidValue),
    "decide: text for arms": (lambda f: f.decide("new", X, "red"), InvalidValue),
    "decide: retired arm": (lambda f: f.decide("new", X, ["green"]), UnknownArm),
    "decide: number for a task": (lambda f: f.decide(5, X), InvalidValue),
    "decide: no task": (lambda f: f.decide(None, X), InvalidValue),
    "decide: empty task": (lambda f: f.decide("", X), InvalidValue),
    "decide: long task": (lambda f: f.decide("x" * 1001, X), InvalidValue),
    "decide: broken task": (lambda f: f.decide("\ud800", X), InvalidValue),
    "decide: list for a task": (lambda f: f.decide(["t1"], X), InvalidValue),
    "decide_many: lengths": (lambda f: f.decide_many(["n1", "n2"], [X]), ShapeError),
    "decide_many: last context": (lambda f: f.decide_many(["n1", "n2"], [X, [1.0, math.inf]]), NotFinite),
    "decide_many: last task": (lambda f: f.decide_many(["n1", None], [X, X]), InvalidValue),
    "decide_many: empty last task": (lambda f: f.decide_many(["n1", ""], [X, X]), InvalidValue),
    "decide_many: mixed tasks": (lambda f: f.decide_many(["n1", 1], [X, X]), InvalidValue),
    "decide_many: nested tasks": (lambda f: f.decide_many([["n1"], ["n2"]], [X, X]), InvalidValue),
    "decide_many: square tasks": (lambda f: f.decide_many(np.array([["n1"], ["n2"]]), [X, X]), InvalidValue),
    "decide_many: eligible lengths": (lambda f: f.decide_many(["n1", "n2"], [X, X], [None]), ShapeError),
    "decide_many: last eligible": (lambda f: f.decide_many(["n1", "n2"], [X, X], [None, ["nobody"]]), UnknownArm),
    "decide_many: none eligible": (lambda f: f.decide_many(["n1", "n2"], [X, X], [None, []]), InvalidValue),
    "decide_many: no column": (lambda f: f.decide_many("who", {"a": [1.0], "b": [1.0]}), InvalidValue),
    "decide_many: null task": (lambda f: f.decide_many("t", {"t": ["n", None], "a": X, "b": X}), InvalidValue),
    "expected: wrong kind": (lambda f: f.expected(5, X), InvalidValue),
    "probabilities: last context": (lambda f: f.probabilities(["n1", "n2"], [X, [1.0, None]]), InvalidValue),
    "reward: nobody": (lambda f: f.reward("nobody-1", 1.0), UnknownDecision),
    "reward: none": (lambda f: f.reward(None, 1.0), UnknownDecision),
    "reward: NaN": (lambda f: f.reward(f.pending()[0].id, math.nan), NotFinite),
    "reward: large": (lambda f: f.reward(f.pending()[0].id, -1e51), NotFinite),
    "reward: text": (lambda f: f.reward(f.pending()[0].id, "1"), InvalidValue),
    "add_arm: there": (lambda f: f.add_arm("red"), InvalidValue),
    "add_arm: wrong kind": (lambda f: f.add_arm(3), InvalidValue),
    "add_arm: empty": (lambda f: f.add_arm(""), InvalidValue),
    "retire_arm: nobody": (lambda f: f.retire_arm("nobody"), UnknownArm),
    "retire_arm: retired": (lambda f: f.retire_arm("green"), InvalidValue),
    "rename: nobody": (lambda f: f.rename("nobody", "x"), UnknownArm),
    "rename: there": (lambda f: f.rename("red", "green"), InvalidValue),
    "rename: wrong kind": (lambda f: f.rename("red", 5), InvalidValue),
    "rename: empty": (lambda f: f.rename("red", ""), InvalidValue),
    "forget: nobody": (lambda f: f.forget("t1", "nobody"), UnknownTask),
    "forget: wrong kind": (lambda f: f.forget("t1", 5), InvalidValue),
    "export: nobody": (lambda f: f.export("nobody"), UnknownTask),
    "borrowing: nobody": (lambda f: f.borrowing("nobody"), UnknownTask),
    "merge: nothing": (lambda f: f.merge(None), InvalidValue),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_a_wrong_call(fleet_of, snapshot, what):
    fleet = fleet_of()
    fleet.decide("t1", X)
    fleet.retire_arm("green")
    before = snapshot(fleet)
    call, error = WRONG_CALLS[what]
    with pytest.raises(error) as caught:
        call(fleet)
    assert len(str(caught.value)) > 15
    assert snapshot(fleet) == before


def test_a_reward_that_is_refused(fleet_of, snapshot, clock):
    fleet = fleet_of(clock=clock, time_to_live=10.0)
    late = fleet.decide("t1", X)
    clock.now += 11.0
    rewarded, waiting = fleet.decide("t1", X), fleet.decide("new", X)
    fleet.reward(rewarded.id, 1.0)
    before = snapshot(fleet)
    for ids, values, error in [
        ([waiting.id, late.id], [1.0, 1.0], ExpiredDecision),
        ([waiting.id, rewarded.id], [1.0, 2.0], RewardConflict),
        ([waiting.id, waiting.id], [1.0, 2.0], RewardConflict),
        ([waiting.id, "nobody-1"], [1.0, 2.0], UnknownDecision),
        ([waiting.id, None], [1.0, 2.0], UnknownDecision),
        ([waiting.id], [1.0, 2.0], ShapeError),
        ([waiting.id], [math.nan], NotFinite),
    ]:
        with pytest.raises(error):
            fleet.reward_many(ids, values)
        assert snapshot(fleet) == before


# A log that cannot be written


@pytest.mark.parametrize("what", ["decide", "decide new", "decide_many", "reward", "reward_many", "absent"])
def test_a_log_that_fails(fleet_of, snapshot, clock, what, same_prefixes, exactly):
    def full(records):
        raise OSError("disk full")

    def build():
        fleet = fleet_of(clock=clock, time_to_live=10.0, absent_reward=0.5)
        first, second = fleet.decide("t1", X), fleet.decide("new", X)
        return fleet, first, second

    fleet, first, second = build()
    same_prefixes()
    twin, _, _ = build()
    fleet.log_to(full)
    if what == "absent":
        clock.now += 11.0
    before = snapshot(fleet)
    call = {
        "decide": lambda f: f.decide("t2", X),
        "decide new": lambda f: f.decide("newer", X),
        "decide_many": lambda f: f.decide_many(["newer", "t1", "newest"], [X, X, X]),
        "reward": lambda f: f.reward(second.id, 1.0),
        "reward_many": lambda f: f.reward_many([first.id, second.id], [1.0, 2.0]),
        "absent": lambda f: f.pending(),
    }[what]
    with pytest.raises(OSError, match="disk full"):
        call(fleet)
    assert snapshot(fleet) == before
    fleet.log_to(None)
    assert exactly(call(fleet)) == exactly(call(twin))
    assert snapshot(fleet) == snapshot(twin)


def test_a_time_that_cannot_be_logged(fleet_of, snapshot, clock):
    fleet = fleet_of(clock=clock, time_to_live=None, log=lambda records: None)
    clock.now = 1e18
    before = snapshot(fleet)
    with pytest.raises((PosseError, ValueError, OverflowError, OSError)):
        fleet.decide("new", X)
    assert snapshot(fleet) == before


# Memory that runs out
