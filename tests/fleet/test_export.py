import json

import numpy as np
import pytest

from posse import Posse
from posse.errors import (
    UnknownTask,
)

X = np.array([0.3, -0.8])


def test_an_export_is_plain_and_complete(fleet_of, clock):
    fleet = fleet_of(30, clock=clock)
    fleet.decide("t1", [2.0, 3.0])
    decision = fleet.decide("t2", [0.5, 0.25])
    rewarded = fleet.decide("t2", [1.5, 1.25])
    fleet.reward(rewarded.id, 4.0)

    found = fleet.export("t2")

    assert json.loads(json.dumps(found)) == found
    assert (found["task"], found["columns"]) == ("t2", ["intercept", "a", "b"])
    stats, place = fleet.statistics, fleet.tasks.index("t2")
    for arm, name in enumerate(fleet.arms):
        entry = found["arms"][name]
        assert entry["count"] == stats.count[arm, place]
        if entry["count"]:
            assert entry["gram"] == stats.gram[arm, place].tolist()
            assert entry["moment"] == stats.moment[arm, place].tolist()
            assert entry["sum_of_squares"] == stats.sum_of_squares[arm, place]
        assert 0 <= entry["own_share"] <= 1
    assert found["decisions"] == [
        {"id": decision.id, "arm": decision.arm, "time": 1000.0, "context": [1.0, 0.5, 0.25], "reward": None},
        {"id": rewarded.id, "arm": rewarded.arm, "time": 1000.0, "context": [1.0, 1.5, 1.25], "reward": 4.0},
    ]
    with pytest.raises(UnknownTask):
        fleet.export("never seen")


def test_an_export_sees_the_absent_rewards_that_it_brings(clock):
    fleet = Posse(arms=["red", "green"], features=["a"], seed=1, clock=clock, time_to_live=10.0, absent_reward=0.5)
    # As many pairs as a new fleet has room for, and one more that waits.
    n = 64
    fleet.learn_many({"task": [f"t{i}" for i in range(n)], "arm": ["red"] * n, "a": [1.0] * n, "reward": [1.0] * n})
    decision = fleet.decide("new", [2.0])
    clock.now += 20.0

    assert fleet.export("new")["arms"][decision.arm]["count"] == 1
