import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse.cli.log import log_app
from posse.errors import DataFileError, InvalidValue, MissingData
from posse.logs import Log, read_log, write_log

N_ROWS = 200


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(log_app, [str(part) for part in arguments], catch_exceptions=False)


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    arms = rng.integers(2, size=N_ROWS)
    return Log(
        {
            "decision_id": [f"d-{row}" for row in range(N_ROWS)],
            "time": 1.7e9 + np.arange(N_ROWS),
            "task": [f"store-{row % 20}" for row in range(N_ROWS)],
            "arm": np.where(arms, "red", "green"),
            "eligible": [["green", "red"]] * N_ROWS,
            "probabilities": [[0.5, 0.5]] * N_ROWS,
            "propensity": [0.5] * N_ROWS,
            "context": [{"age": float(age)} for age in rng.normal(size=N_ROWS)],
            "reward": rng.normal(size=N_ROWS),
            "reward_time": 1.7e9 + np.arange(N_ROWS) + 5,
            "policy": ["random"] * N_ROWS,
            "version": ["1"] * N_ROWS,
        }
    )


@pytest.fixture
def file(log, tmp_path):
    path = tmp_path / "log.jsonl"
    write_log(log, path)
    return path


def test_a_clean_log_has_nothing_to_say(run, file):
    done = run("check", file)

    assert done.exit_code == 0
    assert done.stdout == "0 errors, 0 warnings, 0 notes in 200 rows, 20 tasks, 2 arms, 1 features\n"


def test_errors_are_shown_and_counted_by_the_status(run, log, tmp_path):
    spoiled = Log(log.frame.with_columns(propensity=pl.lit(0.25), policy=pl.Series(["a", "b"] * 100)))
    write_log(spoiled, tmp_path / "bad.parquet")

    done = run("check", tmp_path / "bad.parquet")

    assert done.exit_code == 1
    words = " ".join(done.stdout.split())
    assert words.startswith("severity found rows first what to do")
    assert "error" in words
    assert "200" in words
    assert "row 0, decision 'd-0'" in words or "decision 'd-0'" in words
    assert "find out which of the two is the" in words
    assert "2 errors, 0 warnings, 1 note in 200 rows" in words
    assert words.index("error") < words.index("note")


def test_warnings_alone_are_no_failure(run, log, tmp_path):
    write_log(Log(log.frame.with_columns(reward=pl.lit(1.0))), tmp_path / "log.jsonl")

    done = run("check", tmp_path / "log.jsonl")

    assert done.exit_code == 0
    assert "0 errors, 1 warning, 0 notes" in done.stdout


def test_json_has_every_field(run, log, tmp_path):
    write_log(Log(log.frame.with_columns(propensity=pl.lit(2.0))), tmp_path / "log.jsonl")

    done = run("check", tmp_path / "log.jsonl", "--json")

    said = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (said["rows"], said["tasks"], said["arms"], said["features"]) == (200, 20, 2, 1)
    assert said["findings"][0] == {
        "code": "propensity-out-of-range",
        "severity": "error",
        "message": "propensities that are not above 0 and at most 1",
        "rows": 200,
        "example": "row 0, decision 'd-0'",
        "what_to_do": "log the probability with which the arm was drawn, before it was drawn",
    }


def test_only_the_features_that_matter(run, file):
    assert run("check", file, "--feature", "age").exit_code == 0
    done = run("check", file, "--feature", "height", "--json")
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["feature-absent"]


def test_markup_in_a_log_is_shown_as_it_is(run, log, tmp_path):
    write_log(Log(log.frame.with_columns(policy=pl.Series(["[red]", "[/]"] * 100))), tmp_path / "log.jsonl")

    assert "'[/]'" in " ".join(run("check", tmp_path / "log.jsonl").stdout.split())


@pytest.mark.parametrize("name", ["log.parquet", "log.ndjson.gz"])
def test_converting_keeps_everything(run, file, log, tmp_path, name):
    done = run("convert", file, tmp_path / name)

    assert done.exit_code == 0
    assert done.stdout == f"{tmp_path / name}: 200 decisions\n"
    assert done.stderr == ""
    assert read_log(tmp_path / name) == log


def test_what_was_left_out_on_reading_is_told(run, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"task": "a", "arm": "x", "reward": 1, "colour": "red"}')

    done = run("convert", tmp_path / "log.jsonl", tmp_path / "log.parquet")

    assert done.stderr == "not carried over: what no log has: colour\n"


def test_a_bad_line_is_one_clear_error(run, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"task": "a", "arm": "x"}\n{"task": "a"}')

    with pytest.raises(DataFileError, match=r"log\.jsonl, line 2: arm is missing"):
        run("check", tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["check", "absent.jsonl"], MissingData, r"no log absent\.jsonl; give the path of a file"),
        (["check", "{file}", "--format", "csv"], InvalidValue, "format to be one of"),
        (["check", "{file}", "--task-column", "x"], InvalidValue, "a log of posse's with columns task, arm and reward"),
        (["convert", "{file}", "out.csv"], InvalidValue, r"cannot tell the format of out\.csv"),
        (["convert", "{file}", "no/out.jsonl"], DataFileError, "there is no folder no"),
        (["convert", "{file}", "out.jsonl", "--to", "xml"], InvalidValue, "format to be one of"),
    ],
)
def test_bad_input_is_one_clear_error(run, file, arguments, error, words):
    with pytest.raises(error, match=words):
        run(*[argument.replace("{file}", str(file)) for argument in arguments])


def test_help_names_every_option(run):
    options = {"check": ["--format", "--task-column", "--arms", "--feature", "--json"], "convert": ["--from", "--to"]}
    for command, names in options.items():
        shown = run(command, "--help").stdout
        assert all(name in shown for name in names)
