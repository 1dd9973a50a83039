"""Mistakes that newcomers make, and what they are told."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from posse import EbmTS, EbmUCB, Posse, simulate
from posse.errors import InvalidValue
from posse.logs import read_log

ROWS = {"task": ["a", "b"], "age": [1.0, 2.0]}


@pytest.fixture
def fleet():
    return Posse(arms=["red", "green"], features=["age"], seed=7)


@pytest.mark.parametrize("huge", [2**63, -(2**63), 2**70])
def test_a_whole_number_beyond_64_bits_is_no_name(fleet, huge):
    with pytest.raises(InvalidValue, match=f"64 bits.*name it by text: '{huge}'"):
        fleet.decide(huge, [1.0])
    with pytest.raises(InvalidValue, match="64 bits"):
        fleet.decide_many([1, huge], [[1.0], [2.0]])
    with pytest.raises(InvalidValue, match="64 bits"):
        fleet.learn_many({"task": [huge], "arm": ["red"], "age": [1.0], "reward": [1.0]})
    assert fleet.tasks == ()


@pytest.mark.parametrize("table", [pd.DataFrame(ROWS), pl.DataFrame(ROWS), pa.table(ROWS), np.ones((2, 1))])
def test_a_table_belongs_to_decide_many(fleet, table):
    with pytest.raises(InvalidValue, match="decide_many") as caught:
        fleet.decide("a", table)
    assert "\n" not in str(caught.value)


def test_eligible_of_many_rows_is_a_sequence_for_each(fleet):
    with pytest.raises(InvalidValue, match=r"got the arm 'red'; .* pass \[\['red', 'green'\]\] \* 2"):
        fleet.decide_many("task", pl.DataFrame(ROWS), eligible=["red", "green"])
    assert fleet.n_decisions == 0
    assert len(fleet.decide_many("task", pl.DataFrame(ROWS), eligible=[["red", "green"]] * 2)) == 2


def test_a_misspelt_keyword_is_answered_by_the_class_that_was_called():
    with pytest.raises(TypeError, match=r"^Posse has no argument 'sed'; did you mean 'seed'"):
        Posse(arms=["red"], features=["age"], sed=7)
    for policy in (EbmUCB, EbmTS):
        with pytest.raises(TypeError, match=f"^{policy.__name__} has no argument 'explorations'; did you mean"):
            policy(n_tasks=1, n_arms=1, n_features=1, explorations=1.0)

    class Mine(EbmTS):
        def __init__(self, *, mine, **settings):
            super().__init__(**settings)
            self.mine = mine

    assert Mine(mine=3, n_tasks=1, n_arms=1, n_features=1).mine == 3


@pytest.mark.parametrize("way", [pickle.dumps, copy.deepcopy, copy.copy])
def test_a_fleet_is_saved_rather_than_copied(fleet, way):
    with pytest.raises(TypeError, match=r"save\(path\) and Posse.load"):
        way(fleet)


def test_forget_takes_tasks_one_by_one(fleet):
    fleet.decide("a", [1.0])
    with pytest.raises(InvalidValue, match=r"forget\(\*tasks\)"):
        fleet.forget(["a"])
    assert fleet.tasks == ("a",)
    fleet.forget(*["a"])
    assert fleet.tasks == ()


def test_a_custom_world_without_settings_is_refused():
    class Mine:
        n_tasks, n_arms, n_features = 2, 2, 1

        def draw(self, seed, horizon):
            raise AssertionError

    with pytest.raises(InvalidValue, match=r"Mine lacks settings; settings\(\) returns plain values"):
        simulate(Mine(), {"ebmTS": EbmTS}, horizon=10, seeds=1)


def test_a_fleet_without_features_takes_no_context(tmp_path):
    plain, empty = Posse(arms=["red", "green"], seed=7), Posse(arms=["red", "green"], features=[], seed=7)
    for step in range(20):
        decision = plain.decide("a")
        assert decision.arm == empty.decide("a", {}).arm
        plain.reward(decision, float(step % 3))
        empty.reward(empty.pending()[0].id, float(step % 3))
    assert plain.expected("a").mean == empty.expected("a", []).mean
    plain.log_to(tmp_path / "log.jsonl")
    plain.decide("a")
    assert read_log(tmp_path / "log.jsonl").n_rows == 1
