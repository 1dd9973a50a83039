import json
import re
import signal

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Posse, load_retailer
from posse.cli.main import app
from posse.errors import ExpiredDecision, InvalidValue, PosseError, UnknownDecision, UnknownTask
from posse.fleet.expecting import expected_rates
from posse.logs import write_log

ROWS = 400
NAMED = ("--task-column", "store", "--arm-column", "offer", "--reward-column", "sold")
SOLD = (*NAMED, "--missing-reward", "skip")


@pytest.fixture
def run():
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return call


def sales(tasks="text"):
    """A table as a shop would have it: its own column names, a category, a row without a reward."""
    rng = np.random.default_rng(5)
    stores = rng.integers(6, size=ROWS)
    offers = np.array(["cake", "coffee"])[rng.integers(2, size=ROWS)]
    age = rng.normal(size=ROWS)
    amount = np.where(offers == "cake", 1.0, -1.0) * age + 0.1 * rng.normal(size=ROWS)
    return pl.DataFrame(
        {
            "store": [f"store-{i}" for i in stores] if tasks == "text" else stores,
            "offer": offers,
            "age": age,
            "weather": np.array(["rain", "sun"])[rng.integers(2, size=ROWS)],
            "sold": [None, *amount[1:].tolist()],
        }
    )


@pytest.fixture
def fleet(run, tmp_path):
    table = tmp_path / "sales.parquet"
    sales().write_parquet(table)
    out = tmp_path / "fleet.posse"
    result = run("fit", table, *SOLD, "--out", out, "--seed", 3)
    assert result.exit_code == 0, result.output
    return out


def test_fit_learns_what_learn_many_does(fleet):
    loaded = Posse.load(fleet)

    assert loaded.arms == ("cake", "coffee")
    assert loaded.features.columns == ("intercept", "age", "weather=rain", "weather=sun")
    again = Posse(arms=loaded.arms, features=loaded.features, seed=3)
    again.learn_many(sales(), task="store", arm="offer", reward="sold", missing_reward="skip")
    assert loaded.n_rewards == ROWS - 1
    context = {"age": 1.0, "weather": "sun"}
    assert loaded.expected("store-2", context) == again.expected("store-2", context)
    assert loaded.expected("store-2", context).mean["cake"] == pytest.approx(1.0, abs=0.2)


def test_fit_lets_old_rows_fade(run, tmp_path):
    table, out = tmp_path / "sales.parquet", tmp_path / "fleet.posse"
    sales().with_columns(day=pl.int_range(ROWS) * 86400.0).write_parquet(table)
    result = run("fit", table, *SOLD, "--out", out, "--drift", 50, "--time-column", "day")
    assert result.exit_code == 0, result.output
    assert "half-life 50 days" in result.output

    def end():
        return ROWS * 86400.0

    fleet = Posse.load(out, clock=end)
    assert fleet.features.names == ("age", "weather")
    same = Posse(arms=["cake", "coffee"], features=fleet.features, drift=50, clock=end)
    rows = pl.read_parquet(table)
    same.learn_many(rows, task="store", arm="offer", reward="sold", missing_reward="skip", time="day")
    assert fleet.n_rewards == same.n_rewards < 200
    assert "half-life 50 days" in run("inspect", out).output
    with pytest.raises(InvalidValue, match="days or `learn`"):
        run("fit", table, *SOLD, "--out", out, "--drift", "soon")
    with pytest.raises(InvalidValue, match="'when'"):
        run("fit", table, *SOLD, "--out", out, "--drift", 3, "--time-column", "when")


def test_fit_takes_the_times_of_a_log(run, tmp_path):
    log, out = tmp_path / "log.jsonl", tmp_path / "fleet.posse"
    now = [1e9]
    fleet = Posse(arms=["a", "b"], features=["x"], seed=1, clock=lambda: now[0], drift=2.0, log=log)
    rng = np.random.default_rng(3)
    for _ in range(60):
        decision = fleet.decide("t", {"x": float(rng.normal())})
        now[0] += 20_000.0
        fleet.reward(decision, float(rng.normal()))
    result = run("fit", log, "--out", out, "--drift", 2)
    assert result.exit_code == 0, result.output
    assert Posse.load(out, clock=lambda: now[0]).n_rewards == pytest.approx(fleet.n_rewards)
    assert fleet.n_rewards < 50


