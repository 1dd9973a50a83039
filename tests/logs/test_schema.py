import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.logs.findings import BadRow
from posse.logs.schema import COLUMNS, log_frame

SMALL = {"task": ["a", "b"], "arm": [1, 2], "reward": [0.5, None]}


def frame(**columns):
    return pl.DataFrame({**SMALL, **columns}, strict=False)


def test_absent_columns_become_nulls_of_their_type():
    result, unknown = log_frame(frame())

    assert tuple(result.columns) == COLUMNS
    assert unknown == ()
    assert dict(result.schema) == {
        "decision_id": pl.String(),
        "time": pl.Datetime("us", "UTC"),
        "task": pl.String(),
        "arm": pl.Int64(),
        "eligible": pl.List(pl.Int64()),
        "probabilities": pl.List(pl.Float64()),
        "expected_rewards": pl.List(pl.Float64()),
        "propensity": pl.Float64(),
        "context": pl.Struct([]),
        "reward": pl.Float64(),
        "reward_family": pl.String(),
        "reward_time": pl.Datetime("us", "UTC"),
        "policy": pl.String(),
        "version": pl.String(),
        "ranking_id": pl.String(),
        "ranking_place": pl.Int64(),
    }
    assert result["propensity"].null_count() == 2


def test_columns_of_no_log_are_left_out_and_named():
    result, unknown = log_frame(frame(colour=["x", "y"], price=[1, 2]))

    assert unknown == ("colour", "price")
    assert "colour" not in result.columns


def test_types_that_mean_the_same_are_taken():
    result, _ = log_frame(
        frame(
            task=pl.Series(["a", "b"], dtype=pl.Categorical()),
            arm=pl.Series([1, 2], dtype=pl.UInt8()),
            eligible=pl.Series([[1, 2], [1, 2]], dtype=pl.Array(pl.Int32(), 2)),
            probabilities=pl.Series([[1, 0], None], dtype=pl.List(pl.Int8())),
            propensity=pl.Series([0.5, 0.25], dtype=pl.Float32()),
            reward=[True, False],
        )
    )

    assert result.schema["task"] == pl.String()
    assert result.schema["arm"] == pl.Int64()
    assert result["eligible"].to_list() == [[1, 2], [1, 2]]
    assert result["probabilities"].to_list() == [[1.0, 0.0], None]
    assert result["reward"].to_list() == [1.0, 0.0]


def test_features_keep_number_text_and_truth_apart():
    context = pl.DataFrame(
        {
            "whole": pl.Series([1, None], dtype=pl.Int16()),
            "huge": pl.Series([2**63, None], dtype=pl.UInt64()),
            "float": pl.Series([0.5, None], dtype=pl.Float32()),
            "text": pl.Series(["x", None], dtype=pl.Enum(["x"])),
            "truth": [True, None],
            "never": pl.Series([None, None], dtype=pl.String()),
            "null": [None, None],
        }
    ).to_struct()

    result, _ = log_frame(frame(context=context))

    assert result.schema["context"] == pl.Struct(
        {
            "whole": pl.Int64(),
            "huge": pl.Float64(),
            "float": pl.Float64(),
            "text": pl.String(),
            "truth": pl.Boolean(),
            "never": pl.Float64(),
            "null": pl.Float64(),
        }
    )
    assert result["context"][0]["huge"] == 2.0**63


def test_a_context_that_is_null_has_every_feature_missing():
    result, _ = log_frame(frame(context=[{"x": 1.5}, None]))

    assert result["context"].to_list() == [{"x": 1.5}, {"x": None}]


def test_no_rows_are_a_log_too():
    result, _ = log_frame(frame(context=[{"x": "y"}, None])[:0])

    assert result.shape == (0, 16)
    assert result.schema["context"] == pl.Struct({"x": pl.String()})


@pytest.mark.parametrize("name", ["task", "arm", "reward"])
def test_required_columns_are_required(name):
    with pytest.raises(InvalidValue, match=f"a log needs the columns task, arm, reward, but '{name}' is not among"):
        log_frame(frame().drop(name))


