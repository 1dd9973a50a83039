import os

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue
from posse_lab.benchmarks import scale
from posse_lab.benchmarks.scale import Job, jobs_up_to, measure, measure_behind, measure_scale, report_of, summary

TINY = Job(n_tasks=80, n_arms=3, n_features=4, rewards=20, decisions=300, repeats=2, background=0.0)


def result(n_tasks, *, median=1e-5, first=1e-5, behind=1e-3):
    latencies = {"median": median, "p99.9": 5e-5, "longest": 1e-2, "calls": 10.0}
    return {
        "rows_per_second": 1.5e6, "refresh": 30.0, "resident": 6e9, "peak": 7.9e9, "decide": latencies, "files": {},
        "decide_first": latencies | {"median": first}, "decide_behind": latencies | {"p99.9": behind} if behind else {},
        "decide_paced": latencies | {"p99.9": 3e-3},
    }  # fmt: skip


def test_sizes_are_tenfold_up_to_the_largest():
    assert [job.n_tasks for job in jobs_up_to(1_000_000)] == [1_000, 10_000, 100_000, 1_000_000]
    assert [job.n_tasks for job in jobs_up_to(30_000)] == [1_000, 10_000, 30_000]
    assert [job.files for job in jobs_up_to(1_000_000)] == [True, True, True, False]
    # Small fleets learn so quickly that once is not enough.
    assert [job.repeats for job in jobs_up_to(100_000)] == [5, 5, 1]
    with pytest.raises(InvalidValue, match="--largest to be at least 1000, got 50"):
        jobs_up_to(50)


def test_bars_are_about_a_million_tasks():
    report = report_of({1_000: result(1_000), 1_000_000: result(1_000_000, median=1.9e-5, first=2.1e-5)})

    assert [(bar.measured, bar.met) for bar in report.bars] == [
        (1.5e6, True), (30.0, True), (pytest.approx(7.9), True), (pytest.approx(1.9), True),
        (pytest.approx(2.1), False), (pytest.approx(1.0), True), (pytest.approx(3.0), False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "missing"),
    [
        ({1_000: result(1_000)}, [0, 1, 2, 3, 4, 5, 6]),
        ({1_000_000: result(1_000_000)}, [3, 4]),
        ({1_000: result(1_000), 1_000_000: result(1_000_000, behind=None)}, [5]),
    ],
)
def test_what_was_not_measured_is_no_verdict(results, missing):
    assert [i for i, bar in enumerate(report_of(results).bars) if bar.met is None] == missing


def test_everything_is_measured():
    found = measure(TINY)

    assert found["rows_per_second"] > 0
    assert found["refresh"] > 0
    assert found["decide_first"]["calls"] == 80  # every task once, then each again
    assert found["decide"]["calls"] == 3 * 80
    assert 0 < found["decide"]["median"] <= found["decide"]["p99.9"] <= found["decide"]["longest"]
    assert len(found["refreshes"]) == 1
    assert set(found["files"]) == {"save", "load", "load_one", "bytes"}
    assert 0 < found["resident"] <= found["peak"]
    assert len(report_of({80: found}).tables) == 2


def test_a_summary_of_latencies():
    said = summary(iter(np.arange(1001.0)))
    assert_allclose([said["median"], said["p99.9"], said["longest"], said["calls"]], [500.0, 999.0, 1000.0, 1001])
    assert summary(iter([])) == {}


def test_decisions_go_on_while_a_refresh_runs_with_and_without_pauses(monkeypatch):
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

    monkeypatch.setattr(scale, "TURN", 0.0)
    fleet = Fleet()
    found = measure_behind(fleet, TINY)

    assert fleet.started == len(found["refreshes"]) == 1
    assert fleet.rows == 80  # a twentieth more, so that there is something to estimate
    assert found["decide_behind"]["calls"] + found["decide_paced"]["calls"] == fleet.decided > 10
    assert found["decide_paced"]["median"] < 1e-3  # pauses are not counted


def end(job):
    os._exit(9)


@pytest.mark.slow
def test_every_size_has_a_process_and_the_end_of_one_is_not_the_end(monkeypatch):
    begun = []
    report = measure_scale([Job(n_tasks=60, n_arms=2, n_features=2, decisions=10, background=0.0)], begun.append)
    assert begun == ["60 tasks"]
    assert report.data["results"][0]["job"]["n_tasks"] == 60
    monkeypatch.setattr(scale, "measure", end)
    assert "perhaps for want of memory" in measure_scale([TINY]).notes[-1]