def test_fit_says_what_it_learned_and_left_out(run, tmp_path):
    table = tmp_path / "sales.csv"
    sales().write_csv(table)
    options = [*SOLD, "--out", tmp_path / "f.posse"]

    said = run("fit", table, *options, "--feature", "age").stdout
    as_json = json.loads(run("fit", table, *options, "--json").stdout)

    assert "399 rewards learned, 1 without a reward left out" in said
    assert "weather" not in said
    assert (as_json["rows"], as_json["skipped"], as_json["n_tasks"]) == (399, 1, 6)
    assert [arm["arm"] for arm in as_json["arms"]] == ["cake", "coffee"]


def test_fit_takes_declared_features_from_a_file(run, tmp_path, fleet):
    spec = tmp_path / "features.json"
    spec.write_text(json.dumps(Posse.load(fleet).features.to_json()))
    table = tmp_path / "sales.parquet"
    options = [*SOLD, "--out", tmp_path / "g.posse"]

    run("fit", table, *options, "--features", spec)

    assert Posse.load(tmp_path / "g.posse").features == Posse.load(fleet).features
    spec.write_text("{")
    with pytest.raises(InvalidValue, match="cannot read the features"):
        run("fit", table, *options, "--features", spec)


def test_fit_names_the_column_that_is_not_there(run, tmp_path):
    sales().write_parquet(tmp_path / "sales.parquet")

    with pytest.raises(InvalidValue, match=r"the task, arm and reward columns .*store, offer.*--task-column"):
        run("fit", tmp_path / "sales.parquet")


def test_inspect_shows_arms_population_and_tasks(run, fleet):
    said = run("inspect", fleet, "--covariance").stdout

    for words in ("cake", "weather=sun", "store-0", "covariance between tasks: coffee", "399 rewards"):
        assert words in said


def test_inspect_of_revenue_shows_how_many_buy_and_how_much_they_pay(run, tmp_path):
    fleet = Posse(arms=["x", "y"], features=["a"], rewards="revenue", seed=1)
    fleet.learn_many(
        [{"task": f"t{n % 5}", "arm": "xy"[n % 2], "a": n % 7, "reward": 20.0 * (n % 16 < 2)} for n in range(400)]
    )
    fleet.save(tmp_path / "shops.posse")
    said = run("inspect", tmp_path / "shops.posse").stdout
    assert re.search(r"arm +rewards +tasks +who buy +they pay +expected \(90 %\)", said)
    assert re.search(r"x +200 +5 +12\.69% +20 +2\.\d+ \(", said)
    assert "logit of a purchase" in said
    assert "expected revenue is at the task's average" in run("inspect", tmp_path / "shops.posse", "-t", "t1").stdout
    assert "who buy  they pay" in repr(fleet.overview())


def test_inspect_lists_eight_arms_unless_asked_for_all_and_cuts_no_number(run, tmp_path):
    arms, path = [f"offer {k} {'with a long name ' * (k % 3)}" for k in range(12)], tmp_path / "many.posse"
    fleet = Posse(arms, ["x", "y"], seed=1)
    chosen = [k for k in range(12) for _ in range(14 - k)]
    fleet.learn_many(
        [{"task": "t", "arm": arms[k], "x": n % 7, "y": n % 3, "reward": n % 5} for n, k in enumerate(chosen)]
    )
    fleet.save(path)
    means = [f"{arm.mean[0]:.3g} ±" for arm in fleet.overview().arms]

    for extra in ([], ["--task", "t"]):
        few, every = (run("inspect", path, *extra, *more).stdout for more in ([], ["--all-arms"]))
        assert "8 of 12 arms" in few
        assert "offer 11" not in few  # it has the fewest rewards
        assert all(f"offer {k}" in every for k in range(12))
        assert max(map(len, every.splitlines())) <= 150
        assert "…" not in every
    assert all(mean in run("inspect", path, "--all-arms").stdout for mean in means)


def test_inspect_shows_findings_and_only_where_there_are_some(run, fleet, tmp_path):
    loaded = Posse.load(fleet)
    assert loaded.findings() == []
    assert "Findings" not in run("inspect", fleet).stdout
    loaded.add_arm("[tea]")
    loaded.save(tmp_path / "more.posse")

    said = run("inspect", tmp_path / "more.posse").stdout
    assert "Findings\n  - arm '[tea]' has no rewards yet\n" in said
    assert json.loads(run("inspect", tmp_path / "more.posse", "--json").stdout)["findings"] == [
        "arm '[tea]' has no rewards yet"
    ]


