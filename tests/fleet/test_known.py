"""What is known about tasks and arms: where new ones start, and that nothing else changes."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Catalogue, FeatureSpec, Posse
from posse.core.estimate import with_posterior
from posse.core.looking import arm_of
from posse.errors import DamagedFile, DataFileError, InvalidValue
from posse.features import hashed, numeric, one_hot
from posse.fleet.replica import Replica
from posse.logs import check_log, read_log, write_log

REGIONS, ARMS = ["north", "south", "west"], ["red", "green"]
TASK_FEATURES = FeatureSpec([one_hot("region", REGIONS), "size"])
ARM_FEATURES = FeatureSpec([one_hot("category", ["a", "b", "c"])])


def region_of(task):
    return {"region": REGIONS[task % 3], "size": 1.0 + task % 2}


def table(n=600, n_tasks=30, *, matter=1.0, arms=2, seed=0):
    """Rewards of tasks that follow their regions, nearly."""
    rng = np.random.default_rng([seed, 1])
    means, by_region = rng.normal(size=(arms, 2)), matter * rng.normal(size=(arms, 3, 2))
    task, arm = rng.integers(n_tasks, size=n), rng.integers(arms, size=n)
    own = 0.2 * np.random.default_rng([seed, 2]).normal(size=(arms, n_tasks, 2))
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    theta = means[:, None] + by_region[:, np.arange(n_tasks) % 3] + own
    y = np.einsum("ni,ni->n", X, theta[arm, task]) + 0.5 * rng.normal(size=n)
    names = ARMS if arms == 2 else [f"arm{k}" for k in range(arms)]
    rows = {"task": [f"t{j}" for j in task], "arm": [names[k] for k in arm], "x": X[:, 1], "reward": y}
    return pl.DataFrame(rows), means[:, None] + by_region


def known_tasks(n=40):
    return {f"t{j}": region_of(j) for j in range(n)}


def fleet_of(rows=600, *, known=True, **settings):
    settings = {"seed": 3, "clock": lambda: 1000.0, "task_features": TASK_FEATURES, **settings}
    fleet = Posse(arms=ARMS, features=["x"], **settings)
    if known:
        fleet.set_task_features(known_tasks())
    if rows:
        fleet.learn_many(table(rows)[0])
    return fleet


def test_new_tasks_start_where_their_regions_are():
    fleet, (_, truth) = fleet_of(1500), table(1500)
    for task in range(30, 40):  # without a reward
        found = fleet.coefficients(f"t{task}")
        for place, arm in enumerate(ARMS):
            # 10 tasks a region, each 0.2 from it: 0.06, and as much again from noise.
            assert_allclose(found.mean[arm], truth[place, task % 3], atol=0.35)
    plain = Posse(arms=ARMS, features=["x"], seed=3)
    plain.learn_many(table(1500)[0])
    assert fleet.expected("t31", [0.5]).sd["red"] < 0.5 * plain.expected("t31", [0.5]).sd["red"]
    # One about which nothing is known may be in any region, and is nearly as uncertain as in a fleet without them.
    stranger, average = fleet.expected("stranger", [0.5]), plain.expected("stranger", [0.5])
    assert stranger.sd["red"] == pytest.approx(average.sd["red"], rel=0.2)
    assert stranger.mean["red"] == pytest.approx(average.mean["red"], abs=0.2)
    found = fleet.coefficients("stranger").covariance["red"]
    assert [1.0, 0.5] @ found @ [1.0, 0.5] == pytest.approx(stranger.sd["red"] ** 2)
    assert fleet.effects()["task"]["region"] > 0.4
    assert fleet.effects()["task"]["size"] == 0.0  # sizes say nothing


def test_a_fleet_that_knows_nothing_decides_as_one_without_features():
    one, other = fleet_of(300, known=False), Posse(arms=ARMS, features=["x"], seed=3)
    other.learn_many(table(300)[0])
    for row in range(30):
        first, second = (fleet.decide(f"t{row}", [0.1 * row]) for fleet in (one, other))
        assert first[1:] == second[1:]
        one.reward(first, 0.5)
        other.reward(second, 0.5)


def test_features_that_say_nothing_change_nothing():
    settings = {"seed": 5, "clock": lambda: 1000.0}
    one = Posse(arms=ARMS, features=["x"], task_features=TASK_FEATURES, **settings)
    other = Posse(arms=ARMS, features=["x"], **settings)
    one.set_task_features(known_tasks())
    for fleet in (one, other):
        fleet.learn_many(table(600, matter=0.0)[0])
    assert not any(one.effects()["task"].values())
    assert one.expected("t3", [0.3]) == other.expected("t3", [0.3])


def test_beliefs_are_those_of_the_whole_model():
    """Two ways: the fleet, and the posterior of all coefficients at once under its population and effects."""
    fleet = fleet_of(120)
    store, rows, x = fleet.core.state.store, table(120)[0].to_dicts(), np.array([1.0, 0.7])
    assert fleet.effects()["task"]["region"] > 0
    for place, arm in enumerate(ARMS):
        view = arm_of(fleet.core, place)
        used = np.flatnonzero(np.diag(view.before) > 0)  # features that say something
        n = used.size
        mine = [row for row in rows if row["arm"] == arm]
        tasks = sorted({row["task"] for row in mine} | {"t35"})

        def direction_of(task, context, tasks=tasks, used=used, n=n):
            """Return how a predictor depends on what tasks share, and on what each adds to it."""
            found, known = np.zeros(n + 2 * len(tasks)), store.known[fleet.names.tasks.get(task)]
            at = n + 2 * tasks.index(task)
            found[:n], found[at : at + 2] = np.kron(known, context)[used], context
            return found

        design = np.array([direction_of(row["task"], np.array([1.0, row["x"]])) for row in mine])
        target, prior = np.array([row["reward"] for row in mine]), np.zeros((design.shape[1],) * 2)
        prior[:n, :n] = np.linalg.inv(view.before[np.ix_(used, used)])
        for j in range(len(tasks)):
            at = slice(n + 2 * j, n + 2 + 2 * j)
            prior[at, at] = np.linalg.inv(view.covariance)
        start = np.zeros(design.shape[1])
        start[:2] = fleet.prior.shared_location[place]
        total = np.linalg.inv(design.T @ design / view.noise + prior)
        mean = total @ (design.T @ target / view.noise + prior @ start)
        for task in [*tasks[:5], "t35"]:
            direction, expected = direction_of(task, x), fleet.expected(task, [0.7])
            assert expected.mean[arm] == pytest.approx(direction @ mean, rel=1e-6)
            assert expected.sd[arm] ** 2 == pytest.approx(direction @ total @ direction, rel=1e-6)
            found = fleet.coefficients(task)
            assert x @ found.mean[arm] == pytest.approx(expected.mean[arm])
            assert x @ found.covariance[arm] @ x == pytest.approx(expected.sd[arm] ** 2)


def test_sums_are_those_of_the_rewards_as_they_came():
    fleet, plain = fleet_of(), Posse(arms=ARMS, features=["x"])
    rows = table()[0]
    order = pl.DataFrame({"task": [f"t{j}" for j in range(40)]})
    plain.learn_many(order.join(rows, on="task", how="inner", maintain_order="left_right"))
    there = [place for place, task in enumerate(fleet.tasks) if task in plain.tasks]
    for name in ("gram", "moment", "sum_of_squares", "count"):
        assert_allclose(getattr(fleet.statistics, name)[:, there], getattr(plain.statistics, name), atol=1e-9)
    exported = fleet.export("t3")
    assert exported["features"] == {"region": "north", "size": 2.0}
    assert_allclose(exported["arms"]["red"]["moment"], plain.export("t3")["arms"]["red"]["moment"])


def test_features_may_come_after_the_rewards_and_change():
    before, after = fleet_of(), fleet_of(known=False)
    after.set_task_features(known_tasks() | {"t1": region_of(2)})  # a mistake about one task
    after.set_task_features({"t1": region_of(1)})
    for fleet in (before, after):
        for _ in range(4):  # both to the end of the estimate
            fleet.refresh()
    for task in ("t1", "t2", "t35"):
        one, other = (fleet.expected(task, [0.4]) for fleet in (before, after))
        assert_allclose(list(one.mean.values()), list(other.mean.values()), atol=0.03)
        assert_allclose(list(one.sd.values()), list(other.sd.values()), rtol=0.1)
    assert_allclose(np.sort(before.statistics.moment.ravel()), np.sort(after.statistics.moment.ravel()), atol=1e-9)


def test_rewards_that_replace_an_absent_one_are_learned_exactly():
    fleet, other = fleet_of(absent_reward=0.0), fleet_of(absent_reward=0.0)
    decision = fleet.decide("t3", [0.2])
    ranking = fleet.decide("t4", [0.1], k=2)
    fleet.reward(decision, 2.0)
    fleet.reward_many(ranking, [1.0, 0.5])
    other.learn_many(
        {"task": ["t3", "t4", "t4"], "arm": [decision.arm, *ranking.arms], "x": [0.2, 0.1, 0.1],
         "reward": [2.0, 1.0, 0.5]}
    )  # fmt: skip
    for name in ("moment", "sum_of_squares"):
        assert_allclose(getattr(fleet.statistics, name), getattr(other.statistics, name), atol=1e-9)


def test_many_decisions_are_those_one_by_one():
    one, other = fleet_of(100), fleet_of(100)
    tasks, X = [f"t{row % 40}" for row in range(20)], np.linspace(-1, 1, 20)[:, None]
    many = other.decide_many(tasks, X)
    for row in range(20):
        assert one.decide(tasks[row], X[row])[1:] == many[row][1:]
    table_of = other.expected_many(["t35"], [[0.3]])
    assert_allclose(table_of["mean"], list(other.expected("t35", [0.3]).mean.values()))


def test_a_saved_fleet_knows_the_same(tmp_path):
    fleet = fleet_of(arm_features=ARM_FEATURES)
    fleet.add_arm("blue", {"category": "a"})
    waiting = fleet.decide("t3", [0.2])
    fleet.save(tmp_path / "fleet.posse")
    loaded = Posse.load(tmp_path / "fleet.posse", clock=lambda: 1000.0)
    some = Posse.load(tmp_path / "fleet.posse", tasks=["t3", "t35"], clock=lambda: 1000.0)

    for task in ("t3", "t35"):
        assert fleet.expected(task, [0.1]) == loaded.expected(task, [0.1]) == some.expected(task, [0.1])
    for one in (fleet, loaded):
        assert one.reward(waiting, 1.0)
    for row in range(10):
        first, second = (one.decide(f"t{row}", [0.1]) for one in (fleet, loaded))
        assert first[1:] == second[1:]
        fleet.reward(first, 0.2)
        loaded.reward(second, 0.2)
    assert loaded.export("t35")["features"] == region_of(35)


def test_a_damaged_file_is_refused(tmp_path):
    fleet = fleet_of()
    fleet.known.tasks.raw[0] = ["nowhere"]  # one value in place of two
    fleet.save(tmp_path / "fleet.posse")
    with pytest.raises(DamagedFile):
        Posse.load(tmp_path / "fleet.posse")


def test_a_log_has_what_is_known_about_tasks(tmp_path):
    fleet = fleet_of(log=tmp_path / "log.jsonl")
    for row in range(6):
        fleet.reward(fleet.decide(f"t{row}", [0.1]), 1.0)
    fleet.decide("never heard of", [0.1])
    log = read_log(tmp_path / "log.jsonl")
    assert log.contexts["region"].to_list() == [*(REGIONS * 2), None]
    assert log.contexts["size"].to_list() == [1.0, 2.0] * 3 + [None]
    assert {finding.code for finding in check_log(log) if finding.severity == "error"} <= {"deterministic-logging"}


def test_a_change_of_features_is_a_line_of_the_log(tmp_path):
    path = tmp_path / "log.jsonl"
    fleet = fleet_of(known=False, rows=0, log=path)
    fleet.set_task_features({"t1": region_of(1), "t2": region_of(2)})
    fleet.reward(fleet.decide("t1", [0.1]), 1.0)
    fleet.set_task_features({"t1": region_of(0)})
    fleet.decide("t1", [0.1])
    log = read_log(path)
    assert log.contexts["region"].to_list() == ["south", "north"]
    said = log.task_features
    assert said.rows() == [(said["time"][0], "t1", "south", 2.0), (said["time"][0], "t2", "west", 1.0),
                           (said["time"][0], "t1", "north", 1.0)]  # fmt: skip
    write_log(log, tmp_path / "copy.jsonl")
    assert read_log(tmp_path / "copy.jsonl").task_features.equals(said)
    assert log.with_rewards().task_features is said
    other = fleet_of(known=False, rows=0)
    other.set_task_features(said.drop("time").unique("task", keep="last"))
    assert other.export("t1")["features"] == region_of(0)
    path.write_text('{"task_features": {"size": [1]}, "task": "t1"}\n')
    with pytest.raises(DataFileError, match="line 1: task feature 'size' must be"):
        read_log(path)


def test_a_log_that_cannot_be_written_leaves_features_as_they_were():
    def full(records):
        raise OSError("no room")

    fleet = fleet_of(100)
    before = fleet.expected("t3", [0.1])
    fleet.log_to(full)
    with pytest.raises(OSError, match="no room"):
        fleet.set_task_features({"t3": region_of(1), "new": region_of(1)})
    assert fleet.export("t3")["features"] == region_of(3)
    assert "new" not in fleet.tasks
    assert fleet.expected("t3", [0.1]) == before


def test_one_task_of_another_kind_changes_beliefs_exactly_and_leaves_the_population():
    fleet = fleet_of(600, refresh_growth=10.0)
    fleet.decide("t4", [0.3])
    population = fleet.prior.covariance.copy()
    fleet.set_task_features({"t4": region_of(2), "t5": region_of(0)})
    found = {task: fleet.expected(task, [0.4]) for task in ("t4", "t5", "t6", "t35")}
    assert (fleet.prior.covariance == population).all()
    fleet.core.state = with_posterior(fleet.core.state, learned=False)[0]  # everything from the sums
    for task, expected in found.items():
        again = fleet.expected(task, [0.4])
        assert_allclose(list(expected.mean.values()), list(again.mean.values()), rtol=1e-10)
        assert_allclose(list(expected.sd.values()), list(again.sd.values()), rtol=1e-10)


def test_what_was_learned_is_shown_over_all_tasks():
    fleet, plain = fleet_of(1500), Posse(arms=ARMS, features=["x"], seed=3)
    plain.learn_many(table(1500)[0])
    for one, other in zip(fleet.overview().arms, plain.overview().arms, strict=True):
        assert_allclose(one.mean, other.mean, atol=0.15)
        # 30 tasks in three regions: the same spread, found in two ways.
        assert_allclose(np.diag(one.covariance), np.diag(other.covariance), rtol=0.5)
    said = fleet.effects()
    assert said["task"]["region"] > 0.4
    assert said["task"]["size"] == 0.0
    assert said["arm"] == {}
    assert plain.effects() == {"task": {}, "arm": {}}


def test_a_forgotten_task_is_known_no_more():
    fleet = fleet_of()
    fleet.forget("t3")
    fleet.decide("t3", [0.1])
    assert fleet.export("t3")["features"] is None


def arm_table(n, seed=0):
    """Twelve arms in three categories, the last three of which come later."""
    rng = np.random.default_rng([seed, 3])
    categories = np.arange(15) % 3
    means = np.array([[2.0, 0.0], [0.0, 1.0], [-2.0, -1.0]])[categories] + 0.1 * rng.normal(size=(15, 2))
    task, arm = rng.integers(6, size=n), rng.integers(12, size=n)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = np.einsum("ni,ni->n", X, means[arm]) + 0.5 * rng.normal(size=n)
    return {"task": [f"t{j}" for j in task], "arm": [f"arm{k}" for k in arm], "x": X[:, 1], "reward": y}, means


def test_new_arms_start_near_those_like_them():
    rows, means = arm_table(800)
    names = {f"arm{k}": {"category": "abc"[k % 3]} for k in range(15)}
    first = {arm: names[arm] for arm in list(names)[:12]}
    for arms in (first, pl.DataFrame({"arm": list(first), "category": [one["category"] for one in first.values()]})):
        fleet = Posse(arms=arms, features=["x"], seed=1, arm_features=ARM_FEATURES)
        fleet.learn_many(rows)
        for arm in list(names)[12:]:
            fleet.add_arm(arm, names[arm])
        fleet.add_arm("stranger")
        found = fleet.coefficients("t1")
        for k in range(12, 15):
            # Four arms a category, each 0.1 from it.
            assert_allclose(found.mean[f"arm{k}"], means[k], atol=0.5)
            assert np.diag(found.covariance[f"arm{k}"]).max() < 0.5 * np.diag(found.covariance["stranger"]).max()


def test_a_scaling_is_learned_once():
    spec = FeatureSpec([numeric("price", scale="standard")])
    fleet = Posse(arms={"a": {"price": 1.0}, "b": {"price": 3.0}}, features=["x"], arm_features=spec)
    fleet.add_arm("c", {"price": 4.0})
    assert_allclose(fleet.core.state.arm_features[:3, 0], [-1.0, 1.0, 2.0])
    bare = Posse(arms=["a", "b"], features=["x"], arm_features=spec)
    with pytest.raises(InvalidValue, match="has not been learned"):
        bare.add_arm("c", {"price": 4.0})
    with pytest.raises(InvalidValue, match="whose scaling is known"):
        Catalogue(["x"], spec)
    stores = Posse(arms=ARMS, features=["x"], task_features=[numeric("size", scale="standard")])
    stores.set_task_features({"s": {"size": 10.0}, "t": {"size": 30.0}})
    stores.set_task_features({"u": {"size": 40.0}})
    assert_allclose(stores.core.state.store.known[:3, 1], [-1.0, 1.0, 2.0])


def test_a_new_arm_may_be_anything_in_any_region():
    fleet = fleet_of(1500)
    plain = Posse(arms=ARMS, features=["x"], seed=3)
    plain.learn_many(table(1500)[0])
    for one in (fleet, plain):
        one.add_arm("blue")
    known, unknown = (one.expected("t31", [0.5]) for one in (fleet, plain))
    # Regions are not in the spread of the tasks any more, but the new arm's effects of them are not known either.
    assert known.sd["blue"] > 0.8 * unknown.sd["blue"]
    found = fleet.coefficients("t31").covariance["blue"]
    assert [1.0, 0.5] @ found @ [1.0, 0.5] == pytest.approx(known.sd["blue"] ** 2)


def test_what_makes_no_sense_is_refused():
    fleet = fleet_of()
    before = fleet.expected("t3", [0.1])
    with pytest.raises(InvalidValue, match="expected every task once"):
        fleet.set_task_features(pl.DataFrame({"task": ["t1", "t1"], "region": ["north"] * 2, "size": [1.0] * 2}))
    with pytest.raises(InvalidValue, match="which is not declared"):
        fleet.set_task_features({"t1": {"town": "x"}})
    with pytest.raises(InvalidValue, match="expected a fleet with arm_features"):
        fleet.add_arm("blue", {"category": "a"})
    with pytest.raises(InvalidValue, match="with the task_features of this one"):
        fleet.merge(Posse(arms=ARMS, features=["x"]))
    assert fleet.expected("t3", [0.1]) == before
    with pytest.raises(InvalidValue, match="expected a fleet with task_features"):
        Posse(arms=ARMS, features=["x"]).set_task_features({"t1": {}})
    with pytest.raises(InvalidValue, match="'x' in both"):
        Posse(arms=ARMS, features=["x"], task_features=["x"])
    for settings in ({"policy": "lin-ucb"}, {"prior": "paper"}):
        with pytest.raises(InvalidValue, match="with task_features or arm_features"):
            Posse(arms=ARMS, features=["x"], task_features=["size"], **settings)
    with pytest.raises(InvalidValue, match="before the first task"):
        Posse(arms=range(500), features=["x"], task_features=[hashed("town", 9_000)])


def drifting(kind, **settings):
    now = [0.0]
    fleet = kind(
        arms=ARMS, features=["x"], task_features=TASK_FEATURES, seed=3, clock=lambda: now[0], drift=1.0, **settings
    )
    return fleet, now


def aged_rows(n=600):
    """The rows of a table with times, a reward every ten minutes."""
    return table(n)[0].with_columns(time=600.0 * np.arange(n))


def test_what_is_known_and_old_fades_and_comes_back_from_the_log(tmp_path):
    rows = aged_rows()
    leader, _ = drifting(Replica)
    leader.set_task_features(known_tasks())
    for part in rows.iter_slices(40):
        leader.learn(part["task"].to_list(), part["arm"].to_list(), part.select("x"), part["reward"].to_list(),
                     times=part["time"].to_list())  # fmt: skip
    leader.set_task_features({"t3": region_of(1)})
    assert leader.effects()["task"]["region"] > 0
    assert 50 < leader.n_rewards < 500  # of 600
    again, _ = drifting(Replica)
    again.set_task_features(known_tasks() | {"t3": region_of(1)})
    again.learn(rows["task"].to_list(), rows["arm"].to_list(), rows.select("x"), rows["reward"].to_list(),
                times=rows["time"].to_list(), catching_up=True)  # fmt: skip
    assert again.adopt(leader.dump_population())
    assert_same_beliefs(leader, again, tasks=("t1", "t3", "t35"))
    assert_same_beliefs(leader, again, tasks=["stranger"], rtol=0.1)  # who starts at the average of the last estimate
    leader.freeze()(tmp_path / "snapshot")
    loaded = Replica.load(tmp_path / "snapshot")
    assert loaded.half_life == leader.half_life
    assert_same_beliefs(leader, loaded)
    # Sums are those of rewards that count as much as those of a fleet without features.
    plain = Replica(arms=ARMS, features=["x"], seed=3, clock=lambda: 0.0, drift=1.0)
    plain.learn(rows["task"].to_list(), rows["arm"].to_list(), rows.select("x"), rows["reward"].to_list(),
                times=rows["time"].to_list(), catching_up=True)  # fmt: skip
    for task in ("t3", "t7"):
        mine, theirs = leader.learned([task])[1], plain.learned([task])[1]
        for pair, sums in theirs.items():
            for one, other in zip(mine[pair], sums, strict=True):
                assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_feature_that_is_met_no_more_leaves_nothing_of_what_was_known():
    """Sums are those of a fleet that knows nothing, also where a column of the context has faded away."""
    known, now = drifting(Posse)
    plain = Posse(arms=ARMS, features=["x"], seed=3, clock=lambda: now[0], drift=1.0)
    known.set_task_features(known_tasks(30))
    rows = table(600)[0]
    for day in range(15):
        now[0] = 86400.0 * day
        for fleet in (known, plain):
            fleet.learn_many(rows if day == 0 else rows.with_columns(x=0.0 * pl.col("x")))
        order = [known.tasks.index(task) for task in plain.tasks]
        mine, theirs = known.statistics, plain.statistics
        for name in ("gram", "moment", "sum_of_squares"):  # every day: what is left of a mistake fades, too
            assert_allclose(getattr(mine, name)[:, order], getattr(theirs, name), rtol=1e-9, atol=1e-10)
    assert known.effects()["task"]["region"] > 0
    assert theirs.gram[..., 1, 1].max() < 1e-9
    assert theirs.gram[..., 0, 0].any()


def test_one_by_one_is_as_a_table_with_times(tmp_path):
    rows = aged_rows(200)
    fleet, now = drifting(Posse)
    other, _ = drifting(Posse)
    for one in (fleet, other):
        one.set_task_features(known_tasks())
    ids = []
    for row in rows.iter_rows(named=True):
        now[0] = row["time"]
        decision = fleet.decide(row["task"], [row["x"]], eligible=[row["arm"]])
        fleet.reward(decision, row["reward"])
        ids.append(decision.id)
    other.learn_many(rows, time="time")
    assert len(set(ids)) == 200
    for name in ("moment", "sum_of_squares", "count"):
        order = [other.tasks.index(task) for task in fleet.tasks]
        assert_allclose(
            getattr(fleet.statistics, name), getattr(other.statistics, name)[:, order], rtol=1e-9, atol=1e-9
        )
    fleet.save(tmp_path / "fleet.posse")
    assert Posse.load(tmp_path / "fleet.posse", clock=lambda: now[0]).expected("t3", [0.1]) == fleet.expected(
        "t3", [0.1]
    )


def test_a_change_is_noticed_beside_what_is_known():
    now = [0.0]
    fleet = Posse(arms=ARMS, features=["x"], task_features=TASK_FEATURES, seed=3, clock=lambda: now[0], drift="learn")
    fleet.set_task_features(known_tasks())
    rows = table(900)[0]
    for step, row in enumerate(rows.iter_rows(named=True)):
        now[0] = 60.0 * step
        sign = 1.0 if step < 600 else -1.0
        fleet.reward(fleet.decide(row["task"], [row["x"]], eligible=[row["arm"]]), sign * row["reward"])
        if step == 590:
            assert not fleet.changes
    assert any(change.task is None for change in fleet.changes)


def test_merged_fleets_know_what_both_knew():
    rows = table(1200)[0]
    settings = {"seed": 3, "clock": lambda: 1000.0, "arm_features": ARM_FEATURES, "known": False, "rows": 0}
    whole, one, other = fleet_of(**settings), fleet_of(**settings), fleet_of(**settings)
    known, names = known_tasks(), list(known_tasks())
    for fleet in (whole, other):
        fleet.add_arm("blue", {"category": "b"})
    whole.set_task_features(known)
    one.set_task_features({name: known[name] for name in names[:25]})
    # About some tasks only the other fleet knows something, and about one it is wrong, which does not count.
    other.set_task_features({name: known[name] for name in names[20:]} | {"t22": region_of(0)})
    late = pl.DataFrame({"task": ["t3", "t30"], "arm": ["blue", "blue"], "x": [0.1, 0.2], "reward": [1.0, 2.0]})
    whole.learn_many(pl.concat([rows, late]))
    one.learn_many(rows[:700])
    other.learn_many(pl.concat([rows[700:], late]))
    waiting = other.decide("t31", [0.3])
    one.merge(other)
    assert one.reward(waiting, 0.5)
    whole.learn_many({"task": ["t31"], "arm": [waiting.arm], "x": [0.3], "reward": [0.5]})
    assert one.export("t22")["features"] == region_of(22)
    assert one.export("t35")["features"] == region_of(35)
    order = [whole.tasks.index(task) for task in one.tasks]
    for name in ("gram", "moment", "sum_of_squares", "count"):
        assert_allclose(getattr(one.statistics, name), getattr(whole.statistics, name)[:, order], rtol=1e-9, atol=1e-9)
    for fleet in (whole, one):
        for _ in range(12):  # to the end of the estimate, from wherever
            fleet.refresh()
    for task in ("t1", "t22", "t35"):
        mine, theirs = (fleet.expected(task, [0.4]) for fleet in (one, whole))
        assert_allclose(list(mine.mean.values()), list(theirs.mean.values()), atol=0.03)


def replica_of(rows, **settings):
    replica = Replica(arms=ARMS, features=["x"], task_features=TASK_FEATURES, arm_features=ARM_FEATURES, **settings)
    replica.set_task_features(known_tasks())
    follow(replica, rows)
    return replica


def follow(replica, rows, **settings):
    for part in rows.iter_slices(50):
        replica.learn(part["task"].to_list(), part["arm"].to_list(), part.select("x"), part["reward"].to_list(),
                      **settings)  # fmt: skip


def assert_same_beliefs(one, other, tasks=("t1", "t3", "t35", "stranger"), arms=None, rtol=1e-9):
    for task in tasks:
        first, second = (fleet.expected(task, [0.4]) for fleet in (one, other))
        for mine, theirs in ((first.mean, second.mean), (first.sd, second.sd)):
            assert_allclose([mine[arm] for arm in arms or mine], [theirs[arm] for arm in arms or mine], rtol=rtol)


def test_replicas_share_what_features_say(tmp_path):
    rows = table(700)[0]
    leader = replica_of(rows)
    leader.add_arm("blue", {"category": "b"})
    leader.learn(["t3", "t4"], ["blue", "red"], [[0.3], [0.1]], [2.0, 1.0])
    leader.set_task_features({"t3": region_of(1)})  # which it was not before
    assert leader.effects()["task"]["region"] > 0
    # From the log alone: everything that came, then the population in force, once.
    again = Replica(arms=[*ARMS, "blue"], features=["x"], task_features=TASK_FEATURES, arm_features=ARM_FEATURES)
    again.set_task_features(known_tasks())
    follow(again, rows, catching_up=True)
    again.learn(["t3", "t4"], ["blue", "red"], [[0.3], [0.1]], [2.0, 1.0], catching_up=True)
    again.set_task_features({"t3": region_of(1)})
    assert again.adopt(leader.dump_population())
    assert_same_beliefs(leader, again, tasks=("t1", "t3", "t35"))
    # Where strangers start, and how they differ, is as of the last estimate, or of the adoption; blue came in between.
    assert_same_beliefs(leader, again, tasks=["stranger"], arms=ARMS, rtol=0.1)
    assert again.propose("t3", [0.2]).probabilities.keys() == {"red", "green", "blue"}
    # And from a snapshot, which has other effects than the population that is in force by then.
    leader.freeze()(tmp_path / "snapshot")
    loaded = Replica.load(tmp_path / "snapshot")
    assert_same_beliefs(leader, loaded)
    leader.learn(["t1", "t2"], ["red", "green"], [[0.1], [0.1]], [9.0, -9.0])
    leader.refresh()
    loaded.learn(["t1", "t2"], ["red", "green"], [[0.1], [0.1]], [9.0, -9.0], catching_up=True)
    assert loaded.adopt(leader.dump_population())
    assert_same_beliefs(leader, loaded)
    # Sums are those of rewards as they came.
    _, sums = leader.learned(["t3"])
    mine = rows.filter((pl.col("task") == "t3") & (pl.col("arm") == "red"))
    assert_allclose(sums["t3", "red"].moment[0], mine["reward"].sum(), rtol=1e-9)
    with pytest.raises(InvalidValue, match="got another version"):
        Replica(arms=[*ARMS, "blue"], features=["x"]).adopt(leader.dump_population())
