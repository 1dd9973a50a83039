import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue
from posse.logs import Log
from posse.offline import Always, Function, Learned, Limits, Logged, LoggedBandit, Replay, Uniform, evaluate
from posse.offline.estimators import doubly_robust, importance_weights, ips
from posse.offline.intervals import IntervalRule
from posse.offline.model import deal_folds, predicted_rewards


def softened(data):
    """Nearer to uniform than the log."""
    return 0.5 * data.probabilities + 0.5 / data.n_arms


def codes(evaluation, target=0):
    return [one.code for one in evaluation.targets[target].refusals]


def test_the_table_is_what_its_parts_say(make):
    data = make().data
    found = evaluate(data, softened, against=Uniform(), seed=5)

    data = data.in_order_of_appearance()
    model = predicted_rewards(data, deal_folds(data.tasks, seed=5))
    rows = []
    for probabilities in (softened(data), Uniform().probabilities(data)):
        weights = importance_weights(probabilities, data.arms, data.propensities)
        rows.append((ips(weights, data.rewards), doubly_robust(probabilities, model, weights, data.arms, data.rewards)))
    for place, name in ((0, "ips"), (1, "dr")):
        rule = IntervalRule(confidence=0.95, family="number", over_tasks=True)
        expected = rule.estimate(data.tasks, rows[0][place], n_rewards=1e9)
        difference = rule.estimate(data.tasks, rows[0][place], rows[1][place], n_rewards=1e9)
        assert found.estimate("softened", name).value == pytest.approx(expected.value, rel=1e-12)
        assert found.estimate("softened", name).low == pytest.approx(expected.low, rel=1e-12)
        line = found.differences.filter(pl.col("estimator") == name).row(0, named=True)
        assert (line["target"], line["against"]) == ("softened", "uniform")
        assert line["value"] == pytest.approx(difference.value, rel=1e-12)
        assert line["high"] == pytest.approx(difference.high, rel=1e-12)
        assert line["positive"] == difference.positive


def test_the_logging_policy_earned_what_it_earned(make):
    made = make()
    found = evaluate(made.data, Logged())

    assert found.on_policy.value == pytest.approx(made.rewards.mean())
    for estimator in ("ips", "snips"):
        assert found.estimate(estimator=estimator).value == pytest.approx(made.rewards.mean(), rel=1e-12)
    assert found.targets[0].diagnostics.effective_rows == made.tasks.size


def test_a_log_and_its_arrays_say_the_same(make):
    made = make()
    from_table = evaluate(made.log, Uniform(), estimators=("ips", "snips"))
    from_arrays = evaluate(made.data, Uniform(), estimators=("ips", "snips"))

    assert from_table.table.equals(from_arrays.table)
    assert sorted(from_table.by_task["task"].unique()) == sorted(f"store-{task}" for task in range(12))


def test_names_of_tasks_and_their_order_change_nothing(make):
    made = make()
    found = evaluate(made.data, [softened, Learned("ebm-ts")], against=Logged())
    made.tasks = np.random.default_rng(1).permutation(12)[made.tasks]
    renamed = evaluate(made.data, [softened, Learned("ebm-ts")], against=Logged())

    assert renamed.table.equals(found.table)
    assert renamed.differences.equals(found.differences)


def test_names_of_arms_change_nothing_but_rounding(make):
    made = make()
    found = evaluate(made.data, softened)
    order = np.array([2, 0, 1])
    made.arms, made.logged = np.argsort(order)[made.arms], made.logged[:, order]
    renamed = evaluate(made.data, softened)

    numbers = [pl.exclude("target", "estimator")]
    assert_allclose(renamed.table.select(numbers), found.table.select(numbers), rtol=1e-6)


def test_estimates_are_near_the_truth(make):
    # The value of the target at the log's own contexts; the intervals over tasks are wider than the error of that.
    made = make(n_tasks=30, rows=60, seed=4)
    found = evaluate(made.data, softened, against=Uniform())
    truth = (softened(made.data) * made.expected).sum(axis=1).mean()
    gain = truth - made.expected.mean()

    for row in found.table.filter(pl.col("target") == "softened").iter_rows(named=True):
        assert row["low"] < truth < row["high"], row
    for row in found.differences.filter(pl.col("estimator") != "dm").iter_rows(named=True):
        assert row["low"] < gain < row["high"], row
        assert row["positive"] > 0.99


