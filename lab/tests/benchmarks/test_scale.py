import json
import sys

import pytest

from posse.errors import InvalidValue
from posse_lab.benchmarks import scale
from posse_lab.benchmarks.scale import ScaleReport, jobs_up_to, measure_scale, run_job
from posse_lab.benchmarks.sized import Job


def result(n_tasks, *, median=1e-5, first=1e-5, behind=1e-3, notes=()):
    latencies = {"best": 1e-6, "median": median, "p99.9": 5e-5, "longest": 1e-2, "calls": 10.0}
    return {
        "job": {"n_tasks": n_tasks, "n_arms": 5, "n_features": 10, "rewards": 20},
        "rows_per_second": 1.5e6,
        "refresh": 30.0,
        "resident": 6e9,
        "peak": 7.9e9,
        "decide": latencies,
        "decide_first": latencies | {"median": first},
        "decide_behind": latencies | {"p99.9": behind} if behind else {},
        "decide_paced": latencies | {"p99.9": 3e-3},
        "refreshes": [31.0],
        "files": {},
        "notes": list(notes),
    }


def test_sizes_are_tenfold_up_to_the_largest():
    assert [job.n_tasks for job in jobs_up_to(1_000_000)] == [1_000, 10_000, 100_000, 1_000_000]
    assert [job.n_tasks for job in jobs_up_to(30_000)] == [1_000, 10_000, 30_000]
    assert [job.n_tasks for job in jobs_up_to(1_000)] == [1_000]
    assert [job.files for job in jobs_up_to(1_000_000)] == [True, True, True, False]
    # Small fleets learn so quickly that once is not enough.
    assert [job.repeats for job in jobs_up_to(100_000)] == [5, 5, 1]
    assert {(job.n_arms, job.n_features, job.rewards) for job in jobs_up_to(1_000_000)} == {(5, 10, 20)}


def test_too_small_a_size_is_refused():
    with pytest.raises(InvalidValue, match="--largest must be at least 1000, but 50 came"):
        jobs_up_to(50)


def test_bars_are_about_a_million_tasks():
    report = ScaleReport({1_000: result(1_000), 1_000_000: result(1_000_000, median=1.9e-5, first=2.1e-5)}, [])

    assert [(bar.measured, bar.met) for bar in report.bars] == [
        (1.5e6, True), (30.0, True), (pytest.approx(7.9), True), (pytest.approx(1.9), True),
        (pytest.approx(2.1), False), (pytest.approx(1.0), True), (pytest.approx(3.0), False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "notes"),
    [
        ({1_000: result(1_000)}, ["needs 1,000,000 tasks"] * 7),
        ({1_000_000: result(1_000_000)}, ["", "", "", "needs 1,000 tasks", "needs 1,000 tasks", "", ""]),
        (
            {1_000: result(1_000), 1_000_000: result(1_000_000, behind=None)},
            ["", "", "", "", "", "no refresh in the background", ""],
        ),
    ],
)
def test_what_was_not_measured_is_no_verdict(results, notes):
    bars = ScaleReport(results, []).bars
    assert [bar.note for bar in bars] == notes
    assert [bar.met is None for bar in bars] == [bool(note) for note in notes]


def test_notes_and_failures_are_kept_and_the_rest_goes_on(monkeypatch):
    def run(job, say):
        say("at work")
        return (None, "no memory") if job.n_tasks == 2_000 else (result(job.n_tasks, notes=["a note"]), "")

    monkeypatch.setattr(scale, "run_job", run)
    said = []
    report = measure_scale([Job(n_tasks=n) for n in (1_000, 2_000, 3_000)], said.append)

    assert list(report.results) == [1_000, 3_000]
    assert report.notes == ["a note", "2,000 tasks: no memory"]
    assert said == ["1,000 tasks: at work", "2,000 tasks: at work", "3,000 tasks: at work"]
    assert json.loads(json.dumps(report.to_dict()))["results"][1]["job"]["n_tasks"] == 3_000


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('Trouble: at sea')", "Trouble: at sea"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9, perhaps for want of memory"),
        ("", "it said nothing"),
    ],
)
def test_a_process_that_fails_says_why(monkeypatch, tmp_path, program, words):
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(scale.sys, "executable", str(script))

    assert run_job(Job(n_tasks=5), lambda _: None) == (None, words)


@pytest.mark.slow
def test_a_process_of_its_own_measures_a_fleet():
    stages = []
    job = Job(n_tasks=60, n_arms=2, n_features=2, decisions=10, background=0.0, files=False)
    found, problem = run_job(job, stages.append)

    assert problem == ""
    assert found["job"]["n_tasks"] == 60
    assert found["learned"][0][0] == 1000
    assert "refresh" in stages
