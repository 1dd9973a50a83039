import numpy as np
import polars as pl
import pytest

from posse.logs import Log, check_log

N_ROWS = 300


def found(log, **settings):
    codes = ("feature-", "no-features")
    return {finding.code: finding for finding in check_log(log, **settings) if finding.code.startswith(codes)}


def with_feature(values, reward=None):
    rng = np.random.default_rng(4)
    n_rows = len(values)
    columns = {"x": pl.Series(values, strict=False), "other": pl.Series(rng.normal(size=n_rows))}
    return Log(
        {
            "task": rng.integers(10, size=n_rows),
            "arm": rng.integers(2, size=n_rows),
            "propensity": [0.5] * n_rows,
            "reward": rng.normal(size=n_rows) if reward is None else reward,
            "context": pl.DataFrame(columns).to_struct(),
        }
    )


def test_a_clean_log_has_gaps_at_most(make_log):
    assert {code: finding.severity for code, finding in found(make_log()).items()} == {"feature-missing": "note"}
    assert found(make_log(), features=["age", "hour", "member"]) == {}


def test_features_that_are_not_there(make_log):
    finding = found(make_log(), features=["age", "height"])["feature-absent"]

    assert (finding.severity, finding.rows) == ("error", 600)
    assert finding.message == "no row has 'height'"
    assert finding.what_to_do == "the features of the log are 'age', 'hour', 'city', 'member'"


def test_no_features():
    assert found(Log({"task": [1], "arm": [1], "reward": [1.0]}))["no-features"].severity == "note"


@pytest.mark.parametrize(("missing", "severity"), [(10, "note"), (200, "warning"), (N_ROWS, "warning")])
def test_gaps(missing, severity):
    finding = found(with_feature([None] * missing + [float(row) for row in range(N_ROWS - missing)]))["feature-missing"]

    assert (finding.severity, finding.rows) == (severity, missing)
    assert "feature 'x'" in finding.message


def test_numbers_that_are_none():
    finding = found(with_feature([float("nan"), float("inf")] + [1.0, 2.0] * 149))["feature-not-finite"]

    assert (finding.severity, finding.rows, finding.example) == ("error", 2, "row 0")


@pytest.mark.parametrize("value", [1.0, 7, "Rome", True])
def test_constants(value):
    finding = found(with_feature([value] * N_ROWS))["feature-constant"]

    assert finding.severity == "note"
    assert finding.message == f"feature 'x' is {value!r} in every row"


def test_numbers_among_text():
    finding = found(with_feature(["1", "2.5", "unknown"] * 100))["feature-type-changes"]

    assert (finding.severity, finding.rows) == ("warning", 200)
    assert "feature-type-changes" not in found(with_feature(["1", "2", "3"] * 100))
    assert "feature-type-changes" not in found(with_feature(["a1", "2b", "c"] * 100))


@pytest.mark.parametrize(
    "leak",
    [
        lambda reward: reward,
        lambda reward: -3 * reward + 1e-3 * np.random.default_rng(1).normal(size=reward.size),
    ],
)
def test_numbers_that_know_the_reward(leak):
    reward = np.random.default_rng(0).normal(size=N_ROWS)

    finding = found(with_feature(leak(reward), reward))["feature-leak"]

    assert finding.severity == "warning"
    assert finding.message.startswith("feature 'x' says the reward (correlation 1.0000)")


def test_categories_and_truth_that_know_the_reward():
    clicked = np.random.default_rng(0).uniform(size=N_ROWS) < 0.3
    reward = clicked.astype(float)

    assert "feature-leak" in found(with_feature(clicked, reward))
    assert "feature-leak" in found(with_feature(np.where(clicked, "page 2", "page 1"), reward))


def test_features_that_only_help_to_predict_it():
    rng = np.random.default_rng(0)
    reward = rng.normal(size=N_ROWS)

    assert "feature-leak" not in found(with_feature(reward + 0.2 * rng.normal(size=N_ROWS), reward))
    # A name per row says every reward, and nothing about the next.
    assert "feature-leak" not in found(with_feature([f"user-{row}" for row in range(N_ROWS)], reward))
    assert "feature-leak" not in found(with_feature(reward[:20], reward[:20]))
