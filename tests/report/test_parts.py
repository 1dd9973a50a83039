"""Which arm is best, which task is unusual, and what deciding has gained: each beside another way to the number."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.errors import InvalidValue
from posse.features import one_hot
from posse.logs import Log
from posse.offline import Always, Logged, Uniform, evaluate
from posse.report.best import best_of
from posse.report.gains import gains_of
from posse.report.unusual import unusual_tasks
from posse.report.words import Words


def test_best_is_what_expected_many_says(fleet):
    best, table = best_of(fleet), fleet.expected_many()

    for name, values in {
        "mean": best.mean,
        "low": best.low,
        "high": best.high,
        "probability_best": best.probability,
    }.items():
        assert_allclose(values.ravel(), table[name])
    assert best.rewards.sum() == fleet.n_rewards
    highest = table.group_by("task", maintain_order=True).agg(pl.col("arm").get(pl.col("mean").arg_max()))
    assert [best.arms[arm] for arm in best.arm] == highest["arm"].to_list()


def test_a_task_stands_on_its_own_rewards_the_more_it_has(fleet_of, log_of):
    few = Log(log_of(1500).frame.filter((pl.col("task") != "store-5") | (pl.int_range(pl.len()) % 50 == 0)))

    best = best_of(fleet_of(few))

    own = dict(zip(best.tasks, best.own_share, strict=True))
    assert own["store-5"] == min(own.values())
    assert all(0 <= share <= 1 for share in own.values())
    assert np.median(list(own.values())) > 0.8


def test_only_a_task_far_out_is_unusual(fleet_of, log_of):
    log = log_of(2500, n_tasks=25)
    odd = (pl.col("task") == "store-3") & (pl.col("arm") == "cake")
    level, slope = 9.0 * odd, 9.0 * odd * (0.4 + pl.col("context").struct.field("hour"))

    for added, feature in ((level, None), (slope, "hour")):
        fleet = fleet_of(Log(log.frame.with_columns(reward=pl.col("reward") + added)))
        found = unusual_tasks(fleet, best_of(fleet))
        assert [(one.task, one.arm, one.feature) for one in found] == [("store-3", "cake", feature)]
        assert found[0].mean > found[0].typical + 0.5
    usual = fleet_of(log)
    assert unusual_tasks(usual, best_of(usual)) == []


def test_a_level_that_is_spread_over_categories_is_a_level(log_of):
    log = log_of(2500, n_tasks=25)
    rain = pl.Series(["sun", "rain"] * 1250)
    odd = (pl.col("task") == "store-3") & (pl.col("arm") == "cake")
    table = log.frame.with_columns(rain.alias("weather"), reward=pl.col("reward") + 9.0 * odd).drop("context")
    fleet = Posse(log.arms, [one_hot("weather", ["sun", "rain"])], seed=1)
    fleet.learn_many(table)

    assert [one.feature for one in unusual_tasks(fleet, best_of(fleet))] == [None]


def test_few_tasks_have_no_population_to_be_far_from(fleet_of, log_of):
    fleet = fleet_of(log_of(300, n_tasks=4))

    assert unusual_tasks(fleet, best_of(fleet)) == []


def test_gains_are_differences_of_the_evaluation(log):
    found = gains_of(log, one_arm="tea", rule=Always("cake"))

    raw_route = evaluate(
        log, [Uniform(), Always("tea"), Always("cake")], against=Logged(), estimators=("dr",), confidence=0.9
    )
    gains = {gain.over: gain for gain in found.gains}
    for over, target in (("random", "uniform"), ("one-arm", "always tea"), ("rule", "always cake")):
        row = raw_route.differences.filter(target=target).to_dicts()[0]
        assert gains[over].gain.value == pytest.approx(-row["value"])
        assert (gains[over].gain.low, gains[over].gain.high) == pytest.approx((-row["high"], -row["low"]))
        assert gains[over].gain.positive == pytest.approx(1 - row["positive"])
    assert found.earned.value == pytest.approx(log.frame["reward"].mean())
    # Played at random, so random play is the same, and the best arm for all would have earned more.
    assert gains["random"].gain.value == pytest.approx(0.0, abs=1e-9)
    assert gains["one-arm"].gain.high < 0


def test_a_rule_may_be_a_function_of_the_log(log):
    def take_cake(data):
        return np.tile([label == "cake" for label in data.arm_labels], (data.n_rows, 1)).astype(float)

    by_function, by_target = gains_of(log, rule=take_cake), gains_of(log, rule=Always("cake"))

    assert [gain.name for gain in by_function.gains] == ["uniform", "take_cake", "learned alone"]
    assert by_function.gains[1].gain == by_target.gains[1].gain


def test_learning_together_gains_where_tasks_have_few_rows(log_of):
    # Eight arms, three rows each: alone, a task hardly knows its arms.
    arms = tuple(f"arm {k}" for k in range(8))

    found = gains_of(log_of(1500, n_tasks=60, arms=arms, seed=4))

    assert found.gains[-1].over == "alone"
    assert found.gains[-1].gain.low > 0


def test_a_log_without_propensities_is_refused_with_the_reason(log_of):
    found = gains_of(log_of(300, propensities=False), one_arm="tea")

    assert [gain.over for gain in found.gains] == ["random", "one-arm", "alone"]
    for gain in found.gains:
        assert np.isnan(gain.gain.value)
        assert any("no propensities" in refusal.reason for refusal in gain.refusals)


def test_a_log_without_rewards_is_refused(log_of):
    empty = Log(log_of(100).frame.with_columns(reward=pl.lit(None, dtype=pl.Float64)))

    found = gains_of(empty)

    assert all(gain.refusals for gain in found.gains)


def test_a_rule_that_is_no_rule_is_an_error(log):
    with pytest.raises(InvalidValue, match="a target must be"):
        gains_of(log, rule="always")


def test_numbers_have_as_many_decimals_as_their_intervals_need():
    assert Words.for_widths(np.array([0.0042])).plain(0.01131) == "0.0113"
    assert Words.for_widths(np.array([250.0])).plain(1234.56) == "1,235"
    assert Words.for_widths(np.array([np.inf, 0.0])).plain(-0.001) == "0.00"
    assert Words(2, "€").total(-0.0568) == "−0.0568\N{NO-BREAK SPACE}€"