def test_few_tasks_have_intervals_about_these_very_tasks(make):
    made, asked = make(n_tasks=9, rows=80, seed=1), {"estimators": ("ips", "snips", "dr")}
    found = evaluate(made.log, Uniform(), **asked)
    truth = made.expected.mean()

    assert not found.refused
    assert any("9 tasks are too few" in note and "these very tasks" in note for note in found.notes)
    assert found.table.filter((pl.col("low") < truth) & (pl.col("high") > truth)).height == 3
    # About tasks like these, which differ, less is known.
    wider = evaluate(made.log, Uniform(), limits=Limits(min_tasks=5), **asked)
    assert (wider.table["high"] - wider.table["low"] > found.table["high"] - found.table["low"]).all()
    assert not any("very tasks" in note for note in wider.notes)


def test_too_few_clicks_are_refused_before_anything_is_learned(make, monkeypatch):
    made = make(rows=100)
    made.rewards = np.arange(1200) % 300 == 0

    def learned(*_):
        raise AssertionError

    monkeypatch.setattr(Learned, "probabilities", learned)
    found = evaluate(made.data, [Learned("ebm-ts"), Uniform()], against=Logged())

    assert codes(found) == codes(found, 1) == ["few-rewards"]
    assert "4 rewards other than 0; an interval takes 10" in found.targets[0].refusals[0].reason
    assert found.on_policy.value == pytest.approx(4 / 1200)
    assert np.isnan(found.on_policy.low)


def test_few_clicks_under_the_target_are_refused_by_target_task_and_group(make):
    made = make(rows=120)
    made.rewards = (made.arms != 0) & (np.random.default_rng(0).random(made.tasks.size) < 0.1)
    made.changes = {"groups": {"first": np.where(made.tasks == 0, "yes", "no")}}
    found = evaluate(made.data, [Always("blue"), Uniform()], estimators=("snips",))

    assert codes(found) == ["few-rewards"]
    assert codes(found, 1) == []
    assert ((found.table["low"] >= 0) & (found.table["high"] <= 1)).all()
    assert found.by_task["refused"].str.contains("rewards other than 0").any()
    assert found.by_group.filter(group="no")["low"].null_count() == 0


def test_groups_and_tasks_are_told_apart(make):
    found = evaluate(make(rows=120).log, [Uniform(), Always("red")], groups=["side", "task"])

    assert found.by_group.filter(pl.col("column") == "side")["group"].unique().sort().to_list() == ["cold", "warm"]
    assert found.by_group.filter((pl.col("column") == "task") & (pl.col("target") == "uniform")).height == 60
    assert found.by_task.height == 2 * 5 * 12
    own = found.by_task.filter((pl.col("task") == "store-3") & (pl.col("target") == "uniform"))
    same = found.by_group.filter((pl.col("group") == "store-3") & (pl.col("target") == "uniform"))
    assert_allclose(own["value"], same["value"], rtol=1e-9)


# One log for every reason to say nothing.


def test_no_propensities(make):
    made = make()
    made.changes = {"propensity": None, "probabilities": None}
    found = evaluate(made.log, Uniform())

    assert codes(found) == ["no-propensities"]
    assert found.table.is_empty()


def test_some_rows_without_propensity(make):
    made = make()
    propensity = made.columns["propensity"]
    made.changes = {
        "propensity": [None if row % 5 == 0 else p for row, p in enumerate(propensity)],
        "probabilities": None,
    }

    assert codes(evaluate(made.log, Uniform())) == ["missing-propensity"]
    assert codes(evaluate(made.log, Uniform(), limits=Limits(max_missing=0.5))) == []


def test_rewards_missing_for_too_many(make):
    made = make()
    made.changes = {"reward": [None if row % 5 == 0 else r for row, r in enumerate(made.rewards.tolist())]}

    assert codes(evaluate(made.log, Uniform())) == ["missing-reward"]


def test_rewards_missing_for_one_arm(make):
    made = make(rows=100)
    lost = (made.arms == 0) & (np.arange(made.tasks.size) % 4 == 0)
    made.changes = {"reward": [None if gone else r for gone, r in zip(lost, made.rewards.tolist(), strict=True)]}

    assert codes(evaluate(made.log, Uniform())) == ["reward-missing-by-arm"]


