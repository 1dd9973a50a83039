import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.logs import Log
from posse.offline import LoggedBandit

ROWS = {
    "task": ["b", "a", "b"],
    "arm": ["y", "x", "x"],
    "eligible": [["y", "x"], ["x", "y"], ["x"]],
    "probabilities": [[0.25, 0.75], [0.5, 0.5], [1.0]],
    "propensity": [0.25, 0.5, 1.0],
    "context": [{"age": 1.0, "town": "P"}, {"age": 3.0, "town": "Q"}, {"age": 5.0, "town": "P"}],
    "reward": [1.0, 2.0, 3.0],
}


def test_every_column_finds_its_place():
    data = LoggedBandit.from_log(Log(ROWS), groups=["town", "task"])

    assert data.task_labels == ("b", "a")
    assert data.arm_labels == ("x", "y")
    assert_array_equal(data.tasks, [0, 1, 0])
    assert_array_equal(data.arms, [1, 0, 0])
    assert_array_equal(data.eligible, [[True, True], [True, True], [True, False]])
    assert_array_equal(data.probabilities, [[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]])
    assert_array_equal(data.propensities, [0.25, 0.5, 1.0])
    assert_array_equal(data.rewards, [1, 2, 3])
    assert_array_equal(data.groups["town"], ["P", "Q", "P"])
    assert data.raw.columns == ["age", "town"]


def test_features_are_inferred_and_scaled_or_as_declared():
    spread = np.sqrt(8 / 3)

    assert_allclose(
        LoggedBandit.from_log(Log(ROWS)).contexts, [[1, -2 / spread, 1, 0], [1, 0, 0, 1], [1, 2 / spread, 1, 0]]
    )
    assert_allclose(LoggedBandit.from_log(Log(ROWS), FeatureSpec(["age"])).contexts, [[1, 1], [1, 3], [1, 5]])


def test_a_log_without_features_has_an_intercept():
    log = Log({name: values for name, values in ROWS.items() if name != "context"})

    assert_array_equal(LoggedBandit.from_log(log).contexts, [[1], [1], [1]])


def test_rows_without_reward_or_propensity_are_left_out_and_counted():
    rows = {**ROWS, "reward": [None, 2.0, None], "propensity": [0.25, 0.5, None], "probabilities": None}
    data = LoggedBandit.from_log(Log(pl.DataFrame(rows)))

    assert data.n_rows == 1
    assert data.task_labels == ("a",)
    assert (data.rows_without_reward, data.rows_without_propensity, data.rows_left_out) == (2, 1, 2)
    assert data.probabilities is None


def test_a_propensity_that_was_not_recorded_is_that_of_the_probabilities():
    data = LoggedBandit.from_log(Log({**ROWS, "propensity": [None, None, None]}))

    assert_array_equal(data.propensities, [0.25, 0.5, 1.0])
    assert data.rows_without_propensity == 0


def test_probabilities_of_some_rows_only_are_not_used():
    data = LoggedBandit.from_log(Log({**ROWS, "probabilities": [[0.25, 0.75], None, [1.0]]}))

    assert data.probabilities is None
    assert data.n_rows == 3


def test_arms_that_the_log_does_not_call_eligible_are_all_eligible():
    rows = {name: values for name, values in ROWS.items() if name not in ("eligible", "probabilities")}

    assert LoggedBandit.from_log(Log(rows)).eligible.all()


def test_rows_are_put_in_order_of_time():
    times = ["2024-01-03T00:00:00Z", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]
    data = LoggedBandit.from_log(Log({**ROWS, "time": times}))

    assert_array_equal(data.rewards, [2, 3, 1])
    assert data.task_labels == ("a", "b")


def test_labels_may_be_numbers():
    rows = {**ROWS, "task": [7, -2, 7], "arm": [20, 10, 10], "eligible": [[20, 10], [10, 20], [10]]}
    data = LoggedBandit.from_log(Log(rows))

    assert data.task_labels == (7, -2)
    assert data.arm_labels == (10, 20)


@pytest.mark.parametrize(
    ("changes", "groups", "words"),
    [
        ({"reward": [None, None, None]}, [], "no row of the log has both"),
        ({"probabilities": [[0.25], [0.5, 0.5], [1.0]]}, [], "row 0 of the log has another number"),
        ({}, ["colour"], "no column 'colour' to group by; there are 'age', 'town'"),
        ({}, ["arm"], "known before the decision only, which 'arm' was not"),
        ({}, ["reward"], "known before the decision only, which 'reward' was not"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(changes, groups, words):
    with pytest.raises(InvalidValue, match=words):
        LoggedBandit.from_log(Log({**ROWS, **changes}), groups=groups)
