"""What is known about tasks and arms where rewards are clicks or counts."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.core.estimate import with_posterior
from posse.core.looking import arm_of
from posse.core.store import COUNT, DECAY_AT, INFORMATION, totals_at
from posse.families import LINKED
from posse.features import one_hot
from posse.fleet.replica import Replica

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

REGIONS, ARMS = ["north", "south", "west"], ["red", "green"]
TASK_FEATURES = FeatureSpec([one_hot("region", REGIONS), "size"])
ARM_FEATURES = FeatureSpec([one_hot("category", ["a", "b", "c"])])


def region_of(task):
    return {"region": REGIONS[task % 3], "size": 1.0 + task % 2}


def known_tasks(n=40):
    return {f"t{j}": region_of(j) for j in range(n)}


def table(n=600, n_tasks=30, *, matter=1.0, rewards="binary", seed=0):
    """Clicks or counts of tasks whose predictors follow their regions, nearly."""
    rng = np.random.default_rng([seed, 1])
    size = 1.0 if rewards == "binary" else 0.4
    means, by_region = size * rng.normal(size=(2, 2)), size * matter * rng.normal(size=(2, 3, 2))
    task, arm = rng.integers(n_tasks, size=n), rng.integers(2, size=n)
    own = 0.2 * size * np.random.default_rng([seed, 2]).normal(size=(2, n_tasks, 2))
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    theta = means[:, None] + by_region[:, np.arange(n_tasks) % 3] + own
    mean = LINKED[rewards].mean_of(np.einsum("ni,ni->n", X, theta[arm, task]))
    y = (rng.random(n) < mean).astype(float) if rewards == "binary" else rng.poisson(mean).astype(float)
    rows = {"task": [f"t{j}" for j in task], "arm": [ARMS[k] for k in arm], "x": X[:, 1], "reward": y}
    return pl.DataFrame(rows), means[:, None] + by_region


def fleet_of(rows=600, *, known=True, rewards="binary", **settings):
    settings = {"seed": 3, "clock": lambda: 1000.0, "task_features": TASK_FEATURES, **settings}
    fleet = Posse(arms=ARMS, features=["x"], rewards=rewards, **settings)
    if known:
        fleet.set_task_features(known_tasks())
    if rows:
        fleet.learn_many(table(rows, rewards=rewards)[0])
    return fleet


@pytest.fixture
def assert_in_line(site_sums):
    """Compare the sums of pairs to the sites of their rows."""

    def compare(fleet):
        store, n_checked = fleet.core.state.store, 0
        for slot, rows, (gram, moment, information, _) in site_sums(fleet).values():
            sums = store.pairs[slot]
            if len(rows) == sums[totals_at(2) + COUNT]:  # none is left out
                assert_allclose(sums[:3], gram[np.triu_indices(2)], rtol=1e-7, atol=1e-9)
                assert_allclose(sums[3:5], moment, rtol=1e-7, atol=1e-8)
                assert_allclose(sums[totals_at(2) + INFORMATION], information, rtol=1e-7)
                n_checked += 1
        assert n_checked

    return compare


@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_new_tasks_start_where_their_regions_are(assert_in_line, rewards):
    fleet, (rows, truth) = fleet_of(3000, rewards=rewards), table(3000, rewards=rewards)
    size = 1.0 if rewards == "binary" else 0.4
    for task in range(30, 36):  # without a reward
        found = fleet.coefficients(f"t{task}")
        for place, arm in enumerate(ARMS):
            # 10 tasks and 500 rewards a region and arm: 0.06 from tasks, 0.1 from clicks, more where nearly all are 0.
            assert_allclose(found.mean[arm], truth[place, task % 3], atol=0.45 * size)
    plain = Posse(arms=ARMS, features=["x"], rewards=rewards, seed=3)
    plain.learn_many(rows)
    one, other = fleet.expected("t31", [0.5]), plain.expected("t31", [0.5])
    assert one.sd["red"] < 0.5 * other.sd["red"]
    assert fleet.effects()["task"]["region"] > 0.5 * size
    assert fleet.effects()["task"]["size"] == 0.0
    stranger = fleet.expected("stranger", [0.5])
    assert stranger.sd["red"] > 2 * one.sd["red"]
    # In rates, and from the same predictors as the table.
    shown = fleet.expected_many(["t31"], [[0.5]])
    assert_allclose(shown["mean"], list(one.mean.values()))
    assert_in_line(fleet)


def test_beliefs_are_those_of_the_whole_model(site_sums):
    """Two ways: the fleet, and the posterior of all coefficients at once given its sites, population and effects."""
    fleet = fleet_of(240)
    store, x, sites = fleet.core.state.store, np.array([1.0, 0.7]), site_sums(fleet)
    assert fleet.effects()["task"]["region"] > 0
    assert max(len(rows) for _, rows, _ in sites.values()) < 40
    for place, arm in enumerate(ARMS):
        view = arm_of(fleet.core, place)
        used = np.flatnonzero(np.diag(view.before) > 0)  # features that say something
        n, tasks = used.size, [task for task, its_arm in sites if its_arm == arm] + ["t35"]
        precision, moment = np.zeros((n + 2 * len(tasks),) * 2), np.zeros(n + 2 * len(tasks))
        precision[:n, :n] = np.linalg.inv(view.before[np.ix_(used, used)])
        start = np.zeros(n)
        start[:2] = fleet.prior.shared_location[place]
        moment[:n] = precision[:n, :n] @ start
        directions = []
        for j, task in enumerate(tasks):
            known = store.known[fleet.names.tasks.get(task)]
            own = np.zeros((2, moment.size))  # of the coefficients of this task
            own[:, :n], own[:, n + 2 * j : n + 2 * j + 2] = np.kron(known, np.eye(2))[:, used], np.eye(2)
            directions.append(x @ own)
            at = slice(n + 2 * j, n + 2 + 2 * j)
            precision[at, at] += np.linalg.inv(view.covariance)
            if (task, arm) in sites:
                gram, added, *_ = sites[task, arm][2]
                precision += own.T @ gram @ own
                moment += added @ own
        covariance = np.linalg.inv(precision)
        mean = covariance @ moment
        for j, task in [*enumerate(tasks[:5]), (len(tasks) - 1, "t35")]:
            found, direction = fleet.coefficients(task), directions[j]
            assert x @ found.mean[arm] == pytest.approx(direction @ mean, rel=1e-5)
            assert x @ found.covariance[arm] @ x == pytest.approx(direction @ covariance @ direction, rel=1e-5)
            sd = (x @ found.covariance[arm] @ x) ** 0.5
            expected = fleet.expected(task, [0.7])
            assert expected.mean[arm] == pytest.approx(LINKED["binary"].expected(x @ found.mean[arm], sd), rel=1e-4)


def test_sites_are_the_best_ones_around_what_features_say(site_sums):
    """A site has the precision, and takes the belief to the place, where its own expectations hold."""
    fleet = fleet_of(240, absent_reward=0)
    for row in range(6):  # and some that wait, of which one gets its reward
        decision = fleet.decide(f"t{row}", [0.5])
    fleet.reward(decision, 1)
    for _ in range(10):
        fleet.refresh()
    store, checked = fleet.core.state.store, 0
    for (task, arm), (_, rows, _) in site_sums(fleet).items():
        found = fleet.coefficients(task)
        mean, covariance = found.mean[arm], found.covariance[arm]
        for row in rows:
            x, (reward, w, h) = store.row_context[row], store.row_values[row, :DECAY_AT]
            eta = x @ mean + np.sqrt(x @ covariance @ x) * NODES
            rate = 1 / (1 + np.exp(-eta))
            assert w == pytest.approx(WEIGHTS @ (rate * (1 - rate)), rel=0.03)
            # Of the log of the posterior the slope is 0 there: h - w e is what the reward says beyond it.
            assert h - w * (x @ mean) == pytest.approx(reward - WEIGHTS @ rate, abs=0.03)
            checked += 1
    assert checked == 246


def test_one_task_of_another_kind_changes_beliefs_exactly_and_leaves_the_population(assert_in_line):
    fleet = fleet_of(900, refresh_growth=10.0)
    fleet.decide("t4", [0.3])
    population, sums = fleet.prior.covariance.copy(), fleet.core.sums().moment
    fleet.set_task_features({"t4": region_of(2), "t5": region_of(0)})
    found = {task: fleet.expected(task, [0.4]) for task in ("t4", "t5", "t6", "t35")}
    assert (fleet.prior.covariance == population).all()
    assert_in_line(fleet)
    assert_allclose(fleet.core.sums().moment, sums)
    fleet.core.state = with_posterior(fleet.core.state, learned=False)[0]  # everything from the sums
    for task, expected in found.items():
        again = fleet.expected(task, [0.4])
        assert_allclose(list(expected.mean.values()), list(again.mean.values()), rtol=1e-8)
        assert_allclose(list(expected.sd.values()), list(again.sd.values()), rtol=1e-8)


def test_late_rewards_take_the_place_of_absent_ones(assert_in_line):
    fleet = fleet_of(900, absent_reward=0, refresh_growth=10.0)
    decisions = [fleet.decide(f"t{row % 8}", [0.1 * row]) for row in range(40)]
    ranking = fleet.decide("t4", [0.1], k=2)
    assert_in_line(fleet)
    fleet.reward_many(decisions[:10], [1] * 10)
    fleet.reward(decisions[10], True)
    fleet.reward_many(ranking, [1, 0])
    assert_in_line(fleet)
    fleet.set_task_features({"t1": region_of(0)})  # rows that wait move with the others
    assert_in_line(fleet)
    fleet.refresh()
    assert_in_line(fleet)
    for decision in decisions[11:20]:
        fleet.reward(decision, 1)
    assert_in_line(fleet)


def test_a_saved_fleet_knows_the_same(tmp_path, assert_in_line):
    fleet = fleet_of(arm_features=ARM_FEATURES, absent_reward=0)
    fleet.add_arm("blue", {"category": "a"})
    waiting = fleet.decide("t3", [0.2])
    fleet.save(tmp_path / "fleet.posse")
    loaded = Posse.load(tmp_path / "fleet.posse", clock=lambda: 1000.0)
    some = Posse.load(tmp_path / "fleet.posse", tasks=["t3", "t35"], clock=lambda: 1000.0)
    assert loaded.rewards == "binary"
    for task in ("t3", "t35"):
        assert fleet.expected(task, [0.1]) == loaded.expected(task, [0.1]) == some.expected(task, [0.1])
    for one in (fleet, loaded):
        assert one.reward(waiting, 1)
        assert_in_line(one)
    for row in range(80):  # with estimates in between
        first, second = (one.decide(f"t{row % 40}", [0.1]) for one in (fleet, loaded))
        assert first[1:] == second[1:]
        fleet.reward(first, row % 2)
        loaded.reward(second, row % 2)
    assert loaded.export("t35")["features"] == region_of(35)


def test_merged_fleets_know_what_both_knew(assert_in_line):
    rows = table(1500)[0]
    settings = {"arm_features": ARM_FEATURES, "known": False, "rows": 0, "absent_reward": 0}
    one, other = fleet_of(**settings), fleet_of(**settings)
    other.add_arm("blue", {"category": "b"})
    known, names = known_tasks(), list(known_tasks())
    one.set_task_features({name: known[name] for name in names[:25]})
    # About some tasks only the other fleet knows something, and about one it is wrong, which does not count.
    other.set_task_features({name: known[name] for name in names[20:]} | {"t22": region_of(0)})
    late = pl.DataFrame({"task": ["t3", "t30"], "arm": ["blue", "blue"], "x": [0.1, 0.2], "reward": [1.0, 1.0]})
    one.learn_many(rows[:800])
    other.learn_many(pl.concat([rows[800:], late]))
    waiting = [fleet.decide("t31", [0.3]) for fleet in (other, one)]
    assert one.effects()["task"]["region"] > 0.3  # or nothing would move
    raw = [{task: fleet.export(task)["arms"] for task in fleet.tasks} for fleet in (one, other)]
    one.merge(other)
    for task in ("t3", "t22", "t27", "t30", "t31"):
        found = one.export(task)["arms"]
        for arm in ("red", "green", "blue"):
            parts = [part[task][arm] for part in raw if task in part and part[task].get(arm, {}).get("count")]
            assert found[arm]["count"] == sum(part["count"] for part in parts)
    assert_in_line(one)
    assert one.export("t22")["features"] == region_of(22)
    assert one.export("t35")["features"] == region_of(35)
    assert all(one.reward(decision, 1) for decision in waiting)
    for _ in range(3):
        one.refresh()
    assert_in_line(one)
    whole = fleet_of(0, arm_features=ARM_FEATURES, absent_reward=0)
    whole.add_arm("blue", {"category": "b"})
    whole.learn_many(pl.concat([rows, late]))
    for task in ("t1", "t22", "t35"):
        mine, theirs = (fleet.expected(task, [0.4]) for fleet in (one, whole))
        assert_allclose([mine.mean[a] for a in ARMS], [theirs.mean[a] for a in ARMS], atol=0.05)


def test_a_replica_that_learns_the_same_in_order_believes_the_same(tmp_path):
    rows = table(700)[0]
    columns = [rows[name].to_list() for name in ("task", "arm")]

    def follow(replica, size, **settings):
        replica.set_task_features(known_tasks())
        for first in range(0, 700, size):
            part = slice(first, first + size)
            if first == 70:
                replica.set_task_features({"t3": region_of(1)})
            rewards = rows["reward"][part].to_list()
            replica.learn(*(column[part] for column in columns), rows.select("x")[part], rewards, **settings)

    settings = {"rewards": "binary", "task_features": TASK_FEATURES, "background": True}
    live, again = (Replica(arms=ARMS, features=["x"], **settings) for _ in range(2))
    follow(live, 10)
    follow(again, 35, catching_up=True)  # as from a log: other batches, and nobody decides in between
    assert live.dump_population() is None
    live.freeze()(tmp_path / "snapshot")
    loaded = Replica.load(tmp_path / "snapshot")
    assert live.effects()["task"]["region"] > 0.3
    for task in ("t1", "t3", "t35", "stranger"):
        expected = live.expected(task, [0.4])
        assert again.expected(task, [0.4]) == loaded.expected(task, [0.4]) == expected
    _, sums = live.learned(["t3"])
    mine = rows.filter((pl.col("task") == "t3") & (pl.col("arm") == "red"))
    assert sums["t3", "red"].squares == mine["reward"].sum()


def test_ordinary_data_is_learned():
    rare, rng = fleet_of(0), np.random.default_rng(4)
    n = 4000
    task, arm = rng.integers(30, size=n), rng.integers(2, size=n)
    rate = np.array([0.01, 0.02, 0.05])[task % 3]
    frame = {"task": [f"t{j}" for j in task], "arm": [ARMS[k] for k in arm], "x": rng.normal(size=n)}
    rare.learn_many({**frame, "reward": rng.random(n) < rate})
    assert 0.03 < np.mean(list(rare.expected("t32", [0.0]).mean.values())) < 0.08
    assert np.mean(list(rare.expected("t30", [0.0]).mean.values())) < 0.02
    none = fleet_of(0)
    none.learn_many({**frame, "reward": np.zeros(n)})
    assert max(none.expected("t32", [0.0]).mean.values()) < 0.02
    assert not any(none.effects()["task"].values())
    # A region that no reward came from.
    two = fleet_of(0)
    rows = table(1500)[0]
    two.learn_many(rows.filter(pl.col("task").str.slice(1).cast(int) % 3 != 2))
    new, old = two.expected("t35", [0.3]), two.expected("t31", [0.3])
    assert np.isfinite(list(new.mean.values())).all()
    assert new.sd["red"] > 2 * old.sd["red"]
