"""Logs of catalogues: another rule's value by the features of all eligible arms, and what such logs cannot say."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from posse import Catalogue, Posse
from posse.cli.main import app
from posse.errors import InvalidValue, UnknownArm
from posse.logs import Log, check_log, read_log, write_log
from posse.offline import Always, Column, Fleet, Learned, Logged, LoggedBandit, Replay, Rule, Uniform, evaluate

TASKS = 12


def menu(rng, day):
    """Arms of a day: they come and go, so that no arm is there in all rows."""
    return {f"a{day * 5 + place}": {"price": float(rng.integers(1, 5))} for place in range(4)}


def value(task, evening, price):
    return 1.0 + 0.1 * (task % 3) - (0.3 if evening else 0.05) * price


def cheap(task, context, arms):
    return min(arms, key=lambda arm: (arms[arm]["price"], arm))


def dear_in_the_evening(task, context, arms):
    sign = -1 if context["evening"] else 1
    best = min(arms, key=lambda arm: (sign * arms[arm]["price"], arm))
    return {arm: 0.7 * (arm == best) + 0.3 / len(arms) for arm in arms}


def simulated(path, n=1500, seed=0, **settings):
    """Write the log of a catalogue that learns; return what a rule is truly worth in its very rows."""
    rng = np.random.default_rng(seed)
    shop = Catalogue(
        ["evening"], ["price"], seed=seed, evaluation_budget=0.5, log=path, clock=lambda: 1000.0, **settings
    )
    rows = []
    for row in range(n):
        task, evening, arms = row % TASKS, int(rng.integers(2)), menu(rng, row // 100)
        decision = shop.decide(f"t{task}", {"evening": evening}, arms)
        rows.append((task, evening, arms))
        shop.reward(decision, value(task, evening, arms[decision.arm]["price"]) + 0.1 * rng.normal())

    def truth(rule):
        earned = []
        for task, evening, arms in rows:
            said = rule(f"t{task}", {"evening": evening}, arms)
            chances = said if isinstance(said, dict) else {said: 1.0}
            earned.append(sum(p * value(task, evening, arms[arm]["price"]) for arm, p in chances.items()))
        return float(np.mean(earned))

    return shop, truth


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    path = tmp_path_factory.mktemp("catalogue") / "log.jsonl"
    shop, truth = simulated(path)
    return path, read_log(path), shop, truth


def test_ips_finds_what_other_rules_are_worth(logged):
    _, log, _, truth = logged
    other = Catalogue(["evening"], ["price"], seed=9, evaluation_budget=0.3)
    rng = np.random.default_rng(5)
    for row in range(200):
        task, evening, arms = row % TASKS, int(rng.integers(2)), menu(rng, 100)
        decision = other.decide(f"t{task}", {"evening": evening}, arms)
        other.reward(decision, value(task, evening, arms[decision.arm]["price"]) + 0.1 * rng.normal())
    found = evaluate(log, [Uniform(), Rule(cheap), Rule(dear_in_the_evening), Fleet(other, "other")], against=Logged())

    assert not found.refused, str(found)
    assert set(found.table["estimator"]) == {"ips", "snips"}
    worth = {
        "uniform": truth(lambda task, context, arms: dict.fromkeys(arms, 1 / len(arms))),
        "cheap": truth(cheap),
        "dear_in_the_evening": truth(dear_in_the_evening),
        "other": truth(other.probabilities),
    }
    assert max(worth.values()) - min(worth.values()) > 0.2  # they are told apart
    for name, true in worth.items():
        for estimator in ("ips", "snips"):
            one = found.estimate(name, estimator)
            # Over tasks the standard error also holds how tasks differ, so this is wide enough for these very rows.
            assert abs(one.value - true) < 3 * one.se + 0.01, (name, estimator)
    assert found.estimate("logged", "ips").value == pytest.approx(log.frame["reward"].mean())
    assert found.arms == len(log.arms)


def test_probabilities_of_a_catalogue_are_those_row_by_row(logged):
    _, log, shop, _ = logged
    data = LoggedBandit.from_log(log)
    for explore in (True, False):
        found = Fleet(shop, explore=explore).probabilities(data)
        for row in (0, 700, 1499):
            task, context = data.task_labels[data.tasks[row]], {"evening": log.contexts["evening"][row]}
            assert dict(zip(data.menus.arms(row), found[row].tolist(), strict=True)) == pytest.approx(
                shop.probabilities(task, context, data.menus.by_arm(row), explore=explore)
            )


def test_a_catalogue_that_made_the_log_is_refused(logged):
    _, log, shop, _ = logged
    assert [one.code for one in evaluate(log, Fleet(shop)).targets[0].refusals] == ["its-own-log"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_command_evaluates_files(logged, tmp_path, suffix):
    _, log, _, truth = logged
    write_log(log, tmp_path / f"log.{suffix}")
    Catalogue(["evening"], ["price"], seed=9, evaluation_budget=0.5).save(tmp_path / "shop.posse")
    (tmp_path / "rules.py").write_text(
        "def cheap(task, context, arms):\n    return min(arms, key=lambda arm: (arms[arm]['price'], arm))\n"
    )
    words = ["evaluate", str(tmp_path / f"log.{suffix}"), "--against", "logged", "--json"]
    for target in ("uniform", f"{tmp_path}/rules.py:cheap", str(tmp_path / "shop.posse")):
        words += ["--policy", target]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    rows = {(row["target"], row["estimator"]): row for row in json.loads(answer.stdout)["table"]}
    assert rows["cheap", "snips"]["value"] == pytest.approx(truth(cheap), abs=0.05)
    assert {name for name, _ in rows} == {"uniform", "cheap", "shop.posse", "logged"}


def test_what_such_a_log_cannot_say_is_refused(logged):
    _, log, shop, _ = logged
    for estimator in ("dm", "dr", "switch-dr"):
        with pytest.raises(InvalidValue, match=f"without a model .* got {estimator}"):
            evaluate(log, Uniform(), estimators=["ips", estimator])
    fleet = Posse(["a0"], ["evening"])
    for target in (Always("a0"), Learned("ebm-ts"), Replay("ebm-ts"), Fleet(fleet)):
        with pytest.raises(InvalidValue, match="chooses among the arms of each request"):
            evaluate(log, target)
    with pytest.raises(InvalidValue, match=r"three parameters \(task, context, arms\)"):
        evaluate(log, Rule(lambda task, context: "a0"))
    with pytest.raises(UnknownArm, match="says 'nobody' in row 0, but the arms there are 'a0'"):
        evaluate(log, Rule(lambda task, context, arms: "nobody"))
    with pytest.raises(InvalidValue, match="expected arm_features, the features of all eligible arms"):
        evaluate(Log(log.frame.drop("arm_features")), Uniform())
    plain = Log({"task": ["a"] * 60, "arm": ["x", "y"] * 30, "reward": [1.0, 0.0] * 30, "propensity": [0.5] * 60})
    with pytest.raises(InvalidValue, match="got one of fixed arms"):
        evaluate(plain, Fleet(shop))


def test_rows_without_features_of_their_arms_are_found(logged):
    _, log, _, _ = logged
    half = log.frame.with_columns(
        arm_features=pl.struct(pl.when(pl.int_range(pl.len()) != 3).then(pl.col("arm_features").struct.field("price")))
    )
    (finding,) = [one for one in check_log(Log(half)) if one.severity == "error"]
    assert finding.code == "arm-features-length"
    assert finding.rows == 1
    with pytest.raises(InvalidValue, match=r"expected one 'price' .* got none for 4 arms in row 3"):
        LoggedBandit.from_log(Log(half))


def test_a_third_parameter_that_has_a_default_is_not_for_arms():
    log = Log({"task": ["a"] * 2, "arm": ["x", "y"], "reward": [1.0, 0.0], "propensity": [0.5] * 2})
    data = LoggedBandit.from_log(log)
    assert Rule(lambda task, context, limit="x": limit).probabilities(data).tolist() == [[1, 0], [1, 0]]
    seen = []
    Rule(lambda task, context, arms: seen.append(arms) or "y").probabilities(data)
    assert seen == [{"x": {}, "y": {}}] * 2


def test_a_column_names_the_arm_among_those_of_its_row(logged):
    _, log, _, _ = logged
    named = log.contexts.with_columns(proposed=log.frame["arm"]).to_struct()
    found = Column("proposed").probabilities(LoggedBandit.from_log(Log(log.frame.with_columns(context=named))))
    data = LoggedBandit.from_log(log)
    assert (found.argmax(axis=1) == data.arms).all()
