"""What the page opens with: the numbers of the evaluation and the README, or why there are none."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from posse import Posse, load_retailer
from posse.logs import Log, Names
from posse.offline import Learned, Logged, evaluate
from posse.report import make_report
from posse.report.lead import lead_of

SPACE = "\N{NO-BREAK SPACE}"


def clicks(n_rows, n_clicks, *, n_tasks=3, n_arms=34, seed=0, good=0):
    """Items at random and clicks that do not depend on them, but for ``good`` more on the first item."""
    rng = np.random.default_rng(seed)
    arm, clicked = rng.integers(n_arms, size=n_rows), np.zeros(n_rows)
    clicked[rng.choice(n_rows, n_clicks, replace=False)] = 1
    clicked[rng.choice(np.flatnonzero(arm == 0), good, replace=False)] = 1
    frame = pl.DataFrame(
        {
            "task": [f"position {j}" for j in rng.integers(n_tasks, size=n_rows)],
            "arm": [f"item {k}" for k in arm],
            "reward": clicked,
            "propensity": np.full(n_rows, 1 / n_arms),
        }
    )
    return Log(frame, rewards="binary", names=Names("position", "item", "click"))


@pytest.fixture(scope="module")
def retailer():
    log = load_retailer()
    stores = Posse(arms=log.arms, features=log.features, rewards="binary", seed=1)
    stores.learn_many(log)
    return log, stores.report(log)


def test_the_retailers_page_evaluation_and_readme_say_the_same(retailer):
    log, report = retailer
    found = evaluate(log, Learned("ebm-rand-ucb"), against=Logged(), estimators=["dr"])

    learned, logged = found.estimate(), found.estimate("logged")
    assert report.gains.learned.value.value == pytest.approx(learned.value, rel=1e-9)
    parts = (learned.low, learned.value, learned.high, logged.value)
    low, value, high, before = (f"{100 * part:.1f}" for part in parts)
    more, times = f"{100 * (learned.value - logged.value):.1f}", f"{learned.value / logged.value:.1f}"
    assert re.findall(r"\d+\.\d", str(report)) == [value, low, high, before, more, times]
    assert "The learned policy would bring a sale" in str(report)
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert {value, low, high, before} <= set(re.findall(r"\d+\.\d", readme))
    assert f"{100 * found.on_policy.value:.1f}" == "8.5"
    assert str(report) in report.html()
    labels = [(bar.label, bar.name) for bar in lead_of(report).bars]
    assert labels == [("Learned policy", ""), ("Best single offer", "gift"), ("The log", "")]


def test_the_learned_policy_beats_one_arm_for_all_where_stores_differ(retailer):
    _, report = retailer
    learned, best = (
        next(way for way in report.gains.ways if way.way == name).uplift.value for name in ("learned", "one-arm")
    )

    assert learned > best > 0


def test_too_few_clicks_prefer_nothing():
    report = make_report(log=clicks(10_000, 46))

    assert str(report) == f"Too few clicks to prefer any item: 46{SPACE}clicks in 10,000{SPACE}decisions."
    assert "2,100 in all" in lead_of(report).more[0]  # 62.7 per item, for 34 items
    page = report.html()
    assert 'id="tasks"' not in page
    assert "looks best most often" not in page
    places = [page.index(f">{arm}<") for arm in report.best.arms]  # no list of items with the best one on top
    assert places == sorted(places)


def test_a_column_that_says_what_was_done_becomes_a_noun():
    log = clicks(10_000, 46, n_tasks=15, good=60)
    sold = Log(log.frame, rewards="binary", names=Names("store_id", "offer", "sold"))

    assert "would bring a sale in" in str(make_report(log=sold))


def test_few_amounts_are_too_few_decisions(log_of):
    frame = log_of(60, n_tasks=1).frame.with_columns(pl.col("reward") - 0.8)
    report = make_report(log=Log(frame, names=Names(reward="revenue")), unit="€")

    assert str(report).startswith("Too few decisions to prefer any arm")


def test_revenue_is_money_and_what_was_asked_for_is_not_advised():
    rng = np.random.default_rng(2)
    log = clicks(2000, 60, n_tasks=12, n_arms=3, seed=1)
    paid = log.frame["reward"].to_numpy() * rng.lognormal(3.5, 0.5, size=2000).round(2)
    frame = log.frame.with_columns(reward=pl.Series(paid)).drop("reward_family")
    report = make_report(log=Log(frame), rewards="revenue", unit="€")
    page = report.html()

    assert str(report) == f"Too few decisions to prefer any arm: 2,000{SPACE}decisions."
    assert "taken for numbers" not in page
    assert f"{SPACE}rewards more in all" not in page
    found = evaluate(Log(frame), Logged(), rewards="revenue", estimators=["ips"])
    assert not any("taken for numbers" in note for note in found.notes)
    assert any("taken for numbers" in note for note in evaluate(Log(frame), Logged(), estimators=["ips"]).notes)


def test_noise_names_no_best_arm():
    named = [lead_of(make_report(log=clicks(3000, 60, n_tasks=12, n_arms=10, seed=seed))).prefers for seed in range(6)]

    assert sum(named) <= 1


def test_an_item_that_is_clearly_best_is_named():
    lead = lead_of(make_report(log=clicks(10_000, 46, n_tasks=15, good=60)))

    assert lead.prefers
    assert "instead of" in lead.headline


def test_a_log_that_cannot_tell_says_so_first_and_what_helps_in_the_owners_words(log_of):
    log = Log(log_of(300, propensities=False).frame, names=Names("city", "price", "order"))
    lead = lead_of(make_report(log=log))

    assert "cannot say" in lead.headline
    assert "What helps" in lead.more[0]
    assert "prices would have been taken" in lead.more[0]
    assert f"{log.frame['reward'].mean():.2f}" in lead.more[-1]
    assert lead.bars == ()
    assert "doubly robust" not in make_report(log=log).html()  # nothing was estimated


def test_many_rewards_of_equal_arms_are_not_called_too_few(log_of):
    lead = lead_of(make_report(log=log_of(2000, n_tasks=1)))  # of the first task, where all arms earn the same

    assert lead.headline == f"No arm earns clearly more than the others in 2,000{SPACE}decisions."


def test_few_tasks_gain_for_themselves(log_of):
    report = make_report(log=Log(log_of(4000).frame.filter(pl.col("task") == "store-9")))

    assert np.isfinite(report.gains.learned.uplift.low)
    assert f"for this 1{SPACE}task and not for others like" in " ".join(lead_of(report).more)


def test_money_is_told_in_its_unit(log_of):
    report = make_report(log=log_of(1500), unit="€")
    learned, logged = report.gains.learned, report.gains.logged

    assert f"would earn {learned.value.value:.2f}{SPACE}€ per decision" in str(report)
    assert f"instead of {logged.value:.2f}{SPACE}€: +{learned.uplift.value:.2f}{SPACE}€" in str(report)


def test_a_difference_that_may_be_chance_is_called_that(log_of):
    log = log_of(1500)
    noise = np.random.default_rng(4).normal(5, 1, log.n_rows)
    report = make_report(log=Log(log.frame.with_columns(reward=pl.Series(noise))))

    assert report.gains.learned.uplift.low <= 0 <= report.gains.learned.uplift.high
    lead = lead_of(report)
    assert any("may be chance" in text for text in (lead.headline, *lead.more))


def test_a_fleet_that_made_its_log_is_credited_with_what_it_gained_over_random_choice(tmp_path):
    rng = np.random.default_rng(0)
    fleet = Posse(["a", "b", "c"], [], seed=3, evaluation_budget=0.05, log=tmp_path / "log.jsonl")
    effects = rng.normal(0, 1, size=(15, 3))
    for _ in range(30):
        tasks = rng.integers(15, size=50)
        made = fleet.decide_many([f"t{task}" for task in tasks], [[]] * 50)
        fleet.reward_many(made.ids, (5 + effects[tasks, made.chosen] + rng.normal(size=50)).tolist())

    report = make_report(fleet, tmp_path / "log.jsonl")

    random = next(way for way in report.gains.ways if way.way == "random")
    lead = lead_of(report)
    (told,) = [text for text in (lead.headline, *lead.more) if "over random choice" in text]
    assert f"{lead.words.signed(-random.uplift.value)} (" in told
    assert random.uplift.high < 0
    assert [bar.label for bar in lead.bars][-2:] == ["The log", "Random choice"]
