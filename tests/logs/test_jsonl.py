import gzip
import json
from datetime import datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import DataFileError, NotFinite
from posse.logs import Log, jsonl, read_log, write_log
from posse.logs.jsonl import numbered_lines, read_jsonl

LINE = {"task": "a", "arm": "x", "reward": 1.5, "context": {"n": 1}}


@pytest.fixture
def write(tmp_path):
    def to_file(*lines):
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return path

    return to_file


@pytest.fixture
def in_blocks(monkeypatch):
    """Read a few lines at once, so that small files have several blocks."""
    monkeypatch.setattr(jsonl, "BLOCK", 400)


def test_a_line_is_a_decision(write):
    log = read_jsonl(
        write(
            {
                "decision_id": "d",
                "time": "2026-01-31T12:00:00Z",
                "task": 7,
                "arm": "x",
                "eligible": ["x", "y"],
                "probabilities": [0.25, 0.75],
                "expected_rewards": [-1.5, 2],
                "propensity": 0.25,
                "context": {"n": 1, "f": 1.0, "s": "t", "b": False, "none": None},
                "reward": 2,
                "reward_time": 1_769_860_800.5,
                "policy": "p",
                "version": "v",
                "ranking_id": "i",
                "ranking_place": 2,
            }
        )
    )

    row = log.frame.row(0, named=True)
    assert row.pop("time").isoformat() == "2026-01-31T12:00:00+00:00"
    assert row.pop("reward_time").isoformat() == "2026-01-31T12:00:00.500000+00:00"
    assert row == {
        "decision_id": "d",
        "task": 7,
        "arm": "x",
        "eligible": ["x", "y"],
        "probabilities": [0.25, 0.75],
        "expected_rewards": [-1.5, 2.0],
        "propensity": 0.25,
        "context": {"n": 1, "f": 1.0, "s": "t", "b": False, "none": None},
        "reward": 2.0,
        "reward_family": None,
        "policy": "p",
        "version": "v",
        "ranking_id": "i",
        "ranking_place": 2,
    }
    assert log.frame.schema["context"].to_schema() == {
        "n": pl.Int64, "f": pl.Float64, "s": pl.String, "b": pl.Boolean, "none": pl.Float64
    }  # fmt: skip


def test_every_key_is_written_with_iso_times(write, tmp_path):
    log = Log({**{key: [value] for key, value in LINE.items()}, "time": [datetime(2026, 1, 31, 12)]})
    write_log(log, tmp_path / "out.jsonl")

    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "decision_id": None,
        "time": "2026-01-31T12:00:00.000000Z",
        "task": "a",
        "arm": "x",
        "eligible": None,
        "probabilities": None,
        "expected_rewards": None,
        "propensity": None,
        "context": {"n": 1},
        "reward": 1.5,
        "reward_time": None,
        "policy": None,
        "version": None,
        "ranking_id": None,
        "ranking_place": None,
    }
    assert list(json.loads(line)) == [name for name in log.frame.columns if name != "reward_family"]


def test_blank_lines_bom_and_crlf_are_fine(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(LINE).encode() + b"\r\n \t\n" + json.dumps(LINE).encode())

    assert read_jsonl(path).n_rows == 2


def test_a_file_without_lines_is_an_empty_log(write):
    assert read_jsonl(write()).n_rows == 0


def test_unknown_keys_are_named_and_left_out(write, in_blocks):
    log = read_jsonl(write(*[{**LINE, "colour": "red", "price": number} for number in range(9)], {**LINE, "b": [{}]}))

    assert set(log.unknown) == {"colour", "price", "b"}
    assert log.n_rows == 10


def test_features_may_come_and_go(write, in_blocks):
    lines = [{**LINE, "context": {"n": number}} for number in range(5)]
    lines += [{**LINE, "context": {"n": 0.5, "s": "t"}}] * 5
    lines += [{**LINE, "context": {"b": True, "s": None}}] * 5 + [{"task": "a", "arm": "x"}]

    log = read_jsonl(write(*lines))

    assert log.contexts.rows() == [
        *((number, None, None) for number in range(5)),
        *[(0.5, "t", None)] * 5,
        *[(None, None, True)] * 5,
        (None, None, None),
    ]
    assert log.frame["reward"].to_list() == [1.5] * 15 + [None]


