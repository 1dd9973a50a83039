"""Any table in every command: what is printed of its columns, and the options that overrule it."""

import hashlib
import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Posse
from posse.cli.main import app
from posse.errors import InvalidValue

CLICKS = ("--task-column", "position", "--arm-column", "item_id", "--reward-column", "click")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def clicks(tmp_path):
    """A table like a public click log: a time, a propensity, hashed users, and how much a user likes an item."""
    rng = np.random.default_rng(0)
    n = 2000
    item, shown = rng.integers(34, size=n), rng.integers(1, 4, size=n)
    table = {
        "timestamp": [f"2019-11-24 00:{row // 60 % 60:02}:{row % 60:02}.{row:06}+00:00" for row in range(n)],
        "item_id": item, "position": shown, "click": (rng.random(n) < 0.05).astype(int),
        "propensity_score": np.full(n, 1 / 34),
        **{
            f"user_feature_{i}": [hashlib.md5(bytes([level])).hexdigest() for level in rng.integers(4, size=n)]
            for i in range(4)
        },
        **{f"user-item_affinity_{i}": rng.integers(3, size=n).astype(float) for i in range(34)},
    }  # fmt: skip
    pl.DataFrame(table).write_csv(tmp_path / "clicks.csv")
    return tmp_path / "clicks.csv"


def test_a_public_click_log_from_fit_to_report(clicks, tmp_path):
    fleet, page = tmp_path / "clicks.posse", tmp_path / "report.html"
    few = ("--feature", "user_feature_0")  # of 38, to be quick

    done = run("log", "check", clicks, *CLICKS)
    assert done.exit_code == 0, done.output
    said = {line.split("  ", 1)[0]: " ".join(line.split("  ", 1)[1].split()) for line in done.stderr.splitlines()}
    assert said == {
        "timestamp": "time: by its name", "item_id": "arm: 34 different", "position": "task: 3 different",
        "click": "reward: binary, only 0 and 1 (clicks)", "propensity_score": "propensity: by its name",
        **{f"user_feature_{i}": "category, 4 levels" for i in range(4)},
        "user-item_affinity_0": "number (and 33 more)",
    }  # fmt: skip
    done = run("fit", clicks, *CLICKS, *few, "--out", fleet, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 2000
    learned = Posse.load(fleet)
    assert (learned.rewards, learned.features.names, len(learned.arms)) == ("binary", ("user_feature_0",), 34)
    done = run("evaluate", clicks, *CLICKS, *few, "--policy", "uniform", "-e", "ips", "--quiet", "--json")
    assert done.exit_code == 0, done.output
    assert "timestamp" not in done.stderr
    values = json.loads(done.stdout)["table"]
    assert values[0]["value"] == pytest.approx(pl.read_csv(clicks)["click"].mean())
    done = run("report", fleet, "--log", clicks, *CLICKS, *few, "--out", page)
    assert done.exit_code == 0, done.output
    assert "item" in page.read_text("utf-8")


def test_options_overrule_what_is_recognised(clicks):
    done = run(
        "log", "check", clicks, *CLICKS, "--task-column", "user_feature_0", "--ignore", "propensity_score",
        "--rewards", "number", "--json",
    )  # fmt: skip
    said = dict(line.split(maxsplit=1) for line in done.stderr.splitlines())
    assert said["propensity_score"] == "left out: as asked"
    assert said["click"] == "reward: number, as asked"
    assert said["user_feature_0"] == "task: 4 different"
    assert "propensity-missing" in {finding["code"] for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("command", ["fit", "evaluate", "report", "log check"])
def test_every_command_names_its_options_where_a_column_is_wrong(clicks, command):
    first = [*command.split(), *(["--log"] if command == "report" else []), clicks]
    more = ["--policy", "uniform"] if command == "evaluate" else []
    for columns, words in (
        (("--arm-column", "item_id"), "the task and reward columns .*--task-column NAME, --reward-column NAME"),
        ((*CLICKS[:-1], "clicks"), "got 'clicks'.*did you mean 'click'"),
        ((*CLICKS, "--propensity-column", "position"), "'position' for two"),
    ):
        with pytest.raises(InvalidValue, match=words):
            run(*first, *columns, *more)


def test_many_files_are_read_by_the_same_rule(clicks, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.logs.many.FIRST", 500)
    features = ("user_feature_0", "user-item_affinity_0", "late")
    frame = pl.read_csv(clicks).with_columns(country=pl.lit("DE"), late=pl.int_range(pl.len()) > 1500)
    frame = frame.select("timestamp", "item_id", "position", "click", "propensity_score", "country", *features)
    (tmp_path / "many").mkdir()
    for part in range(2):
        frame[part * 1000 : part * 1000 + 1000].write_parquet(tmp_path / "many" / f"{part}.parquet")
    frame.write_parquet(tmp_path / "one.parquet")
    for name in ("one.parquet", "many"):
        done = run("fit", tmp_path / name, *CLICKS, "--out", tmp_path / "fleet.posse", "--json")
        assert done.exit_code == 0, done.output
        said = dict(line.split(maxsplit=1) for line in done.stderr.splitlines())
        assert (said["country"], said["late"]) == ("left out: constant", "true or false")
        fleet = Posse.load(tmp_path / "fleet.posse")
        assert (fleet.rewards, fleet.features.names) == ("binary", features)
    with pytest.raises(InvalidValue, match="did you mean 'click'"):
        run("fit", tmp_path / "many", *CLICKS[:-1], "clicks", "--out", tmp_path / "fleet.posse")