def test_a_target_that_the_log_could_not_have_followed(make):
    made = make()
    made.arms = np.minimum(made.arms, 1)
    made.logged = made.logged + [0.0, 1.0, -1.0] * made.logged[:, 2:]
    found = evaluate(made.data, [Uniform(), Always("blue")], against=Logged())

    assert codes(found) == ["no-overlap", "mean-weight"]
    assert codes(found, 1) == []
    assert found.refused
    assert set(found.table["target"]) == {"always blue", "logged"}
    assert set(found.differences["target"]) == {"always blue"}


def test_logging_without_chance(make):
    made = make()
    certain = np.eye(3)[made.arms]
    made.logged = certain

    assert codes(evaluate(made.log, Logged())) == ["deterministic-logging"]


def test_propensities_that_contradict_what_happened(make):
    made = make(rows=200)
    made.logged = made.logged[:, [1, 2, 0]]

    assert "propensity-calibration" in codes(evaluate(made.log, Uniform()))
    # As arrays nobody checks the log, but the weights give it away.
    assert "mean-weight" in codes(evaluate(made.data, Uniform()))


def test_a_decision_that_counts_twice(make):
    made = make()
    made.changes = {"decision_id": ["same"] * 480}

    assert "conflicting-rewards" in codes(evaluate(made.log, Uniform()))


def test_few_effective_rows_and_one_heavy_row(make):
    made = make(n_tasks=12, rows=5)
    made.logged[0] = [0.001, 0.4995, 0.4995]
    made.arms[0] = 0

    assert codes(evaluate(made.data, Uniform())) == ["few-effective-rows", "one-heavy-row"]


def test_a_replay_is_beside_the_others_and_never_paired(make):
    made = make(floor=1.0)
    found = evaluate(made.data, [Uniform(), Replay("random")], against=Logged())

    assert found.table.filter(pl.col("target") == "replay of random")["estimator"].to_list() == ["replay"]
    assert set(found.differences["target"]) == {"uniform"}
    with pytest.raises(InvalidValue, match="against must be a policy that does not learn"):
        evaluate(made.data, Uniform(), against=Replay("random"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"estimators": "dr"}, "estimators must be a list"),
        ({"estimators": ()}, "at least one"),
        ({"estimators": ("dr", "magic")}, "estimators to be one of"),
        ({"confidence": 1.0}, "confidence must be below 1"),
        ({"confidence": 0}, "confidence to be greater than 0"),
        ({"folds": 1}, "folds to be at least 2"),
        ({"clip": 0}, "clip to be greater than 0"),
        ({"seed": -1}, "seed to be at least 0"),
        ({"groups": ["side"]}, "groups of arrays come with the arrays"),
        ({"against": Uniform()}, "different names"),
    ],
)
def test_wrong_settings_are_one_clear_error(make, settings, words):
    with pytest.raises(InvalidValue, match=words):
        evaluate(make().data, Uniform(), **settings)


def test_no_target_at_all_is_refused(make):
    with pytest.raises(InvalidValue, match="at least one"):
        evaluate(make().data, [])


def test_equal_rewards_are_refused(make):
    made = make()
    made.rewards = np.full(480, 2.5)
    found = evaluate(made.data, softened, estimators=("snips",))

    assert codes(found) == ["few-rewards"]
    assert "all 480 rewards are equal (2.5)" in found.targets[0].refusals[0].reason


def test_scaled_rewards_scale_everything(make):
    made = make()
    once = evaluate(made.data, Uniform(), estimators=("ips", "snips", "dr")).table
    made.rewards = 4 * made.rewards
    scaled = evaluate(made.data, Uniform(), estimators=("ips", "snips", "dr")).table

    numbers = ["value", "se", "low", "high"]
    # The evidence is searched to a tolerance, which the model's predictions keep.
    assert_allclose(scaled.select(numbers), 4 * once.select(numbers).to_numpy(), rtol=1e-3)


def test_arrays_may_have_groups_of_their_own(make):
    made = make()
    made.changes = {"groups": {"half": np.where(np.arange(480) < 240, "a", "b")}}
    found = evaluate(made.data, Uniform(), estimators=("ips",))

    assert isinstance(made.data, LoggedBandit)
    assert found.by_group["group"].to_list() == ["a", "b"]


