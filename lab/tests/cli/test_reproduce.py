"""The command: what it is asked, what it says. What it computes is tested in tests/lab/reproduction."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, MissingData, ResultFileError, SettingsDiffer
from posse_lab.reproduction.experiment import load_run
from posse_lab.reproduction.registry import EXPERIMENTS

PAGES = ("index.html", "claims.json", "claims.md")
TINY = ("--set", "horizon=20", "--seeds", 2, "--workers", 1)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run ``posse lab reproduce`` in an empty folder; errors are raised."""
    monkeypatch.delenv("POSSE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(
        app, ["lab", "reproduce", *(str(part) for part in arguments)], catch_exceptions=False, env={"COLUMNS": "200"}
    )


@pytest.mark.slow
def test_one_experiment_to_a_page(run, tmp_path):
    done = run("oracle-regret", *TINY)

    report = tmp_path / "report"
    assert {file.name for file in report.iterdir()} == {"results", "figures", *PAGES}
    assert {str(file.relative_to(report)) for file in (report / "results").rglob("*.parquet")} == {
        "results/oracle-regret/balanced.parquet",
        "results/oracle-regret/data-poor.parquet",
    }
    ids = [claim["id"] for claim in json.loads((report / "claims.json").read_text())]
    assert ids == ["regret-definitions-agree", "oracle-regret-lowest"]
    assert all(name in done.stdout for name in ids)
    assert done.stdout.splitlines()[-3:] == [f"wrote report/{name}" for name in PAGES]


def test_settings_reach_the_runs(run, tmp_path):
    run("oracle-regret", "--set", "horizon=12", "--set", " n_arms = 3", "--seeds", 1, "--workers", 1, "--out", "here")
    kept = load_run(tmp_path / "here" / "results" / "oracle-regret" / "balanced.parquet")

    assert kept.settings["horizon"] == 12
    assert kept.settings["world"]["n_arms"] == 3
    assert kept.seeds == [0]


def test_quick_is_small_and_lies_elsewhere(run, tmp_path):
    run("oracle-regret", "--quick", "--set", "horizon=10")
    kept = load_run(tmp_path / "report-quick" / "results" / "oracle-regret" / "balanced.parquet")

    assert kept.seeds == [0, 1, 2, 3, 4]
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(("options", "seeds"), [((), 100), (("--quick",), 5), (("--quick", "--seeds", "7"), 7)])
def test_how_many_seeds_are_run(run, monkeypatch, options, seeds):
    asked = []

    def execute(planned, **settings):
        asked.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr("posse_lab.reproduction.run.execute", execute)
    run("balanced", *options)

    assert [settings["seeds"] for settings in asked] == [seeds]


@pytest.mark.slow
def test_the_page_shows_what_the_folder_has_from_earlier_commands(run, tmp_path):
    run("oracle-regret", *TINY)
    done = run("features", "--set", "n_features=[1, 2]", *TINY)
    claims = json.loads((tmp_path / "report" / "claims.json").read_text())

    assert {claim["experiment"] for claim in claims} == {"oracle-regret", "features"}
    assert "regret-definitions-agree" in done.stdout


def test_redraw_runs_nothing_and_draws_the_same(run, tmp_path, monkeypatch):
    first = run("oracle-regret", *TINY)
    before = {file: file.read_bytes() for file in (tmp_path / "report").rglob("*") if file.is_file()}
    (tmp_path / "report" / "index.html").unlink()
    for figure in (tmp_path / "report" / "figures").iterdir():
        figure.unlink()
    monkeypatch.setattr("posse_lab.reproduction.run.execute", None)
    again = run("--redraw")

    assert {file: file.read_bytes() for file in (tmp_path / "report").rglob("*") if file.is_file()} == before
    assert again.stdout == first.stdout
    assert again.stderr == ""


@pytest.mark.slow
def test_more_seeds_are_added(run, tmp_path):
    run("oracle-regret", *TINY)
    run("oracle-regret", "--set", "horizon=20", "--seeds", 3, "--workers", 1)

    assert load_run(tmp_path / "report" / "results" / "oracle-regret" / "balanced.parquet").seeds == [0, 1, 2]


