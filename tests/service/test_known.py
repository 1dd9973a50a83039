"""What is known about tasks and arms, over HTTP: said, learned from, changed, erased, and again from the log."""

import json
import sqlite3
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.logs import read_log
from posse.service.verify import Verification

REGIONS = ["north", "south", "west"]
KNOWN = {
    "arms": {"coffee": {"price": 3.0}, "cake": {"price": 4.0}, "newspaper": None},
    "features": ["hour"],
    "task_features": [{"kind": "one_hot", "name": "region", "categories": REGIONS}, "size"],
    "arm_features": ["price"],
}
ARMS = list(KNOWN["arms"])
TASKS = ["store-3", "store-4", "store-14", "unheard of"]


def about(task):
    return {"region": REGIONS[task % 3], "size": 1.0 + task % 2}


def make(service, **changes):
    answer = service.put("/v1/fleets/stores", json=KNOWN | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()


def say(service, tasks):
    answer = service.post("/v1/fleets/stores/task-features", json={"tasks": tasks})
    assert answer.status_code == 200, answer.text
    return answer.json()["tasks"]


def live_in(service, steps, seed=0, tasks=12, size=25, *, clicks=False):
    """Decide and reward where regions are all that matters, ``size`` at a time."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(7).normal(size=(4, 3, 2))
    while steps > 0:
        n = min(steps, size)
        task, hour = rng.integers(tasks, size=n).tolist(), rng.normal(size=n).tolist()
        asked = [{"task": f"store-{j}", "context": {"hour": x}} for j, x in zip(task, hour, strict=True)]
        if clicks:  # arms are given, so that what is learned depends on the seed alone
            for one in asked:
                one["eligible"] = [ARMS[rng.integers(3)]]
        made = service.post("/v1/fleets/stores/decisions/batch", json={"decisions": asked}).json()["decisions"]
        arms = [[*ARMS, "tea"].index(decision["arm"]) for decision in made]
        said = [float(world[arms[i], task[i] % 3] @ [1.0, hour[i]]) for i in range(n)]
        if clicks:
            came = (rng.random(n) < 1 / (1 + np.exp(-1.5 * np.array(said)))).tolist()
        else:
            came = [value + float(0.3 * rng.normal()) for value in said]
        rewards = [{"id": decision["id"], "reward": reward} for decision, reward in zip(made, came, strict=True)]
        assert service.post("/v1/rewards", json={"rewards": rewards}).json()["new"] == n
        steps -= n


def beliefs(service, tasks):
    replica = service.live("stores").replica
    found = [replica.expected(task, [0.4]) for task in tasks]
    return np.array([[*one.mean.values(), *one.sd.values()] for one in found])


def copy_without_snapshots(service, path):
    with sqlite3.connect(service.settings.database) as source, sqlite3.connect(path) as target:
        source.backup(target)
        target.execute("DELETE FROM snapshot_parts")
        target.execute("DELETE FROM snapshots")


def is_published(service):
    live = service.live("stores")
    return live.published and live.applied == service.runtime.storage.fleet("stores").changes


def test_what_is_known_is_learned_from_and_comes_back_from_the_log(start, wait_for, tmp_path):
    service = start()
    made = make(service)
    assert made["definition"]["task_features"][1]["name"] == "size"
    assert made["definition"]["known_arms"] == {"coffee": {"price": 3.0}, "cake": {"price": 4.0}}
    assert service.put("/v1/fleets/stores", json=KNOWN).status_code == 200  # the same again
    assert say(service, {f"store-{task}": about(task) for task in range(15)}) == 15
    assert service.counts()["tasks"] == 15
    live_in(service, 300)
    wait_for(lambda: service.read("/v1/fleets/stores/population")["effects"]["task"]["region"] > 0.2)
    # A change of one task, and an arm that comes with what is known about it.
    answer = service.put("/v1/fleets/stores/task-features/store-3", json={"features": about(4)})
    assert answer.json() == {"tasks": 1}
    assert service.post("/v1/fleets/stores/arms", json={"arm": "tea", "features": {"price": 2.0}}).status_code == 200
    assert service.put("/v1/fleets/stores", json=KNOWN).status_code == 200
    live_in(service, 150, seed=1)
    shown = service.task("store-3")
    assert shown["features"] == about(4)
    assert service.task("store-14")["features"] == about(14)  # without any decision
    # What is known on average, by which strangers are judged, is as of the last estimate.
    service.live("stores").replica.refresh()
    wait_for(lambda: is_published(service))
    tasks = ["store-3", "store-4", "store-14", "unheard of"]
    found = beliefs(service, tasks)
    row = service.runtime.storage.fleet("stores")
    assert Verification(service.runtime.storage, row, service.live("stores").replica).all().different == 0
    copy_without_snapshots(service, tmp_path / "copy.db")
    again = start(str(tmp_path / "copy.db"))
    np.testing.assert_allclose(beliefs(again, tasks), found, rtol=1e-9, atol=1e-12)
    assert again.live("stores").replica.effects() == service.live("stores").replica.effects()
    # And from a snapshot.
    service.runtime.upkeep.write_snapshot(service.live("stores"))
    live_in(service, 3, seed=2)
    service.live("stores").replica.refresh()
    wait_for(lambda: is_published(service))
    found = beliefs(service, tasks)
    database = service.settings.database
    service.stop()
    np.testing.assert_allclose(beliefs(start(database), tasks), found, rtol=1e-9, atol=1e-12)


def test_the_log_has_what_was_known_at_every_decision(start, tmp_path):
    service = start()
    make(service)
    service.decide("store-1", {"hour": 1.0})
    say(service, {"store-1": about(1)})
    service.reward(service.decide("store-1", {"hour": 2.0}), 1.0)
    text = service.get("/v1/fleets/stores/log", params={"format": "jsonl"}).text
    (tmp_path / "log.jsonl").write_text(text)
    log = read_log(tmp_path / "log.jsonl")
    assert log.contexts["region"].to_list() == [None, "south"]
    # What was exported can be taken in again elsewhere.
    other = start(str(tmp_path / "other.db"))
    make(other)
    rows = []
    for row in map(json.loads, text.splitlines()):
        rows.append({name: row[name] for name in ("decision_id", "time", "task", "arm", "context", "propensity")})
        rows[-1]["context"] = {name: value for name, value in row["context"].items() if value is not None}
    answer = other.post("/v1/fleets/stores/log", json={"rows": rows})
    assert answer.status_code == 200, answer.text


def test_an_erased_task_leaves_nothing_that_was_known_about_it(start, tmp_path):
    service = start()
    make(service)
    say(service, {"store-1": about(1), "quiet": about(2)})
    live_in(service, 20, tasks=2)
    for task in ("store-1", "quiet"):
        assert service.delete(f"/v1/fleets/stores/tasks/{task}").status_code == 204
        assert service.get(f"/v1/fleets/stores/tasks/{task}").status_code == 404
    assert "store-1" not in service.live("stores").replica.tasks
    kinds = [change.kind for change in service.runtime.storage.changes("stores", 0)]
    assert "task" not in kinds
    copy_without_snapshots(service, tmp_path / "copy.db")
    assert b"quiet" not in (tmp_path / "copy.db").read_bytes()
    assert start(str(tmp_path / "copy.db")).live("stores").replica.tasks == ("store-0",)


def test_what_makes_no_sense_is_refused(start):
    service = start()
    make(service)
    service.put("/v1/fleets/plain", json={"arms": ["a", "b"], "features": ["x"]})

    def refused(method, path, **body):
        answer = service.request(method, f"/v1/fleets/{path}", json=body)
        assert answer.status_code == 422, answer.text
        return answer.json()["error"]

    assert "with task_features" in refused("POST", "plain/task-features", tasks={"t": {"size": 1}})["message"]
    assert refused("POST", "stores/task-features", tasks={"t": {"town": "x"}})["field"] == "tasks.t"
    assert refused("PUT", "stores/task-features/t", features={"region": "east", "size": "large"})["field"] == "features"
    assert refused("POST", "stores/task-features", tasks={})["field"] == "tasks"
    assert "with arm_features" in refused("POST", "plain/arms", arm="c", features={"price": 1})["message"]
    assert "not declared" in refused("POST", "stores/arms", arm="c", features={"town": 1})["message"]
    assert service.counts() == {"tasks": 0, "decisions": 0, "rewards": 0, "pending": 0}
    for changes, word in (
        ({"arm_features": None}, "expected arm_features"),
        ({"task_features": ["hour"]}, "'hour' in both"),
        ({"task_features": [{"kind": "numeric", "name": "size", "scale": "standard"}]}, "center and spread"),
        ({"task_features": [{"kind": "hashed", "name": "town", "buckets": 400}]}, "limits.features"),
    ):
        assert word in refused("PUT", "bad", **KNOWN | changes)["message"]


def test_two_processes_believe_the_same(start, wait_for, postgres_url):
    first, second = start(postgres_url), start(postgres_url)
    make(first)
    say(first, {f"store-{task}": about(task) for task in range(6)})
    live_in(first, 40, tasks=6)
    assert second.put("/v1/fleets/stores/task-features/store-1", json={"features": about(2)}).status_code == 200
    wait_for(lambda: first.live("stores").applied == second.live("stores").applied == applied(first))
    tasks = ["store-1", "store-2", "store-9"]
    next(one for one in (first, second) if one.runtime.leading).live("stores").replica.refresh()
    wait_for(lambda: np.allclose(beliefs(first, tasks), beliefs(second, tasks), rtol=1e-9, atol=1e-12))


def applied(service):
    return service.runtime.storage.fleet("stores").changes


# Clicks: what is believed follows from the log and its order alone.


def settled_beliefs(service, tasks=TASKS):
    replica = service.live("stores").replica
    while replica.refreshing or service.live("stores").applied < service.runtime.storage.fleet("stores").changes:
        time.sleep(0.01)
    replica = service.live("stores").replica
    found = [replica.expected(task, [0.4]) for task in tasks]
    return np.array([[*one.mean.values(), *one.sd.values()] for one in found])


@pytest.mark.slow
@pytest.mark.parametrize("late", [{}, {"absent_reward": 0, "time_to_live": 3600}])
def test_what_is_known_is_learned_from_clicks_and_comes_back_from_the_log(start, tmp_path, late):
    service = start()
    made = make(service, rewards="binary", **late)
    assert made["definition"]["rewards"] == "binary"
    assert say(service, {f"store-{task}": about(task) for task in range(15)}) == 15
    live_in(service, 500, clicks=True)
    settled_beliefs(service)  # the estimate that learns effects is over
    assert service.read("/v1/fleets/stores/population")["effects"]["task"]["region"] > 0.2
    # Changes of several tasks, an estimate due after some of them; and an arm that comes with what is known about it.
    say(service, {f"store-{task}": about(task + 1) for task in range(8)})
    say(service, {f"store-{task}": about(task) for task in range(8) if task != 3})
    assert service.post("/v1/fleets/stores/arms", json={"arm": "tea", "features": {"price": 2.0}}).status_code == 200
    live_in(service, 150, seed=1, size=1, clicks=True)
    shown = service.task("store-3")
    assert shown["features"] == about(4)
    coffee = next(arm for arm in shown["arms"] if arm["arm"] == "coffee")
    assert 0 < coffee["rate"]["low"] < coffee["rate"]["mean"] < coffee["rate"]["high"] < 1
    new, old = (service.task(name)["arms"][0]["rate"] for name in ("store-14", "store-2"))  # of one region
    assert new["mean"] == pytest.approx(old["mean"], abs=0.25)
    found = settled_beliefs(service)
    row = service.runtime.storage.fleet("stores")
    assert Verification(service.runtime.storage, row, service.live("stores").replica).all().different == 0
    copy_without_snapshots(service, tmp_path / "copy.db")
    again = start(str(tmp_path / "copy.db"))
    assert_allclose(settled_beliefs(again), found, rtol=1e-9, atol=1e-12)
    assert again.live("stores").replica.effects() == service.live("stores").replica.effects()
    # And from a snapshot.
    service.snapshot("stores")
    live_in(service, 40, seed=2, clicks=True)
    say(service, {"store-5": about(3)})
    live_in(service, 10, seed=3, clicks=True)
    found = settled_beliefs(service)
    database = service.settings.database
    service.stop()
    assert_allclose(settled_beliefs(start(database)), found, rtol=1e-9, atol=1e-12)


def test_clicks_of_an_erased_task_are_unlearned(start, tmp_path):
    service = start()
    make(service, rewards="binary")
    say(service, {f"store-{task}": about(task) for task in range(15)})
    live_in(service, 300, clicks=True)
    before = settled_beliefs(service)
    assert service.delete("/v1/fleets/stores/tasks/store-1").status_code == 204
    assert "store-1" not in service.live("stores").replica.tasks
    found = settled_beliefs(service)
    assert (found != before).any()
    assert service.read("/v1/fleets/stores/verify")["different"] == 0
    copy_without_snapshots(service, tmp_path / "copy.db")
    assert b"store-1\x00" not in (tmp_path / "copy.db").read_bytes()
    assert_allclose(settled_beliefs(start(str(tmp_path / "copy.db"))), found, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_two_processes_believe_the_same_of_clicks(start, wait_for, postgres_url):
    one, other = start(postgres_url), start(postgres_url)
    make(one, rewards="binary")
    wait_for(lambda: other.runtime.roster.find("stores") is not None)
    say(one, {f"store-{task}": about(task) for task in range(10)})
    live_in(one, 300, clicks=True)
    say(other, {f"store-{task}": about(task) for task in range(10, 15)} | {"store-3": about(4)})
    live_in(other, 300, seed=1, clicks=True)
    assert_allclose(settled_beliefs(one), settled_beliefs(other), rtol=1e-9, atol=1e-12)
    assert one.live("stores").replica.effects()["task"]["region"] > 0.1
    assert other.delete("/v1/fleets/stores/tasks/store-2").status_code == 204
    wait_for(lambda: "store-2" not in one.live("stores").replica.tasks)
    # The log is learned again without it, while decisions go on under what was believed.
    third = start(postgres_url)
    for each in (one, other):
        wait_for(lambda each=each: np.allclose(settled_beliefs(each), settled_beliefs(third), rtol=1e-9, atol=1e-12))
