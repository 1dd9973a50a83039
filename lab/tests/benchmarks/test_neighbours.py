"""What other fleets notice of a large one: promises, and a small run of the real thing."""

import json
import math

import pytest

from posse.errors import InvalidValue
from posse_lab.benchmarks.neighbours import N_STAGES, QUICK, Act, NeighboursReport, Plan, measure_neighbours

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def act(**changes):
    values = {"name": "delete", "seconds": 2.0, "decisions": 100, "failures": 0, "p50": 0.01, "p99": 0.04, "most": 0.2}
    return Act(**values | {"memory": 7e8, "together": 9e8} | changes)


def missed(*acts):
    return [bar.what for bar in NeighboursReport(Plan(), list(acts)).bars if bar.met is False]


def test_each_promise_can_be_missed():
    assert missed(act(), act(name="look")) == []
    assert missed(act(), act(name="look", p99=0.051)) == ["a decision, 99 %: look"]
    assert missed(act(memory=8.1e8)) == ["memory of the process"]
    assert missed(act(failures=1)) == ["decisions that failed"]


def test_plans_are_bounded():
    with pytest.raises(InvalidValue, match="at least one decision for each"):
        Plan(n_tasks=1000, n_decisions=1000, n_long=1)


@pytest.mark.slow  # the first snapshot comes after a minute
@pytest.mark.usefixtures("compiled")
def test_a_small_fleet_is_worked_on():
    begun = []
    report = measure_neighbours(QUICK, begun.append)
    assert len(begun) == N_STAGES
    assert [one.failures for one in report.acts] == [0] * len(report.acts)
    assert all(one.decisions > 0 and math.isfinite(one.p99) for one in report.acts)
    said = json.loads(json.dumps(report.to_dict()))
    assert [bar["what"] for bar in said["bars"]] == [bar.what for bar in report.bars]
