from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.core.forgetting import shares_left
from posse.core.store import COUNT, DECAY_AT, INFORMATION, totals_at
from posse.errors import InvalidValue
from posse.fleet.replica import Replica

DAY = 86400.0
NAMES = tuple(f"store-{number}" for number in range(12))


def world(seed=0):
    """Coefficients of 3 arms and 12 tasks."""
    rng = np.random.default_rng([seed, 7])
    return 1.5 * rng.normal(size=(3, 1, 3)) + 0.4 * rng.normal(size=(3, 12, 3))


def live(fleet, clock, truth, n, seed=1, *, step=3600.0, log=None):
    """Decide and reward n times, an hour apart."""
    rng = np.random.default_rng([seed, 9])
    for _ in range(n):
        clock.now += step
        task, a, b = int(rng.integers(12)), *rng.normal(size=2)
        decision = fleet.decide(NAMES[task], {"a": a, "b": b})
        arm = fleet.arms.index(decision.arm)
        reward = float(truth[arm, task] @ [1.0, a, b] + 0.5 * rng.normal())
        fleet.reward(decision.id, reward)
        if log is not None:
            log.append((NAMES[task], decision.arm, a, b, reward, clock.now))
    return fleet


def table_of(log):
    return pl.DataFrame(log, schema=["task", "arm", "a", "b", "reward", "time"], orient="row")


def grams_of(fleet):
    """Return sums of products in the order of the names of tasks, which may have come in any order."""
    return fleet.statistics.gram[:, np.argsort(fleet.tasks)]


def expectations(fleet):
    return np.array(
        [list(fleet.expected(task, {"a": 0.4, "b": -1.0}).mean.values()) for task in ("store-2", "store-5", "nobody")]
    )


@pytest.mark.parametrize("drift", [20.0, timedelta(days=20)])
def test_old_rewards_fade_on_the_clock(fleet_of, clock, drift):
    fleet = fleet_of(60, clock=clock, drift=drift)
    before = fleet.statistics
    clock.now += 5.3 * DAY
    fleet.decide("t1", {"a": 0.0, "b": 0.0})
    # All came at once, so the precision of their sites is their number.
    share = shares_left(before.count, 5.3 / 20.0)
    assert_allclose(fleet.statistics.gram, before.gram * share[:, :, None, None], rtol=1e-12)
    assert_allclose(fleet.n_rewards, (before.count * share).sum())
    assert fleet.half_life == timedelta(days=20)


def test_after_a_long_time_a_task_is_believed_to_be_like_a_new_one(fleet_of, clock):
    fleet = fleet_of(200, clock=clock, drift=1.0)
    own, new = (np.array(list(fleet.expected(task, [1.0, 1.0]).mean.values())) for task in ("t1", "nobody"))
    assert np.abs(own - new).max() > 0.2
    clock.now += 40 * DAY
    fleet.decide("t1", [1.0, 1.0])
    own, new = (np.array(list(fleet.expected(task, [1.0, 1.0]).mean.values())) for task in ("t1", "nobody"))
    assert_allclose(own, new, atol=1e-6)


def test_without_drift_time_changes_nothing(fleet_of, clock, snapshot, differences):
    fleet = fleet_of(60, clock=clock)
    before = snapshot(fleet)
    clock.now += 1000 * DAY
    fleet.expected("t1", [0.0, 0.0])
    assert differences(before, snapshot(fleet)) == []
    assert fleet.half_life is None
    assert fleet.changes == []


@pytest.mark.parametrize("drift", [3.0, "learn"])
def test_a_log_with_times_gives_the_same_fleet(clock, new_clock, drift):
    def new(clock):
        return Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock, drift=drift)

    log = []
    fleet = live(new(clock), clock, world(), 250, log=log)
    live(fleet, clock, -world(), 150, log=log)  # everything changes
    again = new(new_clock(clock.now))
    again.learn_many(table_of(log).sample(fraction=1.0, shuffle=True, seed=0), time="time")
    # Ticks that nobody was rewarded in are taken together in one of them, else one by one: rounding.
    assert_allclose(grams_of(again), grams_of(fleet), rtol=1e-9, atol=1e-12)
    if drift != "learn":  # the population of a table is estimated at its end
        for _ in range(4):
            fleet.refresh()
            again.refresh()
    assert_allclose(expectations(again), expectations(fleet), rtol=1e-5 if drift == "learn" else 1e-2)
    assert (again.half_life, again.changes) == (fleet.half_life, fleet.changes)
    assert bool(fleet.changes) == (drift == "learn")


