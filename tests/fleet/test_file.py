"""Files: what comes back goes on as if nothing had happened."""

import os

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.container import MissingFile, SavedFileError
from posse.errors import InvalidValue, PosseError, UnknownDecision, UnknownTask
from posse.features import hashed, numeric, one_hot

X = np.array([0.3, -0.8])
ODD_NAMES = [
    "",
    "\0",
    "\n",
    " a ",
    "e\u0301",
    "é",
    "👩‍🚀",
    "مرحبا",
    "\u202egnihton",
    "x" * 1000,
    "17",
    "null",
    "\u2028",
][1:]

SETTINGS = {
    "ebm-rand-ucb": {"evaluation_budget": 0.03},
    "ebm-ts": {"policy": "ebm-ts"},
    "ebm-ucb": {"policy": "ebm-ucb", "floor": 0.05},
    "robust": {"robust": True},
    "paper": {"prior": "paper"},
    "moments, always": {"prior": "moments", "refresh_growth": 0.0},
    "moments": {"prior": "moments", "exploration": 0.7},
    "lin-ucb": {"policy": "lin-ucb", "floor": 0.1},
    "random": {"policy": "random"},
    "absent": {"time_to_live": 50.0, "absent_reward": -0.25},
    "at the deadline": {"time_to_live": 50.0, "absent_reward": -0.25, "count_pending": False},
    "for ever": {"time_to_live": None},
}
LEARNS_ARMS = {
    "ebm-rand-ucb", "ebm-ts", "ebm-ucb", "robust", "paper", "literal", "moments", "absent", "at the deadline",
    "for ever",
}  # fmt: skip


def live(fleet, clock, seed, rows=None):
    """Some life: decisions, rewards late and early, a table, and time that passes. Returns all answers."""
    rng = np.random.default_rng(seed)
    answers = []
    for turn in range(25):
        clock.now += rng.choice([0.0, 1.0, 20.0])
        decision = fleet.decide(f"t{rng.integers(9)}", rng.normal(size=2), explore=bool(rng.random() < 0.8))
        answers.append(decision[1:])  # ids are new in a fleet that was loaded
        if rng.random() < 0.7:
            answers += [fleet.reward(entry.id, float(rng.normal())) for entry in fleet.pending()[:1]]
        if turn % 9 == 4:
            batch = fleet.decide_many([f"t{i}" for i in rng.integers(9, size=5)], rng.normal(size=(5, 2)))
            answers += [decision[1:] for decision in batch]
            fleet.reward_many(batch.ids[:3], rng.normal(size=3))
    if rows is not None:
        fleet.learn_many(rows)
    for task in ("t0", "t1", "never seen"):
        answers += [fleet.expected(task, X), *fleet.probabilities([task], [X]).ravel()]
    return [repr(tuple(answer) if isinstance(answer, tuple) else answer) for answer in answers]


def grown(fleet_of, table, clock, kind):
    """A fleet with a past: retired, added and renamed arms, a merge, decisions that wait."""
    fleet = fleet_of(50, clock=clock, **SETTINGS[kind])
    live(fleet, clock, 1, table(40, 1, n_tasks=7))
    if kind in LEARNS_ARMS:
        fleet.add_arm("black")
    fleet.retire_arm("green")
    fleet.rename("green", "lime")
    fleet.rename("lime", "green")
    silence = {name: value for name, value in SETTINGS[kind].items() if name in ("absent_reward", "count_pending")}
    other = fleet_of(20, clock=clock, table_seed=3, seed=8, **silence)
    other.decide("t3", X)
    other.decide("elsewhere", X)
    fleet.merge(other)
    fleet.decide("t2", X)
    return fleet


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_loaded_fleet_decides_like_the_saved_one(fleet_of, table, clock, snapshot, tmp_path, kind):
    fleet = grown(fleet_of, table, clock, kind)
    path = tmp_path / "fleet.posse"
    fleet.save(path)
    back = Posse.load(path, clock=clock)

    assert snapshot(back) == snapshot(fleet)
    assert (back.arms, back.retired_arms, back.tasks) == (fleet.arms, fleet.retired_arms, fleet.tasks)
    assert (back.features, back.policy, repr(back)) == (fleet.features, fleet.policy, repr(fleet))
    assert back.pending() == fleet.pending()
    now, rows = clock.now, table(40, 2, n_tasks=7)
    answers = live(fleet, clock, 2, rows)
    clock.now = now
    assert live(back, clock, 2, rows) == answers
    for each in (fleet, back):
        each.refresh()
        each.add_arm("green")
        each.forget("t1")
        if kind in LEARNS_ARMS:
            each.add_arm("white")
    assert snapshot(back) == snapshot(fleet)
    now = clock.now
    answers = live(fleet, clock, 3)
    clock.now = now
    assert live(back, clock, 3) == answers


