"""The log that comes with posse: sound, the same everywhere, and true to what it says."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Posse, load_retailer
from posse.cli.main import app
from posse.errors import InvalidValue
from posse.examples import FEATURES, OFFERS, retailer_rates
from posse.logs import check_log, read_log


@pytest.fixture(scope="module")
def log():
    return load_retailer()


def test_the_log_can_be_evaluated(log):
    assert check_log(log) == []
    assert log.frame["propensity"].min() == pytest.approx(0.15)
    assert set(log.frame["reward"]) == {0.0, 1.0}
    assert log.rewards == "binary"


def test_the_same_seed_is_the_same_retailer_and_another_is_another():
    few = load_retailer(50)

    assert few == load_retailer(50)
    assert few != load_retailer(50, seed=1)
    # Pinned, so that answers in the documentation stay as they are.
    assert few.frame["task"].head(3).to_list() == ["store-50", "store-36", "store-10"]


def test_visitors_buy_as_often_as_the_truth_says(log):
    rates = retailer_rates(log.frame["task"], log.contexts)
    shown = rates[np.arange(log.n_rows), [OFFERS.index(arm) for arm in log.frame["arm"]]]

    # The number of purchases has a standard deviation of 39; four of them are a wide margin.
    assert abs(log.frame["reward"].sum() - shown.sum()) < 4 * np.sqrt((shown * (1 - shown)).sum())
    assert rates.max(axis=1).mean() > 1.5 * shown.mean()  # there is something to learn


def test_a_fleet_learns_a_log_as_it_is(log):
    few = load_retailer(300)
    fleet = Posse(OFFERS, FEATURES, seed=1)

    assert fleet.learn_many(few) == 300
    assert pl.DataFrame(few).equals(few.frame)


def test_refused():
    with pytest.raises(InvalidValue, match="n_decisions"):
        load_retailer(0)


@pytest.mark.parametrize("name", ["retailer.jsonl", "retailer.parquet"])
def test_the_command_writes_the_same_log(tmp_path, name):
    done = CliRunner().invoke(app, ["log", "example", str(tmp_path / name), "--decisions", "200"])

    assert done.exit_code == 0, done.output
    assert read_log(tmp_path / name) == load_retailer(200)
    assert read_log(tmp_path / name).rewards == "binary"