def test_dates_are_times(clock, fleet_of):
    fleet, same = (fleet_of(0, clock=clock, drift=2.0) for _ in range(2))
    seconds = np.linspace(1e9, 1e9 + 10 * DAY, 40)
    rows = live(fleet_of(0, clock=clock, arms=("red", "green", "blue")), clock, world(), 40)
    assert rows.n_rewards == 40
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "task": ["t"] * 40,
            "arm": rng.choice(["red", "green", "blue"], 40),
            "a": rng.normal(size=40),
            "b": rng.normal(size=40),
            "reward": rng.normal(size=40),
            "when": seconds,
            "date": [datetime.fromtimestamp(second, UTC) for second in seconds],
        }
    )
    fleet.learn_many(table, time="when")
    same.learn_many(table, time="date")
    assert_allclose(fleet.statistics.gram, same.statistics.gram, rtol=1e-9)
    assert fleet.n_rewards < 35
    with pytest.raises(InvalidValue, match="parse it"):
        fleet.learn_many(table.with_columns(date=pl.lit("yesterday")), time="date")
    with pytest.raises(InvalidValue, match="expected a fleet with drift"):
        fleet_of(0, clock=clock).learn_many(table, time="when")


def test_a_change_of_everything_is_noticed_and_learned(clock):
    fleet = Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock, drift="learn")
    still = Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock)
    for one in (fleet, still):
        live(one, clock, world(), 400)
    changed_at = clock.now
    live(fleet, clock, -world(), 400)
    first = fleet.changes[0]
    assert first.task is None
    assert changed_at < first.time.timestamp() < changed_at + 50 * 3600
    live(still, clock, -world(), 400)
    truth = -world()[:, [2, 5]] @ [1.0, 0.4, -1.0]
    errors = [np.abs(expectations(one)[:2].T - truth).mean() for one in (fleet, still)]
    assert errors[0] < 0.6 * errors[1]


def test_one_task_that_changes_starts_anew_alone(clock):
    fleet = Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock, drift="learn")
    live(fleet, clock, world(), 500)
    moved = world()
    moved[:, 4] *= -1.0
    live(fleet, clock, moved, 500, seed=2)
    assert [change.task for change in fleet.changes] == ["store-4"]


@pytest.mark.parametrize("drift", [3.0, "learn"])
def test_a_loaded_fleet_goes_on_as_the_saved_one(tmp_path, clock, snapshot, differences, drift):
    fleet = Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock, drift=drift)
    live(fleet, clock, world(), 200)
    fleet.forget("store-3")  # so that numbers of tasks are not their places
    live(fleet, clock, -world(), 100)
    fleet.save(tmp_path / "fleet.posse")
    loaded = Posse.load(tmp_path / "fleet.posse", clock=clock)
    assert differences(snapshot(fleet), snapshot(loaded)) == []
    now = clock.now
    live(fleet, clock, -world(), 60, seed=4)
    clock.now = now
    live(loaded, clock, -world(), 60, seed=4)
    assert_allclose(expectations(loaded), expectations(fleet), rtol=1e-9)
    assert (loaded.half_life, loaded.changes) == (fleet.half_life, fleet.changes)
    some = Posse.load(tmp_path / "fleet.posse", tasks=["store-2"], clock=clock)
    clock.now += 300 * DAY
    assert some.decide("store-2", [0.0, 0.0]).arm in ("x", "y", "z")


def test_a_snapshot_holds_what_was_there_before_ageing(tmp_path, fleet_of, clock):
    fleet = fleet_of(60, clock=clock, drift=2.0)
    before = fleet.statistics
    write = fleet.freeze()
    clock.now += 30 * DAY
    fleet.decide("t1", [0.0, 0.0])
    write(tmp_path / "snapshot")
    loaded = Posse.load(tmp_path / "snapshot", clock=clock)
    clock.now -= 30 * DAY
    assert_allclose(loaded.statistics.gram, before.gram)
    clock.now += 30 * DAY
    loaded.decide("t1", [0.0, 0.0])
    assert_allclose(loaded.statistics.gram, fleet.statistics.gram, rtol=1e-12)


