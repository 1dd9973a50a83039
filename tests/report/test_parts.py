"""Which arm is best, which task is unusual, and what is gained: each beside another way to the number."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse, load_retailer
from posse.errors import InvalidValue
from posse.features import one_hot
from posse.fleet.expecting import expected_rates
from posse.logs import Log
from posse.offline import Always, Learned, Logged, LoggedBandit, Uniform, evaluate
from posse.report import make_report
from posse.report.best import best_of, unusual_tasks
from posse.report.gains import BestArm, gains_of
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

    fleet = fleet_of(few)
    report = make_report(fleet)

    own = {report.best.tasks[task]: share for task, share in zip(report.listed, report.own_share, strict=True)}
    assert own["store-5"] == min(own.values())
    assert own == pytest.approx({task.task: task.own_share for task in fleet.overview(100).tasks})  # as inspect has it
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


def test_what_a_new_task_may_expect_is_what_inspect_says():
    log = load_retailer(1500)
    fleet = Posse(log.arms, log.features, rewards="binary", seed=1)
    fleet.learn_many(log)
    best = best_of(fleet)

    rates = expected_rates(fleet)

    for place, arm in enumerate(best.arms):
        found = best.new_mean[place], best.new_low[place], best.new_high[place]
        assert found == pytest.approx(tuple(rates[arm]), rel=1e-9)


def test_gains_are_those_of_an_evaluation(log):
    found = gains_of(log, rule=Always("cake"), seed=3)

    targets = {
        "learned": Learned("ebm-rand-ucb"), "rule": Always("cake"), "random": Uniform(), "one-arm": Always("tea")
    }  # fmt: skip
    asked = evaluate(log, list(targets.values()), against=Logged(), estimators=("dr",), seed=3)
    ways = {way.way: way for way in found.ways}
    for way, target in targets.items():
        for told, table in ((ways[way].value, asked.table), (ways[way].uplift, asked.differences)):
            row = table.filter(target=target.name).to_dicts()[0]
            assert (told.value, told.low, told.high) == pytest.approx((row["value"], row["low"], row["high"]))
    assert found.earned.value == pytest.approx(log.frame["reward"].mean())
    assert found.logged.value + found.learned.uplift.value == pytest.approx(found.learned.value.value)
    assert ways["one-arm"].name == "tea"
    # Played at random, so random play is the same, and the best arm for all would have earned more.
    assert ways["random"].uplift.value == pytest.approx(0.0, abs=1e-9)
    assert ways["one-arm"].uplift.low > 0


def test_the_best_of_many_equal_arms_is_not_judged_by_the_rewards_it_was_picked_by():
    cheated, uplifts = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, arms = 2400, [f"arm {k}" for k in range(20)]
        log = Log(
            {
                "task": [f"t{j}" for j in rng.integers(15, size=n)],
                "arm": [arms[k] for k in rng.integers(20, size=n)],
                "reward": rng.normal(size=n),
                "propensity": [0.05] * n,
            }
        )
        cheated.append(log.frame.group_by("arm").agg(pl.col("reward").mean())["reward"].max())
        uplifts.append(next(way for way in gains_of(log).ways if way.way == "one-arm").uplift.value)

    assert np.mean(cheated) > 0.14
    assert np.mean(uplifts) < 0.07  # the truth is 0, with a standard error of 0.04


def test_where_the_best_arm_is_not_eligible_the_next_best_is_taken(log):
    data = LoggedBandit.from_log(log)
    tea = data.arm_labels.index("tea")
    eligible = np.ones((data.n_rows, 3), dtype=bool)
    eligible[::7, tea] = data.arms[::7] == tea

    taken = BestArm().probabilities(replace(data, eligible=eligible, probabilities=None)).argmax(axis=1)

    assert (taken[eligible[:, tea]] == tea).all()
    assert (taken[~eligible[:, tea]] == data.arm_labels.index("cake")).all()


def test_a_rule_may_be_a_function_of_the_log(log):
    def take_cake(data):
        return np.tile([label == "cake" for label in data.arm_labels], (data.n_rows, 1)).astype(float)

    by_function, by_target = (
        next(way for way in gains_of(log, rule=rule).ways if way.way == "rule") for rule in (take_cake, Always("cake"))
    )

    assert by_function.name == "take_cake"
    assert by_function.uplift == by_target.uplift


def test_a_log_without_propensities_is_refused_with_the_reason(log_of):
    log = log_of(300, propensities=False)
    found = gains_of(log)

    assert found.earned.value == pytest.approx(log.frame["reward"].mean())
    for way in found.ways:
        assert not way.known
        assert any("no propensities" in refusal.reason for refusal in way.refusals)


def test_a_log_without_rewards_is_refused(log_of):
    empty = Log(log_of(100).frame.with_columns(reward=pl.lit(None, dtype=pl.Float64)))

    found = gains_of(empty)

    assert all(way.refusals for way in found.ways)


def test_a_rule_that_is_no_rule_is_an_error(log):
    with pytest.raises(InvalidValue, match="expected a target"):
        gains_of(log, rule="always")


def test_numbers_have_as_many_decimals_as_their_intervals_need():
    assert Words.for_widths(np.array([0.0042])).plain(0.01131) == "0.0113"
    assert Words.for_widths(np.array([250.0])).plain(1234.56) == "1,235"
    assert Words.for_widths(np.array([np.inf, 0.0])).plain(-0.001) == "0.00"
    assert Words.for_widths(np.array([0.023]), percent=True).reward(0.15298) == "15.3\N{NO-BREAK SPACE}%"
