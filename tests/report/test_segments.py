"""Which arm is best in which situations, against averages taken by hand."""

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.features import FeatureSpec, numeric, one_hot
from posse.logs import Log
from posse.report.over_time import over_time
from posse.report.segments import segments_of


@pytest.fixture(scope="module")
def shop():
    """A fleet and its log: coffee when it rains, cake when not, both better late in the day."""
    rng = np.random.default_rng(3)
    n = 600
    frame = pl.DataFrame(
        {
            "task": [f"store-{k % 5}" for k in range(n)],
            "arm": rng.choice(["coffee", "cake"], n),
            "time": [f"2026-01-{1 + k // 60:02d}T10:00:00Z" for k in range(n)],
            "hour": rng.uniform(0, 24, n),
            "weather": rng.choice(["sun", "rain"], n, p=[0.75, 0.25]),
        }
    )
    right = (frame["arm"] == "coffee") == (frame["weather"] == "rain")
    reward = right.cast(pl.Float64).to_numpy() + frame["hour"].to_numpy() / 24 + rng.normal(0, 0.1, n)
    frame = frame.with_columns(reward=pl.Series(reward))
    spec = FeatureSpec([numeric("hour"), one_hot("weather", ["sun", "rain"])])
    fleet = Posse(["coffee", "cake"], spec, seed=1)
    fleet.learn_many(frame.drop("time"))
    context = pl.struct("hour", "weather").alias("context")
    return fleet, Log(frame.select("task", "arm", "time", "reward", context))


def test_the_best_arm_of_a_segment_is_that_of_its_average(shop):
    fleet, log = shop
    found = {(one.feature, one.value): one for one in segments_of(fleet, log) if one.value is not None}
    assert (found["weather", "rain"].arm, found["weather", "sun"].arm) == ("coffee", "cake")
    rain = log.frame.filter(log.contexts["weather"] == "rain")
    table = fleet.expected_many(rain["task"].to_list(), rain["context"].struct.unnest())
    means = {arm: part["mean"].mean() for (arm,), part in table.group_by("arm")}
    assert found["weather", "rain"].mean == pytest.approx(means["coffee"])
    assert found["weather", "rain"].ahead == pytest.approx(means["coffee"] - means["cake"])
    best = table.filter(pl.col("arm") == "coffee")["probability_best"].mean()
    assert found["weather", "rain"].probability == pytest.approx(best)
    assert found["weather", "rain"].share == pytest.approx(rain.height / log.n_rows)


def test_a_number_is_cut_into_ranges_that_hold_every_decision_once(shop):
    fleet, log = shop
    ranges = [one for one in segments_of(fleet, log) if one.feature == "hour"]
    assert len(ranges) == 4
    assert sum(one.share for one in ranges) == pytest.approx(1.0)
    assert [one.high for one in ranges[:-1]] == [one.low for one in ranges[1:]]
    assert [one.mean for one in ranges] == sorted(one.mean for one in ranges)


def test_a_log_of_other_features_has_no_segments(shop):
    fleet, log = shop
    assert segments_of(fleet, Log(log.frame.drop("context"))) == []


def test_shares_and_means_over_time_are_those_of_the_rows(shop):
    _, log = shop
    frame = log.frame.with_columns(
        reward=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col("reward"))  # one that is not known
    )
    found = over_time(Log(frame), ["cake", "coffee", "tea"])
    assert found.bin_seconds == 6 * 3600  # the shortest in which ten days are at most 40 stretches
    assert found.start.size == 10
    for day, part in enumerate(frame.group_by("time", maintain_order=True)):
        rows = part[1]
        for k, arm in enumerate(("cake", "coffee")):
            of_arm = rows.filter(pl.col("arm") == arm)
            assert found.decisions[day, k] == of_arm.height
            assert found.mean[day, k] == pytest.approx(of_arm["reward"].mean())
        known = rows["reward"].drop_nulls()
        assert found.earned[day] == pytest.approx(known.mean())
        reach = 1.6448536 * known.std() / np.sqrt(len(known))
        assert found.high[day] - found.earned[day] == pytest.approx(reach, rel=1e-6)
    assert np.isnan(found.mean[:, 2]).all()
    assert over_time(Log(frame.drop("time")), ["cake"]).start.size == 0
