from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from posse.errors import InvalidValue
from posse.offline import Limits, LoggedBandit
from posse.offline.estimators import Contributions, ips, snips
from posse.offline.intervals import IntervalRule, effective_rewards
from posse.offline.per_target import enough_tasks, group_rows, task_rows

RULE = IntervalRule(confidence=0.95, family="number", over_tasks=True)


def log(n_tasks=12, rows=40, groups=None, seed=0):
    rng = np.random.default_rng(seed)
    n = n_tasks * rows
    return LoggedBandit(
        tasks=np.repeat(np.arange(n_tasks), rows),
        arms=rng.integers(0, 2, n),
        contexts=np.ones((n, 1)),
        rewards=rng.standard_normal(n),
        propensities=rng.uniform(0.3, 0.9, n),
        groups=groups or {},
    ), rng.uniform(0.5, 1.5, n)


def test_the_value_of_a_task_is_that_of_its_rows():
    data, weights = log()
    estimates = {"ips": ips(weights, data.rewards), "snips": snips(weights, data.rewards)}
    table = list(task_rows(data, weights, estimates, replace(RULE, confidence=0.9), Limits()))

    assert len(table) == 24
    own = data.tasks == 3
    w, r = weights[own], data.rewards[own]
    row = next(row for row in table if row["task"] == 3 and row["estimator"] == "ips")
    assert row["value"] == pytest.approx((w * r).mean())
    assert row["se"] == pytest.approx((w * r).std(ddof=1) / np.sqrt(40))
    units = effective_rewards(w, r, data.usual_reward)
    assert row["on_policy"] == pytest.approx(r.mean())
    assert row["effective_rows"] == pytest.approx(w.sum() ** 2 / (w @ w))
    reach = student.ppf(0.95, units - 1) * row["se"]
    assert (row["low"], row["high"]) == pytest.approx((row["value"] - reach, row["value"] + reach))
    row = next(row for row in table if row["task"] == 3 and row["estimator"] == "snips")
    value = (w @ r) / w.sum()
    assert row["value"] == pytest.approx(value)
    assert row["se"] == pytest.approx(np.sqrt(((w * (r - value)) ** 2).sum() / w.sum() ** 2 * 40 / 39))


def test_a_task_with_too_few_effective_rows_has_no_value():
    data, weights = log()
    weights[data.tasks == 5] = 0.0
    weights[5 * 40 : 5 * 40 + 10] = 1.0
    table = list(task_rows(data, weights, {"ips": ips(weights, data.rewards)}, RULE, Limits()))

    refused = [row for row in table if row["refused"]]
    assert [row["task"] for row in refused] == [5]
    assert refused[0]["value"] is None
    assert refused[0]["refused"] == "worth 10.0 rows of the target, less than 30"


def test_the_value_of_a_group_is_that_of_its_rows_over_the_tasks_that_have_them():
    side = np.where(np.arange(480) % 40 < 25, "in", "out")
    side[:40] = "in"  # the first task has no rows outside
    data, weights = log(groups={"side": side})
    table = list(group_rows(data, weights, {"ips": ips(weights, data.rewards)}, RULE, Limits()))

    assert [(row["column"], row["group"], row["tasks"]) for row in table] == [("side", "in", 12), ("side", "out", 11)]
    rows = side == "out"
    part = Contributions((weights * data.rewards)[rows], np.ones(rows.sum()))
    expected = RULE.estimate(data.tasks[rows] - 1, part, n_rewards=1e9)
    assert (table[1]["value"], table[1]["low"], table[1]["high"]) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert table[1]["rows"] == rows.sum()
    assert table[1]["on_policy"] == pytest.approx(data.rewards[rows].mean())


def test_groups_with_few_rows_have_no_value_and_with_few_tasks_are_about_these():
    side = np.full(560, "most", dtype=object)
    side[:20] = "few rows"
    side[40:160] = "few tasks"
    data, weights = log(n_tasks=14, groups={"side": side})
    table = list(group_rows(data, weights, {"ips": ips(weights, data.rewards)}, RULE, Limits()))
    found = {row["group"]: row for row in table}

    assert found["few rows"]["value"] is None
    assert "less than 50" in found["few rows"]["refused"]
    assert found["few tasks"]["value"] is not None
    rows = side == "few tasks"
    part = Contributions((weights * data.rewards)[rows], np.ones(rows.sum()))
    expected = replace(RULE, over_tasks=False).estimate(data.tasks[rows] - 1, part, n_rewards=1e9)
    assert found["few tasks"]["se"] == pytest.approx(expected.se)
    assert found["most"]["low"] < found["most"]["value"] < found["most"]["high"]


def test_a_column_with_too_many_values_is_refused():
    data, weights = log(groups={"hour": np.arange(480).astype(str)})

    with pytest.raises(InvalidValue, match="'hour' has 480 different values, more than 100"):
        list(group_rows(data, weights, {"ips": ips(weights, data.rewards)}, RULE, Limits()))


def test_tasks_are_enough_if_there_are_ten_and_none_outweighs_the_others():
    assert enough_tasks(np.repeat(np.arange(10), 3), Limits())
    assert not enough_tasks(np.repeat(np.arange(9), 3), Limits())
    assert not enough_tasks(np.append(np.arange(20), np.zeros(100, int)), Limits())
