import numpy as np
import pytest

from posse.errors import InvalidValue, NotFinite, RewardConflict, UnknownDecision
from posse.fleet import Skipped

X = np.array([0.3, -0.8])


def test_a_decision_is_as_good_as_its_id(fleet_of):
    fleet = fleet_of(0)
    one, two = fleet.decide("a", X), fleet.decide("a", X)
    assert fleet.reward(one, 1.5) is True
    assert fleet.reward(one.id, 1.5) is False
    assert fleet.reward_many([one, two.id, two], [1.5, 2.0, 2.0]) == 1
    batch = fleet.decide_many(["a", "b"], [X, X])
    assert fleet.reward_many(batch, [1.0, 2.0]) == 2
    with pytest.raises(InvalidValue, match="pass it to reward"):
        fleet.reward_many(one, [1.0])


def test_a_click_is_one_and_no_click_is_zero(fleet_of):
    clicks, numbers = fleet_of(0), fleet_of(0)
    for fleet, kind in ((clicks, (True, np.bool_(False))), (numbers, (1.0, 0.0))):
        for value in kind:
            fleet.reward(fleet.decide("a", X), value)
    assert clicks.statistics.sum_of_squares.tolist() == numbers.statistics.sum_of_squares.tolist()
    assert clicks.statistics.sum_of_squares.sum() == 1.0


def test_what_cannot_be_learned_is_skipped_with_its_reason(fleet_of, snapshot):
    fleet = fleet_of(0)
    batch = fleet.decide_many(["a", "b", "c", "d"], [X] * 4)
    fleet.reward(batch[0], 1.0)
    ids = [batch.ids[0], "nobody", batch.ids[1], batch.ids[2], batch.ids[3], batch.ids[3], None]
    values = [2.0, 1.0, float("nan"), 5.0, 1.0, 3.0, 1.0]
    before = snapshot(fleet)
    with pytest.raises(RewardConflict):
        fleet.reward_many(ids, values)
    for one, error in ((1, UnknownDecision), (2, NotFinite), (6, UnknownDecision)):
        with pytest.raises(error):
            fleet.reward_many([batch.ids[2], ids[one]], [5.0, values[one]])
    assert snapshot(fleet) == before

    learned = fleet.reward_many(ids, values, errors="skip")

    assert learned == 2
    assert [entry.row for entry in learned.skipped] == [0, 1, 2, 5, 6]
    assert [entry.reason.split(":")[0] for entry in learned.skipped] == [
        "RewardConflict", "UnknownDecision", "NotFinite", "RewardConflict", "UnknownDecision",
    ]  # fmt: skip
    assert learned.skipped[1] == Skipped(1, "nobody", learned.skipped[1].reason)
    assert fleet.n_rewards == 3
    assert fleet.reward_many([], []).skipped == ()
    with pytest.raises(InvalidValue, match="errors to be one of 'raise', 'skip'"):
        fleet.reward_many([], [], errors="ignore")