def test_what_was_skipped_is_said_at_the_end(run, tmp_path):
    (tmp_path / "data").mkdir()
    done = run("oracle-regret", "letter", "--data", "data", *TINY)

    assert "skipped letter: no file data/letter/letter-recognition.data" in done.stdout
    assert "posse lab data fetch letter --data data" in done.stdout
    page = (tmp_path / "report" / "index.html").read_text()
    assert "its data were not there" in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ([], InvalidValue, "name an experiment, or all: balanced, data-poor, .*ablation; or pass --redraw"),
        (["balancd"], InvalidValue, "no experiment 'balancd'; did you mean 'balanced'"),
        (["balanced", "nothing"], InvalidValue, "no experiment 'nothing'"),
        (["balanced", "--redraw"], InvalidValue, "leave the names out"),
        (["all", "--redraw"], InvalidValue, "leave the names out"),
        (
            ["--redraw"],
            ResultFileError,
            "no complete results in report/results; run posse lab reproduce NAME --out report",
        ),
        (["--redraw", "--quick"], ResultFileError, "report-quick"),
        (["balanced", "--set", "horizon"], InvalidValue, "expected --set NAME=VALUE, got 'horizon'"),
        (["balanced", "--set", "=5"], InvalidValue, "expected --set NAME=VALUE, got '=5'"),
        (["balanced", "--set", "horizon="], InvalidValue, "'horizon' must look like 10000, but '' came"),
        (["balanced", "--set", "horizon=long"], InvalidValue, "'horizon' must look like 10000, but 'long' came"),
        (["balanced", "--set", "colour=red"], InvalidValue, "no setting 'colour' here; there are horizon, n_arms"),
        (["balanced", "--set", "horizon=0"], InvalidValue, "horizon to be at least 1"),
        (["balanced", "--set", "noise_sd=-1"], InvalidValue, "noise_sd"),
        (["balanced", "--seeds", "0"], InvalidValue, "seeds to be at least 1"),
        (["balanced", "--workers", "0"], InvalidValue, "workers to be at least 1"),
        (["coverage", "--quick", "--workers", "0"], InvalidValue, "workers to be at least 1"),
        (["letter"], MissingData, "needs a data folder.*posse lab data fetch letter --data DIR"),
        (["sarcos", "--data", "nowhere"], MissingData, "posse lab data fetch sarcos --data nowhere"),
        (["activity", "--data", "nowhere"], MissingData, "posse lab data fetch activity --data nowhere"),
        (["movielens", "--data", "nowhere"], MissingData, "posse lab data fetch movielens-1m --data nowhere"),
    ],
)
def test_bad_input_is_one_clear_error(run, tmp_path, arguments, error, words):
    with pytest.raises(error, match=words):
        run(*arguments)
    assert not (tmp_path / "report" / "index.html").exists()
    assert not list(tmp_path.rglob("*.parquet"))


def test_bad_input_leaves_no_folder(run, tmp_path):
    for arguments in (["balancd"], ["balanced", "--set", "horizon=x"], ["letter"], ["balanced", "--seeds", "0"]):
        with pytest.raises((InvalidValue, MissingData)):
            run(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(run, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ResultFileError, match="cannot make the folder"):
        run("oracle-regret", *TINY, "--out", "taken")


def test_other_settings_do_not_overwrite_results(run, tmp_path):
    run("oracle-regret", *TINY)
    with pytest.raises(SettingsDiffer, match="horizon: 20 there, 30 now"):
        run("oracle-regret", "--set", "horizon=30", "--seeds", 2)


@pytest.mark.parametrize("horizon", [1, 40, 300, 303, 999])
def test_any_horizon_gives_a_page(run, horizon):
    assert run("balanced", "--set", f"horizon={horizon}", "--seeds", 1, "--workers", 1).exit_code == 0


def test_folders_with_brackets_are_named_as_they_are(run):
    done = run("oracle-regret", "letter", *TINY, "--out", "report[bold]", "--data", "data[bold]")

    assert "wrote report[bold]/index.html" in done.stdout
    assert "skipped letter: no file data[bold]/letter" in done.stdout


def test_names_of_claims_are_never_cut(run, tmp_path):
    run("features", "--set", "n_features=[1, 2]", *TINY)
    shown = (
        CliRunner().invoke(app, ["lab", "reproduce", "--redraw"], catch_exceptions=False, env={"COLUMNS": "80"}).stdout
    )

    for claim in json.loads((tmp_path / "report" / "claims.json").read_text()):
        assert claim["id"] in shown


def test_the_command_reports_an_error_in_one_line_and_status_2(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "posse", "lab", "reproduce", "nothing"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("posse: no experiment 'nothing'")
    assert done.stderr.count("\n") == 1


def test_the_command_explains_itself():
    runner = CliRunner()
    shown = runner.invoke(app, ["lab", "reproduce", "--help"], env={"COLUMNS": "160"}).stdout

    assert "reproduce" in runner.invoke(app, ["lab", "--help"]).stdout
    for option in ("--seeds", "--workers", "--out", "--data", "--quick", "--redraw", "--set", "NAME=VALUE", "all"):
        assert option in shown
    assert "POSSE_DATA" in shown
    assert any(name in shown for name in EXPERIMENTS)
