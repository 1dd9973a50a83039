"""Fleets in a world that changes: what is learned fades by the times of the log."""

import sqlite3
import time

import numpy as np
import pytest

from posse.core.forgetting import Event
from posse.core.noticing import ALL_TASKS
from posse.core.store import COUNT, totals_at

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


@pytest.mark.slow
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
    wait_for(lambda: not service.live("stores").replica.core.events)
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
    replica.core.state.store.pairs[0, totals_at(replica.core.n_features) + COUNT] += 100.0
    assert service.read("/v1/fleets/stores/verify")["different"] == 1


def test_a_fleet_without_drift_has_none_in_its_definition(start):
    assert "drift" not in start().make_fleet()["definition"]


def test_what_is_no_half_life_is_refused(start):
    service = start()
    for drift in ("learned", 0, -1, 1e9):
        answer = service.put("/v1/fleets/bad", json={"arms": ["a", "b"], "features": ["x"], "drift": drift})
        assert answer.status_code == 422
        assert answer.json()["error"]["field"].startswith("drift")


# Clicks and counts.


def click(service, fleet, rates, steps, seed, tasks=6):
    """Decide and reward; ``rates`` by arm."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        context = {"hour": float(rng.normal()), "weather": "sun" if rng.random() < 0.5 else "rain"}
        decision = service.decide(f"t{rng.integers(tasks)}", context, fleet=fleet)
        service.reward(decision, bool(rng.random() < rates[decision["arm"]]))


def believed(service, fleet, tasks=("t0", "t1", "t3", "nobody")):
    replica = service.live(fleet).replica
    while replica.refreshing:
        time.sleep(0.01)
    contexts = [{"hour": 0.4, "weather": "sun"}, {"hour": -1.0, "weather": "rain"}]
    found = [service.live(fleet).replica.expected(task, context) for task in tasks for context in contexts]
    return np.array([[*one.mean.values(), *one.sd.values()] for one in found])


def without_snapshots(service, path):
    with sqlite3.connect(service.settings.database) as source, sqlite3.connect(path) as target:
        source.backup(target)
        target.execute("DELETE FROM snapshot_parts")
        target.execute("DELETE FROM snapshots")
    return str(path)


GOOD = {"coffee": 0.7, "cake": 0.1, "newspaper": 0.1}
BAD = {"coffee": 0.02, "cake": 0.1, "newspaper": 0.7}


def notice_a_change(services, wait_for):
    """Let rates change, and whoever leads notice it: by itself it may learn the new rates before that."""
    for number, service in enumerate(services):
        click(service, "clicks", BAD, 30, seed=10 + number)
    leader = next(each.live("clicks").replica for each in services if each.live("clicks").replica.leading)
    with leader.lock:
        if not leader.changes:
            leader.core.events.append(Event(time.time(), task=ALL_TASKS))
    click(services[0], "clicks", BAD, 5, seed=20)
    wait_for(lambda: all(each.live("clicks").replica.changes for each in services))


@pytest.mark.slow
def test_what_is_noticed_of_clicks_is_in_the_log_and_all_believe_the_same(start, wait_for, tmp_path):
    service = start()
    service.make_fleet("clicks", rewards="binary", drift="learn")
    click(service, "clicks", GOOD, 150, seed=1)
    assert service.live("clicks").replica.changes == []
    notice_a_change([service], wait_for)
    changes = service.live("clicks").replica.changes
    assert any("changed" in finding for finding in service.live("clicks").replica.findings())
    wait_for(lambda: not service.live("clicks").replica.core.events)
    service.snapshot("clicks")
    click(service, "clicks", BAD, 20, seed=3)
    wait_for(lambda: not service.live("clicks").replica.core.events)
    before, changes = believed(service, "clicks"), service.live("clicks").replica.changes
    assert service.read("/v1/fleets/clicks/verify")["different"] == 0
    # From the log alone, from the snapshot and what came since, and repaired where it stands.
    again = start(without_snapshots(service, tmp_path / "copy.db"))
    assert again.live("clicks").replica.changes == changes
    np.testing.assert_allclose(believed(again, "clicks"), before, rtol=1e-9)
    assert service.post("/v1/fleets/clicks/repair").status_code == 200
    np.testing.assert_allclose(believed(service, "clicks"), before, rtol=1e-9)
    service.stop()
    restarted = start(service.settings.database)
    np.testing.assert_allclose(believed(restarted, "clicks"), before, rtol=1e-9)
    assert restarted.live("clicks").replica.changes == changes


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["binary", "count"])
def test_old_clicks_fade_by_the_times_of_the_log_and_an_erased_task_leaves_no_trace(start, wait_for, tmp_path, rewards):
    service = start()
    service.make_fleet("clicks", rewards=rewards, drift=2 * SECONDS)
    click(service, "clicks", GOOD, 120, seed=1)
    replica = service.live("clicks").replica
    assert 0 < replica.n_rewards < 119
    found = service.read("/v1/fleets/clicks/verify")
    assert (found["tasks"], found["different"]) == (6, 0)
    replica.core.state.store.plain[0, 0] += 1000.0
    assert service.read("/v1/fleets/clicks/verify")["different"] == 1
    replica.core.state.store.plain[0, 0] -= 1000.0
    before = believed(service, "clicks")
    assert service.delete("/v1/fleets/clicks/tasks/t2").status_code == 204
    wait_for(lambda: "t2" not in service.live("clicks").replica.tasks)
    assert (believed(service, "clicks") != before).any()
    click(service, "clicks", GOOD, 10, seed=4, tasks=2)
    again = start(without_snapshots(service, tmp_path / "copy.db"))
    np.testing.assert_allclose(believed(again, "clicks"), believed(service, "clicks"), rtol=1e-9)
    assert service.read("/v1/fleets/clicks/verify")["different"] == 0


@pytest.mark.slow
def test_two_processes_believe_the_same_of_clicks_that_fade(postgres_url, start, wait_for):
    one, other = start(postgres_url), start(postgres_url)
    one.make_fleet("clicks", rewards="binary", drift="learn")
    for number in range(4):
        click((one, other)[number % 2], "clicks", GOOD, 30, seed=number)
    notice_a_change([one, other], wait_for)
    wait_for(lambda: not any(each.live("clicks").replica.core.events for each in (one, other)))
    wait_for(lambda: one.live("clicks").applied == other.live("clicks").applied)
    wait_for(lambda: np.allclose(believed(one, "clicks"), believed(other, "clicks"), rtol=1e-9, atol=0))
    assert one.live("clicks").replica.changes == other.live("clicks").replica.changes