@pytest.mark.parametrize(
    ("columns", "row", "words"),
    [
        ({"task": ["a", None]}, 1, "task is missing"),
        ({"task": [None, 1.5]}, 0, "task is missing"),
        ({"task": [1.0, 2.0]}, 0, "task must be text or a whole number below 2[*][*]63, one kind in a log, but 1.0"),
        ({"task": [True, False]}, 0, "task must be text or a whole number"),
        ({"arm": pl.Series([1, 2**63], dtype=pl.UInt64())}, 1, "arm must be .* but 9223372036854775808 came"),
        ({"reward": [None, "1"]}, 1, "reward must be a number, but '1' came"),
        ({"propensity": [None, True]}, 1, "propensity must be a number, but True came"),
        ({"decision_id": [7, 8]}, 0, "decision_id must be text; cast it first, but 7 came"),
        ({"policy": [1.5, 8]}, 0, "policy must be text"),
        ({"eligible": [None, ["1"]]}, 1, r"eligible must be a list of whole numbers, as arm is, but \['1'\] came"),
        ({"eligible": [[1], [1, None]]}, 1, r"eligible must be a list without gaps .* but \[1, None\] came"),
        ({"eligible": [1, 2]}, 0, "eligible must be a list of whole numbers, as arm is, but 1 came"),
        ({"arm": ["a", "b"], "eligible": [[], [1]]}, 1, "eligible must be a list of text, as arm is"),
        ({"probabilities": [None, [0.5, None]]}, 1, "probabilities must be a list without gaps"),
        ({"probabilities": [["x"], None]}, 0, "probabilities must be a list of numbers"),
        ({"expected_rewards": [["x"], None]}, 0, "expected_rewards must be a list of numbers"),
        ({"context": ["x", "y"]}, 0, "context must be a struct of features by name, but 'x' came"),
        ({"context": [{"x": None}, {"x": [1]}]}, 1, r"feature 'x' must be a number, .*, but \[1\] came"),
        ({"time": [None, "soon"]}, 1, "time is 'soon'"),
        ({"reward_time": ["later", None]}, 0, "reward_time is 'later'"),
    ],
)  # fmt: skip
def test_the_first_bad_row_is_named(columns, row, words):
    with pytest.raises(BadRow, match=f"^row {row} of the log: {words}") as error:
        log_frame(frame(**columns))
    assert error.value.row == row


@pytest.mark.parametrize(
    ("column", "values", "row", "words"),
    [
        ("task", ["a", "b", 3], 2, "one kind in a log, but 3 came"),
        ("reward", [1.0, "x", 2], 1, "reward must be a number, but 'x' came"),
        ("eligible", [[1], [1], ["a"]], 2, r"eligible must be a list of whole numbers, as arm is, but \['a'\] came"),
        ("context", [{"x": 1}, {"x": 2}, {"x": "y"}], 2, "feature 'x' is text here, but a number in row 0"),
        ("context", [{"x": 1}, 2, {"x": "y"}], 1, "context must be a struct of features by name, but 2 came"),
        ("context", [{1: 1}, None, None], 0, "context must name its features by text, but 1 came"),
    ],
)
def test_columns_of_mixed_values_too(column, values, row, words):
    columns = {"task": ["a"] * 3, "arm": [1] * 3, "reward": [1.0] * 3}
    table = pl.DataFrame(columns).with_columns(pl.Series(column, values, dtype=pl.Object()))

    with pytest.raises(BadRow, match=words) as error:
        log_frame(table)
    assert error.value.row == row


def test_places_of_rankings_are_whole_numbers_from_1_on():
    result, _ = log_frame(frame(ranking_id=["r", "r"], ranking_place=[1.0, 2.0]))
    assert result["ranking_place"].to_list() == [1, 2]

    for wrong in ([1, 0], [1.5, 2.0], ["first", "second"]):
        with pytest.raises(BadRow, match="ranking_place must be a whole number from 1 on"):
            log_frame(frame(ranking_place=wrong))
