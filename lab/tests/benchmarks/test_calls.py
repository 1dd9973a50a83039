import pytest

from posse.policies import EbmTS
from posse_lab.benchmarks import calls
from posse_lab.benchmarks.calls import Row, amortised_update, batches, fleet_calls, policy_calls
from posse_lab.benchmarks.workload import Size

SIZE = Size(6, 3, 4)
QUICK = {"rounds": 2, "at_least": 1e-4}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(calls, "N_CALLS", 20)
    monkeypatch.setattr(calls, "N_REWARDS", 30)


def test_every_call_of_a_policy_is_timed():
    rows = list(policy_calls(SIZE, **QUICK))

    assert [row.what for row in rows] == [calls.CHOOSE_UCB, calls.CHOOSE_TS, calls.UPDATE]
    assert all(row.size == SIZE and 0 < row.best <= row.median for row in rows)


def test_every_call_of_a_fleet_is_timed():
    rows = {row.what: row for row in fleet_calls(SIZE, **QUICK)}

    assert list(rows) == [calls.REFRESH, calls.DECIDE, calls.DECIDE_NAMED, calls.DECIDE_FIRST, calls.REWARD]
    assert all(0 < row.best <= row.median for row in rows.values())
    assert rows[calls.REWARD].calls == 30
    assert rows[calls.DECIDE_FIRST].calls == 6  # each task once


def test_amortised_updates_learn_everything_from_nothing_and_refresh(monkeypatch):
    made = []

    class Noted(EbmTS):
        def __init__(self, **settings):
            super().__init__(**settings)
            made.append(self)

    monkeypatch.setattr(calls, "EbmTS", Noted)
    row = amortised_update(SIZE, 500, rounds=2)

    assert (row.what, row.calls) == (calls.AMORTISED, 500)
    # One to compile with, one for each round.
    assert [policy.statistics.count.sum() for policy in made] == [200, 500, 500]
    assert all(policy.refresh_growth == 0.1 for policy in made)
    assert made[1].prior_report.iterations > 0


def test_batches_are_timed_per_row():
    rows = {row.what: row for row in batches(SIZE, 300, rounds=2)}

    assert set(rows) == {calls.LEARN_MANY, calls.DECIDE_MANY, calls.DECIDE_TABLE}
    assert all(row.calls == 300 and 0 < row.best <= row.median < 0.1 for row in rows.values())


def test_what_is_prepared_is_not_timed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(calls.time, "perf_counter", lambda: now[0])

    def spend(seconds):
        def work(*_):
            now[0] += seconds

        return work

    row = calls._timed("x", SIZE, spend(100.0), spend(6.0), calls=3, rounds=2)
    assert (row.best, row.median) == (2.0, 2.0)


def test_plain_values():
    said = Row("x", SIZE, 1.0, 2.0, 3).to_dict()
    assert said == {"what": "x", "n_tasks": 6, "n_arms": 3, "n_features": 4, "best": 1.0, "median": 2.0, "calls": 3}
