import json
import os
import threading

import pytest

from posse import Posse
from posse.errors import InvalidValue
from posse.logs import check_log, read_log
from posse.logs.writer import LogWriter, moment


def test_records_are_added_to_what_is_there(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"task": "a", "arm": "x", "reward": 1}\n')

    LogWriter(path)([{"task": "b", "arm": "y", "reward": 2.5}])
    LogWriter(path)([{"task": "c", "arm": "x", "reward": None}])

    assert read_log(path).frame["task"].to_list() == ["a", "b", "c"]


def test_a_fleet_writes_what_it_decides_and_learns(tmp_path):
    path = tmp_path / "log.jsonl"
    fleet = Posse(arms=["x", "y"], features=["a", "b"], seed=1, log=path, clock=lambda: 86_400.5)
    first = fleet.decide("t1", {"a": 1.0, "b": 2})
    many = fleet.decide_many(["t1", "t2"], [[3.0, 4.0], [5.0, 6.0]], eligible=[None, ["y"]])
    fleet.reward(many[1].id, 2.5)
    fleet.reward_many([first.id], [0.5])
    fleet.reward(first.id, 0.5)  # known already, so not written again

    log = read_log(path)

    rows = {row["decision_id"]: row for row in log.frame.to_dicts()}
    assert set(rows) == {first.id, *many.ids}
    row = rows[first.id]
    assert (row["arm"], row["propensity"], row["reward"]) == (first.arm, first.propensity, 0.5)
    assert dict(zip(row["eligible"], row["probabilities"], strict=True)) == first.probabilities
    assert row["context"] == {"a": 1.0, "b": 2.0}
    assert rows[many[1].id]["eligible"] == ["y"]
    assert rows[many[0].id]["reward"] is None
    assert row["time"].timestamp() == 86_400.5
    assert not [finding for finding in check_log(log) if finding.severity == "error"]
    assert len(path.read_text().splitlines()) == 5
    again = Posse(arms=["x", "y"], features=["a", "b"], seed=1)
    assert again.learn_many(log.frame, missing_reward="skip") == 2
    assert again.statistics.moment.sum() == pytest.approx(fleet.statistics.moment.sum(), rel=1e-12)


@pytest.mark.parametrize("family", ["number", "binary", "count"])
def test_the_log_of_a_fleet_says_what_rewards_are(tmp_path, family):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"task": "t", "arm": "x", "reward": 0}) + "\n")  # from before anybody said it
    fleet = Posse(arms=["x", "y"], features=["a"], rewards=family, seed=1, log=path)
    many = fleet.decide_many(["t", "u"], [[1.0], [2.0]])
    for decision in (fleet.decide("t", [1.0]), many[0]):
        fleet.reward(decision.id, 1)

    log = read_log(path)

    assert log.rewards == family
    assert log.frame["reward"].to_list() == [0.0, 1.0, None, 1.0]


def test_what_cannot_be_written_was_not_decided_or_learned(tmp_path):
    path = tmp_path / "log.jsonl"
    fleet = Posse(arms=["x", "y"], features=["a"], seed=1, log=path)
    decision = fleet.decide("t", [1.0])
    twin = Posse(arms=["x", "y"], features=["a"], seed=1)
    twin.decide("t", [1.0])
    fleet.log.close()

    for work in (
        lambda: fleet.decide("new", [1.0]),
        lambda: fleet.decide_many(["new"], [[1.0]]),
        lambda: fleet.reward(decision.id, 1.0),
        lambda: fleet.reward_many([decision.id], [1.0]),
    ):
        with pytest.raises(InvalidValue, match="nothing was decided or learned"):
            work()

    assert (fleet.n_decisions, fleet.n_rewards, fleet.tasks) == (1, 0, ("t",))
    fleet.log_to(None)
    assert fleet.decide("t", [2.0]).probabilities == twin.decide("t", [2.0]).probabilities


def test_half_a_record_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    writer = LogWriter(path)
    writer([{"task": "a"}])
    real = os.write

    def full(file, data):
        real(file, bytes(data)[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(InvalidValue, match="No space left"):
        writer([{"task": "b"}])
    monkeypatch.undo()
    writer([{"task": "c"}])

    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"task": "a"}, {"task": "c"}]


def test_a_line_that_a_crash_cut_off_is_taken_away(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"task": "a"}\n{"task": "b", "co')
    LogWriter(path)([{"task": "c"}])
    assert [json.loads(line)["task"] for line in path.read_text().splitlines()] == ["a", "c"]
    path.write_text("x" * 200_000)
    LogWriter(path)
    assert path.read_text() == ""


def test_truth_values_of_a_numeric_feature_can_be_read_again(tmp_path):
    fleet = Posse(arms=["x"], features=["a"], seed=1, log=tmp_path / "log.jsonl")
    for value in (True, 1.5, 2):
        fleet.decide("t", [value])

    assert read_log(tmp_path / "log.jsonl").contexts["a"].to_list() == [1.0, 1.5, 2.0]


def test_threads_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    writer = LogWriter(path)

    def add(name):
        for i in range(200):
            writer([{"task": name, "arm": "x" * 50, "reward": i}])

    threads = [threading.Thread(target=add, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 800
    for i in range(4):
        assert [row["reward"] for row in rows if row["task"] == f"t{i}"] == list(range(200))


def test_names_and_places_that_cannot_be_a_log(tmp_path):
    with pytest.raises(InvalidValue, match=r"must end in \.jsonl"):
        LogWriter(tmp_path / "log.parquet")
    with pytest.raises(InvalidValue, match="cannot write the log"):
        LogWriter(tmp_path / "nowhere" / "log.jsonl")


def test_time_beyond_any_calendar_is_refused():
    with pytest.raises(InvalidValue, match="the clock says"):
        moment(1e30)
