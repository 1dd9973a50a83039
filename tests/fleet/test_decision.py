import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

X = np.array([[0.3, -0.8], [0.1, 0.2], [1.0, 2.0], [0.0, 0.5]])
TASKS = ["t1", "t2", "new", "t1"]
ELIGIBLE = [None, ["blue", "red"], ["green"], ["red", "green", "blue"]]


@pytest.fixture
def batch(fleet_of):
    return fleet_of(20).decide_many(TASKS, X, ELIGIBLE)


def test_a_batch_is_a_sequence_of_decisions(batch):
    assert len(batch) == 4
    assert [decision.id for decision in batch] == batch.ids
    assert [decision.arm for decision in batch] == batch.arm
    assert [decision.task for decision in batch] == batch.tasks == TASKS
    assert batch[-1] == batch[3] == list(batch)[3]
    assert [set(decision.probabilities) for decision in batch] == [
        {"red", "green", "blue"}, {"red", "blue"}, {"green"}, {"red", "green", "blue"},
    ]  # fmt: skip
    for decision, chance in zip(batch, batch.propensity, strict=True):
        assert decision.propensity == decision.probabilities[decision.arm] == chance
        assert decision.mean.keys() == decision.sd.keys() == decision.probabilities.keys()
        assert json.loads(json.dumps(decision._asdict())) == decision._asdict()
    for wrong in (4, -5):
        with pytest.raises(IndexError):
            batch[wrong]


def test_columns_are_in_the_order_of_the_arms(batch):
    assert batch.arms == ("red", "green", "blue")
    assert batch.probabilities.shape == batch.mean.shape == batch.sd.shape == (4, 3)
    assert (batch.probabilities[1, 1], batch.probabilities[2].tolist()) == (0.0, [0.0, 1.0, 0.0])
    assert np.isnan(batch.mean[2]).tolist() == np.isnan(batch.sd[2]).tolist() == [True, False, True]
    assert not np.isnan(batch.mean[[0, 3]]).any()
    assert batch.propensity.tolist() == batch.probabilities[np.arange(4), batch.chosen].tolist()


def test_a_batch_as_a_table_has_columns_for_every_arm(batch, fleet_of):
    frame = batch.to_frame()

    each = [f"{name}_{arm}" for name in ("probability", "mean", "sd") for arm in batch.arms]
    assert frame.columns == ["decision_id", "task", "arm", "propensity", *each]
    assert frame["decision_id"].to_list() == batch.ids
    assert frame["arm"].to_list() == batch.arm
    assert frame["task"].to_list() == TASKS
    assert frame["probability_blue"].to_list() == batch.probabilities[:, 2].tolist()
    np.testing.assert_array_equal(frame["sd_green"].to_numpy(), batch.sd[:, 1])
    empty = fleet_of(0).decide_many([], np.empty((0, 2)))
    assert list(empty) == []
    assert empty.to_frame().height == 0
    assert empty.to_frame().columns == frame.columns


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("record", [True, False])
def test_a_table_comes_back_in_the_library_it_came_in(fleet_of, library, record):
    contexts = library({"task": TASKS, "a": X[:, 0], "b": X[:, 1]})
    batch = fleet_of(20).decide_many("task", contexts, record=record)
    frame = batch.to_frame()
    assert type(frame) is type(contexts)
    assert list(frame["arm"] if library is not pa.table else frame["arm"].to_pylist()) == batch.arm
