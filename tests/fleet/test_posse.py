"""Contexts, tables, arms and tasks, seen from outside; sums under any order of events are in test_state_machine.py."""

import itertools
from collections import namedtuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.errors import (
    InvalidValue,
    NotFinite,
    PosseError,
    UnknownArm,
    UnknownDecision,
    UnknownTask,
)
from posse.features import numeric, one_hot
from posse.model import posterior

X = np.array([0.3, -0.8])


def test_a_context_may_come_in_many_forms(fleet_of):
    Row = namedtuple("Row", "b task a")
    forms = [
        {"a": 0.3, "b": -0.8}, {"b": -0.8, "a": 0.3}, [0.3, -0.8], (0.3, -0.8), X, X.astype(np.float32).astype(float),
        pd.Series({"task": "t1", "b": -0.8, "a": 0.3}), Row(b=-0.8, task="t1", a=0.3), pl.Series([0.3, -0.8]),
    ]  # fmt: skip
    fleet = fleet_of()
    expected = fleet.expected("t1", X)
    for form in forms:
        found = fleet.expected("t1", form)
        assert found.mean == pytest.approx(expected.mean, rel=1e-6)
        assert list(found.mean) == list(fleet.arms)
        assert fleet.decide("t1", form).mean == found.mean


def test_contexts_of_a_batch_may_come_in_many_forms(fleet_of):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(4, 2))
    tasks = ["t1", "t2", "t1", "new"]
    frame = pl.DataFrame({"b": contexts[:, 1], "who": tasks, "a": contexts[:, 0], "other": [1, 2, 3, 4]})
    columns = frame.to_dict(as_series=False)
    forms = [
        (tasks, contexts),
        (np.array(tasks), contexts),
        (pl.Series(tasks), contexts),
        (pd.Series(tasks), contexts.tolist()),
        (tuple(tasks), [{"a": a, "b": b} for a, b in contexts]),
        (pd.Series(tasks, dtype="category"), frame),
        (frame["who"].cast(pl.Categorical), frame),
        (tasks, frame),
        ("who", frame),
        ("who", frame.lazy()),
        ("who", columns),
        ("who", pd.DataFrame(columns)),
    ]
    expected = None
    for named, given_contexts in forms:
        made = fleet_of().decide_many(named, given_contexts)
        expected = expected or [decision[1:] for decision in made]
        assert [decision[1:] for decision in made] == expected


def test_a_task_never_seen_starts_from_the_population(fleet_of):
    fleet = fleet_of(200)
    post = posterior(fleet.statistics, fleet.prior)
    x = np.array([1.0, *X])

    decision = fleet.decide("never seen", X)

    assert_allclose(list(decision.mean.values()), post.shared_mean @ x, rtol=1e-9)
    variance = np.einsum("i,kij,j->k", x, post.shared_covariance + fleet.prior.covariance, x)
    assert_allclose(list(decision.sd.values()), np.sqrt(variance), rtol=1e-9)
    assert "never seen" in fleet.tasks
    assert fleet.expected("never seen", X).mean == decision.mean


def test_tasks_may_be_numbers(fleet_of, table):
    fleet = Posse(arms=[3, 1], features=["a", "b"], seed=1)
    fleet.learn_many(table(20, arms=[3, 1], task_names=[10, 20, 30, 40, 50]))

    decision = fleet.decide(np.int64(20), X, eligible=[np.int8(1)])

    assert (decision.task, decision.arm) == (20, 1)
    assert type(decision.task) is type(decision.arm) is int
    for wrong in ("20", 20.0, True, None):
        with pytest.raises(InvalidValue, match="task"):
            fleet.decide(wrong, X)
    for wrong in (["1"], [True], [1.0]):
        with pytest.raises(InvalidValue, match="arm"):
            fleet.decide(20, X, eligible=wrong)
    with pytest.raises(UnknownArm, match=r"the arms are 3, 1 \(add it with add_arm\(2\)\)"):
        fleet.decide(20, X, eligible=[2])


