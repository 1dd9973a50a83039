import json

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from posse import Posse
from posse.cli.evaluate import evaluate
from posse.errors import InvalidValue, UnknownArm, UnknownPolicy
from posse.logs import Log, write_log


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(evaluate)
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return call


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 600
    arms, x = np.array(["a", "b", "c"]), rng.standard_normal(n)
    chosen = rng.integers(0, 3, n)
    return {
        "decision_id": [str(row) for row in range(n)],
        "task": [f"t{row % 15}" for row in range(n)],
        "arm": arms[chosen].tolist(),
        "eligible": [arms.tolist()] * n,
        "probabilities": [[1 / 3] * 3] * n,
        "propensity": [1 / 3] * n,
        "context": pl.DataFrame({"x": x, "town": np.where(x > 0, "P", "Q")}).to_struct(),
        "reward": (chosen * x + rng.standard_normal(n)).tolist(),
    }


@pytest.fixture
def log(table, tmp_path):
    path = tmp_path / "log.parquet"
    write_log(Log(pl.DataFrame(table)), path)
    return path


@pytest.fixture
def fleet(table, tmp_path):
    fleet = Posse(arms=["a", "b", "c"], features=["x"], policy="ebm-ts", seed=3)
    rows = pl.DataFrame({name: table[name] for name in ("task", "arm", "reward")})
    fleet.learn_many(rows.with_columns(table["context"].struct.field("x")), task="task", arm="arm", reward="reward")
    path = tmp_path / "fleet.posse"
    fleet.save(path)
    return path


def test_every_kind_of_target_is_evaluated(run, log, fleet):
    kinds = [
        "uniform",
        "always:b",
        "learned:ebm-rand-ucb:exploration=0.3",
        "replay:ebm-ucb:exploration=0.3,prior=evidence",
    ]
    targets = [*kinds, fleet, f"greedy:{fleet}"]
    done = run(log, *[part for target in targets for part in ("--policy", target)], "--against", "logged")

    assert done.exit_code == 0
    names = ["uniform", "always b", "learned ebm-rand-ucb (exploration=0.3)"]
    names += ["replay ebm-ucb (exploration=0.3,prior=evidence)", "fleet.posse", "fleet.posse, greedy", "logged"]
    for name in names:
        assert f"\n{name}\n" in done.stdout
    assert "fleet.posse less logged" in done.stdout
    assert "right only if this fleet has not learned from this log" in done.stdout


def test_files_are_written_where_asked_for(run, log, tmp_path):
    done = run(
        log, "-p", "uniform", "-a", "always:a", "-e", "dr", "-e", "ips", "-g", "town",
        "--out", tmp_path / "out.json", "--plot", tmp_path / "out.png", "--plot", tmp_path / "out.svg",
    )  # fmt: skip
    content = json.loads((tmp_path / "out.json").read_text())

    assert done.exit_code == 0
    assert [row["estimator"] for row in content["table"]] == ["dr", "ips", "dr", "ips"]
    assert {row["group"] for row in content["by_group"]} == {"P", "Q"}
    assert content["differences"][0]["against"] == "always a"
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert "uniform by town (DR; 95 % intervals)" in done.stdout


def test_settings_reach_the_evaluation(run, log, tmp_path):
    run(log, "-p", "uniform", "-e", "ips", "--confidence", "0.8", "--folds", "3", "--clip", "2", "--seed", "9",
        "--out", tmp_path / "out.json")  # fmt: skip
    settings = json.loads((tmp_path / "out.json").read_text())["settings"]

    expected = {"confidence": 0.8, "folds": 3, "clip": 2.0, "seed": 9, "estimators": ["ips"]}
    assert {name: settings[name] for name in expected} == expected


def test_a_refusal_is_status_1_with_its_reason(run, table, tmp_path):
    path = tmp_path / "bare.jsonl"
    bare = {name: values for name, values in table.items() if name not in ("propensity", "probabilities")}
    write_log(Log(pl.DataFrame(bare)), path)
    done = run(path, "-p", "uniform", "--out", tmp_path / "out.json", "--plot", tmp_path / "out.png")

    assert done.exit_code == 1
    assert "REFUSED: the log has no propensities" in done.stdout
    assert "What helps: log the probability" in done.stdout
    assert "the log cannot tell about uniform" in done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["table"] == []
    assert not (tmp_path / "out.png").exists()


def test_one_refused_target_does_not_hide_the_others(run, table, tmp_path):
    path = tmp_path / "log.jsonl"
    kept = pl.DataFrame(table).filter(pl.col("arm") != "c")
    half = {"eligible": [["a", "b", "c"]] * kept.height, "probabilities": [[0.5, 0.5, 0.0]] * kept.height}
    write_log(
        Log(kept.with_columns(pl.lit(0.5).alias("propensity"), *(pl.Series(k, v) for k, v in half.items()))), path
    )
    done = run(path, "-p", "always:a", "-p", "always:c")

    assert done.exit_code == 1
    assert "100 % of the target's decisions are arms that the log could never have chosen" in done.stdout
    assert "SNIPS" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["-p", "nothing.posse"], InvalidValue, "no target 'nothing.posse': it must be the file of a fleet"),
        (["-p", "always:z"], UnknownArm, "no arm 'z' in the log; its arms are 'a', 'b', 'c'"),
        (["-p", "learned:lin-ucb"], InvalidValue, "must be one of 'ebm-rand-ucb', 'ebm-ts', 'ebm-ucb'"),
        (["-p", "learned:ebm-ts:colour=1"], InvalidValue, "no setting 'colour'"),
        (["-p", "replay:ebm-ucx"], UnknownPolicy, "did you mean"),
        (["-p", "uniform", "-p", "uniform"], InvalidValue, "different names"),
        (["-p", "uniform", "-e", "magic"], InvalidValue, "estimators to be one of"),
        (["-p", "uniform", "-g", "colour"], InvalidValue, "no column 'colour' to group by"),
        (["-p", "uniform", "--plot", "out.bmp"], InvalidValue, "to end in"),
        (["-p", "uniform", "-a", "replay:random"], InvalidValue, "against must be a policy"),
    ],
)
def test_bad_input_is_one_clear_error(run, log, arguments, error, words):
    with pytest.raises(error, match=words):
        run(log, *arguments)