def test_fleets_merge_at_the_later_time(fleet_of, clock, new_clock):
    one = fleet_of(60, clock=clock, drift=2.0)
    early, later = (fleet_of(60, table_seed=3, clock=new_clock(), drift=2.0) for _ in range(2))
    clock.now += 7 * DAY
    one.decide("t1", [0.0, 0.0])
    later.clock.now = clock.now
    later.decide("t1", [0.0, 0.0])
    expected, untouched = grams_of(one) + grams_of(later), grams_of(early)
    one.merge(early)
    assert_allclose(grams_of(one), expected, rtol=1e-12)
    assert_allclose(grams_of(early), untouched)
    with pytest.raises(InvalidValue, match="same drift"):
        one.merge(fleet_of(60, table_seed=4, clock=clock))


def test_a_forgotten_task_leaves_no_trace(clock):
    fleet = Posse(arms=["x", "y", "z"], features=FeatureSpec(["a", "b"]), seed=1, clock=clock, drift="learn")
    live(fleet, clock, world(), 500)
    moved = world()
    moved[:, 4] *= -1.0
    live(fleet, clock, moved, 500, seed=2)
    assert "store-4" in {change.task for change in fleet.changes}
    fleet.forget("store-4")
    assert "store-4" not in {change.task for change in fleet.changes}
    fleet.decide("somebody else", [0.0, 0.0])
    live(fleet, clock, world(), 20, seed=3)


def test_many_rewards_at_once_are_learned_as_one_by_one(clock, new_clock):
    one, many = (
        Posse(arms=["x", "y", "z"], features=["a", "b"], seed=1, clock=clock, drift=0.5, refresh_growth=1e9)
        for clock in (clock, new_clock())
    )
    rng = np.random.default_rng(4)
    for _ in range(30):
        contexts, values = rng.normal(size=(8, 2)), rng.normal(size=8).tolist()
        tasks = [NAMES[number] for number in rng.integers(12, size=8)]
        arms = [["xyz"[number]] for number in rng.integers(3, size=8)]
        decisions = [fleet.decide_many(tasks, contexts, arms) for fleet in (one, many)]
        for fleet in (one, many):
            fleet.clock.now += 5000.0
        for decision, value in zip(decisions[0], values, strict=True):
            one.reward(decision.id, value)
        assert many.reward_many(decisions[1], values) == 8
    assert_allclose(grams_of(many), grams_of(one), rtol=1e-12)
    for fleet in (one, many):  # populations were estimated at different times
        for _ in range(4):
            fleet.refresh()
    assert_allclose(expectations(many), expectations(one), atol=0.01)


def test_rewards_that_are_held_fade_from_when_they_are_learned(clock):
    fleet = Posse(
        arms=["x", "y", "z"],
        features=["a", "b"],
        seed=1,
        clock=clock,
        drift=1.0,
        absent_reward=0.0,
        count_pending=False,
        time_to_live=3600.0,
    )
    for number in range(10):
        decision = fleet.decide("t", [0.0, 1.0])
        if number % 2:
            fleet.reward(decision.id, 1.0)
    assert fleet.n_rewards == 0
    clock.now += 4000.0
    fleet.decide("t", [0.0, 1.0])
    assert fleet.n_rewards == 10
    clock.now += 3600.0 * 6
    fleet.decide("t", [0.0, 1.0])
    assert 0 < fleet.n_rewards < 10


def test_replicas_that_catch_up_have_the_sums_of_those_that_were_there(clock):
    log = []
    live(Posse(arms=["x", "y", "z"], features=["a", "b"], seed=1, clock=clock), clock, world(), 150, log=log)
    there, later = (Replica(arms=["x", "y", "z"], features=["a", "b"], seed=1, drift=0.5) for _ in range(2))
    tasks, arms, a, b, rewards, times = (list(column) for column in zip(*log, strict=True))
    times[40] += 9000.0  # clocks of two processes differ
    contexts = np.column_stack([a, b])
    for row in range(150):
        there.learn(tasks[row : row + 1], arms[row : row + 1], contexts[row : row + 1], rewards[row : row + 1],
            times=times[row : row + 1])  # fmt: skip
    for first in (0, 70):
        rows = slice(first, first + 80 if first else 70)
        later.learn(tasks[rows], arms[rows], contexts[rows], rewards[rows], times=times[rows], catching_up=True)
    assert there.n_rewards < 60
    # An estimate ages all sums to the latest time, which a clock that is ahead has been.
    assert_allclose(grams_of(later), grams_of(there), rtol=1e-5, atol=1e-7)
    later.look()
    assert np.isfinite(expectations(later)).all()


