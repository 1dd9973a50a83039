"""The model of a cluster follows from what was measured, by hand."""

import pytest

from posse_lab.benchmarks.distributed import LARGE, Found, Plan, model, rows_of


def test_the_model_multiplies_what_was_measured():
    plan = Plan(n_tasks=100, n_arms=2, n_features=3, shards=2)
    report = Found(
        plan,
        streaming={"pairs": 200.0, "refresh_processor_seconds": 0.4, "rows_per_processor_second": 1e6},
        one={"decide_p50": 1e-5},
        sharded={
            "tasks": 50.0,
            "pairs": 80.0,
            "refresh_steps": 4.0,
            "refresh_messages": 20.0,
            "message_bytes": 1000.0,
            "decide_many_rows_per_second": 1e5,
            "resident_bytes_per_task": 700.0,
            "round_trip_seconds": 5e-4,
        },
    )
    found, assumptions = model(report)
    tasks = 1e8 / 16
    assert found["memory_per_machine_bytes"] == pytest.approx(tasks * 700)
    # 0.002 s of two pairs; ten messages of 0.5 ms and 16 kB.
    assert found["refresh_message_seconds"] == pytest.approx(10 * (5e-4 + 16 * 1000 / 1e9))
    assert found["refresh_seconds"] == pytest.approx(tasks * 0.004 / 32 + found["refresh_message_seconds"])
    assert found["fit_rows_per_second"] == pytest.approx(16 * 32 * 1e6)
    assert found["decisions_per_second"] == pytest.approx(16 * 32 * 1e5)
    assert f"{LARGE['tasks']:,}" in assumptions[0]
    assert any("0.70 kB of memory per task" in line and "1.6 arms" in line for line in assumptions)
    assert any("0.50 ms each as measured" in line for line in assumptions)


def test_rows_are_as_many_as_asked_for():
    tables = list(rows_of(Plan(n_arms=2, n_features=3), 10, 1000))
    assert sum(table.height for table in tables) == 1000
    assert tables[0].columns == ["task", "arm", "reward", "x0", "x1"]
