import json
from dataclasses import replace

import pytest

from posse_lab.benchmarks import calls
from posse_lab.benchmarks.calls import Row
from posse_lab.benchmarks.floor import Floor
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peak import Rate
from posse_lab.benchmarks.step import BASE, QUICK, Plan, StepReport, measure_step
from posse_lab.benchmarks.workload import Size


@pytest.fixture(scope="module")
def measured():
    names = []
    plan = replace(QUICK, at_least=1e-4, rounds=1)
    return plan, measure_step(plan, names.append), names


def test_one_of_tasks_arms_and_features_is_varied_at_a_time():
    sizes = Plan().sizes

    assert len(sizes) == len(set(sizes)) == 7
    assert all(sum(a != b for a, b in zip(size, BASE, strict=True)) <= 1 for size in sizes)
    assert {size.n_tasks for size in sizes} == {100, 1_000, 100_000}
    assert {size.n_features for size in sizes} == {3, 10, 32}


def test_everything_is_measured_at_every_size(measured):
    plan, report, names = measured
    once = {calls.CHOOSE_TS, calls.CHOOSE_UCB, calls.UPDATE, calls.DECIDE, calls.DECIDE_NAMED, calls.REWARD}

    for size in plan.sizes:
        assert once | {calls.REFRESH} <= {row.what for row in report.rows if row.size == size}
    assert {calls.AMORTISED, calls.LEARN_MANY, calls.DECIDE_MANY} <= {row.what for row in report.rows}
    assert [floor.size.n_features for floor in report.floors] == [10, 32]
    assert len(names) == plan.n_stages


def test_a_row_is_that_of_the_base_or_the_only_one():
    rows = [Row("a", Size(2, 5, 10), 1.0, 1.0, 1), Row("a", BASE, 2.0, 2.0, 1), Row("b", Size(3, 5, 10), 3.0, 3.0, 1)]
    report = StepReport(BASE, rows, [], Rate(1e9, 1e9))

    assert report.row("a").best == 2.0
    assert report.row("b").best == 3.0


def test_bars_are_held_against_the_best_at_the_base():
    whats = (calls.CHOOSE_TS, calls.CHOOSE_UCB, calls.UPDATE, calls.AMORTISED, calls.DECIDE, calls.DECIDE_NAMED)
    rows = [Row(what, size, best, 1.0, 1) for what in whats for size, best in ((Size(9, 5, 10), 1.0), (BASE, 2.5e-6))]
    rates = Rate(4750e6, 1.0), Rate(1e15, 1.0)  # a floor of a microsecond
    floor = Floor(Size(10, 5, 10), *rates, Timing(4.1e-6, 9.0, 1))
    report = StepReport(BASE, rows, [floor], Rate(1e9, 1e9))
    bars = {bar.what: bar for bar in report.bars}

    assert [(bar.at_most, bar.met) for bar in report.bars] == [
        (3.0, True), (3.0, True), (2.0, False), (25.0, True), (20.0, True), (20.0, True), (4.0, False),
    ]  # fmt: skip
    assert bars["Posse.decide"].measured == pytest.approx(2.5)
    assert bars["step over its floor, d=10, 10 tasks"].measured == pytest.approx(4.1)


def test_the_report_is_plain_and_whole(measured):
    _, report, _ = measured
    said = json.loads(json.dumps(report.to_dict()))

    assert len(said["rows"]) == len(report.rows)
    assert said["floors"][0]["ratio"] == report.floors[0].ratio
    assert said["memory_floor_seconds"] == pytest.approx(said["bytes_of_task"] / report.memory.best)
    assert [bar["what"] for bar in said["bars"]] == [bar.what for bar in report.bars]
