"""Files of decisions and rewards go into the log once, and are learned as if they had been made there."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue
from posse.logs import read_log

ROWS = [
    {
        "decision_id": f"old-{i}", "time": f"2025-11-02T09:{i:02}:00Z", "task": f"store-{i % 3}",
        "arm": ["coffee", "cake", "newspaper"][i % 3], "context": {"hour": float(i), "weather": ["sun", "rain"][i % 2]},
        "propensity": 0.5, "reward": None if i % 5 == 4 else float(i % 4),
    }
    for i in range(40)
]  # fmt: skip
SETTINGS = {"time_to_live": None}


def test_rows_are_taken_in_once_and_learned(service):
    service.make_fleet("taken", **SETTINGS)

    def told(rows):
        return service.post("/v1/fleets/taken/log", json={"rows": rows}).json()

    assert told(ROWS) == {"decisions": 40, "rewards": 32, "same": 0}
    assert told(ROWS) == {
        "decisions": 0,
        "rewards": 0,
        "same": 40,
    }
    late = [ROWS[4] | {"reward": 2.0}]
    assert told(late) == {"decisions": 0, "rewards": 1, "same": 0}
    assert service.counts("taken") == {"tasks": 3, "decisions": 40, "rewards": 33, "pending": 7}
    verified = service.read("/v1/fleets/taken/verify")
    assert (verified["rewards"], verified["different"]) == (33, 0)
    row = service.read("/v1/decisions/old-1")
    assert (row["time"], row["propensity"], row["mean"]) == ("2025-11-02T09:01:00.000000Z", 0.5, {})
    assert service.get("/v1/fleets/taken/history/store-1").status_code == 200


def test_an_export_can_be_taken_in(service):
    service.make_fleet("first")
    for i in range(12):
        decision = service.decide(f"store-{i % 2}", fleet="first")
        if i % 3:
            service.reward(decision, float(i))
    rows = [json.loads(line) for line in service.get("/v1/fleets/first/log").text.splitlines()]
    service.make_fleet("second")
    moved = [row | {"decision_id": "moved-" + row["decision_id"]} for row in rows]
    assert service.post("/v1/fleets/second/log", json={"rows": moved}).status_code == 200
    again = [json.loads(line) for line in service.get("/v1/fleets/second/log").text.splitlines()]
    for row in again:
        row["decision_id"] = row["decision_id"].removeprefix("moved-")
    assert again == rows
    learned = [
        [arm["rewards"] for arm in service.task("store-1", fleet)["arms"]] for fleet in ("first", "second")
    ]  # fmt: skip
    assert learned[0] == learned[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arm": "tea"}, "expected an arm of"),
        ({"propensity": None}, "propensity"),
        ({"propensity": 0.0}, "propensity"),
        ({"eligible": ["cake"]}, "among the eligible"),
        ({"probabilities": [0.5, 0.5]}, "one per eligible arm"),
        ({"time": "yesterday"}, "expected time"),
        ({"time": "2999-01-01T00:00:00Z"}, "to come"),
        ({"context": {"hour": "x", "weather": "sun"}}, "hour"),
        ({"reward": 1e10}, "limits.number"),
        ({"decision_id": "ä"}, "ASCII"),
    ],
)
def test_a_row_that_is_wrong_is_named_and_none_is_taken(service, shape, change, words):
    name = "wrong"
    if service.get(f"/v1/fleets/{name}").status_code == 404:
        service.make_fleet(name, **SETTINGS)
    rows = [ROWS[0] | {"decision_id": "w-0", "arm": "coffee"}, ROWS[0] | {"decision_id": "w-1"} | change]
    error = shape(service.post(f"/v1/fleets/{name}/log", json={"rows": rows}), 422, "invalid")
    assert words in error["message"]
    assert error["field"] == "rows.1"
    assert service.counts(name)["decisions"] == 0


def test_an_export_of_clicks_says_so_and_can_be_taken_in(service, shape, tmp_path):
    service.make_fleet("clicked", rewards="binary")
    for i in range(6):
        service.reward(service.decide(f"store-{i % 2}", fleet="clicked"), i % 3 == 0)
    text = service.get("/v1/fleets/clicked/log").text
    rows = [json.loads(line) for line in text.splitlines()]
    for kind in ("jsonl", "parquet"):
        (tmp_path / f"log.{kind}").write_bytes(service.get(f"/v1/fleets/clicked/log?format={kind}").content)
        log = read_log(tmp_path / f"log.{kind}")
        assert (log.rewards, log.frame["reward"].sum()) == ("binary", 2.0)
    moved = [row | {"decision_id": "moved-" + row["decision_id"], "reward": row["reward"] == 1} for row in rows]
    service.make_fleet("moved", rewards="binary")
    assert service.post("/v1/fleets/moved/log", json={"rows": moved}).json()["rewards"] == 6
    assert [json.loads(line)["reward"] for line in service.get("/v1/fleets/moved/log").text.splitlines()] == [
        row["reward"] for row in rows
    ]
    service.make_fleet("of-numbers-too")
    error = shape(service.post("/v1/fleets/of-numbers-too/log", json={"rows": rows}), 422, "invalid")
    assert "expected a row of rewards that are 'number', as the fleet's, got 'binary'" in error["message"]
    truth = moved[0] | {"decision_id": "true", "reward_family": None}
    shape(service.post("/v1/fleets/of-numbers-too/log", json={"rows": [truth]}), 422, "invalid")


def test_an_id_of_another_decision_is_refused(service, shape):
    service.make_fleet("ids", **SETTINGS)
    service.post("/v1/fleets/ids/log", json={"rows": [ROWS[0] | {"decision_id": "once"}]})
    other = {"rows": [ROWS[1] | {"decision_id": "twice"}, ROWS[0] | {"decision_id": "once", "arm": "cake"}]}
    error = shape(service.post("/v1/fleets/ids/log", json=other), 409, "reward_conflict")
    assert error["field"] == "rows.1.decision_id"
    assert service.counts("ids")["decisions"] == 1


def run(served, *arguments):
    command = ["service", "ingest", *map(str, arguments), "--url", served.url]
    return CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.fixture(scope="module")
def served(start_process, tmp_path_factory):
    running = start_process(tmp_path_factory.mktemp("ingest"))
    yield running
    running.stop()


def write(path, kind):
    flat = [{k: v for k, v in row.items() if k not in ("context", "decision_id")} | row["context"] for row in ROWS]
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "parquet":
        pl.DataFrame(flat).with_columns(pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%SZ")).write_parquet(path)
    else:
        pl.DataFrame(flat).write_csv(path)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_files_of_every_kind_teach_the_same(served, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("posse.batches.ROWS", 7)
    path = tmp_path / f"rows.{kind}"
    write(path, kind)
    served.make_fleet(kind, **SETTINGS)
    arguments = [path, "--fleet", kind, "--id-prefix", f"{kind}-", "--batch", 9]
    assert "40 rows: 40 new decisions, 32 new rewards, 0 that were there" in run(served, *arguments).output
    assert "40 rows: 0 new decisions, 0 new rewards, 40 that were there" in run(served, *arguments).output
    assert served.counts(kind) == {"tasks": 3, "decisions": 40, "rewards": 32, "pending": 8}
    beliefs = [[arm["mean"] for arm in served.task(f"store-{i}", kind)["arms"]] for i in range(3)]
    rewards = [[arm["rewards"] for arm in served.task(f"store-{i}", kind)["arms"]] for i in range(3)]
    assert np.sum(rewards) == 32
    assert np.all(np.isfinite(beliefs))
    assert served.read(f"/v1/fleets/{kind}/verify")["different"] == 0


def test_a_file_of_rewards(served, tmp_path):
    served.make_fleet("told")
    decisions = [served.decide(fleet="told") for _ in range(5)]
    path = tmp_path / "rewards.csv"
    pl.DataFrame({"decision_id": [one["id"] for one in decisions], "reward": [1.0, 2, 3, 4, 5]}).write_csv(path)
    assert "5 new rewards" in run(served, path, "--fleet", "told").output
    assert served.counts("told")["rewards"] == 5


def test_a_file_of_several_rewards_names_their_events(served, tmp_path):
    served.make_fleet("adding", reward_events="sum")
    decision = served.decide(fleet="adding")
    path = tmp_path / "events.csv"
    pl.DataFrame({"decision_id": [decision["id"]] * 3, "reward": [1.0, 2, 1], "event": [7, 8, 7]}).write_csv(path)
    assert "2 new rewards, 1 that were there" in run(served, path, "--fleet", "adding").output
    assert served.read(f"/v1/decisions/{decision['id']}")["reward"] == 3.0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("none.jsonl", None, "there is no file"),
        ("rows.xml", "<a/>", "ends in .jsonl"),
        ("rows.jsonl", "{", "line 1 is not JSON"),
        ("rows.jsonl", "[1]", "row 1: expected an object"),
        ("rows.jsonl", '{"task": "a"}', "expected an arm"),
        ("rows.jsonl", '{"arm": "a"}', "expected a time"),
    ],
)
def test_files_that_cannot_be_read_say_why(served, tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidValue, match=words):
        run(served, tmp_path / name, "--fleet", "told")
