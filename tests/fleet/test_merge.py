import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.errors import (
    InvalidValue,
    UnknownDecision,
)
from posse.model import Prior

X = np.array([0.3, -0.8])


def test_two_halves_make_a_whole(fleet_of, table):
    rows = table(200)
    one, two, whole = fleet_of(0), fleet_of(0), fleet_of(0)
    one.learn_many(rows[:90])
    two.learn_many(rows[90:])
    whole.learn_many(rows)

    one.merge(two)

    order = [one.tasks.index(task) for task in whole.tasks]
    for mine, theirs in zip(one.statistics.sums, whole.statistics.sums, strict=True):
        assert_allclose(mine[:, order], theirs, rtol=1e-9, atol=1e-9)
    assert one.expected("t1", X).mean == pytest.approx(whole.expected("t1", X).mean, abs=0.05)


def test_arms_and_tasks_go_by_their_names(fleet_of, table):
    # The other has the same arms and tasks in another order, and some of its own.
    one, two, whole = fleet_of(0), fleet_of(0, arms=("black", "blue", "red", "green")), fleet_of(0)
    whole.add_arm("black")
    mine, theirs = table(60), table(60, 1, n_tasks=8, arms=("blue", "black", "green"))
    one.learn_many(mine.sort("task"))
    two.learn_many(theirs.sort("task", descending=True))
    whole.learn_many(pl.concat([mine.sort("task"), theirs.sort("task", descending=True)]))

    one.merge(two)

    assert one.arms == whole.arms
    assert set(one.tasks) == set(whole.tasks)
    order = [one.tasks.index(task) for task in whole.tasks]
    for found, expected in zip(one.statistics.sums, whole.statistics.sums, strict=True):
        assert_allclose(found[:, order], expected, rtol=1e-9, atol=1e-9)


def test_decisions_of_the_other_are_rewarded_here(fleet_of, clock):
    one, two = fleet_of(20, clock=clock), fleet_of(0, clock=clock, arms=("black", "red"))
    mine, theirs = one.decide("t1", X), two.decide("new", X, ["black"])
    again = two.decide("t1", X, ["red"])
    two.reward(again.id, 3.0)
    two.retire_arm("black")

    one.merge(two)

    assert {entry.id: (entry.task, entry.arm) for entry in one.pending()} == {
        mine.id: ("t1", mine.arm), theirs.id: ("new", "black"),
    }  # fmt: skip
    assert one.retired_arms == ("black",)
    assert one.reward(theirs.id, 1.0) is True
    assert one.reward(again.id, 3.0) is False
    place = ("red", "green", "blue", "black").index("black"), one.tasks.index("new")
    assert one.statistics.count[place] == 1
    one.forget("new")
    with pytest.raises(UnknownDecision, match="forgotten"):
        one.reward(theirs.id, 1.0)


def test_what_cannot_be_merged_is_refused(fleet_of, snapshot):
    fleet = fleet_of()
    other = fleet_of()
    fleet.merge(other)
    before = snapshot(fleet)
    child = fleet_of(0)
    child.merge(fleet)
    for wrong in (
        fleet, None, "fleet", other, child, fleet_of(0, arms=(1, 2)), Posse(arms=["red"], features=["a"], seed=1),
    ):  # fmt: skip
        with pytest.raises(InvalidValue):
            fleet.merge(wrong)
        assert snapshot(fleet) == before
    numbered = fleet_of(0)
    numbered.decide(3, X)
    with pytest.raises(InvalidValue, match="text"):
        fleet.merge(numbered)
    assert snapshot(fleet) == before
    known = fleet_of(prior=Prior.isotropic(n_arms=3, n_features=3))
    before = snapshot(known)
    with pytest.raises(InvalidValue, match="Prior"):
        known.merge(fleet_of(0, arms=("red", "new")))
    assert snapshot(known) == before


def test_the_error_of_merging_with_itself_is_a_sentence(fleet_of):
    fleet = fleet_of(0)
    with pytest.raises(InvalidValue, match="with itself"):
        fleet.merge(fleet)


def test_arms_that_stand_in_another_order_are_the_same_arms():
    one = Posse(arms=["red", "green", "blue"], features=["a"], seed=1)
    other = Posse(arms=["blue", "red"], features=["a"], seed=2)
    other.learn_many([{"task": "t", "arm": "blue", "a": 1.0, "reward": 5.0}])
    waiting = other.decide("t", [2.0], eligible=["blue"])

    one.merge(other)
    one.reward(waiting.id, 7.0)

    counts = dict(zip(one.arms, one.statistics.count[:, 0], strict=True))
    assert counts == {"red": 0.0, "green": 0.0, "blue": 2.0}
    assert one.statistics.sum_of_squares[2, 0] == 5.0**2 + 7.0**2


def test_pending_decisions_of_both_fleets_are_listed_by_age():
    now = [100.0]
    one, other = (Posse(arms=["x"], features=["a"], seed=seed, clock=lambda: now[0]) for seed in (1, 2))
    made = []
    for fleet in (other, one, other, one):
        made.append(fleet.decide("t", [1.0]).id)
        now[0] += 1.0
    one.merge(other)

    assert [entry.id for entry in one.pending()] == made


def test_decisions_keep_their_numbers_when_older_ones_have_gone(fleet_of, clock):
    fleet, other = (fleet_of(0, clock=clock, time_to_live=10.0) for _ in range(2))
    gone = other.decide("a", X)
    clock.now += 8.0
    waiting = other.decide("b", [1.0, 2.0])
    clock.now += 4.0
    assert [entry.id for entry in other.pending()] == [waiting.id]

    fleet.merge(other)

    assert [(entry.id, entry.task) for entry in fleet.pending()] == [(waiting.id, "b")]
    with pytest.raises(UnknownDecision):
        fleet.reward(gone.id, 1.0)
    assert fleet.reward(waiting.id, 3.0)
    assert fleet.statistics.moment.max() == 6.0