def test_arms_that_are_numbers_are_found(run, table, tmp_path):
    path = tmp_path / "numbers.parquet"
    codes = {"a": 10, "b": 20, "c": 30}
    arms = [codes[arm] for arm in table["arm"]]
    write_log(Log(pl.DataFrame({**table, "arm": arms, "eligible": [[10, 20, 30]] * len(arms)})), path)

    assert "always 20" in run(path, "-p", "always:20", "-e", "ips").stdout


def test_rows_without_a_reward_count_as_the_absent_one(run, table, tmp_path):
    """Purchases come first: without it the log is spoiled, or half of it says nothing."""
    sold = [1.0 if reward > 1 else None for reward in table["reward"]]
    paths = []
    for name, rewards in (("late", sold), ("final", [reward or 0.0 for reward in sold])):
        paths.append(tmp_path / f"{name}.parquet")
        write_log(Log(pl.DataFrame(table | {"reward": pl.Series(rewards, dtype=pl.Float64)})), paths[-1])
    arguments = ("--policy", "uniform", "--estimator", "snips")

    assert run(paths[0], *arguments).exit_code == 1
    late = run(paths[0], *arguments, "--absent-reward", 0)
    assert late.exit_code == 0, late.output
    assert late.output == run(paths[1], *arguments).output


RULES = """
def positive(task, context):
    return "c" if context["x"] > 0 else "a"

def half(task, context):
    return {"a": 0.5, "c": 0.5}

def wrong(task, context):
    return "z"

number = 3
"""


def test_a_rule_of_ones_own_is_worth_what_the_same_probabilities_are(run, log, table, tmp_path):
    rules = tmp_path / "rules.py"
    rules.write_text(RULES)
    done = run(log, "--rule", f"{rules}:positive", "-p", f"{rules}:half", "--against", "logged", "--json")
    said = json.loads(done.stdout)
    values = {(row["target"], row["estimator"]): row["value"] for row in said["table"]}

    arms, x, rewards = np.array(table["arm"]), table["context"].struct.field("x").to_numpy(), np.array(table["reward"])
    weights = 3.0 * (arms == np.where(x > 0, "c", "a"))
    assert values["positive", "ips"] == pytest.approx((weights * rewards).mean())
    assert values["half", "ips"] == pytest.approx((1.5 * (arms != "b") * rewards).mean())
    for name, error, words in (
        ("wrong", UnknownArm, "'wrong' says 'z' in row 0, but the arms there are 'a', 'b', 'c'"),
        ("number", InvalidValue, "no function 'number'; it has half, positive, wrong"),
    ):
        with pytest.raises(error, match=words):
            run(log, "--rule", f"{rules}:{name}")
    with pytest.raises(FileNotFoundError):
        run(log, "--rule", "nowhere.py:positive")
    with pytest.raises(InvalidValue, match=r"as FILE\.py:NAME"):
        run(log, "--rule", "positive")
    with pytest.raises(InvalidValue, match="pass --policy TARGET or --rule"):
        run(log)


def test_a_table_with_columns_of_its_own_names_is_a_log(run, log, table, tmp_path):
    path = tmp_path / "table.csv"
    pl.DataFrame(
        {
            "store": table["task"], "offer": table["arm"], "sold": table["reward"], "chance": table["propensity"],
            "x": table["context"].struct.field("x"), "proposed": ["b"] * len(table["task"]),
        }
    ).write_csv(path)  # fmt: skip
    columns = ["--task-column", "store", "--arm-column", "offer", "--reward-column", "sold"]
    assert "the log has no propensities" in run(path, "-p", "always:b", *columns).stdout
    columns += ["--propensity-column", "chance"]
    done = run(path, "-p", "always:b", "-p", "column:proposed", *columns, "--json")
    found = [row["value"] for row in json.loads(done.stdout)["table"] if row["estimator"] == "snips"]
    other = json.loads(run(log, "-p", "always:b", "--json").stdout)["table"]
    assert found[0] == found[1] == pytest.approx(next(row["value"] for row in other if row["estimator"] == "snips"))


def test_only_decisions_before_a_time_and_rewards_that_are_missing(run, table, tmp_path):
    path = tmp_path / "log.parquet"
    times = [f"2026-03-{1 + row // 300:02d}T10:00:00Z" for row in range(600)]
    rewards = [None if row < 100 else value for row, value in enumerate(table["reward"])]
    write_log(Log(pl.DataFrame({**table, "time": times, "reward": rewards})), path)

    def rows(*options):
        return json.loads(run(path, "-p", "logged", "--json", *options).stdout)["rows"]

    assert rows("--before", "2026-03-02", "--missing-reward", "skip") == 200
    assert rows("--missing-reward", "skip") == 500
    assert rows("--absent-reward", "0") == 600
    for options, words in (
        (["--before", "soon"], "--before to be a time"),
        (["--missing-reward", "error"], "got 100 of 600 without.*--missing-reward skip"),
        (["--missing-reward", "drop"], "to be one of 'error', 'skip'"),
        (["--missing-reward", "skip", "--absent-reward", "0"], "got both"),
    ):
        with pytest.raises(InvalidValue, match=words):
            rows(*options)
