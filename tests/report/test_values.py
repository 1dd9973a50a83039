"""A report of a fleet with values and costs speaks of money."""

import numpy as np
import pytest

from posse import Posse
from posse.logs import Log, read_log
from posse.report import make_report
from posse.report.best import best_of
from posse.report.lead import lead_of
from posse.report.over_time import over_time
from posse.report.segments import segments_of

ARMS = ("coffee", "sandwich", "cake")
VALUES = {"coffee": 1.6, "sandwich": 2.8, "cake": 0.9}
COSTS = {"coffee": 0.05}
RATES = {"coffee": 0.5, "sandwich": 0.2, "cake": 0.6}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A fleet that has learned from decisions at random, and the path of its log."""
    path = tmp_path_factory.mktemp("report") / "log.jsonl"
    rng = np.random.default_rng(1)
    fleet = Posse(
        ARMS, ["hour"], seed=2, rewards="binary", values=VALUES, costs=COSTS, floor=1 / 3, log=path, clock=lambda: 1e9
    )
    tasks = [f"t{task}" for task in rng.integers(0, 25, 3000)]
    decisions = fleet.decide_many(tasks, rng.normal(size=(3000, 1)))
    fleet.reward_many(decisions, [float(rng.random() < RATES[arm]) for arm in decisions.arm])
    return fleet, path


def test_the_best_arm_is_the_one_that_earns_most(shop):
    fleet, path = shop
    best = best_of(fleet)
    rows = fleet.expected_many().sort("row", maintain_order=True)
    np.testing.assert_allclose(best.mean, rows["worth"].to_numpy().reshape(-1, 3))
    np.testing.assert_allclose(best.probability, rows["probability_best"].to_numpy().reshape(-1, 3))
    value, cost = np.array(list(VALUES.values())), np.array([0.05, 0.0, 0.0])
    np.testing.assert_allclose(best.low, value * rows["low"].to_numpy().reshape(-1, 3) - cost)
    assert set(best.arm.tolist()) == {0}  # cake is bought more often
    assert {segment.arm for segment in segments_of(fleet, read_log(path))} == {"coffee"}


@pytest.mark.parametrize("of", ["fleet", "log", "fleet and a log without prices"])
def test_gains_are_money(shop, of):
    fleet, path = shop
    log = read_log(path)
    if "without" in of:
        log = Log(log.frame.drop("values", "costs"), rewards="binary")
    report = make_report(fleet if "fleet" in of else None, log, unit="€")
    assert report.values == VALUES
    assert report.costs == {"coffee": 0.05, "sandwich": 0.0, "cake": 0.0}
    frame = log.frame
    earned = frame["arm"].replace_strict(VALUES) * frame["reward"] - 0.05 * (frame["arm"] == "coffee")
    assert report.gains.earned.value == pytest.approx(earned.mean())
    assert report.gains.variance == pytest.approx(earned.to_numpy().var())
    assert report.gains.learned.value.value == pytest.approx(0.75, abs=0.06)
    assert "€ per decision" in lead_of(report).headline.replace("\N{NO-BREAK SPACE}", " ")
    assert "coffee</bdi> 1.6 less 0.05" in report.html()


def test_a_fleet_without_prices_is_reported_in_rewards(shop):
    _, path = shop
    fleet = Posse(ARMS, ["hour"], seed=2, rewards="binary")
    fleet.learn_many(read_log(path))
    report = make_report(fleet, read_log(path))
    assert report.gains.earned.value == pytest.approx(read_log(path).frame["reward"].mean())
    assert "%" in lead_of(report).headline
    assert report.costs is None


def test_exploring_is_weighed_in_money(shop):
    fleet, path = shop
    one = make_report(fleet, read_log(path)).stopping
    fleet.set_values({arm: 100 * value for arm, value in VALUES.items()}, {"coffee": 5.0})
    other = make_report(fleet, read_log(path)).stopping
    fleet.set_values(VALUES, {"coffee": 0.05})
    np.testing.assert_allclose(other.advantage, 100 * one.advantage)
    np.testing.assert_allclose(other.gain, 100 * one.gain, rtol=1e-6, atol=1e-9)


def test_what_was_earned_over_time_is_money(shop):
    _, path = shop
    log = read_log(path)
    frame = log.frame
    earned = frame["arm"].replace_strict(VALUES) * frame["reward"] - 0.05 * (frame["arm"] == "coffee")
    assert over_time(log, list(ARMS)).earned[0] == pytest.approx(earned.mean())
    plain = Log(frame.drop("values", "costs"))
    assert over_time(plain, list(ARMS)).earned[0] == pytest.approx(frame["reward"].mean())