@pytest.mark.parametrize("wrong", [[1, True], [1, 1.0], [0, False]])
def test_a_bool_or_float_in_a_batch_is_no_task(fleet_of, wrong):
    with pytest.raises(InvalidValue, match="task"):
        fleet_of(0).decide_many(wrong, np.zeros((2, 2)))


def test_a_table_is_learned_in_any_form(fleet_of, table, tmp_path):
    frame = table(50)
    frame.write_parquet(tmp_path / "rows.parquet")
    nested = frame.select("task", "arm", "reward", pl.struct("a", "b").alias("context"))
    pandas = pd.DataFrame(frame.to_dict(as_series=False))
    forms = [
        frame, frame.lazy(), pandas, frame.to_dict(as_series=False), frame.to_dicts(), nested,
        tmp_path / "rows.parquet", str(tmp_path / "rows.parquet"), frame.select(reversed(frame.columns)),
        frame.with_columns(pl.col("task", "arm").cast(pl.Categorical)), frame.with_columns(extra=pl.lit(None)),
        pandas.astype({"task": "category", "arm": "category"}), pandas.set_index("task", drop=False),
    ]  # fmt: skip
    expected = None
    for form in forms:
        fleet = fleet_of(0)
        assert fleet.learn_many(form) == 50
        found = [field.tobytes() for field in (*fleet.statistics.sums, fleet.prior.covariance)]
        expected = expected or found
        assert found == expected
    renamed = frame.rename({"task": "store", "arm": "offer", "reward": "sales"})
    fleet = fleet_of(0)
    fleet.learn_many(renamed, task="store", arm="offer", reward="sales")
    assert [field.tobytes() for field in (*fleet.statistics.sums, fleet.prior.covariance)] == expected


def test_rows_without_a_reward_may_be_skipped(fleet_of, table):
    frame = table(20).with_columns(reward=pl.when(pl.int_range(20) % 4 == 0).then(None).otherwise(pl.col("reward")))
    fleet = fleet_of(0)
    with pytest.raises(InvalidValue, match="reward is missing at row 0, and in 5 rows in all"):
        fleet.learn_many(frame)
    assert fleet.tasks == ()
    assert fleet.learn_many(frame, missing_reward="skip") == 15
    assert fleet.learn_many(frame.filter(pl.col("reward").is_null()), missing_reward="skip") == 0
    with pytest.raises(InvalidValue, match="missing_reward"):
        fleet.learn_many(frame, missing_reward="drop")


def test_an_empty_table_is_nothing(fleet_of, table, snapshot):
    fleet = fleet_of()
    before = snapshot(fleet)
    assert fleet.learn_many(table(20).clear()) == 0
    assert fleet.decide_many([], np.empty((0, 2))).ids == []
    assert fleet.probabilities([], np.empty((0, 2))).shape == (0, 3)
    assert fleet.reward_many([], []) == 0
    assert snapshot(fleet) == before


def test_scaling_is_learned_from_the_first_table(table):
    spec = FeatureSpec([numeric("a", scale="standard"), "b"])
    fleet = Posse(arms=["red", "green", "blue"], features=spec, seed=1)
    with pytest.raises(InvalidValue, match="learn_scaling"):
        fleet.decide("t1", X)
    with pytest.raises(InvalidValue, match="learn_scaling"):
        fleet.decide_many(["t1"], [X])
    frame = table(40)

    fleet.learn_many(frame)

    assert fleet.features == spec.learn_scaling(frame)
    a = frame["a"].to_numpy()
    gram = fleet.statistics.gram.sum(axis=(0, 1))
    assert gram[0, 1] == pytest.approx(0, abs=1e-9)
    assert gram[1, 1] == pytest.approx(40)
    scaled = fleet.features
    fleet.learn_many(table(40, 1).with_columns(a=pl.col("a") * 100))
    assert fleet.features == scaled
    assert a.std() == pytest.approx(scaled.features[0].spread)


