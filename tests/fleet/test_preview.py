"""Decisions that are not recorded: what would come next, without a trace."""

import numpy as np
import pytest

from posse import Posse
from posse.errors import InvalidValue

X = np.array([[0.3, -0.8], [0.1, 0.2], [1.0, 2.0], [0.0, 0.5]])
TASKS = ["t1", "t2", "new", "t1"]


@pytest.mark.parametrize("explore", [True, False])
def test_what_would_be_decided_is_what_is_decided_next(fleet_of, snapshot, explore):
    fleet = fleet_of(40)
    before = snapshot(fleet)

    one = fleet.decide("t1", X[0], ["red", "blue"], explore=explore, record=False)
    many = fleet.decide_many(TASKS, X, [None, ["green"], None, None], explore=explore, record=False)

    assert snapshot(fleet) == before
    assert (one.id, many.ids) == ("", [""] * 4)
    batch = fleet.decide_many(TASKS, X, [None, ["green"], None, None], explore=explore)
    assert [decision[1:] for decision in many] == [decision[1:] for decision in batch]
    again = fleet.decide("t1", X[0], ["red", "blue"], explore=explore, record=False)
    assert fleet.decide("t1", X[0], ["red", "blue"], explore=explore)[1:] == again[1:]


def test_nothing_is_noted_and_nothing_can_be_rewarded(fleet_of):
    noted = []
    fleet = fleet_of(0, absent_reward=0.0)
    fleet.log_to(noted.append)
    decision = fleet.decide("never seen", X[0], record=False)
    assert (len(fleet), fleet.n_decisions, fleet.n_rewards, fleet.pending(), noted) == (0, 0, 0, [], [])
    with pytest.raises(InvalidValue, match="record=False"):
        fleet.reward(decision, 1.0)
    with pytest.raises(InvalidValue, match="record to be True or False"):
        fleet.decide("a", X[0], record="no")


def test_the_next_numbers_of_the_stream_are_used_and_left(fleet_of):
    fleet = fleet_of(0)  # without a reward every arm is as likely as the others
    rows = np.ones((40, 2))
    fleet.decide("a", rows[0])
    first = fleet.decide("a", rows[0], record=False).arm
    many = fleet.decide_many(["a"] * 40, rows, record=False).arm
    assert len(set(many)) == 3
    assert first == many[0]
    assert many == fleet.decide_many(["a"] * 40, rows).arm


@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_what_would_be_decided_about_clicks_and_counts_has_expected_rewards(rewards):
    fleet = Posse(arms=["red", "green"], features=["a", "b"], rewards=rewards, seed=3)
    for row in range(20):
        fleet.reward(fleet.decide(f"t{row % 3}", X[row % 4]), row % 2)
    shown = fleet.decide("t1", X[0], record=False)
    assert shown.mean == fleet.expected("t1", X[0]).mean  # and not logits or logarithms
    assert shown[1:] == fleet.decide("t1", X[0])[1:]
