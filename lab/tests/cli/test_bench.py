"""The commands: what they are asked, and what they leave. What they measure is tested beside it."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, MissingDependency
from posse_lab.benchmarks import scale, serve
from posse_lab.benchmarks.peers import entries
from posse_lab.benchmarks.peers import run as peers
from posse_lab.benchmarks.report import Report
from posse_lab.benchmarks.settings import SETTINGS
from posse_lab.benchmarks.workload import Size


@pytest.fixture
def run(monkeypatch):
    # The real settings with few steps.
    for name, setting in SETTINGS.items():
        monkeypatch.setitem(SETTINGS, name, replace(setting, horizon=15))
    monkeypatch.setattr(
        peers, "QUICK", replace(peers.QUICK, size=Size(3, 2, 2), n_steps=20, turn_seconds=1e-3, turns=1)
    )
    monkeypatch.setattr(entries, "installed", lambda _: False)
    monkeypatch.delenv("POSSE_DATA", raising=False)
    return lambda *words: CliRunner().invoke(app, ["lab", "bench", *map(str, words)], catch_exceptions=False)


def regret(run, *words):
    return run("regret", "--seeds", 2, "--workers", 1, *words)


def test_regret_leaves_what_was_shown_and_continues(run, tmp_path):
    out = tmp_path / "new" / "folder"
    first = regret(run, "--only", "scaled", "--out", out)

    assert {file.name for file in out.iterdir()} == {"balanced.parquet", "scaled.parquet", "regret.json"}
    said = json.loads((out / "regret.json").read_text())
    assert [row["setting"] for row in said["rows"]] == ["balanced", "scaled"]
    assert "balanced: evidence UCB over paper ebmUCB" in first.stdout
    assert f"wrote {out / 'regret.json'}" in first.stdout
    before = (out / "scaled.parquet").read_bytes()
    assert regret(run, "--only", "scaled", "--out", out).stdout == first.stdout
    assert (out / "scaled.parquet").read_bytes() == before


@pytest.mark.slow
def test_without_data_everything_else_runs_and_a_note_says_what_was_skipped(run, tmp_path):
    done = regret(run, "--data", tmp_path)

    assert "skipped sarcos: no file" in done.stdout
    for name in SETTINGS.keys() - {"sarcos", "letter", "odd", "no-odd"}:
        assert name in done.stdout


def test_calibration_leaves_what_was_shown(run, tmp_path):
    words = ("calibration", "--seeds", 2, "--workers", 1, "--only", "cannot-know", "--first-seed", 5)
    done = run(*words, "--out", tmp_path)

    assert "one reward: width of the interval / truth" in done.stdout
    said = json.loads((tmp_path / "calibration.json").read_text())
    assert (said["benchmark"], said["seeds"], said["first_seed"], len(said["bars"])) == ("calibration", 2, 5, 8)


def test_without_peers_posse_runs_alone_and_says_so(run, tmp_path):
    done = run("peers", "--quick", "--workers", 1, "--seeds", 3, "--out", tmp_path / "bench")

    flat = " ".join(done.stdout.split())
    assert "No peer is installed, so only posse's own entries ran" in flat
    assert "skipped river: river is not installed: pip install './lab[peers]'" in flat
    said = json.loads((tmp_path / "bench" / "peers.json").read_text())
    assert (said["seeds"], said["n_steps"], len(said["rows"])) == (3, 20, 3)


def test_options_make_the_plan_of_serve(run, monkeypatch, tmp_path):
    plans = []
    monkeypatch.setattr(serve, "measure_serve", lambda plan, begin: plans.append(plan) or Report(name="serve"))
    out = ("--out", tmp_path)
    run("serve", *out)
    run("serve", *out, "--quick", "--postgres", "--seconds", 30, "--connections", 32, "--tasks", 50)
    assert plans == [serve.Plan(), replace(serve.QUICK, postgres=True, seconds=30.0, connections=32, n_tasks=50)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["step", "scale", "serve"])
def test_a_quick_run_leaves_a_report(run, tmp_path, name, monkeypatch):
    monkeypatch.setattr(scale, "jobs_up_to", lambda largest, *, quick: [scale.Job(n_tasks=60, background=0.0)])
    done = run(name, "--quick", "--out", tmp_path)

    said = json.loads((tmp_path / f"{name}.json").read_text())
    assert "What was promised" in done.stdout
    assert said["bars"]


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        (("regret", "--only", "uniforn"), InvalidValue, "did you mean 'uniform'"),
        (("regret", "--only", "uniform", "--seeds", "0"), InvalidValue, "seeds to be at least 1"),
        (("regret", "--only", "uniform", "--workers", "0"), InvalidValue, "workers to be at least 1"),
        (("calibration", "--only", "clicks"), InvalidValue, "did you mean 'rare-clicks'"),
        (("calibration", "--only", "offsets", "--seeds", "0"), InvalidValue, "seeds to be at least 1"),
        (("features", "--only", "nothing"), InvalidValue, "no row 'nothing'; the rows are regions"),
        (("scale", "--largest", "10"), InvalidValue, "--largest to be at least 1000"),
        (("serve", "--connections", "0"), InvalidValue, "connections to be between 1 and 1000"),
        (("peers", "--only", "vw"), InvalidValue, "no entry 'vw'"),
        (("peers", "--only", "river"), MissingDependency, "river was asked for"),
        (("peers", "--steps", "0"), InvalidValue, "n_steps to be at least 1, got 0"),
    ],
)
def test_bad_input_is_one_clear_error(run, words, error, match):
    with pytest.raises(error, match=match):
        run(*words)
