import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue
from posse_lab.benchmarks.settings import SETTINGS


@pytest.fixture
def run(monkeypatch):
    # The real settings with few steps: what they measure is the benchmark's business, not the command's.
    for name, setting in SETTINGS.items():
        monkeypatch.setitem(SETTINGS, name, replace(setting, horizon=15))
    monkeypatch.delenv("POSSE_DATA", raising=False)
    runner = CliRunner()

    def call(*arguments):
        fixed = ["lab", "bench", "regret", "--seeds", "2", "--workers", "1"]
        return runner.invoke(app, [*fixed, *map(str, arguments)], catch_exceptions=False)

    return call


@pytest.mark.slow
@pytest.mark.slow
def test_the_table_shows_the_settings_that_were_asked_for(run):
    done = run("--only", "uniform", "--only", "one-task")

    assert "uniform" in done.stdout
    assert "one-task" in done.stdout
    assert "balanced" not in done.stdout
    assert "one-task: 2 seeds done (4 of 4)" in done.stderr


def test_files_hold_what_was_shown(run, tmp_path):
    out, markdown = tmp_path / "new" / "folder", tmp_path / "table.md"
    done = run("--only", "scaled", "--out", out, "--markdown", markdown)

    assert {file.name for file in out.iterdir()} == {"balanced.parquet", "scaled.parquet", "regret.json"}
    said = json.loads((out / "regret.json").read_text())
    ratio = said["rows"][0]["ratios"][0]["ratio"]
    assert f"{ratio:.3f} (" in done.stdout
    assert f"{ratio:.3f} (" in markdown.read_text()
    assert f"wrote {markdown}" in done.stdout


def test_the_same_command_continues_and_says_the_same(run, tmp_path):
    first = run("--only", "odd", "--out", tmp_path)
    before = (tmp_path / "odd.parquet").read_bytes()
    second = run("--only", "odd", "--out", tmp_path)

    assert second.stdout == first.stdout
    assert (tmp_path / "odd.parquet").read_bytes() == before


def test_without_data_everything_else_runs_and_a_note_says_what_was_skipped(run, tmp_path):
    done = run("--data", tmp_path)

    assert "skipped sarcos: no file" in done.stdout
    assert "skipped letter: no file" in done.stdout
    for name in SETTINGS.keys() - {"sarcos", "letter", "odd", "no-odd"}:
        assert name in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "uniforn"], "did you mean 'uniform'"),
        (["--only", "uniform", "--seeds", "0"], "seeds to be at least 1"),
        (["--only", "uniform", "--workers", "0"], "workers to be at least 1"),
        (["--only", "uniform", "--markdown", "no/such/folder/table.md"], "needs a folder that exists"),
    ],
)
def test_bad_input_is_one_clear_error(run, arguments, words):
    with pytest.raises(InvalidValue, match=words):
        run(*arguments)


def test_the_commands_explain_themselves():
    runner = CliRunner()

    assert "bench" in runner.invoke(app, ["--help"]).stdout
    assert "regret" in runner.invoke(app, ["lab", "bench", "--help"]).stdout
    for option in ("--seeds", "--workers", "--data", "--only", "--out", "--markdown"):
        assert option in runner.invoke(app, ["lab", "bench", "regret", "--help"], env={"COLUMNS": "160"}).stdout
