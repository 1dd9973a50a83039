import json

import polars as pl
import pytest

from posse.logs.kinds import Kinds
from posse.logs.shapes import shape_of
from posse.logs.strict import read_line

SEEN = {
    "decision_id": "d-1",
    "time": "2026-01-01T00:00:00Z",
    "task": 7,
    "arm": "x",
    "eligible": ["x", "y"],
    "probabilities": [0.5, 0.5],
    "expected_rewards": [1.5, -2],
    "context": {"n": 1, "f": 0.5, "s": "t", "b": True, "never": None, 'odd "key" #1 {': 2.5},
    "reward": 1,
    "seen": {"by": "no log"},
}


@pytest.fixture(scope="module")
def shape():
    kinds = Kinds()
    read_line(json.dumps(SEEN), 1, kinds)
    return shape_of(kinds)


def fits(shape, text):
    return bool(pl.Series([text]).str.contains(shape.pattern)[0])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**SEEN, "seen": 1}),
        json.dumps({**SEEN, "seen": None}, separators=(",", ":")),
        '{"task": 1, "arm": "x"}',
        ' { "task" :\t-1 , "arm":"x"  } \r',
        '{"task":null,"arm":null,"context":{"f":-1.5e-7,"s":null}}',
        '{"arm": "\\u00e9\\n\\\\ é 😀"}',
        '{"eligible": [], "probabilities": [ 1 , 2 ]}',
        "{}",
    ],
)
def test_lines_that_polars_may_read(shape, text):
    assert fits(shape, text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**SEEN, "seen": {}}),  # what is inside is looked at by the strict reader
        '{"task": "7"}',
        '{"task": 7.0}',
        '{"task": 1234567890123456789}',  # may be too large for 64 bits
        '{"task": 07}',
        '{"task": true}',
        '{"arm": 1}',
        '{"arm": ["x"]}',
        '{"arm": "\\ud800"}',
        '{"arm": "a\tb"}',
        '{"eligible": ["x", 1]}',
        '{"eligible": ["x", null]}',
        '{"eligible": ["x" "y"]}',
        '{"probabilities": [0.5, "x"]}',
        '{"reward": "1"}',
        '{"reward": NaN}',
        '{"reward": 1.}',
        '{"time": 5}',
        '{"task": 1, "task": 2}',
        '{"context": {"n": 1, "n": 2}}',
        '{"context": {"n": 0.5}}',
        '{"context": {"never": 1}}',
        '{"context": {"b": 1}}',
        '{"context": {"other": 1}}',
        '{"other": 1}',
        '{"arm": "x", "task": 1}',  # another order: two equal keys could hide
        '{"task": 1}{"task": 2}',
        '[{"task": 1}]',
        '{"task": 1',
        "",
    ],
)
def test_lines_that_are_read_strictly(shape, text):
    assert not fits(shape, text)


def test_the_type_has_what_was_seen(shape):
    assert shape.dtype == pl.Struct(
        {
            "decision_id": pl.String,
            "time": pl.String,
            "task": pl.Int64,
            "arm": pl.String,
            "eligible": pl.List(pl.String),
            "probabilities": pl.List(pl.Float64),
            "expected_rewards": pl.List(pl.Float64),
            "context": pl.Struct(
                {"n": pl.Int64, "f": pl.Float64, "s": pl.String, "b": pl.Boolean, 'odd "key" #1 {': pl.Float64}
            ),
            "reward": pl.Float64,
        }
    )