@pytest.mark.parametrize("place", [1, 2, 7, 40])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"task": "a", "arm": "x",}', "this is not JSON: "),
        ('{"task": "a" "arm": "x"}', "this is not JSON: "),
        ('{"task": "a", "arm": "x"', "this is not JSON: "),
        ('{"task": "a", "arm": "x"} {}', "this is not JSON: Extra data at character 27"),
        ('{"task": "a"}', "arm is missing, but every decision has one"),
        ('{"task": "a", "arm": null}', "arm is missing, but every decision has one"),
        ('{"task": "a", "arm": "x", "reward": NaN}', "NaN is not JSON"),
        ('{"task": "a", "arm": "x", "reward": 1e999}', "reward must be finite"),
        ('{"task": "a", "arm": "x", "reward": -1e999}', "reward must be finite"),
        ('{"task": "a", "arm": "x", "reward": 1, "reward": 1}', "the key 'reward' occurs twice"),
        ('{"task": "a", "arm": "x", "context": {"n": 1, "n": 1}}', "the key 'n' occurs twice"),
        ('{"task": "a", "arm": "x", "time": "soon"}', "time is 'soon', but a time must be ISO 8601"),
        ('{"task": "a", "arm": "x", "reward_time": 1e12}', "reward_time is 1000000000000.0, but seconds"),
        ('{"task": "a", "arm": "x", "context": {"n": [1]}}', "feature 'n' must be a number, text, true or false"),
        ('{"task": "a", "arm": "\\ud800"}', "a text has half of a surrogate pair"),
    ],
)
def test_a_bad_line_is_named(write, in_blocks, place, bad, words):
    lines = [{**LINE, "time": "2026-01-31T12:00:00Z", "reward_time": 5}] * 60
    path = write(*lines[: place - 1], bad, *lines[place:])

    with pytest.raises(DataFileError) as error:
        read_jsonl(path)

    assert str(error.value).startswith(f"{path}, line {place}: {words}")


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"task": 1}, "task is a number here, but text in line 1; make it one kind"),
        ({"arm": 1}, "arm is a number here, but text in line 1; make it one kind"),
        ({"context": {"n": "x"}}, "feature 'n' is text here, but a number in line 1; make it one kind"),
        ({"context": {"n": True}}, "feature 'n' is true or false here, but a number in line 1"),
        ({"eligible": [1]}, "arm is a number here, but text in line 1"),
    ],
)
def test_a_change_of_kind_names_both_lines(write, in_blocks, odd, words):
    with pytest.raises(DataFileError, match=f"line 30: {words}"):
        read_jsonl(write(*[LINE] * 29, {**LINE, **odd}, *[LINE] * 5))


def test_what_is_not_text_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(json.dumps(LINE).encode() + b'\n{"task": "\xff"}')

    with pytest.raises(DataFileError, match=r"log\.jsonl, line 2: this is not UTF-8 text"):
        read_jsonl(path)


def test_a_broken_gzip_file_is_one_error(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    whole = gzip.compress("\n".join([json.dumps({**LINE, "reward": number}) for number in range(2000)]).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataFileError, match="cannot read"):
        read_jsonl(path)
    path.write_bytes(whole[:50] + b"\x00\xff" * 20 + whole[90:])
    with pytest.raises(DataFileError, match="cannot read"):
        read_jsonl(path)


def test_blocks_keep_the_numbers_of_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "BLOCK", 5)
    path = tmp_path / "log.jsonl"
    path.write_text("one\ntwo\n\na longer line\nlast")

    found = {first + place: line for first, lines in numbered_lines(path) for place, line in enumerate(lines)}

    assert found == {1: "one", 2: "two", 3: "", 4: "a longer line", 5: "last"}