def test_a_noticed_change_counts_once_it_is_published(clock):
    log = []
    teacher = Posse(arms=["x", "y", "z"], features=["a", "b"], seed=1, clock=clock)
    live(teacher, clock, world(), 200, log=log)
    live(teacher, clock, -world(), 60, log=log)
    leader, follower, later = (Replica(arms=["x", "y", "z"], features=["a", "b"], drift="learn") for _ in range(3))
    follower.leading = False
    told = []
    for row, (task, arm, a, b, reward, time) in enumerate(log):
        for replica in (leader, follower):
            replica.learn([task], [arm], [[a, b]], [reward], times=[time])
        assert follower.noticed() == []
        for event in leader.noticed():
            assert leader.changes == [] or told
            told.append((row, event))
            for replica in (leader, follower):
                replica.notice(event, lambda label, event=event: label == event["task"])
    assert any(event.get("everywhere") for _, event in told)
    assert leader.changes == follower.changes
    assert leader.half_life == follower.half_life
    assert_allclose(grams_of(follower), grams_of(leader), rtol=1e-12)
    first = 0
    for row, event in [*told, (len(log) - 1, None)]:
        if row + 1 > first:
            tasks, arms, a, b, rewards, times = (list(column) for column in zip(*log[first : row + 1], strict=True))
            later.learn(tasks, arms, np.column_stack([a, b]), rewards, times=times, catching_up=True)
        first = row + 1
        if event is not None:
            later.notice(event, lambda label, event=event: label == event["task"])
    assert later.changes == leader.changes
    assert_allclose(grams_of(later), grams_of(leader), rtol=1e-9)


def test_a_refused_reward_leaves_everything_as_it_was(clock, snapshot, differences):
    def refuse(records):
        if any("reward" in record for record in records):
            raise OSError("disk full")

    fleet = Posse(arms=["x", "y"], features=["a", "b"], seed=1, clock=clock, drift="learn", log=refuse)
    decision = fleet.decide("t", [0.0, 1.0])
    before = snapshot(fleet)
    with pytest.raises(OSError, match="disk full"):
        fleet.reward(decision.id, 1.0)
    assert differences(before, snapshot(fleet)) == []


def test_ageing_never_winds_up(clock):
    """A feature that is met no more, tasks that are idle for years, ticks by the thousand: nothing fails."""
    fleet = Posse(arms=["x", "y", "z"], features=["a", "b"], seed=1, clock=clock, drift=0.5)
    live(fleet, clock, world(), 100)
    for hour in range(600):
        clock.now += 3600.0
        decision = fleet.decide("store-1", {"a": np.sin(hour), "b": 0.0})
        fleet.reward(decision.id, float(hour % 3))
    assert fleet.refresh_problem is None
    assert np.isfinite(expectations(fleet)).all()
    assert (fleet.statistics.count.sum(axis=0) > 0).all()


# Clicks and counts.

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def clicking(clock, n=120, *, rewards="binary", seed=2, **settings):
    """A fleet that has decided and learned clicks or counts, an hour apart."""
    settings = {"drift": 2.0, "seed": 1, **settings}
    fleet = Posse(arms=["red", "green"], features=["age"], rewards=rewards, clock=clock, **settings)
    rng, log = np.random.default_rng(seed), []
    for _ in range(n):
        clock.now += 3600.0
        task, age = f"t{rng.integers(6)}", float(rng.normal())
        decision = fleet.decide(task, [age])
        value = float(rng.random() < 0.3) if rewards == "binary" else float(rng.poisson(2.0))
        fleet.reward(decision, value)
        log.append((task, decision.arm, age, value, clock.now))
    return fleet, log


