import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Posse, load_retailer
from posse.cli.main import app
from posse.errors import InvalidValue
from posse.logs import write_log


@pytest.fixture
def saved(tmp_path):
    """A fleet with its log."""
    path = tmp_path / "log.jsonl"
    fleet = Posse(["a", "b"], ["x"], seed=3, floor=0.2, log=path)
    rng = np.random.default_rng(0)
    for _ in range(4):
        made = fleet.decide_many(
            [f"t{j}" for j in rng.integers(12, size=100)], pl.DataFrame({"x": rng.normal(size=100)})
        )
        fleet.reward_many(made.ids, (made.chosen + rng.normal(size=100)).tolist())
    fleet.save(tmp_path / "fleet.posse")
    return tmp_path / "fleet.posse", path


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)


def test_a_page_and_a_table_from_a_fleet_and_its_log(saved, tmp_path):
    fleet, log = saved
    page, table = tmp_path / "report.html", tmp_path / "table.csv"

    done = run(fleet, "--log", log, "--out", page, "--csv", table, "--unit", "€", "--rule", "always:a")

    assert done.exit_code == 0
    assert f"wrote {page}" in done.output
    text = page.read_text("utf-8")
    assert "always a" in text
    assert "\N{NO-BREAK SPACE}€" in text
    expected = Posse.load(fleet).expected_many().drop("row")
    assert pl.read_csv(table)["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy())


def test_a_log_alone_in_the_owners_words(saved, tmp_path):
    page = tmp_path / "report.html"
    done = run("--log", saved[1], "--out", page, "--task-name", "city", "--arm-name", "price", "--reward-name", "tip")

    assert done.exit_code == 0
    text = page.read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "12 cities, 2 prices" in text
    assert "Which price is best where" in text


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_clicks_are_reported_as_rates(tmp_path, kind):
    log = load_retailer(400)
    table = log.contexts.with_columns(shop=log.frame["task"], offer=log.frame["arm"], bought=log.frame["reward"])
    path, out, csv = tmp_path / f"log.{kind}", tmp_path / "report.html", tmp_path / "table.csv"
    columns = ["--task-column", "shop", "--arm-column", "offer", "--reward-column", "bought"]
    if kind == "jsonl":  # it says so itself
        write_log(log, path)
        columns = []
    elif kind == "parquet":
        table.with_columns(pl.col("bought") == 1).write_parquet(path)
    else:
        table.write_csv(path)
        columns += ["--rewards", "binary"]

    assert run("--log", path, "--out", out, "--csv", csv, *columns).exit_code == 0

    rates = pl.read_csv(csv)
    assert rates.height == 4 * log.frame["task"].n_unique()
    assert 0 < rates["low"].min() < rates["high"].max() < 1


def test_rewards_are_those_of_the_fleet(saved, tmp_path):
    with pytest.raises(InvalidValue, match="expected --rewards number, as the fleet's, or none, got 'binary'"):
        run(saved[0], "--log", saved[1], "--out", tmp_path / "report.html", "--rewards", "binary")
    pl.DataFrame({"task": ["a"], "arm": ["x"], "reward": [1.0]}).write_csv(tmp_path / "table.csv")
    with pytest.raises(InvalidValue, match=r"expected --propensity-column to be a column of .*, got 'p'"):
        run("--log", tmp_path / "table.csv", "--out", tmp_path / "report.html", "--propensity-column", "p")


@pytest.mark.parametrize(
    ("arguments", "says"), [((), "FLEET --log LOG"), (("FLEET", "--rule", "uniform"), "pass --log")]
)
def test_what_is_missing_is_named(saved, arguments, says):
    with pytest.raises(InvalidValue, match=says):
        run(*(saved[0] if part == "FLEET" else part for part in arguments))
