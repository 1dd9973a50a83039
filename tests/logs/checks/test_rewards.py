from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from posse.logs import Log, check_log

NAMES = {
    "no-rewards",
    "reward-missing",
    "reward-not-finite",
    "reward-constant",
    "reward-not-of-family",
    "reward-missing-by-arm",
    "reward-censored",
    "reward-before-decision",
    "reward-time-without-reward",
    "reward-late",
}


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code in NAMES}


def without(log, mask):
    """The log with some rewards forgotten."""
    gone = [pl.when(mask).then(None).otherwise(pl.col(name)).alias(name) for name in ("reward", "reward_time")]
    return Log(log.frame.with_columns(*gone))


def test_a_clean_log_says_how_many_are_missing(make_log):
    assert {code: finding.severity for code, finding in found(make_log(n_rows=2000)).items()} == {
        "reward-missing": "note"
    }
    assert found(make_log(n_rows=2000, missing=0)) == {}


def test_many_are_missing(make_log):
    finding = found(make_log(missing=0.3))["reward-missing"]

    assert finding.severity == "warning"
    assert finding.message.startswith("rewards that are not known (")


def test_all_are_missing(spoiled):
    log = spoiled(pl.lit(None).alias("reward"))

    assert {code: finding.severity for code, finding in found(log).items()} == {
        "no-rewards": "error",
        "reward-time-without-reward": "note",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_rewards_that_are_no_numbers(spoiled, at_rows, value):
    finding = found(spoiled(at_rows("reward", [9, 10], pl.lit(value))))["reward-not-finite"]

    assert (finding.severity, finding.rows, finding.example) == ("error", 2, "row 9, decision 'decision-9'")


def test_rewards_that_are_all_the_same(spoiled):
    finding = found(spoiled(pl.col("reward") * 0 + 1))["reward-constant"]

    assert finding.severity == "warning"
    assert finding.message.startswith("every reward is 1")


def test_rewards_that_are_missing_for_one_arm(make_log):
    log = make_log(n_rows=1500, missing=0)
    chance = pl.Series(np.random.default_rng(1).uniform(size=1500))
    share = pl.when(pl.col("arm") == "arm-1").then(0.4).otherwise(0.1)

    finding = found(without(log, chance < share))["reward-missing-by-arm"]

    assert finding.severity == "warning"
    assert "of arm 'arm-1', but for" in finding.message


def test_differences_that_are_certain_but_small_do_not_matter():
    n_rows = 400_000
    arms = np.arange(n_rows) % 2
    known = np.random.default_rng(2).uniform(size=n_rows) > np.where(arms, 0.05, 0.06)
    rewards = pl.Series(np.arange(n_rows) % 3, dtype=pl.Float64).set(pl.Series(~known), None)

    log = Log({"task": arms, "arm": arms, "reward": rewards, "propensity": np.full(n_rows, 0.5)})

    assert "reward-missing-by-arm" not in found(log)


def test_recent_decisions_that_still_wait(make_log):
    log = make_log(n_rows=1000, missing=0.01)
    recent = pl.int_range(pl.len()) > 940

    finding = found(without(log, recent))["reward-censored"]

    assert (finding.severity, finding.rows) == ("warning", 59 + log.frame["reward"][900:941].null_count())
    assert finding.example == "row 941, decision 'decision-941'" or finding.rows > 59


def test_recent_means_by_time_and_not_by_row(make_log):
    log = make_log(n_rows=1000, missing=0.01)
    late = without(log, pl.int_range(pl.len()) > 940)

    assert "reward-censored" in found(Log(late.frame.sample(fraction=1, shuffle=True, seed=1)))
    # Old decisions that were lost are another matter.
    assert "reward-censored" not in found(without(log, pl.int_range(pl.len()) < 60))


def test_rewards_from_before_the_decision(spoiled, at_rows):
    finding = found(spoiled(at_rows("reward_time", [4], pl.col("time") - timedelta(seconds=1)), missing=0))[
        "reward-before-decision"
    ]

    assert (finding.severity, finding.rows, finding.example) == ("error", 1, "row 4, decision 'decision-4'")


def test_times_of_rewards_that_are_not_there(spoiled, at_rows):
    finding = found(spoiled(at_rows("reward", [4], pl.lit(None)), missing=0))["reward-time-without-reward"]

    assert (finding.severity, finding.rows) == ("note", 1)


def test_rewards_that_come_long_after(spoiled, make_log):
    times = make_log(missing=0).frame["time"]
    hours = (times.max() - times.min()).total_seconds() / 3600
    late = found(spoiled((pl.col("time") + timedelta(hours=hours / 4)).alias("reward_time"), missing=0))["reward-late"]

    assert late.severity == "note"
    assert f"comes more than {hours / 4:.1f} hours after its decision, in a log of {hours:.1f} hours" in late.message


@pytest.mark.parametrize(("family", "wrong"), [("number", 0), ("binary", 3), ("count", 2)])
def test_rewards_that_the_family_of_the_log_does_not_have(make_log, family, wrong):
    log = make_log(missing=0)
    rewards = [0.5, -1.0, 2.0] + [0.0, 1.0] * (log.n_rows // 2)
    odd = Log(log.frame.with_columns(reward=pl.Series(rewards[: log.n_rows])), rewards=family)

    finding = found(odd).get("reward-not-of-family")

    assert (0 if finding is None else finding.rows) == wrong
    assert finding is None or (finding.severity == "error" and finding.example.startswith("row 0"))
