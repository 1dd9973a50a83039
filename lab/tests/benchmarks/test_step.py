import json
from dataclasses import replace

import pytest

from posse.policies import EbmTS
from posse_lab.benchmarks import step
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.step import BASE, QUICK, Plan, Row, amortised_update, measure_step, report_of
from posse_lab.benchmarks.workload import Size

SIZE = Size(6, 3, 4)


def test_one_of_tasks_arms_and_features_is_varied_at_a_time():
    sizes = Plan().sizes

    assert len(sizes) == len(set(sizes)) == 7
    assert all(sum(a != b for a, b in zip(size, BASE, strict=True)) <= 1 for size in sizes)
    assert {size.n_tasks for size in sizes} == {100, 1_000, 100_000}
    assert {size.n_features for size in sizes} == {3, 10, 32}


def test_everything_is_measured_at_every_size(monkeypatch):
    monkeypatch.setattr(step, "N_CALLS", 20)
    monkeypatch.setattr(step, "N_REWARDS", 30)
    names = []
    plan = replace(QUICK, base=SIZE, at_least=1e-4, rounds=1, tasks=(6,), arms=(2,), features=(4,), batch=(6, 300))
    report = measure_step(plan, names.append)
    rows = json.loads(json.dumps(report.data))["rows"]

    for size in plan.sizes:
        assert set(step.HEADINGS) <= {row["what"] for row in rows if row["n_arms"] == size.n_arms}
    assert {step.AMORTISED, step.LEARN_MANY, step.DECIDE_MANY, step.DECIDE_TABLE} <= {row["what"] for row in rows}
    assert all(0 < row["best"] <= row["median"] for row in rows)
    assert len(names) == plan.n_stages
    assert len(report.tables[0].rows) == len(plan.sizes)


def test_amortised_updates_learn_everything_from_nothing_and_refresh(monkeypatch):
    made = []

    class Noted(EbmTS):
        def __init__(self, **settings):
            super().__init__(**settings)
            made.append(self)

    monkeypatch.setattr(step, "EbmTS", Noted)
    row = amortised_update(SIZE, 500, rounds=2)

    assert (row.what, row.timing.calls) == (step.AMORTISED, 500)
    # One to compile with, one for each round.
    assert [policy.statistics.count.sum() for policy in made] == [200, 500, 500]
    assert made[1].prior_report.iterations > 0


def test_what_is_prepared_is_not_timed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(step.time, "perf_counter", lambda: now[0])

    def spend(seconds):
        def work(*_):
            now[0] += seconds

        return work

    timing = step._timed("x", SIZE, spend(100.0), spend(6.0), calls=3, rounds=2).timing
    assert (timing.best, timing.median) == (2.0, 2.0)


def test_bars_are_held_against_the_best_at_the_base():
    whats = [*step.HEADINGS, step.AMORTISED]
    sizes = ((Size(9, 5, 10), 1.0), (BASE, 2.5e-6))
    rows = [Row(what, size, Timing(best, 1.0, 1)) for what in whats for size, best in sizes]
    bars = {bar.what: bar for bar in report_of(rows, BASE).bars}

    assert bars[step.CHOOSE_TS].met
    assert bars[step.DECIDE].measured == pytest.approx(2.5)
    assert not bars[step.UPDATE].met
