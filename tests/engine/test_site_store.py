"""Fleets of clicks and counts: what they believe, show, refuse, save and forget."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.engine.site_rows import KEPT
from posse.engine.site_store import SiteStore
from posse.errors import DamagedFile, InvalidValue
from posse.fleet.replica import Replica

N = 600
RNG = np.random.default_rng(5)
TASKS = [f"t{i}" for i in RNG.integers(0, 6, N)]
CONTEXTS = RNG.normal(size=(N, 2))
DRAWS = RNG.random(N)
AT = {"x": 0.3, "z": 1.0}
RATE = {"a": 0.45, "b": 0.25, "c": 0.3}
LOOKED_AT = [*sorted(set(TASKS)), "never seen"]


def new(**settings):
    return Posse(**{"arms": ["a", "b", "c"], "features": ["x", "z"], "seed": 1, "rewards": "binary"} | settings)


def clicks(arms):
    return [bool(draw < RATE[arm]) for draw, arm in zip(DRAWS, arms, strict=True)]


def learned(**settings):
    fleet = new(**settings)
    decisions = fleet.decide_many(TASKS, CONTEXTS)
    fleet.reward_many(decisions.ids, clicks(decisions.arm))
    return fleet


def table(n=N, arms=("a", "b", "c")):
    chosen = np.resize(np.array(arms), n)
    return pl.DataFrame(
        {
            "task": TASKS[:n], "arm": chosen, "x": CONTEXTS[:n, 0], "z": CONTEXTS[:n, 1],
            "reward": [bool(draw < RATE[arm]) for draw, arm in zip(DRAWS[:n], chosen, strict=True)],
        }
    )  # fmt: skip


def believed(fleet):
    """Return means and sds of all arms in every task, and the population."""
    seen = [fleet.expected(task, AT) for task in LOOKED_AT]
    return np.concatenate(
        [
            [[*one.mean.values(), *one.sd.values()] for one in seen],
            fleet.prior.covariance.reshape(-1, 3).repeat(2, axis=1),
        ]
    )


@pytest.fixture(scope="module")
def fleet():
    return learned()


def test_rewards_one_by_one_and_in_batches_give_the_same_beliefs(fleet):
    one = new()
    decisions = one.decide_many(TASKS, CONTEXTS)
    for decision_id, click in zip(decisions.ids, clicks(decisions.arm), strict=True):
        assert one.reward(decision_id, click)
    parts = new()
    ids = parts.decide_many(TASKS, CONTEXTS).ids
    for first, last in ((0, 1), (1, 37), (37, N)):
        parts.reward_many(ids[first:last], clicks(decisions.arm)[first:last])

    assert_allclose(believed(one), believed(fleet), rtol=1e-9)
    assert_allclose(believed(parts), believed(fleet), rtol=1e-9)


def test_a_log_in_the_order_of_its_rewards_gives_the_same_beliefs(fleet):
    decisions = new().decide_many(TASKS, CONTEXTS)
    again = new()
    log = {"task": TASKS, "arm": decisions.arm, "x": CONTEXTS[:, 0], "z": CONTEXTS[:, 1]}
    again.learn_many(pl.DataFrame(log | {"reward": clicks(decisions.arm)}), refresh=False)

    assert_allclose(believed(again), believed(fleet), rtol=1e-9)


def test_rates_come_back(fleet):
    # 600 rewards over three arms: a standard error of some 0.035, and six tasks that do not differ.
    for arm, rate in RATE.items():
        assert fleet.expected("never seen", AT).mean[arm] == pytest.approx(rate, abs=0.12)


def test_intervals_are_inside_their_range_even_after_nothing_but_zeros():
    fleet = new()
    fleet.learn_many(table().with_columns(reward=pl.lit(0)))

    rows = fleet.expected_many()
    assert ((rows["low"] > 0) & (rows["low"] < rows["mean"]) & (rows["mean"] < rows["high"])).all()
    assert rows["high"].max() < 0.2
    assert rows["mean"].min() > 1e-5  # rare, not impossible
    assert any("every reward is 0" in finding for finding in fleet.findings())


def test_what_is_shown_is_the_belief_about_the_logit_through_the_link(fleet):
    coefficients, x = fleet.coefficients("t1"), np.array([1.0, AT["x"], AT["z"]])
    logits = np.random.default_rng(0).normal(
        coefficients.mean["a"] @ x, np.sqrt(x @ coefficients.covariance["a"] @ x), 400_000
    )
    rates = 1 / (1 + np.exp(-logits))
    shown = fleet.expected("t1", AT)
    row = fleet.expected_many(["t1"], [[AT["x"], AT["z"]]]).filter(pl.col("arm") == "a").row(0, named=True)

    # Monte Carlo errors of 400,000 draws of a spread of 0.1 are some 0.0002.
    assert shown.mean["a"] == pytest.approx(rates.mean(), abs=1e-3)
    assert shown.sd["a"] == pytest.approx(rates.std(), abs=1e-3)
    assert row["mean"] == shown.mean["a"]
    assert (row["low"], row["high"]) == pytest.approx(np.quantile(rates, [0.05, 0.95]), abs=2e-3)
    decision = fleet.decide("t1", AT, explore=False)
    assert decision.mean == shown.mean
    assert decision.sd == shown.sd
    assert decision.arm == max(shown.mean, key=shown.mean.__getitem__)


@pytest.mark.parametrize("reward", [0.5, -1, 2.5, 2, float("nan"), "1", None])
def test_other_rewards_are_refused_and_nothing_is_learned(fleet, reward):
    decision = fleet.decide("t1", AT)
    before = believed(fleet), fleet.n_rewards

    with pytest.raises(InvalidValue, match="expected a binary reward of 0 or 1"):
        fleet.reward(decision.id, reward)
    with pytest.raises(InvalidValue, match="expected a binary reward of 0 or 1"):
        fleet.reward_many([decision.id, fleet.decide("t2", AT).id], [1, reward])
    assert (believed(fleet) == before[0]).all()
    assert fleet.n_rewards == before[1]


def test_a_table_with_another_reward_is_refused_with_its_row(fleet):
    with pytest.raises(InvalidValue, match=r"got 0\.5 at row 3"):
        fleet.learn_many(table(5).with_columns(reward=pl.Series([0.0, 1.0, 0.0, 0.5, 0.0])))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policy": "lin-ucb"}, "expected a policy of ebm-rand-ucb"),
        ({"prior": "paper"}, "expected prior='evidence'"),
        ({"robust": True}, "expected robust=False"),
        ({"rewards": "clicks"}, "clicks"),
        ({"absent_reward": 0.5}, "expected a binary reward"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(InvalidValue, match=words):
        new(**settings)


def test_a_loaded_fleet_goes_on_as_the_saved_one(fleet, tmp_path):
    fleet = learned()
    fleet.save(tmp_path / "clicks.posse")
    loaded = Posse.load(tmp_path / "clicks.posse")
    assert loaded.rewards == "binary"
    assert (believed(loaded) == believed(fleet)).all()

    made = []
    for each in (fleet, loaded):
        decisions = each.decide_many(TASKS, CONTEXTS)
        each.reward_many(decisions.ids, clicks(decisions.arm))
        made.append(decisions.arm)
    assert made[0] == made[1]
    assert (believed(loaded) == believed(fleet)).all()


def test_some_tasks_of_a_file_decide_as_the_whole(fleet, tmp_path):
    fleet.save(tmp_path / "clicks.posse")
    some = Posse.load(tmp_path / "clicks.posse", tasks=["t1", "t4"])
    assert some.expected("t4", AT) == fleet.expected("t4", AT)


def test_a_file_whose_rows_are_not_of_the_family_is_refused(fleet, tmp_path):
    fleet = learned()
    fleet._engine.store.sites.parts.rows.rewards[0] = 0.5
    fleet.save(tmp_path / "clicks.posse")
    with pytest.raises(DamagedFile, match="binary rewards"):
        Posse.load(tmp_path / "clicks.posse")


def test_a_forgotten_task_leaves_no_row_and_no_weight():
    # All rows are kept, so nothing but the sites' last digits remains of the one that went.
    rows = table(KEPT * 3)
    fleet, without = new(), new()
    fleet.learn_many(rows)
    fleet.forget("t2")
    without.learn_many(rows.filter(pl.col("task") != "t2"))
    for each in (fleet, without):
        for _ in range(10):  # until sites and population are at rest, wherever they started
            each.refresh()

    assert "t2" not in fleet.tasks
    assert fleet.n_rewards == without.n_rewards
    assert_allclose(fleet._engine.store.sum_of_squares(), without._engine.store.sum_of_squares())
    seen = [task for task in LOOKED_AT if task != "t2"]
    for task in seen:
        assert fleet.expected(task, AT).mean == pytest.approx(without.expected(task, AT).mean, rel=0.02)
    free = fleet._engine.store.free_slots
    assert not fleet._engine.store.sites.parts.rows.contexts.reshape(-1, KEPT, 3)[free].any()
    fleet.learn_many(rows)  # its slots are used again
    assert fleet.n_rewards == without.n_rewards + rows.height


def test_silence_counts_as_zero_when_its_time_is_over():
    now = [0.0]
    fleet = new(absent_reward=0, count_pending=False, time_to_live=60, clock=lambda: now[0])
    plain = new()
    ids = [each.decide_many(TASKS, CONTEXTS).ids for each in (fleet, plain)]
    fleet.reward_many(ids[0][::3], [1] * (N // 3))
    assert fleet.n_rewards == 0
    now[0] = 100.0
    assert fleet.pending() == []
    plain.reward_many(ids[1], [1, 0, 0] * (N // 3))

    assert fleet.n_rewards == N
    assert_allclose(believed(fleet), believed(plain), rtol=1e-9)


@pytest.mark.parametrize("family", ["binary", "count"])
def test_a_reward_takes_the_place_of_the_absent_one(family):
    largest = 1 if family == "binary" else 4
    values = np.floor(DRAWS[: KEPT * 3] * (largest + 1)).astype(int)
    counted, plain = new(rewards=family, absent_reward=0), new(rewards=family)
    arms = counted.decide_many(TASKS[: values.size], CONTEXTS[: values.size])
    assert counted.n_rewards == values.size
    assert counted.expected("t1", AT).mean["a"] < 0.3
    for place, (decision_id, value) in enumerate(zip(arms.ids, values.tolist(), strict=True)):
        if place % 2:
            assert counted.reward(decision_id, value)
    counted.reward_many(arms.ids, values.tolist())
    plain.learn_many(
        pl.DataFrame(
            {"task": arms.tasks, "arm": arms.arm, "x": CONTEXTS[: values.size, 0], "z": CONTEXTS[: values.size, 1]}
        ).with_columns(reward=values)
    )
    assert len(counted._engine.store.waiting) == 0
    assert_allclose(counted._engine.store.sites.parts.total.sum(), values.sum())
    for each in (counted, plain):
        for _ in range(10):  # all rows are kept: sites come to the same rest, wherever they started
            each.refresh()

    assert counted.n_rewards == plain.n_rewards
    for task in LOOKED_AT:
        assert counted.expected(task, AT).mean == pytest.approx(plain.expected(task, AT).mean, rel=0.02)


def test_absent_rewards_and_rewards_give_the_same_beliefs_however_they_are_cut():
    fleets = [new(absent_reward=0) for _ in range(2)]
    for fleet, cuts in zip(fleets, ([0, 1, 50, 333, N], [0, N]), strict=True):
        decisions = [
            fleet.decide(task, context, eligible=["abc"[place % 3]])
            for place, (task, context) in enumerate(zip(TASKS, CONTEXTS, strict=True))
        ]
        found = clicks([decision.arm for decision in decisions])
        for first, last in pairwise(cuts):
            if last - first < 100:
                for decision, click in zip(decisions[first:last], found[first:last], strict=True):
                    fleet.reward(decision, click)
            else:
                fleet.reward_many(decisions[first:last], found[first:last])

    assert_allclose(believed(fleets[0]), believed(fleets[1]), rtol=1e-9)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_clicks_that_come_after_hundreds_of_absent_ones_are_believed(rate):
    fleet = new(absent_reward=0, arms=["a"], features=[])
    ids = fleet.decide_many(["t"] * 400, np.zeros((400, 0))).ids
    assert fleet.expected("t", {}).mean["a"] < 0.02
    clicked = int(400 * rate)
    for decision_id in ids[:clicked]:
        fleet.reward(decision_id, True)

    # The posterior mean of one task with 400 rewards; its standard error is at most 0.025.
    assert fleet.expected("t", {}).mean["a"] == pytest.approx(rate, abs=0.03)


def test_a_saved_fleet_goes_on_waiting(tmp_path):
    fleet = new(absent_reward=0)
    decisions = fleet.decide_many(TASKS, CONTEXTS)
    fleet.reward_many(decisions.ids[:300], clicks(decisions.arm)[:300])
    fleet.save(tmp_path / "clicks.posse")
    loaded = Posse.load(tmp_path / "clicks.posse")
    for each in (fleet, loaded):
        each.forget("t3")
        there = [place for place in range(300, N) if TASKS[place] != "t3"]
        each.reward_many([decisions.ids[place] for place in there], [clicks(decisions.arm)[place] for place in there])

    assert (believed(loaded) == believed(fleet)).all()
    assert len(fleet._engine.store.waiting) == 0
    fleet._engine.store.waiting.add(0, np.zeros(3), 0.5, 1.0, 1.0)
    fleet.save(tmp_path / "broken.posse")
    with pytest.raises(DamagedFile):
        Posse.load(tmp_path / "broken.posse")


def test_counts_are_learned_as_rates():
    rng = np.random.default_rng(2)
    fleet = new(rewards="count", arms=["a", "b"], features=[])
    arms = np.resize(["a", "b"], 400)
    fleet.learn_many(
        pl.DataFrame({"task": TASKS[:400], "arm": arms, "reward": rng.poisson(np.where(arms == "a", 3.0, 0.5))})
    )
    shown = fleet.expected("t1", {})
    # About 33 counts per pair, and the others': a standard error of 0.2 at most.
    assert shown.mean["a"] == pytest.approx(3.0, abs=0.6)
    assert shown.mean["b"] == pytest.approx(0.5, abs=0.25)
    with pytest.raises(InvalidValue, match=r"expected a count of 0, 1, 2, \.\.\., got 2.5"):
        fleet.reward(fleet.decide("t1", {}).id, 2.5)
    assert fleet.reward(fleet.decide("t1", {}).id, 10**6)
    assert np.isfinite(list(fleet.expected("t1", {}).mean.values())).all()


@pytest.mark.parametrize("n", [100, 480])
def test_a_merged_fleet_believes_what_one_that_learned_all_believes(n):
    rows = table(n)
    one, other, whole = new(), new(), new()
    one.learn_many(rows[::2])
    other.learn_many(rows[1::2])
    one.merge(other)
    whole.learn_many(rows)
    sites = [each._engine.store.sites.parts for each in (one, whole)]
    for name in ("contexts", "squares", "total"):
        assert_allclose(*(getattr(part, name).sum(axis=0) for part in sites))
    assert one.n_rewards == n
    kept = [part.rows for part in sites]
    assert kept[0].kept.sum() == kept[1].kept.sum() == n
    for each in (one, whole):
        for _ in range(10):
            each.refresh()

    # All rows are kept, so sites come to the same rest, wherever they were made.
    for task in LOOKED_AT:
        assert one.expected(task, AT).mean == pytest.approx(whole.expected(task, AT).mean, rel=0.02)


def test_fleets_of_other_rewards_are_not_merged(fleet):
    with pytest.raises(InvalidValue, match="expected a fleet of rewards='number', as this one is, got 'binary'"):
        new(rewards="number").merge(fleet)


def drained(fleet):
    while fleet.refreshing:
        time.sleep(0.001)


@pytest.mark.parametrize("absent", [{}, {"absent_reward": 0}], ids=["plain", "pending counts"])
def test_a_population_that_is_estimated_in_the_background_is_the_same_only_later(absent):
    beside, plain = new(background=True, **absent), new(**absent)
    started = 0
    for fleet in (beside, plain):
        for place, (task, context) in enumerate(zip(TASKS, CONTEXTS, strict=True)):
            decision = fleet.decide(task, context, eligible=["abc"[place % 3]])
            if place % 5:
                fleet.reward(decision, clicks([decision.arm] * N)[place])
            started += fleet.refreshing
        left = [one.id for one in fleet.pending()]
        fleet.reward_many(left, [True] * len(left))
        drained(fleet)
    assert started
    assert_allclose(believed(beside), believed(plain), rtol=1e-9)
    assert beside._engine.store.beside is None

    for fleet in (beside, plain):
        fleet.refresh(wait=fleet is plain)
        fleet.learn_many(table(50))
        fleet.forget("t2")
        fleet.add_arm("d")
        fleet.retire_arm("d")
    assert_allclose(believed(beside), believed(plain), rtol=1e-9)
    with pytest.raises(InvalidValue, match="expected no sample"):
        beside.refresh(wait=False, sample=10)


def test_a_file_that_is_saved_during_an_estimate_has_its_outcome(tmp_path, monkeypatch):
    fleet, plain = new(background=True), new()
    ids = [each.decide_many(TASKS, CONTEXTS).ids for each in (fleet, plain)]
    held = threading.Event()
    refresh = SiteStore.refresh

    def slow(store, *rest, **settings):
        held.wait(0.2)
        refresh(store, *rest, **settings)

    monkeypatch.setattr(SiteStore, "refresh", slow)
    fleet.reward_many(ids[0][:100], [1, 0] * 50)
    assert fleet.refreshing
    fleet.save(tmp_path / "clicks.posse")
    assert not fleet.refreshing
    held.set()
    plain.reward_many(ids[1][:100], [1, 0] * 50)
    assert_allclose(believed(fleet), believed(plain), rtol=1e-9)
    assert (believed(Posse.load(tmp_path / "clicks.posse")) == believed(fleet)).all()


def test_an_estimate_in_the_background_that_fails_is_postponed(monkeypatch, caplog):
    fleet = new(background=True)
    ids = fleet.decide_many(TASKS, CONTEXTS).ids

    def broken(*_, **__):
        raise MemoryError

    monkeypatch.setattr(SiteStore, "refresh", broken)
    fleet.reward_many(ids[:50], [1, 0] * 25)
    drained(fleet)
    assert "MemoryError" in fleet.refresh_problem
    assert fleet.n_rewards == 50
    monkeypatch.undo()
    fleet.reward_many(ids[50:], [1, 0] * 275)
    drained(fleet)
    assert fleet.refresh_problem is None
    assert fleet.n_rewards == N


def test_replicas_that_learn_the_same_order_believe_the_same_from_any_snapshot(fleet, tmp_path):
    arms = new().decide_many(TASKS, CONTEXTS).arm
    rewards = [float(click) for click in clicks(arms)]

    def replica():
        return Replica(arms=["a", "b", "c"], features=["x", "z"], rewards="binary", background=True)

    def learn(each, first, last):
        each.learn(TASKS[first:last], arms[first:last], CONTEXTS[first:last], rewards[first:last], applied=last)

    one, other = replica(), replica()
    other.leading = False
    learn(one, 0, N)
    for step in range(0, 250, 50):
        learn(other, step, step + 50)
    write = other.freeze()
    learn(other, 250, 300)
    write(tmp_path / "snapshot")
    third = Replica.load(tmp_path / "snapshot")
    learn(third, 250, N)
    learn(other, 300, N)
    for each in (one, other, third):
        drained(each)

    assert_allclose(believed(one), believed(fleet), rtol=1e-9)
    assert (believed(other) == believed(one)).all()
    assert (believed(third) == believed(one)).all()
    decision = one.propose("t1", AT)
    assert decision.mean == one.expected("t1", AT).mean
    assert one.dump_population() is None
    applied, sums = one.learned(["t1"])
    rows = [row for row in range(N) if TASKS[row] == "t1" and arms[row] == "b"]
    assert applied == N
    assert sums["t1", "b"].counts == len(rows)
    assert sums["t1", "b"].sum_of_squares == sum(rewards[row] for row in rows)
    assert_allclose(sums["t1", "b"].moment[1:], CONTEXTS[rows].sum(axis=0))
    with pytest.raises(InvalidValue, match="expected binary rewards"):
        one.learn(["t1"], ["a"], [[0.0, 0.0]], [0.5])


def test_arms_may_join_later(fleet):
    fleet = learned()
    fleet.add_arm("d")
    mean = fleet.expected("t1", AT).mean
    assert 0 < mean["d"] < 1
    for _ in range(30):
        fleet.reward(fleet.decide("t1", AT, eligible=["d"]).id, True)
    assert fleet.expected("t1", AT).mean["d"] > max(mean.values())


def test_an_overview_says_what_scale_it_is_on_and_a_report_shows_rates(fleet):
    overview = fleet.overview()
    assert overview.rewards == overview.to_json()["rewards"] == "binary"
    rate = float(np.mean([arm.noise_sd**2 for arm in overview.arms]))
    assert 0.15 < rate < 0.25  # p (1 - p)
    report = fleet.report()
    assert ((report.best.low > 0) & (report.best.high < 1)).all()
    assert ((report.best.low < report.best.mean) & (report.best.mean < report.best.high)).all()
    assert report.varies


def test_an_estimate_is_due_at_the_same_reward_whatever_rounding_leaves_of_old_ones():
    """One more than 2.37 rewards may be a little less than one more: who learns one by one and who plans must agree."""
    store = new(drift=1.0)._engine.store
    left = np.random.default_rng(0).uniform(0.0, 9.0, 2000)
    assert {store._rewards_until(at, 0.1, 0.0, at) for at in left.tolist()} == {1}
    assert {store._rewards_until(at, 0.1, 0.0, at + 1.0) for at in left.tolist()} == {0}
