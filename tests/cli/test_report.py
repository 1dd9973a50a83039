import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Posse
from posse.cli.main import app
from posse.errors import InvalidValue


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
    assert "comparing with other ways to decide" in done.output  # what takes its time is named
    text = page.read_text("utf-8")
    assert "over-rule" in text
    assert "\N{NO-BREAK SPACE}€" in text
    expected = Posse.load(fleet).expected_many().drop("row")
    assert pl.read_csv(table)["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy())


def test_a_log_alone(saved, tmp_path):
    done = run("--log", saved[1], "--out", tmp_path / "report.html")

    assert done.exit_code == 0
    assert "one was learned from the log" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"), [((), "FLEET --log LOG"), (("FLEET", "--rule", "uniform"), "pass --log")]
)
def test_what_is_missing_is_named(saved, arguments, says):
    with pytest.raises(InvalidValue, match=says):
        run(*(saved[0] if part == "FLEET" else part for part in arguments))
