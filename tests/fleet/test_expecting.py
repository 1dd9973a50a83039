"""What is expected of many tasks at once: the numbers of ``expected``, and the probability of being best."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from posse import FeatureSpec, Posse
from posse.errors import InvalidValue
from posse.fleet.expecting import BORROWED_CONTEXTS, average_contexts, expected_rates, probability_best

CONTEXTS = pl.DataFrame({"a": [0.3, -1.2, 2.0], "b": [1.0, 0.4, -0.7]})
TASKS = ["t1", "t4", "a task never seen"]


def test_rows_are_what_expected_says_of_each(fleet_of):
    fleet = fleet_of(200)

    found = fleet.expected_many(TASKS, CONTEXTS, confidence=0.8)

    assert found.columns == ["row", "task", "arm", "mean", "low", "high", "probability_best"]
    for row, (task, context) in enumerate(zip(TASKS, CONTEXTS.to_dicts(), strict=True)):
        expected, mine = fleet.expected(task, context), found.filter(row=row)
        mean, sd = np.array(list(expected.mean.values())), np.array(list(expected.sd.values()))
        assert mine["task"].to_list() == [task] * 3
        assert tuple(mine["arm"]) == fleet.arms
        assert_allclose(mine["mean"], mean)
        assert_allclose(mine["low"], mean - norm.ppf(0.9) * sd)
        assert_allclose(mine["high"], mean + norm.ppf(0.9) * sd)
        assert_allclose(mine["probability_best"], probability_best(mean[None], sd[None])[0])


def test_tasks_may_be_a_column(fleet_of):
    fleet = fleet_of(200)

    by_column = fleet.expected_many("shop", CONTEXTS.with_columns(shop=pl.Series(TASKS)))

    assert by_column.equals(fleet.expected_many(TASKS, CONTEXTS))


def test_the_probability_of_being_best_of_two_is_that_of_their_difference():
    mean, sd = np.array([[0.3, 0.5], [-2.0, -2.1]]), np.array([[0.2, 0.7], [0.01, 0.05]])

    found = probability_best(mean, sd)

    first = norm.cdf((mean[:, 0] - mean[:, 1]) / np.hypot(*sd.T))
    assert_allclose(found, np.column_stack([first, 1 - first]), atol=1e-6)


def test_the_probability_of_being_best_of_many_is_how_often_draws_say_so():
    rng = np.random.default_rng(3)
    mean, sd = rng.normal(size=(1, 6)), rng.uniform(0.2, 2.0, size=(1, 6))
    draws = rng.normal(mean, sd, size=(200_000, 6)).argmax(axis=1)

    # Six standard errors of a share of 200,000 draws.
    assert_allclose(probability_best(mean, sd)[0], np.bincount(draws, minlength=6) / draws.size, atol=6 * 0.5 / 447)


def test_without_contexts_a_task_stands_at_its_average_context(fleet_of, table):
    fleet, rows = fleet_of(0), table(90).filter(pl.col("task") != "t3")
    fleet.learn_many(rows)

    found = fleet.expected_many(["t2", "t3"])

    total = rows.select(pl.col("a", "b").mean()).row(0)
    own = rows.filter(task="t2").select("a", "b")
    ten = BORROWED_CONTEXTS
    at = [(own[name].sum() + ten * whole) / (own.height + ten) for name, whole in zip("ab", total, strict=True)]
    assert_allclose(average_contexts(fleet, ["t2", "t3"]), [[1.0, *at], [1.0, *total]])
    assert_allclose(found["mean"][:3], list(fleet.expected("t2", at).mean.values()))
    assert_allclose(found["mean"][3:], list(fleet.expected("t3", list(total)).mean.values()))


def test_by_default_all_tasks_are_there_and_retired_arms_are_not(fleet_of):
    fleet = fleet_of(100)
    fleet.retire_arm("green")

    found = fleet.expected_many()

    assert tuple(found["task"].unique(maintain_order=True)) == fleet.tasks
    assert found["arm"].unique(maintain_order=True).to_list() == ["red", "blue"]
    assert_allclose(found.group_by("row").agg(pl.col("probability_best").sum())["probability_best"], 1.0)


def test_tasks_named_by_numbers_stay_numbers(fleet_of, table):
    fleet = fleet_of(0)
    fleet.learn_many(table(30, task_names=[10, 11, 12, 13, 14]))

    assert fleet.expected_many()["task"].dtype == pl.Int64


def test_a_fleet_without_tasks_has_no_rows(fleet_of):
    assert fleet_of(0).expected_many().height == 0


@pytest.mark.parametrize(
    ("contexts", "kind"),
    [(CONTEXTS, pl.DataFrame), (CONTEXTS.to_pandas(), pd.DataFrame), (CONTEXTS.to_arrow(), pa.Table),
     (CONTEXTS.to_numpy(), pl.DataFrame)],
)  # fmt: skip
def test_tables_come_back_in_the_library_they_came_in(fleet_of, contexts, kind):
    found = fleet_of(50).expected_many(TASKS, contexts)

    assert type(found) is kind
    assert len(found) == 9


def test_a_column_of_pandas_brings_pandas_back(fleet_of):
    assert isinstance(fleet_of(50).expected_many(pd.Series(TASKS)), pd.DataFrame)


def test_looking_changes_nothing(fleet_of):
    fleet, other = fleet_of(80), fleet_of(80)
    fleet.expected_many(TASKS, CONTEXTS)

    assert fleet.tasks == other.tasks
    assert fleet.decide("t1", [1.0, 2.0])[2:] == other.decide("t1", [1.0, 2.0])[2:]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tasks": "t1"}, "pass \\['t1'\\]"),
        ({"contexts": CONTEXTS}, "expected a task for every context"),
        ({"confidence": 1.0}, "expected a confidence below 1, got 1"),
    ],
)
def test_what_cannot_be_answered_is_refused(fleet_of, arguments, says):
    with pytest.raises(InvalidValue, match=says):
        fleet_of(20).expected_many(**arguments)


def test_without_an_intercept_contexts_are_needed(table):
    fleet = Posse(arms=["x", "y"], features=FeatureSpec(["a", "b"], intercept=False), seed=1)
    fleet.learn_many(table(20, arms=("x", "y")))

    with pytest.raises(InvalidValue, match="without an intercept"):
        fleet.expected_many()
    assert fleet.expected_many(TASKS, CONTEXTS).height == 6


def test_rates_without_contexts_are_averages_over_the_contexts_that_came():
    rng = np.random.default_rng(5)
    n = 4000
    x = rng.normal(size=n)  # one visitor in six is far more likely to click than the average one
    rows = pl.DataFrame(
        {
            "task": rng.choice(["a", "b", "c"], n),
            "arm": rng.choice(["red", "green"], n),
            "x": x,
            "reward": (rng.random(n) < 1 / (1 + np.exp(4.5 - 1.5 * x))).astype(float),
        }
    )
    fleet = Posse(["red", "green"], ["x"], rewards="binary", seed=1)
    fleet.learn_many(rows)

    rate = rows["reward"].mean()
    at_the_average = np.mean(list(fleet.expected("a", {"x": float(x.mean())}).mean.values()))
    assert at_the_average < 0.7 * rate
    assert fleet.expected_many()["mean"].mean() == pytest.approx(rate, rel=0.15)
    assert np.mean([found.mean for found in expected_rates(fleet).values()]) == pytest.approx(rate, rel=0.15)
