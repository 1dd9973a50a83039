import json
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, PosseError, ResultFileError, SettingsDiffer, UnknownPolicy

SMALL = ["lab", "simulate", "-N", "3", "-K", "2", "-d", "2", "-n", "40", "--seeds", "3", "--workers", "1"]

MOVING = ("half_life=20", "change_every=10", "change_share=0.5", "population_moves=true")


@pytest.fixture
def run():
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return call


def test_simulate_prints_every_policy_with_its_settings(run):
    output = run(*SMALL, "-p", "ebm-ucb:exploration=0.3", "-p", "lin-ucb").stdout

    assert "ebmUCB" in output
    assert "LinUCB" in output
    assert "3 tasks, 2 arms, 2 features, 40 steps, 3 seeds" in output


@pytest.mark.slow
def test_simulate_compares_policies_for_clicks_where_the_world_pays_clicks(run):
    done = run(*SMALL, "--set", "rewards=binary", "--set", "contexts=intercept", "--set", "base_rate=0.2", "--json")
    policies = {row["policy"] for row in json.loads(done.stdout)["policies"]}
    assert {"familyUCB", "LogisticTS", "LogisticTS pooled", "ebmUCB (prior=evidence)"} <= policies


def test_simulate_json_agrees_with_the_result_file(run, tmp_path):
    out = tmp_path / "result.parquet"
    said = json.loads(run(*SMALL, "-p", "ebm-ts", "-p", "random", "--json", "--out", out).stdout)

    table = pl.read_parquet(out)
    for row in said["policies"]:
        values = table.filter(pl.col("policy") == row["policy"])["regret"]
        assert row["regret"] == pytest.approx(values.mean(), rel=1e-12)
    assert said["files"] == [str(out)]
    assert said["settings"]["horizon"] == 40


def test_every_setting_of_the_world_reaches_it(run):
    said = json.loads(
        run(
            *SMALL, "-p", "lin-ucb", "--json", "--track-task", "1", "--appendix", "--set", "noise_sd=[0.5,2]",
            "--set", "arrivals=[0.5,0.25,0.25]", "--set", "contexts=uniform", "--set", "shared_sd=3",
            "--set", "heterogeneity=[[2,0],[0,0.5]]", "--set", "odd_share=0.3", "--set", "odd_scale=4",
            "--set", "feature_scale=[2,5]",
        ).stdout
    )  # fmt: skip

    assert said["settings"]["world"] == {
        "world": "synthetic",
        "n_tasks": 3,
        "n_arms": 2,
        "n_features": 2,
        "noise_sd": [0.5, 2.0],
        "arrivals": [0.5, 0.25, 0.25],
        "contexts": "uniform",
        "heterogeneity": [[2.0, 0.0], [0.0, 0.5]],
        "jumps": None,
        "shared_sd": 3.0,
        "odd_share": 0.3,
        "odd_scale": 4.0,
        "feature_scale": [2.0, 5.0],
    }
    assert said["settings"]["track_task"] == 1
    assert "expected_regret" in said["policies"][0]


def test_simulate_draws_where_it_was_told(run, tmp_path):
    pictures = [tmp_path / "regret.png", tmp_path / "regret.svg"]
    run(*SMALL, "-p", "lin-ucb", "--plot", pictures[0], "--plot", pictures[1])

    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in pictures[1].read_text()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["-p", "ebm-ucv"], UnknownPolicy, "did you mean 'ebm-ucb'"),
        (["-p", "ebm-ucb:colour=3"], InvalidValue, "no setting 'colour'"),
        (["-p", "ebm-ucb:exploration"], InvalidValue, "has no ="),
        (["-p", "ebm-ucb:exploration=-1"], InvalidValue, "exploration to be at least 0"),
        (["-p", "ebm-ucb:prior=nonsense"], InvalidValue, "prior to be one of"),
        (["-p", "lin-ucb", "-p", "lin-ucb"], InvalidValue, "twice"),
        (["--seeds", "0"], InvalidValue, "seeds to be at least 1"),
        (["--set", "noise_sd=loud"], PosseError, "noise_sd"),
        (["--set", "colour=3"], InvalidValue, "one of noise_sd, .*got 'colour=3'"),
        (["--set", "contexts=round"], InvalidValue, "contexts to be one of"),
        (["--set", "heterogeneity=[[1,0],[0,-2]]"], PosseError, "smallest eigenvalue of -2"),
        (["--set", "heterogeneity=[[1,2,3]]"], PosseError, "heterogeneity"),
        (["--plot", "regret.bmp"], InvalidValue, "to end in .png, .svg or .pdf"),
    ],
)
def test_bad_input_is_one_clear_error(run, arguments, error, words):
    with pytest.raises(error, match=words):
        run(*SMALL, *arguments)


def test_other_settings_do_not_overwrite_a_result(run, tmp_path):
    out = tmp_path / "result.parquet"
    run(*SMALL, "-p", "lin-ucb", "--out", out)
    before = out.read_bytes()

    with pytest.raises(SettingsDiffer, match=r"horizon: 40 there, 50 now"):
        run(*SMALL, "-p", "lin-ucb", "--out", out, "-n", "50")
    assert out.read_bytes() == before


def test_the_command_reports_an_error_in_one_line_and_status_2():
    done = subprocess.run(
        [sys.executable, "-m", "posse", "lab", "simulate", "--seeds", "0"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "posse: expected seeds to be at least 1, got 0\n"


def test_a_folder_that_cannot_be_made_is_one_clear_error(run, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ResultFileError, match="cannot make the folder"):
        run("lab", "paper", "--out", tmp_path / "taken", "--seeds", "1")


@pytest.mark.slow
def test_paper_writes_table_and_pictures(run, tmp_path):
    output = run("lab", "paper", "--out", tmp_path / "paper", "--seeds", "2", "--workers", "1").stdout

    for name in ("posse", "ebmUCB", "ebmTS", "LinUCB", "LinTS", "OLSBandit", "RMBandit"):
        assert name in output
    assert {file.name for file in (tmp_path / "paper").iterdir()} == {"regret.parquet", "regret.png", "regret.svg"}


@pytest.mark.slow
def test_paper_says_which_exploration_the_rivals_used(run, tmp_path):
    said = json.loads(run("lab", "paper", "--out", tmp_path, "--seeds", "2", "--workers", "1", "--json").stdout)
    settings = {row["policy"]: row["settings"] for row in said["policies"]}

    assert settings["LinUCB"].startswith("exploration 1, constant")
    assert settings["LinTS"].startswith("exploration 1, constant")
    for rival in ("LinUCB", "LinTS"):
        assert settings.get(f"{rival} tuned", settings[rival]).startswith("exploration ")
    # What a fleet does by default.
    assert "evidence" in settings["posse"]


def test_simulate_lets_worlds_change(run):
    still, moving = (
        json.loads(run(*SMALL, "-p", "ebm-ucb:prior=evidence,drift=learn", "--json", *more).stdout)
        for more in ((), tuple(part for each in MOVING for part in ("--set", each)))
    )
    assert still["policies"] != moving["policies"]
    with pytest.raises(InvalidValue, match="pass half_life or change_every"):
        run(*SMALL, "-p", "ebm-ucb", "--set", "change_share=0.5")