def test_nan_cannot_be_written(tmp_path):
    columns = {key: [value, value] for key, value in LINE.items()}
    for name, values in {
        "reward": [1.0, float("nan")],
        "propensity": [1.0, float("inf")],
        "probabilities": [[1.0], [float("nan")]],
        "expected_rewards": [[1.0], [float("inf")]],
        "context": [{"n": 1.0}, {"n": float("-inf")}],
    }.items():
        with pytest.raises(NotFinite, match=f"{'n' if name == 'context' else name} in row 1 of the log is NaN"):
            write_log(Log({**columns, name: values}), tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
floats = st.floats(allow_nan=False, allow_infinity=False)
wholes = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))


@st.composite
def logs(draw):
    """Any log with a row or more."""
    labels = [draw(st.sampled_from([texts, wholes])) for _ in range(2)]
    kinds = draw(st.dictionaries(texts, st.sampled_from([texts, floats, wholes, st.booleans(), st.none()]), max_size=4))
    n_rows = draw(st.integers(1, 12))
    rows = [
        {
            "decision_id": draw(texts | st.none()),
            "time": draw(moments | st.none()),
            "task": draw(labels[0]),
            "arm": draw(labels[1]),
            "eligible": draw(st.lists(labels[1], max_size=3) | st.none()),
            "probabilities": draw(st.lists(floats, max_size=3) | st.none()),
            "expected_rewards": draw(st.lists(floats, max_size=3) | st.none()),
            "propensity": draw(floats | st.none()),
            "context": {name: draw(values | st.none()) for name, values in kinds.items()},
            "reward": draw(floats | st.none()),
            "reward_time": draw(moments | st.none()),
            "policy": draw(texts | st.none()),
            "version": draw(texts | st.none()),
        }
        for _ in range(n_rows)
    ]
    return Log(rows)


@given(logs(), st.sampled_from(["jsonl", "jsonl.gz", "parquet"]), st.sampled_from([200, 10**6]))
def test_every_log_comes_back(tmp_path_factory, log, suffix, block):
    path = tmp_path_factory.mktemp("logs") / f"log.{suffix}"

    write_log(log, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "BLOCK", block)
        assert read_log(path) == log


ODD_KEYS = ["task", "reward", "policy", "eligible", "context", "task_features", "probabilities"]
scalars = texts | floats | wholes | st.booleans() | st.none() | st.integers(10**18, 10**30) | st.just([])
numbers_as_text = st.sampled_from(["1", "-0", "1.0", "1E5", "1e999", "0.1e-3", "123456789012345678901", "007"])


@st.composite
def lines(draw):
    """Lines that are decisions more often than not."""
    record = {"task": draw(st.sampled_from(["a", "b"])), "arm": draw(st.sampled_from(["x", "y"]))}
    record |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "reward": floats | st.none(),
                "eligible": st.lists(st.sampled_from(["x", "y"]), max_size=3),
                "probabilities": st.lists(floats, max_size=2),
                "arm_features": st.fixed_dictionaries(
                    {}, optional={"p": st.lists(wholes | floats | st.none(), max_size=3)}
                ),
                "context": st.fixed_dictionaries({}, optional={"n": wholes | floats, "s": texts, "b": st.booleans()}),
                "time": st.sampled_from(["2026-01-01T00:00:00Z", 5, 5.5, "2026-01-01", None]),
                "extra": scalars,
            },
        )
    )
    if draw(st.integers(0, 5)) == 0:
        record[
            draw(st.sampled_from(["task", "reward", "policy", "eligible", "context", "task_features", "probabilities"]))
        ] = draw(scalars)
    text = json.dumps(record, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 5)) == 0:
        text = text.replace("1", draw(numbers_as_text), 1)
    if draw(st.integers(0, 20)) == 0:
        cut = draw(st.integers(0, len(text)))
        text = text[:cut] + draw(st.sampled_from([",", "}", '"', " ", "1", ""])) + text[cut + draw(st.integers(0, 1)) :]
    return text.replace("\n", " ")