def test_a_loaded_fleet_goes_on_after_forgetting(fleet_of, table, snapshot, differences, tmp_path):
    fleet = fleet_of(200)
    fleet.forget("t1", "t3")
    fleet.save(tmp_path / "fleet.posse")
    back = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)

    for each in (fleet, back):
        each.learn_many(table(100, 1, n_tasks=12))

    assert differences(snapshot(fleet), snapshot(back)) == []


@pytest.mark.parametrize("prior", ["paper", "moments"])
def test_a_loaded_fleet_estimates_as_before_after_forgetting(fleet_of, snapshot, differences, tmp_path, prior):
    fleet = fleet_of(60, prior=prior, refresh_growth=0.0)
    for i in range(40):
        fleet.decide(f"gone-{i}", X)
    fleet.forget(*(f"gone-{i}" for i in range(40)))
    fleet.save(tmp_path / "fleet.posse")
    back = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)
    rng = np.random.default_rng(0)
    for _ in range(100):
        x, y = rng.normal(size=2), rng.normal()
        task = f"t{rng.integers(5)}"
        decisions = [each.decide(task, x) for each in (fleet, back)]
        assert decisions[0][1:] == decisions[1][1:]
        for each, decision in zip((fleet, back), decisions, strict=True):
            each.reward(decision.id, y)
    assert differences(snapshot(fleet), snapshot(back)) == []


@pytest.mark.parametrize(
    "names", [ODD_NAMES, [0, -1, 2**63 - 1, -(2**63) + 1, 17]], ids=["odd text", "numbers"]
)  # fmt: skip
def test_names_come_back(tmp_path, names, snapshot):
    fleet = Posse(arms=names, features=["a"], seed=1)
    for i, name in enumerate(names):
        decision = fleet.decide(name, [0.5 * i], [names[-1 - i]])
        fleet.reward(decision.id, float(i))
    fleet.retire_arm(names[0])
    fleet.save(tmp_path / "fleet.posse")

    back = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)

    assert back.tasks == tuple(names)
    assert back.arms == tuple(names[1:])
    assert [type(task) for task in back.tasks] == [type(name) for name in names]
    assert snapshot(back) == snapshot(fleet)


def test_an_empty_fleet_comes_back(fleet_of, tmp_path, snapshot):
    fleet = fleet_of(0)
    fleet.save(tmp_path / "fleet.posse")
    back = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)
    assert snapshot(back) == snapshot(fleet)
    assert back.decide(17, X)[1:] == fleet.decide(17, X)[1:]
    back.forget(17)
    back.save(tmp_path / "fleet.posse")
    again = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)
    assert again.tasks == ()
    again.decide("text", X)


def test_features_come_back(tmp_path, table):
    spec = FeatureSpec([numeric("a", scale="standard", missing="indicator"), one_hot("b", [1, 2]), hashed("c", 5)])
    fleet = Posse(arms=["x"], features=spec, seed=1)
    fleet.save(tmp_path / "fleet.posse")
    back = Posse.load(tmp_path / "fleet.posse")
    assert back.features == spec
    rows = pl.DataFrame(
        {"task": ["t", "u"], "arm": ["x", "x"], "a": [1.0, 5.0], "b": [1, 2], "c": ["p", "q"], "reward": [1, 2]}
    )
    for each in (fleet, back):
        each.learn_many(rows)
    back.save(tmp_path / "fleet.posse")
    last = Posse.load(tmp_path / "fleet.posse")
    assert last.features == fleet.features == back.features
    context = {"a": None, "b": 2, "c": "z"}
    assert last.expected("t", context) == fleet.expected("t", context)


def test_a_fleet_of_many_pairs_comes_back(fleet_of, table, tmp_path, snapshot):
    fleet = fleet_of(0)
    fleet.learn_many(table(3000, n_tasks=700))
    fleet.save(tmp_path / "fleet.posse")
    assert snapshot(Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)) == snapshot(fleet)


def test_rewards_of_before_are_known_after(fleet_of, tmp_path):
    fleet = fleet_of()
    early, late = fleet.decide("t1", X), fleet.decide("new", X)
    fleet.reward(early.id, 1.0)
    fleet.save(tmp_path / "fleet.posse")

    back = Posse.load(tmp_path / "fleet.posse", clock=fleet.clock)

    assert back.reward(early.id, 1.0) is False
    assert back.reward(late.id, 2.0) is True
    # What the saved fleet decided after it was saved has ids that the loaded one does not give away again.
    lost = fleet.decide("t3", X)
    assert back.decide("t1", X).id not in {early.id, late.id, lost.id}
    with pytest.raises(UnknownDecision):
        back.reward(lost.id, 1.0)