@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_old_clicks_fade_with_their_rows_and_are_made_again_as_what_they_still_count_for(clock, site_sums, rewards):
    fleet, _ = clicking(clock, rewards=rewards)
    before = {pair: sums for pair, (*_, sums) in site_sums(fleet).items()}
    assert fleet.n_rewards < 120
    clock.now += 6 * 3600.0
    decision = fleet.decide("t1", [0.0])
    fleet.reward(decision, 1.0)
    fleet.refresh()
    faded = site_sums(fleet)
    del before["t1", decision.arm]
    assert all(faded[pair][2][3] < sums[3] for pair, sums in before.items())
    for _ in range(30):
        fleet.refresh()
    store = fleet.core.state.store
    for (task, arm), (slot, rows, (gram, moment, information, weight)) in site_sums(fleet).items():
        sums = store.pairs[slot]
        assert_allclose(sums[[0, 1, 2]], gram[np.triu_indices(2)], rtol=1e-6, atol=1e-9)
        assert_allclose(sums[[3, 4]], moment, rtol=1e-6, atol=1e-9)
        assert_allclose(sums[totals_at(2) + INFORMATION], information, rtol=1e-6)
        assert_allclose(sums[totals_at(2) + COUNT], weight, rtol=1e-9)
        found = fleet.coefficients(task)
        mean, covariance = found.mean[arm], found.covariance[arm]
        for row in rows:
            x, (reward, precision, h) = store.row_context[row], store.row_values[row, :DECAY_AT]
            e, q = x @ mean, x @ covariance @ x
            eta = e + np.sqrt(q) * NODES
            # Counts with dispersion a are y of y + 1/a clicks with the logit eta + log(a).
            a = store.dispersion[fleet.names.arms.numbers[arm]]
            clicks, shift = (reward + 1 / a, np.log(a)) if rewards == "count" else (1.0, 0.0)
            value = 1 / (1 + np.exp(-eta - shift))
            expected, slope = clicks * WEIGHTS @ value, clicks * WEIGHTS @ (value * (1 - value))
            assert_allclose(precision, slope, rtol=2e-3)
            assert_allclose(h, reward - expected + slope * e, rtol=2e-3, atol=2e-3)


def test_a_log_of_clicks_with_times_gives_the_same_fleet_and_so_does_its_file(clock, new_clock, tmp_path):
    live_clock = new_clock()
    fleet, log = clicking(live_clock, refresh_growth=0.3)
    table = pl.DataFrame(log, schema=["task", "arm", "age", "reward", "time"], orient="row")
    again = Posse(
        arms=["red", "green"], features=["age"], rewards="binary", drift=2.0, seed=1, clock=live_clock,
        refresh_growth=0.3,
    )  # fmt: skip
    again.learn_many(table.sample(fraction=1.0, shuffle=True, seed=1), time="time", refresh=False)
    assert again.n_rewards == pytest.approx(fleet.n_rewards, rel=1e-12)
    fleet.save(tmp_path / "clicks.posse")
    loaded = Posse.load(tmp_path / "clicks.posse", clock=live_clock)
    for task in ("t1", "t4", "never seen"):
        expected = list(fleet.expected(task, [0.4]).mean.values())
        assert_allclose(list(again.expected(task, [0.4]).mean.values()), expected, rtol=1e-9)
        assert list(loaded.expected(task, [0.4]).mean.values()) == expected
    live_clock.now += 3 * DAY
    for one in (fleet, loaded):
        one.reward(one.decide("t1", [0.3], eligible=["red"]), 1.0)
        one.refresh()
    assert fleet.expected("t1", [0.4]) == loaded.expected("t1", [0.4])
    fleet.forget("t1")
    assert "t1" not in fleet.tasks


def test_clicks_are_merged_at_the_later_time(site_sums, new_clock):
    clocks = new_clock(), new_clock()
    (one, _), (two, _) = (clicking(own, 60, seed=seed) for own, seed in zip(clocks, (2, 3), strict=True))
    clocks[0].now += 5 * DAY
    one.decide("t1", [0.0])
    clocks[1].now = clocks[0].now
    alone = one.n_rewards
    one.merge(two)
    two.decide("t1", [0.0])
    assert one.n_rewards == pytest.approx(alone + two.n_rewards, rel=1e-9)
    for slot, _, sums in site_sums(one).values():
        pair = one.core.state.store.pairs[slot]
        assert_allclose(pair[totals_at(2) + COUNT], sums[3], rtol=1e-9)
        assert_allclose(pair[[3, 4]], sums[1], rtol=1e-6, atol=1e-9)


