"""Fleets in a world that changes: what is learned fades by the times of the log."""

import sqlite3

import numpy as np
import pytest

SECONDS = 1 / 86400


def feed(service, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        context = {"hour": float(rng.normal()), "weather": "sun" if rng.random() < 0.5 else "rain"}
        decision = service.decide(f"store-{rng.integers(4)}", context)
        service.reward(decision, float(rng.normal()))


def live_in(service, world, steps, seed):
    """Decide and reward in a world of three arms and eight tasks."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        task, hour = int(rng.integers(8)), float(rng.normal())
        decision = service.decide(f"store-{task}", {"hour": hour, "weather": "sun"})
        arm = ["coffee", "cake", "newspaper"].index(decision["arm"])
        service.reward(decision, float(world[arm, task] @ [1.0, hour] + 0.2 * rng.normal()))


def sums_of(service):
    replica = service.live("stores").replica
    return {task: replica.export(task)["arms"] for task in sorted(replica.tasks)}


def test_what_is_noticed_is_in_the_log_and_comes_back_from_it(start, wait_for, tmp_path):
    service = start()
    service.make_fleet(drift="learn")
    rng = np.random.default_rng(0)
    world = rng.normal(size=(3, 1, 2)) + 0.3 * rng.normal(size=(3, 8, 2))
    live_in(service, world, 100, seed=1)
    assert service.live("stores").replica.changes == []
    live_in(service, -world, 40, seed=2)
    changes = wait_for(lambda: service.live("stores").replica.changes)
    assert changes[0].task is None
    assert any("all tasks changed at once" in finding for finding in service.live("stores").replica.findings())
    wait_for(lambda: not service.live("stores").replica._engine.fading.events)
    live_in(service, -world, 10, seed=3)
    sums, changes = sums_of(service), service.live("stores").replica.changes
    path = tmp_path / "copy.db"
    with sqlite3.connect(service.settings.database) as source, sqlite3.connect(path) as target:
        source.backup(target)
        target.execute("DELETE FROM snapshot_parts")
        target.execute("DELETE FROM snapshots")
    again = start(str(path))
    assert again.live("stores").replica.changes == changes
    for task, arms in sums_of(again).items():
        for arm, found in arms.items():
            assert found["count"] == pytest.approx(sums[task][arm]["count"])
            np.testing.assert_allclose(found.get("gram", 0.0), sums[task][arm].get("gram", 0.0), rtol=1e-9, atol=1e-12)
    assert service.read("/v1/fleets/stores/verify")["different"] == 0


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
    replica._engine.store.belief.sums.counts[0] += 100.0
    assert service.read("/v1/fleets/stores/verify")["different"] == 1


def test_a_fleet_without_drift_has_none_in_its_definition(start):
    assert "drift" not in start().make_fleet()["definition"]


def test_what_is_no_half_life_is_refused(start):
    service = start()
    for drift in ("learned", 0, -1, 1e9):
        answer = service.put("/v1/fleets/bad", json={"arms": ["a", "b"], "features": ["x"], "drift": drift})
        assert answer.status_code == 422
        assert answer.json()["error"]["field"].startswith("drift")
    both = {"drift": 1.0, "absent_reward": 0.0}
    answer = service.put("/v1/fleets/bad", json={"arms": ["a", "b"], "features": ["x"], **both})
    assert answer.status_code == 422
    assert "count_pending" in answer.json()["error"]["message"]