def test_saving_changes_nothing_and_replaces_the_file(fleet_of, tmp_path, snapshot):
    fleet, path = fleet_of(), tmp_path / "fleet.posse"
    before = snapshot(fleet)
    fleet.save(path)
    first = path.read_bytes()
    fleet.save(str(path))
    assert path.read_bytes() == first
    assert snapshot(fleet) == before
    fleet.decide("t1", X)
    fleet.save(path)
    assert path.read_bytes() != first
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(MissingFile, match="folder"):
        fleet.save(tmp_path / "nowhere" / "fleet.posse")
    with pytest.raises(MissingFile):
        Posse.load(tmp_path / "nothing.posse")
    with pytest.raises(SavedFileError):
        Posse.load(tmp_path)


def test_a_save_that_fails_leaves_the_old_file(fleet_of, tmp_path, monkeypatch):
    fleet, path = fleet_of(), tmp_path / "fleet.posse"
    fleet.save(path)
    old = path.read_bytes()
    fleet.decide("t1", X)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(SavedFileError, match="nothing was changed"):
            fleet.save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


# Some tasks only


@pytest.mark.parametrize("kind", ["ebm-ts", "ebm-ucb", "robust", "lin-ucb", "random"])
def test_some_tasks_decide_like_the_whole(fleet_of, table, clock, tmp_path, kind):
    fleet = grown(fleet_of, table, clock, kind)
    fleet.save(tmp_path / "fleet.posse")
    some = Posse.load(tmp_path / "fleet.posse", tasks=["t4", "t0", "t4"], clock=clock)

    assert some.tasks == ("t4", "t0")
    assert (some.arms, some.retired_arms) == (fleet.arms, fleet.retired_arms)
    rng = np.random.default_rng(0)
    for turn in range(20):
        task, x = ("t4", "t0", "never seen")[turn % 3], rng.normal(size=2)
        assert some.expected(task, x) == fleet.expected(task, x)
        assert some.decide(task, x)[1:] == fleet.decide(task, x)[1:]
    for look in (some.expected, some.decide):
        with pytest.raises(UnknownTask, match="'t1' is in the file but was not loaded"):
            look("t1", X)
    with pytest.raises(UnknownTask, match="'t1' is in the file but was not loaded"):
        some.coefficients("t1")
    stats, whole = some.statistics, fleet.statistics
    for place, task in enumerate(some.tasks[:2]):
        assert_allclose(stats.gram[:, place], whole.gram[:, fleet.tasks.index(task)], rtol=0)


def test_some_tasks_do_not_learn(fleet_of, table, clock, tmp_path, snapshot):
    fleet = grown(fleet_of, table, clock, "absent")
    waiting = fleet.decide("t1", X)
    fleet.save(tmp_path / "fleet.posse")
    some = Posse.load(tmp_path / "fleet.posse", tasks=["t1"], clock=clock)
    decision = some.decide("t1", X)
    before = snapshot(some)
    for update in (
        lambda: some.reward(decision.id, 1.0), lambda: some.reward(waiting.id, 1.0), lambda: some.reward_many([], []),
        lambda: some.learn_many(table(5)), some.refresh, lambda: some.add_arm("new"), lambda: some.forget("t1"),
        lambda: some.merge(fleet_of(0)), lambda: fleet_of(0).merge(some), lambda: some.save(tmp_path / "other.posse"),
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match="only some tasks"):
            update()
        assert snapshot(some) == before
    clock.now += 1000.0
    rewards = some.n_rewards
    assert some.pending() == []  # absent rewards are not learned either
    assert some.n_rewards == rewards
    assert not (tmp_path / "other.posse").exists()


def test_tasks_that_are_not_there_are_refused(fleet_of, tmp_path):
    fleet_of().save(tmp_path / "fleet.posse")
    with pytest.raises(UnknownTask, match="no task 'nobody' among the 5 tasks"):
        Posse.load(tmp_path / "fleet.posse", tasks=["t1", "nobody"])
    none = Posse.load(tmp_path / "fleet.posse", tasks=[])
    assert none.tasks == ()
    assert none.expected("never seen", X) == fleet_of().expected("never seen", X)


@pytest.mark.parametrize("wrong", [5, [["t1"]], [{}]])
def test_a_wrong_argument_is_not_a_damaged_file(fleet_of, tmp_path, wrong):
    fleet_of().save(tmp_path / "fleet.posse")
    with pytest.raises((InvalidValue, UnknownTask)):
        Posse.load(tmp_path / "fleet.posse", tasks=wrong)


def test_only_what_is_asked_for_is_read(fleet_of, table, tmp_path):
    # Damage in the rows of one task is found when these rows are read, and only then.
    fleet = fleet_of(0)
    fleet.learn_many(table(40_000, n_tasks=2000))
    path = tmp_path / "fleet.posse"
    fleet.save(path)
    one = Posse.load(path, tasks=["t1000"])
    assert one.expected("t1000", X) == fleet.expected("t1000", X)
    assert len(one.core.sums().tasks) == 3
    with pytest.raises(PosseError):
        Posse.load(path, tasks=["t2000"])
