import json

import pytest

from posse.logs.kinds import BadLine, Kinds
from posse.logs.strict import decode, read_line


def read(**changes):
    return read_line(json.dumps({"task": "a", "arm": "x", "reward": 1, **changes}), 1, Kinds())


def test_values_come_as_their_columns_hold_them():
    values = read(
        reward=2, time=5, probabilities=[1, 0], eligible=["x", "y"], context={"a": 1, "b": 2**70, "c": None, "d": True}
    )

    assert values["reward"] == 2.0
    assert isinstance(values["reward"], float)
    assert values["time"] == 5.0
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
        ({"decision_id": 7}, "decision_id must be text, but 7 came"),
        ({"version": 1.0}, "version must be text"),
        ({"time": True}, "time must be ISO 8601 text or seconds since 1970, but True came"),
        ({"reward": "1"}, "reward must be a number, true or false, but '1' came"),
        ({"reward_family": 1}, "reward_family must be text, but 1 came"),
        ({"propensity": [1]}, "propensity must be a number"),
        ({"propensity": 10**400}, "propensity must be finite, but a number too large for a float came"),
        ({"probabilities": 0.5}, "probabilities must be a list, but 0.5 came"),
        ({"probabilities": [None]}, "probabilities must be a list of numbers, but None came"),
        ({"expected_rewards": [None]}, "expected_rewards must be a list of numbers, but None came"),
        ({"eligible": "x"}, "eligible must be a list, but 'x' came"),
        ({"eligible": [None]}, "an arm of eligible must be text or a whole number"),
        ({"eligible": [1]}, "arm is a whole number here, but text in line 1"),
        ({"context": [1]}, "context must be an object of features by name"),
        ({"context": {"x": {}}}, "feature 'x' must be a number, text, true or false, but {} came"),
        ({"context": {"x": 10**400}}, "feature 'x' must be finite"),
    ],
)
def test_what_no_column_holds_is_refused(changes, words):
    with pytest.raises(BadLine, match=words):
        read(**changes)


def test_numbers_beyond_floats_are_refused():
    with pytest.raises(BadLine, match="reward must be finite"):
        read_line('{"task": "a", "arm": "x", "reward": 1e999}', 1, Kinds())


def test_values_are_shown_in_short():
    with pytest.raises(BadLine) as error:
        read(reward="x" * 1000)
    assert len(str(error.value)) < 120