@pytest.mark.parametrize("n_rows", [3, 5000])
def test_learning_a_table_is_learning_its_rows(fleet_of, table, n_rows):
    # 5000 rows go through threads.
    frame = table(n_rows, n_tasks=30)
    fleet = fleet_of()
    before = fleet.statistics
    fleet.learn_many(frame)
    stats, tasks = fleet.statistics, list(fleet.tasks)
    plain = np.zeros_like(stats.gram)
    moment = np.zeros_like(stats.moment)
    for row in frame.iter_rows(named=True):
        x = np.array([1.0, row["a"], row["b"]])
        place = fleet.arms.index(row["arm"]), tasks.index(row["task"])
        plain[place] += np.outer(x, x)
        moment[place] += x * row["reward"]
    n = before.n_tasks
    plain[:, :n] += before.gram
    moment[:, :n] += before.moment
    assert_allclose(stats.gram, plain, atol=1e-9 * plain.max())
    assert_allclose(stats.moment, moment, atol=1e-9 * np.abs(moment).max())


def test_arms_come_and_go(fleet_of):
    fleet = fleet_of()
    late = fleet.decide("t1", X, ["green"])
    fleet.retire_arm("green")
    assert (fleet.arms, fleet.retired_arms) == (("red", "blue"), ("green",))
    assert set(fleet.decide("t1", X).probabilities) == {"red", "blue"}
    assert set(fleet.expected("t1", X).mean) == {"red", "blue"}
    assert fleet.decide_many(["t1"], [X]).arms == ("red", "blue")
    assert fleet.probabilities(["t1"], [X]).shape == (1, 2)
    with pytest.raises(UnknownArm, match="retired"):
        fleet.decide("t1", X, ["green", "red"])
    before = fleet.n_rewards
    fleet.reward(late.id, 1.0)  # its rewards still count
    assert fleet.n_rewards == before + 1
    fleet.retire_arm("red")
    with pytest.raises(InvalidValue, match="last one"):
        fleet.retire_arm("blue")
    fleet.add_arm("green")
    fleet.add_arm("black")
    assert fleet.arms == ("green", "blue", "black")
    believed = fleet.expected("t1", X)  # a new arm starts where arms are
    assert abs(believed.mean["black"] - np.mean([believed.mean["green"], believed.mean["blue"]])) < believed.sd["black"]
    fleet.rename("green", "lime")
    fleet.rename("red", "rose")
    assert (fleet.arms, fleet.retired_arms) == (("lime", "blue", "black"), ("rose",))
    with pytest.raises(UnknownArm):
        fleet.rename("green", "other")
    with pytest.raises(InvalidValue, match="already"):
        fleet.rename("lime", "rose")


def test_a_new_arm_is_learned_like_the_others(fleet_of, table):
    fleet = fleet_of(100)
    fleet.add_arm("black")
    fleet.learn_many(table(300, 1, arms=("red", "green", "blue", "black")))

    post = posterior(fleet.statistics, fleet.prior)

    x = np.array([1.0, *X])
    for place, task in enumerate(fleet.tasks):
        assert_allclose(list(fleet.expected(task, X).mean.values()), post.mean[:, place] @ x, rtol=1e-8)
    assert set(fleet.arms) == {"red", "green", "blue", "black"}


@pytest.mark.parametrize("settings", [{}, {"robust": True}, {"policy": "lin-ucb"}, {"prior": "moments"}])
def test_a_forgotten_task_might_never_have_been(fleet_of, table, settings):
    rows = table(120)
    fleet, fresh = fleet_of(0, **settings), fleet_of(0, **settings)
    fleet.learn_many(rows)
    fresh.learn_many(rows.filter(~pl.col("task").is_in(["t1", "t3"])))

    fleet.forget("t3", "t1", "t3")

    assert fleet.tasks == fresh.tasks
    for mine, theirs in zip(fleet.statistics.sums, fresh.statistics.sums, strict=True):
        assert_allclose(mine, theirs, rtol=1e-12)
    assert_allclose(fleet.prior.covariance, fresh.prior.covariance, rtol=1e-9)
    for task in (*fresh.tasks, "t1"):
        assert fleet.expected(task, X).mean == pytest.approx(fresh.expected(task, X).mean, rel=1e-9)
        assert fleet.expected(task, X).sd == pytest.approx(fresh.expected(task, X).sd, rel=1e-9)


