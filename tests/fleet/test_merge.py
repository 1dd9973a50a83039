import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.errors import (
    InvalidValue,
    UnknownDecision,
)

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
    known = fleet_of(policy="lin-ts")
    before = snapshot(known)
    with pytest.raises(InvalidValue, match="Prior"):
        known.merge(fleet_of(0, arms=("red", "new")))
    assert snapshot(known) == before


def test_the_error_of_merging_with_itself_is_a_sentence(fleet_of):
    fleet = fleet_of(0)
    with pytest.raises(InvalidValue, match="with itself"):
        fleet.merge(fleet)