def test_clicks_that_are_years_old_leave_a_fleet_that_goes_on(clock):
    fleet, _ = clicking(clock, 60)
    for days in (1, 40, 400, 4000):
        clock.now += days * DAY
        for _ in range(3):
            fleet.reward(fleet.decide("t1", [0.5]), 1.0)
        fleet.refresh()
    assert fleet.refresh_problem is None
    assert np.isfinite(list(fleet.expected("t3", [0.2]).mean.values())).all()
    # One that nobody has met for long is like one that was never met.
    gone, new = (fleet.expected(task, [0.2]) for task in ("t3", "never seen"))
    assert_allclose(list(gone.mean.values()), list(new.mean.values()), rtol=1e-3)
    assert_allclose(list(gone.sd.values()), list(new.sd.values()), rtol=1e-3)


def test_with_drift_a_fleet_of_clicks_recovers_from_a_change(new_clock):
    """Arms swap their rates half way: regret after that, over three streams, against a fleet that never forgets."""
    regret = {}
    for drift in (None, 1.0):
        total = 0.0
        for seed in range(3):
            clock, rng = new_clock(), np.random.default_rng([seed, 4])
            fleet = Posse(["red", "green"], [], rewards="binary", seed=seed, clock=clock, drift=drift)
            for row in range(1600):
                clock.now += 360.0
                rates = {"red": 0.35, "green": 0.15} if row < 800 else {"red": 0.15, "green": 0.35}
                decision = fleet.decide(f"t{rng.integers(8)}", [])
                fleet.reward(decision, float(rng.random() < rates[decision.arm]))
                total += (0.35 - rates[decision.arm]) * (row >= 800)
        regret[drift] = total
    assert regret[1.0] < 0.6 * regret[None]


def clicking_live(fleet, clock, rates, n, seed=3, *, n_tasks=8, log=None):
    """Decide and reward n times, an hour apart; ``rates`` by arm, or by task and arm."""
    rng = np.random.default_rng([seed, 8])
    for _ in range(n):
        clock.now += 3600.0
        task, age = f"t{rng.integers(n_tasks)}", float(rng.normal())
        decision = fleet.decide(task, [age])
        rate = rates.get((task, decision.arm), rates.get(decision.arm))
        value = float(rng.random() < rate) if fleet.rewards == "binary" else float(rng.poisson(4.0 * rate))
        fleet.reward(decision, value)
        if log is not None:
            log.append((task, decision.arm, age, value, clock.now))


BEFORE, AFTER = {"red": 0.6, "green": 0.1}, {"red": 0.1, "green": 0.6}


@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_a_change_of_all_clicks_is_noticed_and_a_log_and_a_file_know_of_it(new_clock, tmp_path, rewards):
    """The fleet that learned, one that learns its log at once, and its file believe the same and go on alike."""
    clock, log = new_clock(), []
    fleet = Posse(["red", "green"], ["age"], rewards=rewards, seed=1, clock=clock, drift="learn")
    clicking_live(fleet, clock, BEFORE, 250, log=log)
    assert fleet.changes == []
    changed_at = clock.now
    clicking_live(fleet, clock, AFTER, 90, seed=4, log=log)
    assert [change.task for change in fleet.changes] == [None]
    assert changed_at < fleet.changes[0].time.timestamp() <= changed_at + 80 * 3600
    assert any("all tasks changed at once, noticed on" in finding for finding in fleet.findings())
    assert fleet.n_rewards < 100
    fleet.save(tmp_path / "clicks.posse")
    loaded = Posse.load(tmp_path / "clicks.posse", clock=clock)
    again = Posse(["red", "green"], ["age"], rewards=rewards, seed=1, clock=clock, drift="learn")
    table = pl.DataFrame(log, schema=["task", "arm", "age", "reward", "time"], orient="row")
    again.learn_many(table.sample(fraction=1.0, shuffle=True, seed=1), time="time", refresh=False)
    now = clock.now
    for one in (fleet, loaded, again):
        clock.now = now
        for row in range(30):
            clock.now += 3600.0
            one.reward(one.decide(f"t{row % 3}", [0.1], eligible=["red"]), float(row % 5 == 0))
        assert one.changes == fleet.changes
        for task in ("t1", "t4", "never seen"):
            expected = list(fleet.expected(task, [0.4]).mean.values())
            assert_allclose(list(one.expected(task, [0.4]).mean.values()), expected, rtol=1e-9)
        watch, same = one.core.forgetting.state(), fleet.core.forgetting.state()
        assert watch.keys() == same.keys()
        assert_allclose(watch["score"], same["score"], rtol=1e-9, atol=1e-12)
    fleet.forget("t1")
    clicking_live(fleet, clock, AFTER, 20)
    assert "t1" in fleet.tasks  # as a new one


