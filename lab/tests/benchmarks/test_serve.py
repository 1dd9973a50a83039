"""The benchmark of the service: short runs of the real thing, and what is made of their numbers."""

import json
import os
import subprocess
from dataclasses import replace

import pytest

from posse.errors import InvalidValue
from posse_lab.benchmarks import serve as module
from posse_lab.benchmarks.serve import POSTGRES, QUICK, SQLITE, Plan, ServeRun, measure_serve, report_of
from posse_lab.servers.generator import Latencies, LoadResult
from posse_lab.servers.postgres import binaries
from posse_lab.servers.processes import processor_seconds, resident
from posse_lab.servers.service import NotStarted, services

pytestmark = pytest.mark.usefixtures("compiled")

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def check(run):
    load = run["load"]
    assert load["errors"] == {}
    assert load["pairs"] > 20
    assert 0 < load["decide"]["quantiles"]["p50"] <= load["decide"]["quantiles"]["p99"] <= load["decide"]["most"]
    assert run["expected"] == run["counted"] >= 2 * QUICK.n_tasks + load["pairs"]
    assert run["miscounted"] == 0
    assert run["database_bytes"] > 0
    assert 0 < run["processor_seconds"] < 60


@pytest.mark.slow
def test_two_seconds_of_sqlite():
    begun = []
    report = measure_serve(QUICK, begun.append)
    (run,) = json.loads(json.dumps(report.data))["runs"]

    assert begun == ["SQLite: start", "SQLite: 200 tasks", "SQLite: load for 2 s"]
    assert len(begun) == module.n_stages(QUICK)
    assert (run["storage"], run["deciders"]) == (SQLITE, 1)
    check(run)
    assert all(10e6 < size < 10e9 for size in run["memory"])


@pytest.mark.slow
def test_two_seconds_of_postgres_with_two_deciders():
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: apt install postgresql")
    pytest.importorskip("psycopg")
    _, run = measure_serve(replace(QUICK, postgres=True)).data["runs"]
    assert (run["storage"], run["deciders"]) == (POSTGRES, 2)
    check(run)


@pytest.mark.slow
def test_a_service_that_does_not_start_says_why(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotStarted, match="posse serve ended"), services(str(tmp_path / "folder"), 1, tmp_path):
        pass


def made(**changes):
    quick = Latencies(10, 0.01, {"p50": 0.01, "p95": 0.02, "p99": 0.03, "p99.9": 0.04}, 0.05)
    load = LoadResult(
        pairs=60_000, seconds=60.0, decide=quick, reward=quick, errors={}, acknowledged=61_000, uncertain=0,
        processor_seconds=5.0,
    )  # fmt: skip
    values = {
        "storage": SQLITE, "deciders": 1, "memory": [3e8] * 60, "processor_seconds": 50.0, "database_bytes": 10**8,
        "expected": 81_000, "counted": 81_000,
    }  # fmt: skip
    parts = {name: changes.pop(name) for name in list(changes) if name in LoadResult.__slots__}
    return ServeRun(load=replace(load, **parts), **values | changes)


def missed(run):
    return [bar.what.removeprefix("SQLite: ") for bar in run.bars if bar.met is False]


def test_promises_are_kept_by_a_good_run():
    assert missed(made()) == []
    assert all(bar.met for bar in made().bars)


def test_each_promise_can_be_missed():
    slow = Latencies(10, 0.01, {"p50": 0.01, "p95": 0.02, "p99": 0.051, "p99.9": 0.06}, 0.06)
    assert missed(made(pairs=59_000)) == ["pairs a second"]
    assert missed(made(decide=slow)) == ["decide, 99 %"]
    assert missed(made(reward=slow)) == ["reward, 99 %"]
    assert missed(made(errors={"503": 1})) == ["requests that failed"]
    assert missed(made(counted=80_999)) == ["rewards lost or counted twice"]
    assert missed(made(counted=81_001)) == ["rewards lost or counted twice"]
    assert missed(made(counted=81_001, uncertain=1)) == []


def test_memory_is_flat_if_the_end_is_no_higher_than_the_second_quarter():
    def grown(by, base=3e8):
        return made(memory=[1e8] * 15 + [base] * 30 + [base + by] * 15)

    assert missed(grown(19e6)) == []
    assert missed(grown(21e6)) == ["growth of memory"]
    assert missed(grown(21e6, base=1e9)) == []  # five parts in a hundred of it are 50 MB
    assert missed(grown(51e6, base=1e9)) == ["growth of memory"]
    assert made(memory=[3e8] * 7).bars[3].met is None


@pytest.mark.parametrize(
    "settings",
    [{"seconds": 0}, {"seconds": 4000}, {"connections": 0}],
)
def test_plans_are_bounded(settings):
    with pytest.raises(InvalidValue):
        replace(Plan(), **settings)


def test_what_went_wrong_is_said():
    words = " ".join(report_of(Plan(), [made(errors={"503": 2}, counted=80_999)]).notes)
    assert "SQLite: failed: 2 x 503" in words
    assert "81,000 rewards were acknowledged, 80,999 are counted" in words


def test_what_the_system_says_about_processes():
    child = subprocess.Popen(["sleep", "30"])
    try:
        assert resident([os.getpid()]) > resident([child.pid]) > 0
        assert processor_seconds([os.getpid()]) > processor_seconds([child.pid]) >= 0
    finally:
        child.kill()
        child.wait()