def test_forgetting_everything_is_a_new_fleet(fleet_of):
    fleet, fresh = fleet_of(80), fleet_of(0)
    decision = fleet.decide("t1", X)
    fleet.forget(*fleet.tasks)
    assert (fleet.tasks, fleet.n_rewards, fleet.pending()) == ((), 0, [])
    assert fleet.expected("t1", X) == fresh.expected("t1", X)
    with pytest.raises(UnknownDecision, match="forgotten"):
        fleet.reward(decision.id, 1.0)
    fleet.decide(17, X)  # names may be of the other kind now
    assert fleet.tasks == (17,)
    fleet.forget()
    with pytest.raises(UnknownTask, match="18"):
        fleet.forget(18)


def with_a_wild_context(size, settings):
    """A fleet that has learned one row of task t2 whose context is far beyond the others: a sentinel, say."""
    spec = FeatureSpec(["a", "b", "c"], intercept=False)
    fleet = Posse(arms=["red", "green"], features=spec, seed=0, **settings)
    rng = np.random.default_rng(0)
    for i in range(120):
        x = rng.normal(size=3) * (size if i == 50 else 1.0)
        try:
            decision = fleet.decide(f"t{i % 4}", x)
        except NotFinite:
            continue
        fleet.reward(decision.id, rng.normal())
    return fleet


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, 1e12),
        ({}, 1e20),
        ({"robust": True}, 1e20),
        ({"prior": "moments"}, 1e40),
        ({"policy": "lin-ucb"}, 1e12),
        ({"policy": "lin-ucb"}, 1e20),
    ],
    ids=str,
)
def test_beliefs_that_are_no_numbers_decide_nothing(settings, size):
    fleet = with_a_wild_context(size, settings)
    for task in ("t0", "t2", "never seen"):
        try:
            decision = fleet.decide(task, [1.0, 1.0, 1.0])
        except NotFinite as error:
            assert "forget" in str(error)  # noqa: PT017 -- either is fine
        else:
            assert np.isfinite([*decision.mean.values(), *decision.sd.values()]).all()
            assert sum(decision.probabilities.values()) == pytest.approx(1)

    fleet.forget("t2")

    assert np.isfinite(list(fleet.decide("t0", [1.0, 1.0, 1.0]).mean.values())).all()


@pytest.mark.parametrize("size", [1e12, 1e20])
def test_what_is_saved_can_be_loaded(tmp_path, size):
    fleet = with_a_wild_context(size, {})
    path = tmp_path / "fleet.posse"
    try:
        fleet.save(path)
    except PosseError:
        assert not path.exists()
    else:
        Posse.load(path)


def test_features_may_be_declared(table):
    spec = FeatureSpec(["a", one_hot("b", ["x", "y"])], intercept=False)
    fleet = Posse(arms=["u", "v"], features=spec, seed=1)
    decision = fleet.decide("t", {"a": 2.0, "b": "y"})
    fleet.reward(decision.id, 3.0)
    assert fleet.statistics.moment.max() == 6.0
    with pytest.raises(InvalidValue, match="categories"):
        fleet.decide("t", {"a": 2.0, "b": "z"})
    with pytest.raises(InvalidValue, match="not declared"):
        fleet.decide("t", {"a": 2.0, "b": "y", "c": 1})