def test_inspect_shows_what_is_known(run, tmp_path):
    path = str(tmp_path / "known.posse")
    fleet = Posse(arms={"a": {"price": 1.0}, "b": {"price": 2.0}}, features=["x"], task_features=["size"],
                  arm_features=["price"])  # fmt: skip
    fleet.set_task_features({"t": {"size": 3.5}})
    fleet.save(path)
    said = run("inspect", path).output
    assert "what is known" in said
    assert "price" in said
    assert "known: size 3.5" in run("inspect", path, "--task", "t").output


def test_inspect_as_json_is_the_overview(run, fleet):
    said = json.loads(run("inspect", fleet, "--json", "--top", 2).stdout)

    overview = Posse.load(fleet).overview(2).to_json()
    assert said == json.loads(json.dumps(overview))
    assert len(said["tasks"]) == 2


def test_inspect_shows_one_task(run, fleet):
    said = run("inspect", fleet, "--task", "store-1").stdout
    exported = json.loads(run("inspect", fleet, "--task", "store-1", "--json").stdout)

    assert "weight of" in said
    assert exported == json.loads(json.dumps(Posse.load(fleet).export("store-1")))
    with pytest.raises(UnknownTask, match="no task 'store-9'"):
        run("inspect", fleet, "--task", "store-9")


def test_inspect_draws_the_population(run, fleet, tmp_path):
    run("inspect", fleet, "--plot", tmp_path / "a.svg", "--plot", tmp_path / "a.png")

    assert "what differs most between tasks" in (tmp_path / "a.svg").read_text()
    run("inspect", fleet, "--task", "store-1", "--plot", tmp_path / "task.svg")
    assert "task store-1 (colour)" in (tmp_path / "task.svg").read_text()
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_names_from_a_fleet_are_shown_as_text(run, tmp_path):
    fleet = Posse(arms=["[red]", "b"], features=["[/bold]"], seed=1)
    decision = fleet.decide("[link]", [1.0])
    fleet.reward(decision.id, 1.0)
    fleet.save(tmp_path / "odd.posse")

    said = run("inspect", tmp_path / "odd.posse", "--covariance").stdout

    assert all(name in said for name in ("[red]", "[/bold]", "[link]"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspect", "nowhere.posse"], "nowhere.posse"),
        (["inspect", "FLEET", "--plot", "a.txt"], "to end in"),
    ],
)
def test_bad_input_is_one_clear_error(run, fleet, arguments, words):
    before = fleet.read_bytes()

    with pytest.raises(PosseError, match=words):
        run(*[str(fleet) if argument == "FLEET" else argument for argument in arguments])

    assert fleet.read_bytes() == before


def test_tasks_named_by_numbers_are_typed_as_numbers(run, tmp_path):
    sales("number").write_parquet(tmp_path / "sales.parquet")
    out = tmp_path / "fleet.posse"
    run("fit", tmp_path / "sales.parquet", *SOLD, "--out", out)

    assert "task 3" in run("inspect", out, "--task", "3").stdout
    with pytest.raises(UnknownTask, match="whole numbers"):
        run("inspect", out, "--task", "three")


def test_errors_of_rewards_are_what_callers_catch():
    assert issubclass(ExpiredDecision, UnknownDecision)
    assert issubclass(UnknownDecision, KeyError)


def test_rows_without_a_reward_count_as_the_absent_one(run, tmp_path):
    table, out = tmp_path / "sales.parquet", tmp_path / "fleet.posse"
    sales().write_parquet(table)
    arguments = (
        *NAMED,
        "--out",
        out,
        "--absent-reward",
        -0.5,
    )
    result = run("fit", table, *arguments)

    assert result.exit_code == 0, result.output
    loaded = Posse.load(out)
    assert loaded.n_rewards == ROWS
    plain = Posse(arms=loaded.arms, features=loaded.features)
    plain.learn_many(sales().with_columns(pl.col("sold").fill_null(-0.5)), task="store", arm="offer", reward="sold")
    for mine, theirs in zip(loaded.statistics.sums, plain.statistics.sums, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-12)
    # It goes on as it began.
    loaded.decide("store-1", {"age": 1.0, "weather": "sun"})
    assert loaded.n_rewards == ROWS + 1