@given(st.lists(lines(), min_size=1, max_size=12))
def test_any_lines_are_a_log_or_one_error_that_names_the_file(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    path.write_text("\n".join(texts))

    log = _outcome(path)

    if isinstance(log, str):
        assert log.startswith(f"{path}, line ")
    else:
        write_log(log, path)
        assert read_jsonl(path) == log or not log.n_rows


def _outcome(path):
    try:
        return read_jsonl(path)
    except DataFileError as error:
        return str(error)


def test_features_of_eligible_arms_come_back(tmp_path):
    rows = [
        {
            "decision_id": f"d{row}", "task": "a", "arm": "x0", "eligible": [f"x{i}" for i in range(2 + row % 2)],
            "context": {"c": 1}, "reward": 1.0,
            "arm_features": {
                "price": [1 if row % 3 else None, 2.5, 3][: 2 + row % 2],
                "colour": ["r", None, "b"][: 2 + row % 2],
                "nothing": [None] * (2 + row % 2),
            },
        }
        for row in range(300)  # more than are read one by one
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(
            json.dumps(row) + "\n" for row in (*rows, {"task": "a", "arm": "x0"}, {"decision_id": "d0", "reward": 1.0})
        )
    )
    log = read_log(path)

    assert log.arm_features == ["price", "colour", "nothing"]
    assert log.frame["arm_features"].to_list()[:-1] == [row["arm_features"] for row in rows]
    assert log.frame["arm_features"].to_list()[-1] == dict.fromkeys(log.arm_features)
    assert not log.unknown
    for name in ("again.jsonl", "again.parquet"):
        write_log(log, tmp_path / name)
        assert read_log(tmp_path / name) == log
    for wrong, message in (
        ({"arm_features": [1]}, "must be an object of lists"),
        ({"arm_features": {"price": 1}}, "arm feature 'price' must be a list"),
        ({"arm_features": {"price": [{}]}}, "arm feature 'price' must be a number"),
        ({"arm_features": {"price": ["x"]}}, "feature 'price' is text here, but a number in line 1"),
    ):
        path.write_text(
            json.dumps({"task": "a", "arm": "x", "arm_features": {"price": [1]}})
            + "\n"
            + json.dumps({"task": "a", "arm": "x"} | wrong)
        )
        with pytest.raises(DataFileError, match=message):
            read_log(path)


@pytest.mark.parametrize("first", [0, 5])
def test_true_and_false_are_clicks(write, in_blocks, first):
    unknown = [LINE | {"reward": None}] * first
    values = [True, False, True, None, False, True, True, True]

    log = read_jsonl(write(*unknown, *(LINE | {"reward": value} for value in values)))

    assert log.rewards == "binary"
    assert log.frame["reward"].to_list() == [None] * first + [None if one is None else float(one) for one in values]
    assert read_jsonl(write(*unknown, *[LINE | {"reward": 1}] * 9)).rewards == "number"


def test_rewards_of_clicks_in_lines_of_their_own(write):
    decision = LINE | {"decision_id": "d", "reward": None}

    log = read_jsonl(write(decision, {"decision_id": "d", "reward": True}))

    assert (log.rewards, log.frame["reward"].to_list()) == ("binary", [1.0])


@pytest.mark.parametrize("at", [1, 30])
def test_numbers_among_true_and_false_are_refused(write, in_blocks, at):
    lines = [LINE | {"reward": True}] * at + [LINE | {"reward": 1.0}]

    with pytest.raises(DataFileError, match=f"line {at + 1}: reward is a number here, but true or false in line 1"):
        read_jsonl(write(*lines))


@pytest.mark.parametrize("at", [1, 30])
def test_lines_must_agree_on_what_rewards_are(write, in_blocks, at):
    lines = [LINE] + [LINE | {"reward_family": "count"}] * at

    assert read_jsonl(write(*lines)).rewards == "count"
    with pytest.raises(DataFileError, match=f"line {at + 2}: reward_family is 'binary' here, but 'count' before"):
        read_jsonl(write(*lines, LINE | {"reward_family": "binary"}))
