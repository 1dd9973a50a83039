import json

import polars as pl
import pytest

from posse.errors import InvalidValue, NotFinite
from posse.logs import Log, from_dsjson, to_dsjson

TABLE = {
    "decision_id": ["d", None],
    "time": ["2026-01-31T12:00:00.000000Z", None],
    "task": ["a", "b"],
    "arm": ["y", "x"],
    "eligible": [["x", "y", "z"], None],
    "probabilities": [[0.5, 0.25, 0.25], None],
    "propensity": [0.25, 0.5],
    "context": [{"age": 3.5, "user.city": "Rome", "user.member": True}, {"age": 4.0}],
    "reward": [1.5, None],
    "reward_time": ["2026-01-31T12:01:00Z", None],
    "policy": ["p", None],
    "version": ["v", None],
}


def test_lines_as_vowpal_wabbit_reads_them(tmp_path):
    # Its own parser was run on files written here: cost, probability, action and weight came out as they went in.
    to_dsjson(Log(TABLE), tmp_path / "log.dsjson")

    first, second = [json.loads(line) for line in (tmp_path / "log.dsjson").read_text().splitlines()]
    arms = [{"Arm": {"id": name}} for name in "xyz"]
    assert first == {
        "_label_cost": -1.5,
        "_label_probability": 0.25,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Timestamp": "2026-01-31T12:00:00.000000Z",
        "Version": "1",
        "EventId": "d",
        "a": [2, 1, 3],
        "c": {"Task": {"id": "a"}, "age": 3.5, "user": {"city": "Rome", "member": True}, "_multi": arms},
        "p": [0.25, 0.5, 0.25],
        "VWState": {"m": "v"},
    }
    assert second == {"Version": "1", "a": [1, 2, 3], "c": {"Task": {"id": "b"}, "age": 4.0, "_multi": arms}}


def test_what_has_a_place_comes_back(make_log, tmp_path):
    log = make_log(n_rows=200)
    to_dsjson(log, tmp_path / "log.dsjson.gz")

    back = from_dsjson(tmp_path / "log.dsjson.gz", task="Task.id", arms="Arm.id")

    # The reward's time and the policy's name are lost, and so is what was never a number in the file.
    lost = [pl.lit(None, dtype=log.frame.schema[name]).alias(name) for name in ("reward_time", "policy")]
    assert back == Log(log.frame.with_columns(*lost))


def test_a_decision_without_a_reward_keeps_arm_and_propensity(tmp_path):
    table = {**TABLE, "reward": [None, None], "probabilities": [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]}
    to_dsjson(Log(table), tmp_path / "log.dsjson")

    back = from_dsjson(tmp_path / "log.dsjson", task="Task.id", arms="Arm.id")

    assert back.frame.select("arm", "propensity", "reward").rows() == [("y", 0.25, None), ("x", 0.5, None)]


def test_whole_numbers_become_text(tmp_path):
    to_dsjson(Log({"task": [7], "arm": [1], "reward": [0.0], "propensity": [1.0]}), tmp_path / "log.dsjson")

    back = from_dsjson(tmp_path / "log.dsjson", task="Task.id", arms="Arm.id")

    assert back.frame.select("task", "arm", "reward").rows() == [("7", "1", 0.0)]
    assert '"_label_cost": 0.0' in (tmp_path / "log.dsjson").read_text()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"propensity": [0.25, None]}, InvalidValue, "row 1 of the log: dsjson needs the propensity"),
        ({"eligible": [["x"], None]}, InvalidValue, "row 0 of the log: arm 'y' must be once among eligible"),
        ({"eligible": [["y", "y", "x"], None]}, InvalidValue, "row 0 of the log: arm 'y' must be once among eligible"),
        ({"probabilities": [[1.0], None]}, InvalidValue, "probabilities and eligible must be of one length"),
        ({"context": [{"_hidden": 1}, None]}, InvalidValue, "feature '_hidden' cannot be written as dsjson"),
        ({"context": [{"a..b": 1}, None]}, InvalidValue, "feature 'a..b' cannot be written"),
        ({"context": [{"Task.id": "x"}, None]}, InvalidValue, "feature 'Task.id' cannot be written"),
        ({"context": [{"a": 1, "a.b": 2}, None]}, InvalidValue, "feature 'a.b' is also the start of another name"),
        ({"context": [{"a.b": 1, "a": 2}, None]}, InvalidValue, "feature 'a' is also the start of another name"),
        ({"reward": [float("nan"), None]}, NotFinite, "reward in row 0"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, changes, error, words):
    with pytest.raises(error, match=words):
        to_dsjson(Log({**TABLE, **changes}), tmp_path / "log.dsjson")
    assert list(tmp_path.iterdir()) == []
