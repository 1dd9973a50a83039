import pandas as pd
import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.logs import Log

TABLE = {
    "task": ["b", "a", "b"],
    "arm": ["y", "x", "x"],
    "reward": [1.0, None, 0.0],
    "eligible": [["z", "y"], None, ["x"]],
    "context": [{"age": 3, "city": "Rome"}, {"age": 4, "city": None}, None],
}


def test_labels_are_sorted_and_eligible_arms_count():
    log = Log(TABLE)

    assert log.n_rows == 3
    assert log.tasks == ["a", "b"]
    assert log.arms == ["x", "y", "z"]
    assert log.features == ["age", "city"]
    assert repr(log) == "Log(3 rows, 2 tasks, 3 arms, 2 features)"


def test_whole_numbers_are_sorted_as_numbers():
    assert Log({"task": [10, 9], "arm": [2, 10], "reward": [0, 0]}).arms == [2, 10]


def test_where_the_log_does_not_say_all_arms_are_eligible():
    assert Log(TABLE).eligible.to_list() == [["z", "y"], ["x", "y", "z"], ["x"]]


def test_contexts_are_a_table_of_raw_features():
    assert Log(TABLE).contexts.to_dict(as_series=False) == {"age": [3, 4, None], "city": ["Rome", None, None]}
    assert Log({"task": ["a"], "arm": ["x"], "reward": [1]}).contexts.width == 0


def test_with_rewards_keeps_what_is_known():
    log = Log(pl.DataFrame(TABLE).with_columns(odd=1))

    kept = log.with_rewards()

    assert kept.frame["arm"].to_list() == ["y", "x"]
    assert kept.unknown == ("odd",)
    assert log.n_rows == 3


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, lambda table: pl.DataFrame(table).to_dicts(), dict])
def test_any_table_will_do(make):
    assert Log(make(TABLE)) == Log(TABLE)


def test_equal_means_equal_types_too():
    plain = {"task": [1], "arm": [1], "reward": [1.0]}

    assert Log(plain) == Log({**plain, "propensity": [None]})
    assert Log(plain) != Log({**plain, "task": ["1"]})
    assert Log({**plain, "context": [{"x": 1}]}) != Log({**plain, "context": [{"x": 1.0}]})
    assert Log(plain) != 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(Log(plain))


def test_a_log_is_a_value():
    log = Log(TABLE)

    with pytest.raises(AttributeError):
        log.frame = None
    log.frame.with_columns(task=pl.lit("c"))
    assert log.tasks == ["a", "b"]


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidValue, match="expected log to be a Polars or pandas data frame"):
        Log(7)


def test_a_log_says_what_its_rewards_are():
    clicks = {"task": [1, 1], "arm": [1, 2], "reward": [True, None]}

    log = Log(clicks)

    assert (log.rewards, log.frame["reward"].to_list()) == ("binary", [1.0, None])
    assert Log(log.frame.head(1)).rewards == "binary", "the column goes where rows go"
    assert log.with_rewards(0.0).rewards == "binary"
    assert Log({**clicks, "reward": [1.0, None]}).rewards == "number"
    assert Log({**clicks, "reward": [1, 3]}, rewards="count").rewards == "count"
    assert Log(log.frame, rewards="number").rewards == "number"
    assert Log(clicks, rewards="number") != log


def test_rows_that_do_not_say_it_leave_it_to_others():
    rows = {"task": [1, 1, 1], "arm": [1, 2, 1], "reward": [1, 0, 1]}

    assert Log({**rows, "reward_family": [None, "binary", None]}).rewards == "binary"
    with pytest.raises(InvalidValue, match="row 2 of the log: reward_family is 'count' here, but 'binary' before"):
        Log({**rows, "reward_family": [None, "binary", "count"]})
    with pytest.raises(
        InvalidValue, match="row 1 of the log: reward_family must be number, binary, count, revenue, but 'click'"
    ):
        Log({**rows, "reward_family": [None, "click", "count"]})
    with pytest.raises(InvalidValue, match="rewards"):
        Log(rows, rewards="click")
