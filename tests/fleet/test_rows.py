import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue, NotFinite
from posse.fleet.names import Labels
from posse.fleet.tables import contexts_of, label_codes, required, rewards_of, sequence_codes


@given(st.lists(st.text(max_size=3).filter(bool), max_size=30) | st.lists(st.integers(-5, 5), max_size=30))
def test_codes_lead_back_to_the_names(values):
    ways = [sequence_codes(values, Labels("task")), sequence_codes(tuple(values), Labels("task"))]
    dtype = pl.Int64 if values and isinstance(values[0], int) else pl.String
    ways.append(label_codes(pl.Series(values, dtype=dtype), Labels("task")))
    for names, codes in ways:
        assert [names[code] for code in codes] == values
        assert names == list(dict.fromkeys(values))  # in the order of their first row
        assert codes.size == 0 or codes.dtype == np.int64
        assert all(type(name) in (str, int) for name in names)


@pytest.mark.parametrize(
    "values",
    [np.array(["a", "b", "a"]), pd.Series(["a", "b", "a"]), pd.Index(["a", "b", "a"]), pl.Series(["a", "b", "a"]),
     pl.Series(["a", "b", "a"], dtype=pl.Categorical), pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
     pd.Series(["a", "b", "a"], dtype="category"), iter(["a", "b", "a"]), np.array(["a", "b", "a"], dtype=object)],
    ids=lambda values: type(values).__name__,
)  # fmt: skip
def test_names_may_come_in_any_sequence(values):
    names, codes = sequence_codes(values, Labels("task"))

    assert (names, codes.tolist()) == (["a", "b"], [0, 1, 0])


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0], [True], [1, True], [1, 1.0], [None], ["a", None], ["a", 1], [["a"]], np.array([["a"]]),
     np.array([1.5]), pl.Series([1.5]), pl.Series([True]), pl.Series(["a", None]), pd.Series([1.0, np.nan]), [np.nan],
     [b"a"], 5, None, pl.Series([[1]]), np.array([True])],
)  # fmt: skip
def test_what_is_no_name_is_refused(values):
    with pytest.raises(InvalidValue, match="task"):
        sequence_codes(values, Labels("task"))


def test_names_must_be_of_the_kind_in_use():
    labels = Labels("task")
    labels.take([3], [0])
    for values in (["3"], pl.Series(["3"]), np.array(["3"])):
        with pytest.raises(InvalidValue, match="whole numbers"):
            sequence_codes(values, labels)
    assert sequence_codes(np.array([3, 4], dtype=np.uint8), labels)[0] == [3, 4]
    with pytest.raises(InvalidValue, match="name"):
        sequence_codes(np.array([2**63], dtype=np.uint64), labels)


def test_a_column_must_be_there_and_whole():
    frame = pl.DataFrame({"task": ["a", None, "b"], "arm": ["x", "y", "z"]})
    assert required(frame, "arm", "arm").to_list() == ["x", "y", "z"]
    with pytest.raises(InvalidValue, match="task is missing at row 1, and in 1 rows in all"):
        required(frame, "task", "task")
    with pytest.raises(InvalidValue, match="no reward column 'reward'; the columns are 'task', 'arm'"):
        required(frame, "reward", "reward")


def test_contexts_may_stand_in_a_column_of_their_own():
    frame = pl.DataFrame({"task": ["a"], "context": [{"age": 1.0, "hour": 2.0}], "age": [9.0]})
    assert contexts_of(frame, ("age", "hour")).to_dicts() == [{"age": 1.0, "hour": 2.0}]
    # A feature that is called so is a feature.
    assert contexts_of(frame, ("context",)) is frame
    text = pl.DataFrame({"context": ["a"], "age": [1.0]})
    assert contexts_of(text, ("age",)) is text


def test_rewards_are_finite_floats():
    assert rewards_of(pl.Series([1, 2])).tolist() == [1.0, 2.0]
    assert rewards_of(pl.Series([True, False])).tolist() == [1.0, 0.0]
    assert rewards_of(pl.Series([0.5], dtype=pl.Float32)).dtype == np.float64
    for wrong, row in (([1.0, np.nan], 1), ([np.inf], 0), ([0.0, 0.0, -1e51], 2)):
        with pytest.raises(NotFinite, match=f"at row {row}"):
            rewards_of(pl.Series(wrong))
    for wrong in (["1"], [[1.0]], [{"a": 1}]):
        with pytest.raises(InvalidValue, match="numbers"):
            rewards_of(pl.Series("reward", wrong))
