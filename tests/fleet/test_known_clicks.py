"""What is known about tasks and arms where rewards are clicks or counts."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse import FeatureSpec, Posse
from posse.families import LINKED
from posse.features import one_hot
from posse.fleet.overview import coefficients_of
from posse.fleet.replica import Replica
from posse.kernels.packing import whole_matrices
from posse.kernels.sites import expectations

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


def offsets_of(fleet):
    """Slots of all pairs, and what features say of their coefficients."""
    store = fleet._engine.store
    slots = store.belief.slot[: store.n_tasks, : store.n_arms]
    tasks, arms = np.nonzero(slots >= 0)
    return slots[tasks, arms], fleet._engine.known.offsets(tasks, arms)


def sites_of(fleet):
    """Precision and moment of the sites of all rows as factors on the predictor itself, by slot."""
    store = fleet._engine.store
    rows, waiting, found = store.sites.parts.rows, store.waiting, {}
    for slot, offset in zip(*offsets_of(fleet), strict=True):
        for part, places in ((rows, rows.first[slot] + np.arange(rows.kept[slot])), (waiting, waiting.of(int(slot)))):
            for place in places:
                w, x = part.precision[place], part.contexts[place]
                found.setdefault(int(slot), []).append((*x, w, part.moment[place] + w * (x @ offset)))
    return {slot: np.array(values) for slot, values in found.items()}


def assert_in_line(fleet):
    """Compare the offsets that sites are made with to what is known, and the sums to the sites of all rows."""
    store = fleet._engine.store
    slots, offsets = offsets_of(fleet)
    assert_array_equal(store.sites.parts.rows.offset[slots], offsets)
    sums, of = store.belief.sums, dict(zip(slots.tolist(), offsets, strict=True))
    for slot, values in sites_of(fleet).items():
        if len(values) == sums.counts[slot]:  # all rows are kept
            X, w, h = values[:, :2], values[:, 2], values[:, 3]
            less = h - w * (X @ of[slot])
            assert_allclose(whole_matrices(sums.gram[[slot]])[0], (X.T * w) @ X, rtol=1e-7, atol=1e-9)
            assert_allclose(sums.moment[slot], less @ X, rtol=1e-7, atol=1e-8)
            assert_allclose(sums.sum_of_squares[slot], (less**2 / w).sum(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_new_tasks_start_where_their_regions_are(rewards):
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


def test_beliefs_are_those_of_the_whole_model():
    """Two roads: the fleet, and the posterior of all coefficients at once given its sites, population and effects."""
    fleet = fleet_of(240)
    store, known = fleet._engine.store, fleet._engine.known
    assert known.tasks.effects.mean.any()
    assert store.sites.parts.rows.kept.max() < 40
    belief, sites, x = store.belief, sites_of(fleet), np.array([1.0, 0.7])
    store.settle()
    for place, arm in enumerate(ARMS):
        tasks = [j for j in range(30) if belief.slot[j, place] >= 0] + [35]
        size = 2 + 2 * len(tasks)  # the mean, then what each task adds to it
        precision, moment = np.zeros((size, size)), np.zeros(size)
        precision[:2, :2] = belief.shared_precision[place]
        moment[:2] = belief.shared_precision[place] @ belief.shared_location[place]
        for n, task in enumerate(tasks):
            at = slice(2 + 2 * n, 4 + 2 * n)
            precision[at, at] += np.linalg.inv(belief.covariance[place])
            of_task = known.tasks.rows[task] @ known.tasks.effects.mean[place]
            for row in sites.get(int(belief.slot[task, place]), ()):
                direction, w, h = np.zeros(size), row[2], row[3]
                direction[:2] = direction[at] = row[:2]
                precision += w * np.outer(direction, direction)
                moment += (h - w * (row[:2] @ of_task)) * direction
        covariance = np.linalg.inv(precision)
        mean = covariance @ moment
        for n, task in [*enumerate(tasks[:5]), (len(tasks) - 1, 35)]:
            direction = np.zeros(size)
            direction[:2] = direction[2 + 2 * n : 4 + 2 * n] = x
            offset = x @ (known.tasks.rows[task] @ known.tasks.effects.mean[place])
            found = fleet.coefficients(f"t{task}")
            assert x @ found.mean[arm] == pytest.approx(direction @ mean + offset, rel=1e-5)
            assert x @ found.covariance[arm] @ x >= direction @ covariance @ direction - 1e-9
            sd = (x @ found.covariance[arm] @ x) ** 0.5
            expected = fleet.expected(f"t{task}", [0.7])
            assert expected.mean[arm] == pytest.approx(LINKED["binary"].expected(x @ found.mean[arm], sd), rel=1e-4)


def test_sites_are_the_best_ones_around_what_features_say():
    """A site has the precision, and takes the belief to the place, where its own expectations hold."""
    fleet = fleet_of(240, absent_reward=0)
    for row in range(6):  # and some that wait, of which one gets its reward
        decision = fleet.decide(f"t{row}", [0.5])
    fleet.reward(decision, 1)
    for _ in range(10):
        fleet.refresh()
    store, known = fleet._engine.store, fleet._engine.known
    assert np.abs(store.sites.parts.rows.offset).max() > 0.5
    store.settle()
    rows, waiting, checked = store.sites.parts.rows, store.waiting, 0
    for place in range(2):
        for slot in store.belief.seen[place, : store.belief.n_seen[place]].tolist():
            task = int(store.belief.task_of[slot])
            mean, covariance = coefficients_of(store.belief, task, place)
            mean = mean + known.offsets(np.array([task]), np.array([place]))[0]
            kept = rows.first[slot] + np.arange(rows.kept[slot])
            for part, places in ((rows, kept), (waiting, waiting.of(slot))):
                for at in places:
                    x = part.contexts[at]
                    expected, slope = expectations.py_func(LINKED["binary"].code, x @ mean, x @ covariance @ x)[:2]
                    w, h = part.precision[at], part.moment[at] + part.precision[at] * (x @ rows.offset[slot])
                    assert w == pytest.approx(slope, rel=0.01)
                    # Of the log of the posterior the slope is 0 there: h - w e is what the reward says beyond it.
                    assert h - w * (x @ mean) == pytest.approx(part.rewards[at] - expected, abs=0.01)
                    checked += 1
    assert checked == 246


def test_one_task_of_another_kind_changes_beliefs_exactly_and_leaves_the_population():
    fleet = fleet_of(900, refresh_growth=10.0)
    fleet.decide("t4", [0.3])
    population, sites = fleet.prior.covariance.copy(), sites_of(fleet)
    fleet.set_task_features({"t4": region_of(2), "t5": region_of(0)})
    found = {task: fleet.expected(task, [0.4]) for task in ("t4", "t5", "t6", "t35")}
    assert (fleet.prior.covariance == population).all()
    assert_in_line(fleet)
    for slot, values in sites_of(fleet).items():
        assert_allclose(values, sites[slot], rtol=1e-9, atol=1e-9)
    fleet._engine.store.rebuild()  # everything from the sums
    for task, expected in found.items():
        again = fleet.expected(task, [0.4])
        assert_allclose(list(expected.mean.values()), list(again.mean.values()), rtol=1e-8)
        assert_allclose(list(expected.sd.values()), list(again.sd.values()), rtol=1e-8)


def test_late_rewards_take_the_place_of_absent_ones():
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


def test_a_saved_fleet_knows_the_same(tmp_path):
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


def test_merged_fleets_know_what_both_knew():
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
    one._engine.renew = lambda refresh=None: one._engine.store.rebuild()  # as the sums are, before an estimate
    one.merge(other)
    del one._engine.renew
    for task in ("t3", "t22", "t27", "t30", "t31"):
        found = one.export(task)["arms"]
        for arm in ("red", "green", "blue"):
            parts = [part[task][arm] for part in raw if task in part and part[task].get(arm, {}).get("count")]
            assert found[arm]["count"] == sum(part["count"] for part in parts)
            if parts:
                assert_allclose(found[arm]["moment"], np.sum([p["moment"] for p in parts], axis=0), atol=1e-8)
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
    assert sums["t3", "red"].sum_of_squares == mine["reward"].sum()


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
