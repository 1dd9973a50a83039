"""Rewards that come late, twice or never, and the log of it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from posse import Posse
from posse.errors import (
    ExpiredDecision,
    InvalidValue,
    NotFinite,
    RewardConflict,
    ShapeError,
    UnknownDecision,
)

X = np.array([0.3, -0.8])


def test_a_reward_comes_late_and_once(fleet_of):
    fleet = fleet_of(0)
    first, second = fleet.decide("a", X), fleet.decide("b", X)

    assert fleet.reward(second.id, 2.0) is True
    assert fleet.reward(first.id, 1) is True
    assert fleet.reward(first.id, np.float64(1.0)) is False
    with pytest.raises(RewardConflict, match=r"the reward 2 that decision .* has already, got 3"):
        fleet.reward(second.id, 3.0)
    assert fleet.n_rewards == 2
    assert fleet.pending() == []


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e51, 10**400])
def test_a_reward_must_be_a_moderate_number(fleet_of, wrong):
    fleet = fleet_of(0)
    decision = fleet.decide("a", X)
    with pytest.raises(NotFinite, match="reward"):
        fleet.reward(decision.id, wrong)
    for value in ("1", None, [1.0], 1j):
        with pytest.raises(InvalidValue, match="reward"):
            fleet.reward(decision.id, value)
    assert fleet.n_rewards == 0


def test_decisions_expire(fleet_of, clock):
    fleet = fleet_of(0, clock=clock, time_to_live=10.0)
    early = fleet.decide("a", X)
    clock.now += 10.0
    late = fleet.decide("a", X)
    assert fleet.reward(early.id, 1.0)  # just in time
    clock.now += 0.5

    with pytest.raises(ExpiredDecision, match="time to live"):
        fleet.reward(early.id, 1.0)
    assert [entry[:3] for entry in fleet.pending()] == [(late.id, "a", late.arm)]
    with pytest.raises(ExpiredDecision):
        fleet.reward(early.id, 1.0)
    clock.now += 10.0
    assert fleet.pending() == []
    assert fleet.n_rewards == 1
    with pytest.raises(UnknownDecision):
        fleet.reward(late.id, 1.0)


def test_the_oldest_decision_waits_in_front(fleet_of, clock):
    fleet, other = fleet_of(0, clock=clock), fleet_of(0, clock=clock)
    old = other.decide("a", X)
    clock.now += 1.0
    young = fleet.decide("b", X)
    clock.now += 1.0
    youngest = other.decide("c", X)
    fleet.merge(other)

    assert [(entry.id, entry.age) for entry in fleet.pending()] == [(old.id, 2.0), (young.id, 1.0), (youngest.id, 0.0)]


def test_without_a_time_to_live_nothing_expires(fleet_of, clock):
    fleet = fleet_of(0, clock=clock, time_to_live=None)
    decision = fleet.decide("a", X)
    clock.now += 1e12

    assert [entry.id for entry in fleet.pending()] == [decision.id]
    assert fleet.reward(decision.id, 1.0)
    with pytest.raises(InvalidValue, match="expected time_to_live to be a number"):
        fleet_of(0, time_to_live=None, absent_reward=5.0, count_pending=False)


@pytest.mark.parametrize("touch", ["decide", "decide_many", "reward", "reward_many", "pending", "export"])
def test_the_absence_of_a_reward_may_be_one(fleet_of, clock, touch):
    fleet = fleet_of(0, clock=clock, time_to_live=10.0, absent_reward=-0.5)
    late = [fleet.decide("a", [1.0, 2.0]), fleet.decide("b", [3.0, 4.0])]
    rewarded = fleet.decide("a", [9.0, 9.0])
    fleet.reward(rewarded.id, 1.0)
    clock.now += 8.0
    waiting = fleet.decide("a", X)
    clock.now += 4.0

    {
        "decide": lambda: fleet.decide("c", X),
        "decide_many": lambda: fleet.decide_many(["c"], [X]),
        "reward": lambda: fleet.reward(waiting.id, 0.0),
        "reward_many": lambda: fleet.reward_many([waiting.id], [0.0]),
        "pending": fleet.pending,
        "export": lambda: fleet.export("a"),
    }[touch]()

    stats = fleet.statistics
    arms, tasks = list(fleet.arms), list(fleet.tasks)
    for decision, x in zip(late, ([1.0, 1.0, 2.0], [1.0, 3.0, 4.0]), strict=True):
        place = arms.index(decision.arm), tasks.index(decision.task)
        if decision.task == "b":
            assert_allclose(stats.moment[place], -0.5 * np.array(x))
            assert stats.sum_of_squares[place] == 0.25
    assert fleet.n_rewards == 4 + touch.startswith("decide")


def test_the_clock_may_go_back(fleet_of, clock):
    fleet = fleet_of(0, clock=clock, time_to_live=10.0, absent_reward=1.0)
    first = fleet.decide("a", X)
    clock.now -= 100.0
    second = fleet.decide("b", X)
    third = fleet.decide("c", X)
    clock.now += 1.0

    assert {entry.id for entry in fleet.pending()} == {first.id, second.id, third.id}
    assert fleet.reward(second.id, 2.0)
    clock.now += 1000.0
    assert fleet.pending() == []
    assert fleet.n_rewards == 3


def test_what_waits_may_be_rewarded_even_if_the_clock_went_back(fleet_of, clock):
    fleet = fleet_of(0, clock=clock, time_to_live=10.0)
    fleet.decide("a", X)
    clock.now -= 8.0
    fleet.decide("b", X)
    clock.now += 10.5  # the second is late, the first is not

    for entry in fleet.pending():
        assert entry.age <= 10.0
        assert fleet.reward(entry.id, 1.0)


@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=8), st.integers(1, 12))
@settings(max_examples=25)
def test_rewards_in_any_order_leave_the_same_sums(order, again, size):
    fleets = []
    for arrival in (range(12), order):
        fleet = Posse(arms=["x", "y"], features=["a"], seed=3)
        made = [fleet.decide(f"t{i % 4}", [0.3 * i]) for i in range(12)]
        for start in range(0, 12, size):
            some = [*arrival[start : start + size]]
            repeated = [i for i in again if i in some]
            fleet.reward_many([made[i].id for i in some + repeated], [i - 5.5 for i in some + repeated])
        fleets.append(fleet)
    one, two = (fleet.statistics for fleet in fleets)
    for mine, theirs in zip(one.sums, two.sums, strict=True):
        assert_allclose(mine, theirs, atol=1e-9)


def test_a_batch_of_rewards_is_learned_all_or_not_at_all(fleet_of, snapshot):
    fleet = fleet_of(0)
    made = [fleet.decide(f"t{i}", X) for i in range(4)]
    ids = [decision.id for decision in made]
    fleet.reward(ids[0], 1.0)
    before = snapshot(fleet)
    for wrong_ids, wrong_values, error in [
        (ids, [2.0, 1.0, 1.0, 1.0], RewardConflict),
        ([*ids[1:], ids[1]], [1.0, 2.0, 3.0, 1.5], RewardConflict),
        ([*ids, "nobody-1"], [1.0] * 5, UnknownDecision),
        (ids, [1.0, 1.0, 1.0, math.nan], NotFinite),
        (ids, [1.0] * 3, ShapeError),
        (ids, [1.0, 1.0, 1.0, "1"], InvalidValue),
    ]:
        with pytest.raises(error):
            fleet.reward_many(wrong_ids, wrong_values)
        assert snapshot(fleet) == before
    assert fleet.reward_many([*ids, ids[2]], [1.0, 2.0, 3.0, 4.0, 3.0]) == 3
    assert fleet.reward_many(ids, [1.0, 2.0, 3.0, 4.0]) == 0
    assert fleet.reward_many([], []) == 0
    assert fleet.n_rewards == 4


def test_decisions_and_rewards_are_noted_as_they_happen(fleet_of, clock):
    noted = []
    fleet = fleet_of(30, clock=clock, time_to_live=10.0, absent_reward=0.25, log=noted.extend)
    one = fleet.decide("t1", {"a": 0.3, "b": -0.8}, ["blue", "red"])
    many = fleet.decide_many(["t2", "new"], [X, 2 * X])
    fleet.reward(one.id, 1.0)
    fleet.reward(one.id, 1.0)
    fleet.reward_many([many.ids[0], one.id], [2.0, 1.0])
    clock.now += 11.0
    fleet.pending()

    made, rewards = noted[:3], noted[3:]
    assert [record["decision_id"] for record in made] == [one.id, *many.ids]
    assert made[0]["eligible"] == list(one.probabilities)
    assert made[0]["probabilities"] == list(one.probabilities.values())
    assert (made[0]["task"], made[0]["arm"], made[0]["propensity"]) == (one.task, one.arm, one.propensity)
    assert [record["context"] for record in made] == [
        {"a": 0.3, "b": -0.8}, {"a": 0.3, "b": -0.8}, {"a": 0.6, "b": -1.6}
    ]  # fmt: skip
    assert [(record["decision_id"], record["reward"]) for record in rewards] == [
        (one.id, 1.0), (many.ids[0], 2.0), (many.ids[1], 0.25)
    ]  # fmt: skip
