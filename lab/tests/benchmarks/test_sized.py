import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse_lab.benchmarks import sized
from posse_lab.benchmarks.sized import Job, Sized, measure, summary

TINY = Job(n_tasks=80, n_arms=3, n_features=4, rewards=20, decisions=300, repeats=2, background=0.0)


@pytest.fixture(scope="module")
def measured():
    stages = []
    return measure(TINY, stages.append), stages


def test_everything_is_measured(measured):
    found, stages = measured

    # 1,600 rows in a first piece of 1,000 and another one; twice.
    assert [rows for rows, _ in found.learned] == [1000, 600, 1000, 600]
    assert found.refresh > 0
    assert found.decide_first["calls"] == 80  # every task once, then each again
    assert found.decide["calls"] == 3 * 80
    assert 0 < found.decide["best"] <= found.decide["median"] <= found.decide["p99.9"] <= found.decide["longest"]
    assert len(found.refreshes) == 1
    assert set(found.files) == {"save", "load", "load_one", "bytes"}
    assert found.resident is None or 0 < found.resident <= found.peak
    assert stages[0] == "compiling"
    assert "learning, 1,000 of 1,600 rewards" in stages


def test_rewards_per_second_are_those_of_all_calls_together():
    assert Sized(TINY, learned=[(100, 1.0), (300, 3.0), (100, 1.0)]).rows_per_second == 100.0


def test_plain_values(measured):
    said = json.loads(json.dumps(measured[0].to_dict()))
    assert said["job"]["n_tasks"] == 80
    assert said["rows_per_second"] > 0


def test_a_summary_of_latencies():
    said = summary(np.arange(1001.0))
    assert_allclose([said["best"], said["median"], said["p99.9"], said["longest"]], [0.0, 500.0, 999.0, 1000.0])
    assert said["calls"] == 1001


def test_decisions_go_on_while_a_refresh_runs(monkeypatch):
    class Fleet:
        """Refreshes for a while after each start; decides at once."""

        def __init__(self):
            self.left, self.started, self.decided, self.rows = 0, 0, 0, 0

        @property
        def refreshing(self):
            self.left -= 1
            return self.left > 0

        def refresh(self, wait):
            assert wait is False
            self.started += 1
            self.left = 50

        def learn_many(self, table):
            self.rows += len(table)

        def decide(self, task, context):
            assert self.left > 0
            self.decided += 1

    monkeypatch.setattr(sized, "PAUSE", 1e-6)
    fleet, found = Fleet(), Sized(TINY)
    sized._measure_behind(fleet, TINY, found)

    assert fleet.started == len(found.refreshes) == 1
    assert fleet.rows == 80  # a twentieth more, so that there is something to estimate
    calls = [kept["calls"] for kept in (found.decide_behind, found.decide_paced) if kept]
    assert sum(calls) == fleet.decided > 10
    assert "too short" in found.notes[0]


def test_turns_with_and_without_pauses(monkeypatch):
    monkeypatch.setattr(sized, "TURN", 0.0)
    monkeypatch.setattr(sized, "PAUSE", 1e-3)
    left = [40]

    class Fleet:
        refreshing = property(lambda _: left.__setitem__(0, left[0] - 1) or left[0] > 0)

        def refresh(self, wait):
            pass

        def learn_many(self, table):
            pass

        def decide(self, task, context):
            pass

    found = Sized(TINY)
    sized._measure_behind(Fleet(), TINY, found)
    assert found.decide_behind["calls"] >= 5
    assert found.decide_paced["calls"] >= 5


def test_the_process_prints_stages_and_a_result(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sized", json.dumps({"n_tasks": 5, "rewards": 2})])
    monkeypatch.setattr(sized, "measure", lambda job, say: say("at work") or Sized(job, learned=[(10, 2.0)]))
    sized.main()

    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"stage": "at work"}
    assert last["result"]["rows_per_second"] == 5.0
