import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks import calls, scale, simulate, step
from posse_lab.benchmarks.workload import Size
from posse_lab.cli import speed


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command with so little to do that every test can."""
    few = replace(step.QUICK, at_least=1e-4, rounds=1, tasks=(20,), arms=(2,), features=(3,), floors=((10, 10),))
    monkeypatch.setattr(step, "QUICK", few)
    monkeypatch.setattr(calls, "N_REWARDS", 20)
    monkeypatch.setattr(simulate, "QUICK", (simulate.Course(Size(3, 2, 2), 10, 4.0),))
    job = scale.Job(n_tasks=60, n_arms=2, n_features=2, decisions=10, background=0.0)
    monkeypatch.setattr(scale, "jobs_up_to", lambda largest, *, quick: [job])

    def call(*arguments, columns=80):
        monkeypatch.setattr(speed, "table_console", lambda: console(columns))
        return CliRunner().invoke(
            app, ["lab", "bench", *map(str, arguments), "--out", str(tmp_path / "out")], catch_exceptions=False
        )

    return call


def console(columns):
    from rich.console import Console

    return Console(width=columns)


@pytest.mark.parametrize(
    "name", ["step", *(pytest.param(name, marks=pytest.mark.slow) for name in ("scale", "simulate"))]
)
def test_a_report_and_a_picture_are_left_and_the_table_fits(run, tmp_path, name):
    done = run(name, "--quick")
    out = tmp_path / "out"

    assert {file.name for file in out.iterdir()} == {f"{name}.json", f"{name}.png", f"{name}.svg"}
    said = json.loads((out / f"{name}.json").read_text())
    assert said["machine"]["processor"] in done.stdout
    for bar in said["bars"]:
        assert bar["what"] in done.stdout
    for line in done.stdout.splitlines():
        # Files and the machine may be longer; tables may not.
        assert len(line.rstrip()) <= 80 or line.startswith(("wrote", said["machine"]["processor"])), line
    assert "What was promised" in done.stdout
    assert f"wrote {out / name}.json" in done.stdout


@pytest.mark.slow
def test_the_arithmetic_of_the_floor_is_shown(run):
    done = run("step", "--quick", columns=400)

    assert "decide: K (6 d² + 9 d) operations, K (3 s + 2 d) numbers" in done.stdout
    assert "no fused multiply-add" in done.stdout
    assert "4,750" in done.stdout
    assert "From main memory" in done.stdout
    assert "main memory (10 of 10)" in done.stderr


@pytest.mark.slow
def test_what_was_not_measured_is_said(run):
    done = run("scale", "--quick", columns=400)

    assert "not measured, needs 1,000,000 tasks: rewards learned, refresh of all arms" in done.stdout
    assert "60 tasks: refresh" in done.stderr


def test_every_policy_of_the_simulator_is_in_the_table(run):
    done = run("simulate", "--quick")
    for name in simulate.all_policies():
        assert name in done.stdout


def test_without_matplotlib_the_rest_is_done(run, tmp_path, monkeypatch):
    def refuse(_name):
        raise MissingDependency("figures need matplotlib: pip install matplotlib")

    monkeypatch.setattr(speed, "_drawing", refuse)
    done = run("simulate", "--quick")

    assert "no picture: figures need matplotlib" in done.stdout
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["simulate.json"]


def test_too_small_a_fleet_is_one_clear_error(tmp_path):
    with pytest.raises(InvalidValue, match="--largest must be at least 1000"):
        CliRunner().invoke(
            app, ["lab", "bench", "scale", "--largest", "10", "--out", str(tmp_path / "out")], catch_exceptions=False
        )
    assert not (tmp_path / "out").exists()


def test_the_commands_explain_themselves():
    runner = CliRunner()
    said = runner.invoke(app, ["lab", "bench", "--help"]).stdout
    for name in ("step", "scale", "simulate", "peers", "regret"):
        assert name in said
    options = runner.invoke(app, ["lab", "bench", "scale", "--help"], env={"COLUMNS": "160"}).stdout
    for option in ("--out", "--quick", "--largest"):
        assert option in options