def test_one_task_whose_clicks_change_starts_anew_alone(new_clock):
    clock = new_clock()
    fleet = Posse(["red", "green"], ["age"], rewards="binary", seed=1, clock=clock, drift="learn")
    clicking_live(fleet, clock, BEFORE, 500)
    clicking_live(fleet, clock, BEFORE | {("t2", "red"): 0.05, ("t2", "green"): 0.6}, 500, seed=4)
    # Others say that its old rates are the likely ones, so it may be found to differ from them once more.
    assert {change.task for change in fleet.changes} == {"t2"}
    assert len(fleet.changes) <= 2
    assert any("task 't2' changed suddenly" in finding for finding in fleet.findings())
    fleet.forget("t2")
    assert fleet.changes == []


@pytest.mark.parametrize(
    "rates", [{"red": 0.02, "green": 0.02}, {"red": 0.2, "green": 0.0}, {"red": 0.0, "green": 0.0}]
)
def test_rare_clicks_and_none_at_all_are_no_change(new_clock, rates):
    clock = new_clock()
    fleet = Posse(["red", "green"], ["age"], rewards="binary", seed=1, clock=clock, drift="learn")
    clicking_live(fleet, clock, rates, 1200)
    assert fleet.changes == []
    assert fleet.half_life is None
    assert fleet.refresh_problem is None
    rows = fleet.expected_many(["t1", "never seen"], [[0.0], [1.0]])
    assert np.isfinite(rows.select("mean", "low", "high").to_numpy()).all()
    assert fleet.n_rewards == 1200


@pytest.mark.parametrize("drift", [0.5, "learn"])
def test_replicas_of_clicks_believe_the_same_however_they_come_by_the_log(clock, drift):
    """A leader that learns row by row, a follower that learns some at a time, and one that learns all afterwards."""
    log = []
    teacher = Posse(["red", "green"], ["age"], rewards="binary", seed=1, clock=clock)
    clicking_live(teacher, clock, BEFORE, 160, log=log)
    clicking_live(teacher, clock, AFTER, 90, seed=4, log=log)
    leader, follower, later = (
        Replica(["red", "green"], ["age"], rewards="binary", drift=drift, seed=1) for _ in range(3)
    )
    follower.leading = False
    told, waiting = [], []

    def learn(replica, rows, **how):
        tasks, arms, ages, rewards, times = (list(column) for column in zip(*rows, strict=True))
        replica.learn(tasks, arms, [[age] for age in ages], rewards, times=times, **how)

    def tell(replica, event):
        replica.notice(event, lambda label: label == event["task"])

    for row, entry in enumerate(log):
        learn(leader, [entry])
        waiting.append(entry)
        events = leader.noticed()
        if events or row % 7 == 6:
            learn(follower, waiting)
            waiting.clear()
        for event in events:
            told.append((row, event))
            for replica in (leader, follower):
                tell(replica, event)
    learn(follower, waiting) if waiting else None
    assert follower.noticed() == []
    assert any(event.get("everywhere") for _, event in told) == (drift == "learn")
    first = 0
    for row, event in told:
        if row >= first:
            learn(later, log[first : row + 1], catching_up=True)
            first = row + 1
        tell(later, event)
    learn(later, log[first:], catching_up=True)
    later.look()
    assert leader.n_rewards < 249
    for replica in (follower, later):
        assert replica.n_rewards == pytest.approx(leader.n_rewards, rel=1e-12)
        assert replica.changes == leader.changes
        for task in ("t1", "t4", "never seen"):
            for name in ("mean", "sd"):
                expected = list(getattr(leader.expected(task, [0.4]), name).values())
                assert_allclose(list(getattr(replica.expected(task, [0.4]), name).values()), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"drift": "yes"},
        {"drift": 0},
        {"drift": timedelta(0)},
        {"drift": float("inf")},
    ],
)
def test_what_cannot_be_is_refused(settings):
    with pytest.raises(InvalidValue):
        Posse(arms=["x", "y"], features=["a"], **settings)
