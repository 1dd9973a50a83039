import json

import pytest

from posse.errors import DataFileError
from posse.logs import read_log
from posse.logs.jsonl import MOST_KEYS, BadLine, decode


@pytest.fixture
def read(tmp_path):
    def from_line(**changes):
        (tmp_path / "log.jsonl").write_text(json.dumps({"task": "a", "arm": "x", "reward": 1, **changes}))
        return read_log(tmp_path / "log.jsonl").frame.row(0, named=True)

    return from_line


def test_values_come_as_their_columns_hold_them(read):
    values = read(
        reward=2, time=5, probabilities=[1, 0], eligible=["x", "y"], context={"a": 1, "b": 2**70, "c": None, "d": True}
    )

    assert values["reward"] == 2.0
    assert isinstance(values["reward"], float)
    assert values["time"].timestamp() == 5
    assert values["probabilities"] == [1.0, 0.0]
    assert values["context"] == {"a": 1, "b": 2.0**70, "c": None, "d": True}
    assert isinstance(values["context"]["a"], int)
    assert values["policy"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"task": "a"', "not JSON: Expecting ',' delimiter at character 13"),
        ("", "not JSON"),
        ("[1]", r"an object was expected, but \[1\] came"),
        ("null", "an object was expected, but None came"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
        ('{"c": {"x": 1, "x": 1}}', "the key 'x' occurs twice"),
        ('{"a": NaN}', "NaN is not JSON; leave a number that is not known out or write null"),
        ('{"a": [-Infinity]}', "-Infinity is not JSON"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "half of a surrogate pair"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deep"),
        ('{"a": ' + "9" * 5000 + "}", "more digits than any number here can have"),
    ],
)
def test_what_is_not_strict_json_is_refused(text, words):
    with pytest.raises(BadLine, match=words):
        decode(text)


def test_pairs_of_surrogates_are_characters():
    assert decode('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": None}, "task is missing"),
        ({"arm": 1.5}, "arm must be text or a whole number below 2[*][*]63, but 1.5 came"),
        ({"arm": True}, "arm must be text or a whole number"),
        ({"task": 2**63}, "task must be text or a whole number below 2[*][*]63"),
        ({"task": ["a"]}, "task must be text or a whole number"),
        ({"decision_id": 7}, "decision_id must be text.* but 7 came"),
        ({"version": 1.0}, "version must be text"),
        ({"time": True}, "time is True, but a time must be ISO 8601"),
        ({"reward": "1"}, "reward must be a number, but '1' came"),
        ({"reward_family": 1}, "reward_family must be text.* but 1 came"),
        ({"propensity": [1]}, "propensity must be a number"),
        ({"propensity": 10**400}, "propensity must be finite, but a number too large for a float came"),
        ({"probabilities": 0.5}, "probabilities must be a list, but 0.5 came"),
        ({"probabilities": [None]}, "probabilities must be a list without gaps of numbers"),
        ({"expected_rewards": [None]}, "expected_rewards must be a list without gaps of numbers"),
        ({"eligible": "x"}, "eligible must be a list, but 'x' came"),
        ({"eligible": [None]}, "eligible must be a list without gaps"),
        ({"eligible": [1]}, "arm is a number here, but text in line 1"),
        ({"context": [1]}, "context must be an object of features by name"),
        ({"context": {"x": {}}}, "feature 'x' must be a number, text, true or false, but {} came"),
        ({"context": {"x": 10**400}}, "feature 'x' must be finite"),
    ],
)
def test_what_no_column_holds_is_refused(read, changes, words):
    with pytest.raises(DataFileError, match=words):
        read(**changes)


def test_values_are_shown_in_short(read):
    with pytest.raises(DataFileError) as error:
        read(reward="x" * 1000)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(("where", "what"), [(None, "keys"), ("context", "features"), ("arm_features", "features")])
def test_names_must_not_vary_without_end(read, where, what):
    names = {f"n{number}": [1] if where == "arm_features" else 1 for number in range(MOST_KEYS + 1)}

    with pytest.raises(DataFileError, match=f"line 1: with this line there are more than 10000 different {what}"):
        read(**(names if where is None else {where: names}))