def test_a_log_fitted_with_the_absent_reward_is_the_fleet_that_wrote_it(run, tmp_path):
    log, out = tmp_path / "log.jsonl", tmp_path / "fleet.posse"
    live = Posse(arms=["a", "b"], features=["x"], seed=1, absent_reward=0.0, log=log)
    rng = np.random.default_rng(0)
    for turn in range(120):
        decision = live.decide(f"t{turn % 5}", [float(rng.normal())])
        if turn % 3 == 0:
            live.reward(decision.id, float(rng.normal()))
    result = run("fit", log, "--out", out, "--absent-reward", 0, "--features", _raw(tmp_path, live))

    assert result.exit_code == 0, result.output
    fitted = Posse.load(out)
    for mine, theirs in zip(fitted.statistics.sums, live.statistics.sums, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    live.refresh()
    for task in ("t0", "t3", "never seen"):
        mine, theirs = fitted.expected(task, [0.5]).mean, live.expected(task, [0.5]).mean
        # The same sums; populations are estimated until they move by less than 1 %, from different starts.
        assert mine == pytest.approx(theirs, abs=0.02)


def _raw(folder, fleet):
    path = folder / "features.json"
    path.write_text(json.dumps(fleet.features.to_json()))
    return path


def test_what_pending_decisions_count_as_is_shown(run, tmp_path):
    fleet = Posse(arms=["a", "b"], features=["x"], seed=1, absent_reward=0.25)
    for turn in range(4):
        fleet.decide(f"t{turn}", [1.0])
    fleet.save(tmp_path / "fleet.posse")
    said = " ".join(run("inspect", tmp_path / "fleet.posse").output.split())
    assert "4 rewards (of which 4 pending count as 0.25), 4 decisions" in said


def test_fit_leaves_out_the_index_that_pandas_wrote_and_standardises_on_request(run, tmp_path):
    table, out = tmp_path / "sales.csv", tmp_path / "fleet.posse"
    sales().to_pandas().to_csv(table)  # with its index, under an empty name

    result = run("fit", table, *SOLD, "--out", out, "--standardise")

    assert "left out: an index that pandas wrote" in result.stderr
    features = Posse.load(out).features
    assert features.names == ("age", "weather")
    age = sales()["age"][1:]  # the first row has no reward
    assert features.features[0].center == pytest.approx(age.mean())
    assert features.features[0].spread == pytest.approx(age.std(ddof=0))
    with pytest.raises(InvalidValue, match="--features, --feature or --standardise"):
        run("fit", table, *SOLD, "--out", out, "--standardise", "--features", tmp_path / "spec.json")


def test_clicks_are_learned_and_shown_as_such(run, tmp_path):
    table, out = tmp_path / "clicks.parquet", tmp_path / "clicks.posse"
    sales().with_columns(sold=(pl.col("sold") > 0).cast(pl.Int64)).write_parquet(table)
    columns = NAMED

    assert run("fit", table, "--out", out, *columns, "--absent-reward", "0").exit_code == 0
    fleet = Posse.load(out)
    assert fleet.rewards == "binary"
    assert fleet.n_rewards == ROWS
    shown = run("inspect", out).output
    assert "binary rewards" in shown
    assert "of the logit" in shown
    fleet_rates, own = expected_rates(fleet), expected_rates(fleet, fleet.tasks[0])
    assert json.loads(run("inspect", out, "--json").output)["rates"] == {
        arm: rate._asdict() for arm, rate in fleet_rates.items()
    }
    task = run("inspect", out, "--task", fleet.tasks[0]).output
    for output, rates in ((shown, fleet_rates), (task, own)):
        for mean, low, high in rates.values():
            assert f"{mean:.2%} ({low:.2%} to" in output
            assert 0 < low < mean < high < 1
    assert "coefficients of the logit" in task
    sales().write_parquet(table)
    with pytest.raises(InvalidValue, match="expected binary rewards"):
        run("fit", table, *columns, "--rewards", "binary", "--missing-reward", "skip")


def test_what_rewards_are_is_read_from_the_log(run, tmp_path):
    log, out = load_retailer(300), tmp_path / "fleet.posse"
    table = log.contexts.with_columns(log.frame["task", "arm"], reward=log.frame["reward"] == 1)
    table.write_parquet(tmp_path / "table.parquet")
    for folder, rows in (("logs", log.frame), ("tables", table)):
        (tmp_path / folder).mkdir()
        rows[:150].write_parquet(tmp_path / folder / "1.parquet")
        rows[150:].write_parquet(tmp_path / folder / "2.parquet")
    write_log(log, tmp_path / "log.jsonl")
    for name in ("log.jsonl", "table.parquet", "logs", "tables"):
        assert run("fit", tmp_path / name, "--out", out).exit_code == 0
        assert Posse.load(out).rewards == "binary", name
    assert run("fit", tmp_path / "log.jsonl", "--out", out, "--rewards", "number").exit_code == 0
    assert Posse.load(out).rewards == "number"


def test_a_folder_of_many_rows_is_fitted_like_one_table(run, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    table = pl.DataFrame(
        {
            "task": rng.integers(20, size=ROWS),
            "arm": rng.choice(["red", "green"], size=ROWS),
            "size": rng.normal(size=ROWS),
            "colour": [["dark", "light", None][i] for i in rng.integers(3, size=ROWS)],
            "reward": [None, *rng.normal(size=ROWS - 1)],
        }
    )
    (tmp_path / "rows").mkdir()
    table[:150].write_parquet(tmp_path / "rows" / "1.parquet")
    table[150:].write_parquet(tmp_path / "rows" / "2.parquet")
    table.write_parquet(tmp_path / "all.parquet")
    one, many = tmp_path / "one.posse", tmp_path / "many.posse"
    skip = ("--missing-reward", "skip")
    assert run("fit", tmp_path / "all.parquet", "--out", one, "--seed", "1", *skip).exit_code == 0
    result = run("fit", tmp_path / "rows", "--out", many, "--seed", "1", *skip)
    assert result.exit_code == 0
    assert "399 rewards learned, 1 without a reward left out" in result.stdout
    assert not (tmp_path / "many.posse.checkpoint").exists()
    one, many = Posse.load(one), Posse.load(many)
    assert one.features == many.features
    for mine, other in zip(many.statistics.sums, one.statistics.sums, strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(one.prior.covariance, many.prior.covariance)
    result = run("fit", tmp_path / "rows" / "*.parquet", "--out", tmp_path / "scaled.posse", "--standardise", *skip)
    assert result.exit_code == 0
    assert Posse.load(tmp_path / "scaled.posse").features.features[0].center == pytest.approx(table["size"].mean())


def test_fit_knows_what_belongs_to_a_task(run, tmp_path):
    out, table = tmp_path / "fleet.posse", tmp_path / "sales.parquet"
    region = pl.col("store").replace_strict({f"store-{i}": ["north", "south"][i % 2] for i in range(6)})
    sales().with_columns(region=region, size=pl.col("store").str.tail(1).cast(pl.Int64)).write_parquet(table)
    done = run("fit", table, *SOLD, "--task-feature", "region", "--task-feature", "size", "--out", out)
    assert done.exit_code == 0, done.output
    fleet = Posse.load(out)
    assert fleet.features.names == ("age", "weather")
    assert fleet.effects()["task"].keys() == {"region", "size"}
    assert fleet.about_task("store-3") == {"region": "south", "size": 3}
    with pytest.raises(InvalidValue, match="got 'country'"):
        run("fit", table, *SOLD, "--task-feature", "country", "--out", out)
    with pytest.raises(InvalidValue, match=r"expected one table .*--task-feature"):
        run("fit", f"{tmp_path}/*.parquet", *SOLD, "--task-feature", "region", "--out", out)


def test_fit_knows_what_belongs_to_a_task_of_clicks(run, tmp_path):
    out, table = tmp_path / "fleet.posse", tmp_path / "visits.parquet"
    rng = np.random.default_rng(1)
    n = 3000
    store, arm = rng.integers(40, size=n), rng.integers(2, size=n)
    rate = np.where(arm == store % 2, 0.4, 0.1)  # what works in the north does not in the south
    frame = {
        "store": [f"store-{i}" for i in store], "offer": [["a", "b"][k] for k in arm], "x": rng.normal(size=n),
        "region": [["north", "south"][i % 2] for i in store], "bought": rng.random(n) < rate,
    }  # fmt: skip
    pl.DataFrame(frame).write_parquet(table)
    columns = ("--task-column", "store", "--arm-column", "offer", "--reward-column", "bought")
    done = run("fit", table, *columns, "--task-feature", "region", "--out", out)
    assert done.exit_code == 0, done.output
    fleet = Posse.load(out)
    assert fleet.rewards == "binary"
    assert fleet.effects()["task"]["region"] > 0.3
    fleet.set_task_features({"new": {"region": "north"}})
    found = fleet.expected("new", {"x": 0.0}).mean
    # 750 visits a region and offer: 0.018 around 0.4, 0.011 around 0.1.
    assert found["a"] == pytest.approx(0.4, abs=0.08)
    assert found["b"] == pytest.approx(0.1, abs=0.05)
    assert "what is known" in run("inspect", out).output
    pl.DataFrame(frame | {"day": np.arange(n) * 60.0}).write_parquet(table)
    drifting = ("--task-feature", "region", "--drift", "30", "--time-column", "day")
    assert run("fit", table, *columns, *drifting, "--out", out).exit_code == 0
    assert Posse.load(out, clock=lambda: n * 60.0).effects()["task"]["region"] > 0.3


def test_fit_takes_the_last_that_a_log_says_about_a_task(run, tmp_path):
    log, out = tmp_path / "log.jsonl", tmp_path / "fleet.posse"
    fleet = Posse(arms=["a", "b"], features=["x"], task_features=["size"], seed=1, log=log)
    fleet.set_task_features({"t": {"size": 1.0}, "u": {"size": 5.0}})
    for task in "tu":
        fleet.reward(fleet.decide(task, [0.5]), 1.0)
    fleet.set_task_features({"t": {"size": 2.0}, "never decided": {"size": 3.0}})
    fleet.reward(fleet.decide("nothing said", [0.5]), 1.0)
    assert run("fit", log, "--task-feature", "size", "--out", out).exit_code == 0
    found = Posse.load(out)
    assert found.features.names == ("x",)
    sizes = {task: found.about_task(task) for task in ("t", "u", "never decided", "nothing said")}
    assert sizes == {"t": {"size": 2.0}, "u": {"size": 5.0}, "never decided": {"size": 3.0}, "nothing said": None}


def test_times_are_used_or_refused(run, tmp_path):
    (tmp_path / "many").mkdir()
    for part in "ab":
        sales().with_columns(time=pl.lit(1e9), reward_time=pl.lit(1e9)).write_parquet(
            tmp_path / "many" / f"{part}.parquet"
        )
    with pytest.raises(InvalidValue, match="expected --time-column with --drift"):
        run("fit", tmp_path / "many", *SOLD, "--drift", "learn", "--out", tmp_path / "fleet.posse")
    drifting = ("--drift", "1", "--time-column", "time", "--ignore", "reward_time", "--missing-reward", "skip")
    assert run("fit", tmp_path / "many", *SOLD, *drifting, "--out", tmp_path / "fleet.posse").exit_code == 0
    assert Posse.load(tmp_path / "fleet.posse", clock=lambda: 1e9).n_rewards > 700
    assert Posse.load(tmp_path / "fleet.posse", clock=lambda: 1e9 + 3 * 86400.0).n_rewards < 600
    rows = [{"task": "t", "arm": "a", "reward": 1.0, "context": {"x": 1}, **time} for time in ({"time": 1e9}, {})]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InvalidValue, match="expected the time of every row with drift, got 1 of 2"):
        run("fit", tmp_path / "log.jsonl", "--drift", "3", "--out", tmp_path / "fleet.posse")


def test_a_fit_that_is_stopped_says_how_to_go_on(run, tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    for name in ("1", "2"):
        sales().write_parquet(tmp_path / "rows" / f"{name}.parquet")
    learn, calls = Posse.learn_many, []

    def stopped(self, table, **settings):
        found = learn(self, table, **settings)
        calls.append(table)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(Posse, "learn_many", stopped)
    out = tmp_path / "fleet.posse"
    result = run("fit", tmp_path / "rows", "--out", out, *SOLD)
    assert result.exit_code == 130
    assert f"posse: stopped; the first {2 * ROWS} rows are in {out}.checkpoint" in result.stderr
    result = run("fit", tmp_path / "rows", "--out", out, *SOLD)
    assert result.exit_code == 0
    assert Posse.load(out).n_rewards == 2 * ROWS - 2