@pytest.mark.parametrize("policy", ["random", "lin-ucb"])
def test_arms_join_where_tasks_stand_alone(policy):
    fleet = Posse(arms=["x"], features=["a"], policy=policy, seed=1)
    fleet.learn_many([{"task": "t", "arm": "x", "a": 1.0, "reward": 2.0}])
    fleet.add_arm("y")

    fleet.learn_many([{"task": "t", "arm": "y", "a": 1.0, "reward": 2.0}])

    mean = fleet.expected("t", [1.0]).mean
    assert mean["x"] == pytest.approx(mean["y"], rel=1e-9)


def test_a_partial_fleet_does_not_take_tasks_of_the_file_for_new_ones(tmp_path):
    fleet = Posse(arms=["x", "y"], features=["a"], seed=1)
    fleet.learn_many([{"task": f"t{i}", "arm": "x", "a": 1.0, "reward": float(i)} for i in range(3)])
    fleet.save(tmp_path / "fleet.posse")

    some = Posse.load(tmp_path / "fleet.posse", tasks=["t1"])

    assert "partial" in repr(some)
    assert some.expected("new", [1.0]) == fleet.expected("new", [1.0])
    for ask in (lambda: some.decide("t2", [1.0]), lambda: some.decide_many(["t2"], [[1.0]])):
        with pytest.raises(UnknownTask, match="not loaded"):
            ask()


def test_a_fleet_knows_what_it_made(tmp_path):
    fleet = Posse(arms=["x", "y"], features=["a"], seed=1)
    ids = [fleet.decide("t", [1.0]).id for _ in range(3)]
    fleet.save(tmp_path / "fleet.posse")
    later = fleet.decide("t", [1.0]).id

    back = Posse.load(tmp_path / "fleet.posse")

    assert fleet.made([*ids, later, "elsewhere-1", None, 5]) == 4
    assert back.made([*ids, later]) == 3


# Tables in pieces

PIECES = [
    {},
    {"robust": True},
    {"prior": "moments"},
    {"policy": "lin-ucb"},
]


@pytest.mark.parametrize("settings", PIECES, ids=str)
@pytest.mark.parametrize("known", [0, 40])
@pytest.mark.parametrize("last", [False, True], ids=["then a decision", "the last with a refresh"])
def test_a_table_in_pieces_is_the_table(
    fleet_of, table, snapshot, differences, same_prefixes, last, known, settings, exactly
):
    # Exactly: every sum is added up in the order of its rows, and the population is estimated once, from all of them.
    rows = table(500, 3, n_tasks=12)

    def build():
        same_prefixes()
        return fleet_of(known, **settings)

    whole, pieces = build(), build()
    whole.learn_many(rows)
    cuts = [0, 1, 170, 171, 400, 500]
    for first, end in itertools.pairwise(cuts):
        refresh = last and end == 500
        assert pieces.learn_many(rows[first:end], refresh=refresh) == end - first
    assert pieces.n_rewards == known + 500

    decisions = [[each.decide(task, X) for task in ("t1", "t7", "nobody")] for each in (whole, pieces)]
    assert exactly(decisions[0]) == exactly(decisions[1])
    assert differences(snapshot(whole), snapshot(pieces)) == []


