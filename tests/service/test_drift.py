"""Fleets in a world that changes: what is learned fades by the times of the log."""

import numpy as np

SECONDS = 1 / 86400


def feed(service, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        context = {"hour": float(rng.normal()), "weather": "sun" if rng.random() < 0.5 else "rain"}
        decision = service.decide(f"store-{rng.integers(4)}", context)
        service.reward(decision, float(rng.normal()))


def learned(service):
    replica = service.live("stores").replica
    return sum(sums["count"] for task in replica.tasks for sums in replica.export(task)["arms"].values())


def test_old_rewards_fade_and_agree_with_the_log(start):
    service = start()
    made = service.make_fleet(drift=2 * SECONDS)
    assert made["definition"]["drift"] == 2 * SECONDS
    feed(service, 80)
    assert service.counts()["rewards"] == 80
    assert 0 < learned(service) < 79.5  # some seconds have passed since the first
    found = service.read("/v1/fleets/stores/verify")
    assert (found["tasks"], found["different"]) == (4, 0)
    # Sums that are larger than the log allows are noticed.
    replica = service.live("stores").replica
    replica._store.belief.sums.counts[0] += 100.0
    assert service.read("/v1/fleets/stores/verify")["different"] == 1


def test_a_fleet_without_drift_has_none_in_its_definition(start):
    assert "drift" not in start().make_fleet()["definition"]


def test_what_is_no_half_life_is_refused(start):
    service = start()
    for drift in ("learn", 0, -1, 1e9):
        answer = service.put("/v1/fleets/bad", json={"arms": ["a", "b"], "features": ["x"], "drift": drift})
        assert answer.status_code == 422
        assert answer.json()["error"]["field"] == "drift"
    both = {"drift": 1.0, "absent_reward": 0.0}
    answer = service.put("/v1/fleets/bad", json={"arms": ["a", "b"], "features": ["x"], **both})
    assert answer.status_code == 422
    assert "count_pending" in answer.json()["error"]["message"]