def test_functions_and_objects_can_be_mixed(make):
    found = evaluate(make().data, [softened, Function(softened, "again")], estimators=("ips",))

    assert found.estimate("softened", "ips") == found.estimate("again", "ips")


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "lab" / "scripts" / "offline.py"
    spec = importlib.util.spec_from_file_location("offline_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("design", ["20 x 50", "50 x 50 unequal", "20 x 50 adaptive"])
def test_intervals_hold_the_truth_as_often_as_they_say(benchmark, design):
    results = [benchmark.one_log(benchmark.DESIGNS[design], seed) for seed in range(80)]
    found = benchmark.summary(results)

    for name in ("ips", "snips", "dr", "dr gain"):
        # 95 % of 80 logs, less three standard errors of 2.4 %.
        assert found[name, "held"] >= 0.95 - 3 * 0.024, name
    assert found["dr", "rmse"] < found["ips", "rmse"]
    assert found["refused"] <= 0.05


@pytest.mark.slow
def test_a_learned_target_is_judged_honestly(benchmark):
    errors = np.array([benchmark.optimism(seed) for seed in range(60)])
    mean, se = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(60)

    assert (np.abs(mean[0]) < 4 * se[0]).all()
    assert (mean[1] > 4 * se[1]).all()  # judged by the rows it learned from, it looks better than it is


def test_true_and_false_are_evaluated_with_a_model_of_clicks():
    rng = np.random.default_rng(6)
    n = 1200
    arm, x = rng.integers(2, size=n), rng.normal(size=n)
    clicked = rng.random(n) < 1 / (1 + np.exp(3 - 2 * x * arm))
    rows = {"task": np.arange(n) % 24, "arm": arm, "propensity": np.full(n, 0.5), "context": [{"x": v} for v in x]}
    log, settings = Log({**rows, "reward": clicked}), {"estimators": ("dm", "dr")}
    found = evaluate(log, Always(0), **settings)
    assert log.rewards == log.with_rewards().rewards == "binary"
    assert found.table.equals(
        evaluate(Log({**rows, "reward": clicked * 1.0}), Always(0), rewards="binary", **settings).table
    )
    assert not found.table.equals(evaluate(log, Always(0), rewards="number", **settings).table)
    value = dict(found.table.select("estimator", "value").iter_rows())
    truth = 1 / (1 + np.exp(3))
    # 600 clicks with a rate of 0.047: a standard error of 0.009.
    assert value["dm"] == pytest.approx(truth, abs=0.03)
    assert value["dr"] == pytest.approx(truth, abs=0.03)
    with pytest.raises(InvalidValue, match="expected binary rewards"):
        evaluate(Log({**rows, "reward": clicked * 0.5}), Always(0), rewards="binary", **settings)


def test_progress_names_every_fold_once_for_the_policy_and_the_model_that_judges_it(make):
    begun = []
    learned = Learned("ebm-rand-ucb", folds=3)
    found = evaluate(make().data, learned, against=Logged(), estimators=["dr"], folds=3, progress=begun.append)

    folds = [name for name in begun if "fold" in name]
    assert len(folds) == len(set(folds)) == 3
    assert any(learned.name in name for name in begun)
    alone = evaluate(make().data, learned, against=Logged(), estimators=["dr"], folds=3)
    assert found.estimate(learned.name, "dr") == alone.estimate(learned.name, "dr")


def test_other_rewards_of_the_same_rows_are_learned_anew(make):
    data = make().data
    folds = deal_folds(data.tasks)
    before = predicted_rewards(data, folds)

    assert_allclose(predicted_rewards(replace(data, rewards=2 * data.rewards), folds), 2 * before, rtol=0.05, atol=0.05)


def test_a_refusal_has_its_reason_and_no_table(make):
    text = str(evaluate(make().log, Uniform(), limits=Limits(min_effective_rows=1e6)))

    assert "REFUSED" in text
    assert "IPS" not in text


def test_many_groups_are_not_all_shown(make):
    found = evaluate(make(n_tasks=25).log, Uniform(), groups=["task"], estimators=("ips",))

    assert "  store-0: " in str(found)
    assert str(found).endswith("  and 5 more, in the table by_group")