LOOKS = {
    "decide": lambda fleet: fleet.decide("t1", X),
    "decide_many": lambda fleet: list(fleet.decide_many(["t1", "new"], [X, X])),
    "expected": lambda fleet: fleet.expected("t1", X),
    "probabilities": lambda fleet: fleet.probabilities(["t1"], [X]).tolist(),
    "prior": lambda fleet: fleet.prior.covariance.tolist(),
    "coefficients": lambda fleet: fleet.coefficients("t1"),
    "borrowing": lambda fleet: fleet.borrowing("t1"),
    "overview": lambda fleet: fleet.overview(),
    "export": lambda fleet: fleet.export("t1"),
    "reward_many": lambda fleet: fleet.reward_many([fleet.pending()[0].id], [1.0]),
    "absent reward": lambda fleet: (setattr(fleet.clock, "now", 1e9), fleet.pending()),
    "merge": lambda fleet: fleet.merge(
        Posse(arms=["red"], features=FeatureSpec(["a", "b"]), seed=1, absent_reward=0.5)
    ),
    "add_arm": lambda fleet: fleet.add_arm("new"),
    "forget": lambda fleet: fleet.forget("t2"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_every_view_after_the_pieces_sees_all_of_them(
    fleet_of, table, snapshot, differences, same_prefixes, look, exactly
):
    def build(refresh):
        same_prefixes()
        fleet = fleet_of(40, absent_reward=0.5)
        fleet.decide("t3", X)
        fleet.learn_many(table(300, 3, n_tasks=12), refresh=refresh)
        return fleet

    whole, pieces = build(True), build(False)

    assert exactly(LOOKS[look](pieces)) == exactly(LOOKS[look](whole))
    # A look may refresh what is refreshed again at once, from a start that is nearer: as near as a climb goes.
    exact = look not in ("reward_many", "absent reward", "merge", "forget", "add_arm")
    if exact:
        assert differences(snapshot(pieces), snapshot(whole)) == []
    assert_allclose(pieces.prior.covariance, whole.prior.covariance, rtol=0.1, atol=0.02)


def test_a_reward_between_pieces_is_learned_with_them(fleet_of, table):
    fleet, plain = fleet_of(40), fleet_of(40)
    waiting = [(each, each.decide("t3", X).id) for each in (fleet, plain)]
    for each, decision_id in waiting:
        for first in (0, 150):
            each.learn_many(table(300, 3)[first : first + 150], refresh=each is plain)
            if first == 0:
                each.reward(decision_id, 2.0)
    # Sums are added up in another order there than here.
    for mine, theirs in zip(fleet.statistics.sums, plain.statistics.sums, strict=True):
        assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    fleet.refresh()
    plain.refresh()
    assert_allclose(fleet.prior.covariance, plain.prior.covariance, rtol=0.1, atol=0.02)


def test_a_reward_after_the_pieces_leaves_no_half_an_estimate(fleet_of, table):
    # One reward is small beside what came before it, and must not make do with the few steps of an online refresh.
    fleet = fleet_of(0)
    decision = fleet.decide("t3", X)
    fleet.learn_many(table(3000, 3, n_tasks=40), refresh=False)
    fleet.reward(decision.id, 1.0)
    before = fleet.prior.covariance
    fleet.refresh()
    assert_allclose(fleet.prior.covariance, before, rtol=0.05, atol=0.01 * np.abs(before).max())


@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_switches_are_true_or_false(fleet_of, table, snapshot, wrong):
    fleet = fleet_of()
    before = snapshot(fleet)
    for call in (
        lambda: fleet.learn_many(table(3), refresh=wrong),
        lambda: fleet.refresh(wait=wrong),
    ):
        with pytest.raises(InvalidValue, match="to be True or False"):
            call()
    assert snapshot(fleet) == before


@pytest.mark.parametrize("wrong", [1, 0, -5, 2.5, "all"])
def test_a_sample_has_at_least_two_tasks(fleet_of, snapshot, wrong):
    fleet = fleet_of()
    before = snapshot(fleet)
    with pytest.raises(InvalidValue, match="sample"):
        fleet.refresh(sample=wrong)
    assert snapshot(fleet) == before


def test_a_fleet_that_does_not_fit_in_memory_is_refused(monkeypatch):
    monkeypatch.setattr("posse.fleet.settings.memory", lambda: 5 * 4**2 * 110)
    fleet = Posse(arms=range(5), features=["a", "b", "c"])
    with pytest.raises(InvalidValue, match=r"expected a fleet that fits in .* got 6 arms x 4 columns"):
        fleet.add_arm(5)
    assert fleet.arms == (0, 1, 2, 3, 4)
    with pytest.raises(InvalidValue, match="got 5 arms x 5 columns"):
        Posse(arms=range(5), features=["a", "b", "c", "d"])
