import json

import pytest

from posse.policies import EbmUCB, HierTS
from posse.policies.registry import POLICIES
from posse_lab.benchmarks import simulate as module
from posse_lab.benchmarks.settings import EVIDENCE_TS, EVIDENCE_UCB, POOLED
from posse_lab.benchmarks.simulate import COURSES, DIRECT, Course, Row, SimulateReport, all_policies, measure_simulate
from posse_lab.benchmarks.workload import Size

SMALL = Course(Size(3, 2, 2), 20, 4.0)


@pytest.fixture(scope="module")
def report():
    return measure_simulate([SMALL, Course(Size(2, 3, 2), 20)], budget=0.01, rounds=2)


def test_every_policy_is_there():
    policies = all_policies()
    assert len(policies) == len(POLICIES) + 5
    assert policies["ebmUCB"] is EbmUCB
    assert policies["HierTS"] is HierTS
    assert policies[POOLED] is POLICIES["lin-ucb-pooled"]


def test_every_policy_runs_every_course(report):
    assert [(row.size, row.policy) for row in report.rows] == [
        (size, name) for size in (Size(3, 2, 2), Size(2, 3, 2)) for name in all_policies()
    ]
    assert all(0 < row.best <= row.median for row in report.rows)


def test_the_courses_are_those_of_the_promises():
    assert [(course.size, course.bar) for course in COURSES[:2]] == [
        (Size(10, 5, 3), 4.0), (Size(30, 26, 16), 120.0),
    ]  # fmt: skip


def test_bars_are_about_the_evidence_prior():
    rows = [Row(SMALL.size, name, 20, best, 1.0) for name, best in ((EVIDENCE_UCB, 4e-6), (EVIDENCE_TS, 4.1e-6))]
    bars = SimulateReport([SMALL, Course(Size(9, 9, 9), 5)], rows).bars

    assert [(bar.what, bar.met) for bar in bars] == [
        ("a step of evidence UCB, N=3 K=2 d=2", True), ("a step of evidence TS, N=3 K=2 d=2", False),
    ]  # fmt: skip


def clock_of(monkeypatch, seconds_of_run):
    """Let runs take as long as a function of their steps says; return the steps of every run."""
    now, runs = [0.0], []

    def run(world, factories, steps, *rest):
        runs.append(steps)
        now[0] += seconds_of_run(steps)

    monkeypatch.setattr(module, "run_seed", run)
    monkeypatch.setattr(module.time, "process_time", lambda: now[0])
    return runs


def test_a_quick_policy_goes_all_the_way_in_all_rounds(monkeypatch):
    runs = clock_of(monkeypatch, lambda steps: 1e-6 * steps)
    row = module._time(Course(Size(2, 2, 2), 2_000), "x", EbmUCB, 3.0, 7)

    assert (row.steps, row.best, row.median) == (2_000, pytest.approx(1e-6), pytest.approx(1e-6))
    assert runs[-7:] == [2_000] * 7
    assert runs[:2] == [50, 50]


def test_a_slow_policy_stops_early_and_a_slowing_one_earlier(monkeypatch):
    runs = clock_of(monkeypatch, lambda steps: 1e-3 * steps)
    steady = module._time(Course(Size(2, 2, 2), 20_000), "x", EbmUCB, 3.0, 7)
    assert (steady.steps, sum(runs) < 6_000) == (800, True)

    runs = clock_of(monkeypatch, lambda steps: 1e-6 * steps**2)
    slowing = module._time(Course(Size(2, 2, 2), 20_000), "x", EbmUCB, 3.0, 7)
    assert slowing.steps == 800
    assert max(runs) == 800


def test_the_report_is_plain_and_whole(report):
    said = json.loads(json.dumps(report.to_dict()))
    assert len(said["rows"]) == len(report.rows)
    assert said["courses"][0] == {"size": {"n_tasks": 3, "n_arms": 2, "n_features": 2}, "horizon": 20, "bar": 4.0}
    assert report.row(SMALL.size, DIRECT).steps == 20
