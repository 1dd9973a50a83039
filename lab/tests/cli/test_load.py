import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks import serve as benchmark
from posse_lab.benchmarks.load import Latencies, LoadResult
from posse_lab.benchmarks.serve import QUICK, Plan, ServeReport, ServeRun
from posse_lab.cli import load

pytestmark = pytest.mark.usefixtures("compiled")

pytest.importorskip("fastapi")


@pytest.fixture
def command(tmp_path):
    app = typer.Typer()
    app.command()(load.serve)

    def call(*arguments):
        return CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")], catch_exceptions=False)

    return call


@pytest.fixture
def planned(monkeypatch):
    """Measure nothing, and remember what was asked for."""
    plans = []

    def measure(plan, begin):
        plans.append(plan)
        quick = Latencies(10, 0.01, {"p50": 0.01, "p95": 0.02, "p99": 0.03, "p99.9": 0.04}, 0.05)
        result = LoadResult(
            pairs=60, seconds=2.0, decide=quick, reward=quick, errors={"503": 2}, acknowledged=61, uncertain=0,
            unserved=7, processor_seconds=0.2, timeline=[{"pairs": 30, "p99": 0.03}, {"pairs": 30, "p99": None}],
        )  # fmt: skip
        runs = [
            ServeRun(
                storage=storage, deciders=1, load=result, memory=[], processor_seconds=None, database_bytes=6100,
                expected=61, counted=60,
            )
            for storage in plan.storages
        ]  # fmt: skip
        return ServeReport(plan, runs)

    monkeypatch.setattr(benchmark, "measure_serve", measure)
    return plans


@pytest.mark.slow
def test_a_real_run_leaves_a_report_and_a_picture(command, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "QUICK", replace(QUICK, n_tasks=20, seconds=1.0, warm=0.2))
    done = command("--quick")
    out = tmp_path / "out"

    assert {file.name for file in out.iterdir()} == {"serve.json", "serve.png", "serve.svg"}
    said = json.loads((out / "serve.json").read_text())
    assert said["runs"][0]["load"]["pairs"] > 0
    for bar in said["bars"]:
        assert bar["what"] in done.stdout
    assert f"{said['runs'][0]['expected']:,} rewards were acknowledged" in done.stdout
    assert "SQLite: load for 1 s (3 of 3)" in done.stderr


def test_options_make_the_plan(command, planned):
    command()
    command("--quick", "--no-sqlite", "--postgres", "--rate", "1200", "--seconds", "30", "--connections", "32")
    command("--database", "postgresql://h/d", "--tasks", "50")
    assert planned == [
        Plan(),
        replace(QUICK, sqlite=False, postgres=True, rate=1200.0, seconds=30.0, connections=32),
        replace(Plan(), postgres=True, database="postgresql://h/d", n_tasks=50),
    ]


def test_what_went_wrong_is_said(command, planned):
    done = command("--postgres", "--rate", "100")
    words = " ".join(done.stdout.split())
    assert "SQLite: failed: 2 x 503" in words
    assert "PostgreSQL: 7 pairs had arrived and were not begun at the end" in words
    assert "61 rewards were acknowledged, 60 are counted" in words
    assert "not measured, needs 8 s: SQLite: growth of memory" in words
    assert "latencies of decisions include waiting" in words


def test_tables_fit_a_terminal(command, planned, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr(load, "table_console", lambda: Console(width=80))
    done = command("--postgres")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("wrote")]
    assert max(len(line.rstrip()) for line in lines[1:]) <= 80


def test_without_matplotlib_the_rest_is_done(command, planned, tmp_path, monkeypatch):
    from posse_lab.plotting import serve as drawing

    def missing(*_):
        raise MissingDependency("figures need matplotlib: pip install matplotlib")

    monkeypatch.setattr(drawing, "plot_serve", missing)
    done = command()
    assert "no picture: figures need matplotlib: pip install matplotlib" in done.stdout
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["serve.json"]


def test_nothing_to_measure_is_one_clear_error(command):
    with pytest.raises(InvalidValue, match="there is nothing to measure"):
        command("--no-sqlite")
