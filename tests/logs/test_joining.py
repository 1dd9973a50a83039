import json

import pytest

from posse.errors import DataFileError
from posse.logs import Log, check_log, jsonl, read_log
from posse.logs.writer import LogWriter, moment


def decision(name, **changes):
    return {"decision_id": name, "time": 5, "task": "a", "arm": "x", "propensity": 0.5, "context": {"n": 1}, **changes}


def reward(name, value, **changes):
    return {"decision_id": name, "reward": value, **changes}


@pytest.fixture
def read(tmp_path):
    def from_file(*lines):
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
        return read_log(tmp_path / "log.jsonl")

    return from_file


def test_rewards_go_to_their_decisions_in_any_order(read):
    log = read(reward("c", 3), decision("a"), decision("b"), reward("a", 1, reward_time=9), decision("c"))

    assert log == Log([decision("a", reward=1.0, reward_time=9), decision("b"), decision("c", reward=3.0)])
    assert log.notes == ()


def test_the_same_again_changes_nothing(read):
    log = read(decision("a", reward=1, reward_time=7), decision("b"), reward("b", 2, reward_time=8), reward("a", 1),
               reward("b", 2, reward_time=9))  # fmt: skip

    assert log == Log([decision("a", reward=1.0, reward_time=7), decision("b", reward=2.0, reward_time=8)])
    assert log.notes == ()


def test_another_reward_is_an_error_and_the_first_counts(read):
    log = read(decision("a", reward=1), decision("b"), reward("a", 5), reward("b", 2), reward("b", 3))

    assert log.frame["reward"].to_list() == [1.0, 2.0]
    (note,) = log.notes
    assert (note.code, note.severity, note.rows, note.example) == (
        "reward-told-twice",
        "error",
        2,
        "line 3, decision 'a'",
    )
    assert note in check_log(log)


def test_rewards_without_decisions_are_told(read):
    log = read(decision("a"), reward("z", 2), reward("z", 3))

    assert log.n_rows == 1
    (note,) = log.notes
    assert (note.code, note.severity, note.rows) == ("reward-without-decision", "warning", 2)
    assert note.example == "line 2, decision 'z'"


def test_a_decision_that_occurs_twice_has_its_reward_twice(read):
    log = read(decision("a"), decision("a"), reward("a", 2))

    assert log.frame["reward"].to_list() == [2.0, 2.0]
    assert "duplicate-decision-id" in {finding.code for finding in check_log(log)}


def test_rewards_alone_are_an_empty_log(read):
    log = read(reward("a", 2))

    assert log.n_rows == 0
    assert [note.code for note in log.notes] == ["reward-without-decision"]


@pytest.mark.parametrize("block", [300, 10**6])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"decision_id": "a"}, "task is missing, but every decision has one"),
        ({"reward": 1}, "task is missing, but every decision has one"),
        (reward("a", 1, policy="p"), "a line without task and arm is the reward of an earlier decision"),
        (reward("a", 1, context={"n": 1}), "a line without task and arm is the reward of an earlier decision"),
        (reward("a", 1, task="t"), "arm is missing, but every decision has one"),
    ],
)
def test_what_is_neither_is_refused(read, monkeypatch, block, line, words):
    monkeypatch.setattr(jsonl, "BLOCK", block)
    with pytest.raises(DataFileError, match=f"line 6: {words}"):
        read(*[decision("a", policy="p", reward=1)] * 5, line, decision("b"))


def test_a_log_that_was_written_while_it_happened(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "BLOCK", 500)
    path = tmp_path / "live.jsonl"
    write = LogWriter(path)
    for number in range(50):
        write([decision(str(number), time=moment(number), eligible=["x", "y"], probabilities=[0.5, 0.5])])
        if number >= 10:
            write([reward(str(number - 10), number / 2, reward_time=moment(number + 0.5))])
    write.close()

    log = read_log(path)

    expected = [
        decision(str(number), time=number, eligible=["x", "y"], probabilities=[0.5, 0.5],
                 **({"reward": number / 2 + 5, "reward_time": number + 10.5} if number < 40 else {}))
        for number in range(50)
    ]  # fmt: skip
    assert log == Log(expected)
