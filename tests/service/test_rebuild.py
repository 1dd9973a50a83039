"""The log is the truth: what was learned comes back from it, with or without snapshots; what is erased does not."""

import json
import sqlite3
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, StorageUnavailable
from posse.service.live_fleet import LiveFleet

ARMS = ["coffee", "cake", "newspaper"]
EXACT = {"rtol": 1e-9, "atol": 1e-9}
FEATURES = ["hour", {"kind": "hashed", "name": "shop", "buckets": 3}]


def feed(service, fleet="stores", *, seed=0, steps=60, tasks=5, prefix="store", shop="north", reward_all=False):
    """Decisions and rewards that depend on the seed only, except that arms are drawn; so arms are given."""
    rng = np.random.default_rng(seed)
    made = []
    for step in range(steps):
        found = service.read(f"/v1/fleets/{fleet}")
        arms, kind = found["arms"], found["definition"]["rewards"]
        task, arm = f"{prefix}-{rng.integers(tasks)}", arms[rng.integers(len(arms))]
        context = {"hour": float(rng.normal()), "shop": f"{shop}-{rng.integers(5)}"}
        decision = service.decide(task, context, fleet=fleet, eligible=[arm])
        reward = float(rng.normal() + ARMS.index(arm) if arm in ARMS else 1.0)
        if kind != "number":
            reward = reward > 1.0 if kind == "binary" else max(0.0, float(round(reward)))
        if reward_all or step % 7:
            service.reward(decision, reward)
        made.append(decision)
    return made


def statistics_of(service, fleet="stores"):
    """The sums of every task and arm, by name."""
    replica = service.live(fleet).replica
    found = {}
    for task in sorted(map(str, replica.tasks)):
        for arm, sums in replica.export(task)["arms"].items():
            if sums["count"]:
                found[task, arm] = [sums["count"], sums["sum_of_squares"], *sums["moment"], *np.ravel(sums["gram"])]
    return found


def posteriors_of(service, fleet="stores"):
    found = {}
    names = [row["task"] for row in service.read(f"/v1/fleets/{fleet}/tasks?limit=1000")["tasks"]]
    for task in names:
        for arm in service.task(task, fleet)["arms"]:
            found[task, arm["arm"]] = [
                *arm["mean"],
                *arm["sd"],
                *arm["population_mean"],
                arm["rewards"],
                arm["own_share"],
            ]
    for arm in service.read(f"/v1/fleets/{fleet}/population")["arms"]:
        found["population", arm["arm"]] = [*arm["mean"], *arm["mean_sd"], *np.ravel(arm["covariance"]), arm["noise_sd"]]
    return found


def require_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert_allclose(found[name], expected[name], **EXACT, err_msg=str(name))


def published(service, fleet="stores"):
    """Whether the population in force is in the log."""
    live = service.live(fleet)
    return not live.replica.refreshing and live.published


def copy_of(service, path):
    """The database as it is now: what a crash would leave."""
    with sqlite3.connect(service.settings.database) as source, sqlite3.connect(path) as target:
        source.backup(target)
    source.close()
    target.close()
    return str(path)


def without_snapshots(path):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM snapshot_parts")
        connection.execute("DELETE FROM snapshots")
    connection.close()
    return path


COUNTING = {"absent_reward": -0.75}
CLICKS = {"rewards": "binary", "absent_reward": 0}
FADING = {"drift": 3e-5}  # 2.6 seconds, of which a life has some
PLAIN = pytest.param({}, marks=pytest.mark.slow)
SILENCES = pytest.mark.parametrize(
    "lived", [PLAIN, COUNTING, CLICKS], indirect=True, ids=["plain", "pending counts", "clicks"]
)
LIVES = pytest.mark.parametrize(
    "lived", [PLAIN, COUNTING, CLICKS, FADING], indirect=True, ids=["plain", "pending counts", "clicks", "drift"]
)


@pytest.fixture
def lived(request, start, wait_for):
    """A service whose fleet has seen it all: arms that came and went, erased tasks, snapshots in the middle."""
    service = start()
    service.make_fleet(features=FEATURES, **getattr(request, "param", {}))
    feed(service, seed=1)
    service.post("/v1/fleets/stores/arms", json={"arm": "ice cream"})
    feed(service, seed=2, tasks=8)
    service.delete("/v1/fleets/stores/arms/cake")
    assert service.delete("/v1/fleets/stores/tasks/store-1").status_code == 204
    feed(service, seed=3, tasks=3)
    service.snapshot()
    feed(service, seed=4, tasks=9)
    service.post("/v1/fleets/stores/arms", json={"arm": "cake"})
    assert service.delete("/v1/fleets/stores/tasks/store-2").status_code == 204
    service.snapshot()
    feed(service, seed=5, tasks=6)
    wait_for(lambda: published(service))
    return service


@LIVES
@pytest.mark.parametrize(
    "how", ["snapshot and tail", *(pytest.param(how, marks=pytest.mark.slow) for how in ("log alone", "polite stop"))]
)
def test_what_was_learned_comes_back(lived, start, tmp_path, how):
    fades = lived.live("stores").replica.fades
    if fades:  # between estimates, arms know of each task as of its own last reward
        lived.live("stores").replica.refresh()
    sums, beliefs, fleet = statistics_of(lived), posteriors_of(lived), lived.read("/v1/fleets/stores")
    log = lived.get("/v1/fleets/stores/log").text
    if how == "polite stop":
        lived.stop()
        path = lived.settings.database
    else:
        path = copy_of(lived, tmp_path / "copy.db")
        if how == "log alone":
            without_snapshots(path)

    again = start(path)
    require_same(statistics_of(again), sums)
    assert again.read("/v1/fleets/stores") == fleet
    assert again.get("/v1/fleets/stores/log").text == log
    if fades:
        again.live("stores").replica.refresh()
    require_same(posteriors_of(again), beliefs)


def sums_of_the_log(service, fleet="stores"):
    expected = {}
    pending = service.read(f"/v1/fleets/{fleet}")["pending_reward"]
    for line in service.get(f"/v1/fleets/{fleet}/log").text.splitlines():
        row = json.loads(line)
        row["reward"] = pending if row["reward"] is None else row["reward"]
        if row["reward"] is None:
            continue
        x = np.asarray(service.live(fleet).replica.features.encode(row["context"]))
        sums = expected.setdefault((row["task"], row["arm"]), np.zeros(2 + x.size + x.size**2))
        y = row["reward"]
        sums += [1, y * y, *(x * y), *np.ravel(np.outer(x, x))]
    return expected


@pytest.mark.parametrize("lived", [{}, COUNTING], indirect=True, ids=["plain", "pending counts"])
def test_live_statistics_are_the_sums_of_the_log(lived):
    require_same(statistics_of(lived), sums_of_the_log(lived))


@pytest.mark.slow
@pytest.mark.parametrize("silence", [{}, COUNTING], ids=["plain", "pending counts"])
def test_statistics_are_the_sums_of_the_log_when_everything_happens_at_once(start, tmp_path, silence):
    service = start(snapshot_seconds=0.05, follow_seconds=0.02)
    service.make_fleet(features=FEATURES, **silence)
    rng = np.random.default_rng(5)
    waiting = []
    for turn in range(12):
        requests = []
        for number in range(40):
            context = {"hour": float(rng.normal()), "shop": f"s{number % 3}"}
            body = {"task": f"t{rng.integers(6)}", "context": context}
            requests.append(("POST", "/v1/fleets/stores/decisions", {"json": body}))
        for decision in waiting:
            body = {"reward": float(rng.normal())}
            requests.append(("POST", f"/v1/decisions/{decision}/reward", {"json": body}))
        requests.append(("DELETE", f"/v1/fleets/stores/tasks/t{turn % 6}", {}))
        requests.append(("POST", "/v1/fleets/stores/arms", {"json": {"arm": f"arm-{turn % 3}"}}))
        requests.append(("DELETE", f"/v1/fleets/stores/arms/arm-{(turn + 1) % 3}", {}))
        answers = service.together([requests[place] for place in rng.permutation(len(requests))])
        assert all(answer.status_code < 500 for answer in answers)
        # Rewards of decisions whose task is erased meanwhile are not there any more.
        waiting = [
            answer.json()["id"] for answer in answers if answer.status_code == 200 and "propensity" in answer.text
        ]
    require_same(statistics_of(service), sums_of_the_log(service))
    counts = service.counts()
    lines = [json.loads(line) for line in service.get("/v1/fleets/stores/log").text.splitlines()]
    assert counts["decisions"] == len(lines)
    assert counts["rewards"] == sum(line["reward"] is not None for line in lines)
    assert counts["pending"] == counts["decisions"] - counts["rewards"]
    assert counts["tasks"] == len({line["task"] for line in lines})

    again = start(copy_of(service, tmp_path / "copy.db"))
    require_same(statistics_of(again), sums_of_the_log(service))
    again.stop()
    rebuilt = start(without_snapshots(tmp_path / "copy.db"))
    require_same(statistics_of(rebuilt), sums_of_the_log(service))


def test_rewards_that_are_held_come_back_and_are_learned_when_their_time_is_over(start, tmp_path, wait_for):
    service = start()
    service.make_fleet(features=FEATURES, absent_reward=-0.75, count_pending=False, time_to_live=3600.0)
    feed(service, seed=1, steps=30)
    assert statistics_of(service) == {}
    again = start(without_snapshots(copy_of(service, tmp_path / "copy.db")))
    assert statistics_of(again) == {}
    for each in (service, again):
        each.runtime.clock = lambda: time.time() + 3601.0
        wait_for(lambda each=each: each.live().replica.n_rewards == 30)
        require_same(statistics_of(each), sums_of_the_log(each))
    rebuilt = start(without_snapshots(copy_of(again, tmp_path / "rebuilt.db")))
    require_same(statistics_of(rebuilt), sums_of_the_log(again))


def test_absent_rewards_at_the_deadline_are_not_learned_twice(start, tmp_path, wait_for):
    service = start()
    service.make_fleet(features=FEATURES, time_to_live=3600.0, **COUNTING)
    feed(service, seed=1, steps=30)
    before = statistics_of(service)
    service.runtime.clock = lambda: time.time() + 3601.0
    wait_for(lambda: service.counts()["pending"] == 0)
    wait_for(lambda: service.live().applied == service.runtime.storage.fleet("stores").changes)
    require_same(statistics_of(service), before)
    require_same(statistics_of(service), sums_of_the_log(service))
    rebuilt = start(without_snapshots(copy_of(service, tmp_path / "copy.db")))
    require_same(statistics_of(rebuilt), before)


def test_a_damaged_snapshot_is_not_believed(lived, start, tmp_path, caplog):
    path = copy_of(lived, tmp_path / "copy.db")
    connection = sqlite3.connect(path)
    with connection:
        (data,) = connection.execute("SELECT data FROM snapshot_parts WHERE part = 0").fetchone()
        broken = bytearray(data)
        broken[len(broken) // 2] ^= 0xFF
        connection.execute("UPDATE snapshot_parts SET data = ? WHERE part = 0", (bytes(broken),))
    connection.close()
    again = start(path)
    require_same(statistics_of(again), statistics_of(lived))
    assert "snapshot" in caplog.text


def test_decisions_after_a_restart_have_new_ids_and_old_keys_still_work(start, tmp_path, shape):
    service = start()
    service.make_fleet(features=FEATURES)
    context = {"hour": 1.0, "shop": "x"}
    first = [service.decide("t", context, headers={"idempotency-key": f"k{i}"}) for i in range(5)]
    service.reward(first[0], 1.0)
    path = service.settings.database
    before = [service.decide("t", context) for _ in range(20)]
    service.stop()

    again = start(path)
    other = start(copy_of(again, tmp_path / "copy.db"))
    ids = {decision["id"] for decision in (*first, *before)}
    after = {each.decide("t", context)["id"] for each in (again, other) for _ in range(30)}
    assert len(after) == 60
    assert not ids & after
    for i, decision in enumerate(first):
        assert again.decide("t", context, headers={"idempotency-key": f"k{i}"}) == decision
    body = {"task": "t2", "context": context}
    headers = {"idempotency-key": "k0"}
    shape(again.post("/v1/fleets/stores/decisions", json=body, headers=headers), 409, "key_reused")
    assert again.reward(first[0], 1.0)["new"] is False
    assert again.reward(first[1], 2.0)["new"] is True
    shape(again.post(f"/v1/decisions/{first[0]['id']}/reward", json={"reward": 3.0}), 409, "reward_conflict")


@pytest.mark.slow
def test_a_process_that_is_killed_comes_back_with_all_it_acknowledged(serve, tmp_path):
    served = serve()
    served.make_fleet(features=FEATURES)
    made = feed(served, seed=6, steps=40)
    log = served.get("/v1/fleets/stores/log").text
    counts = served.counts()
    served.kill()

    again = serve()
    assert again.counts() == counts
    assert again.get("/v1/fleets/stores/log").text == log
    assert {row["id"] for row in again.read("/v1/fleets/stores/pending")["pending"]} <= {one["id"] for one in made}
    total = sum(arm["rewards"] for arm in again.read("/v1/fleets/stores/population")["arms"])
    assert total == counts["rewards"]


@pytest.mark.slow
def test_counts_survive_pruning_and_a_restart(start):
    service = start()
    service.make_fleet(features=FEATURES, time_to_live=1000.0, retention=2000.0)
    feed(service, seed=7, steps=30, reward_all=True)
    service.snapshot()
    service.runtime.upkeep.prune(service.live(), service.runtime.clock() + 3000)
    assert service.get("/v1/fleets/stores/log").text == ""
    feed(service, seed=8, steps=10, reward_all=True)
    sums, counts = statistics_of(service), service.counts()
    assert counts["rewards"] == 40
    service.stop()

    again = start(service.settings.database)
    require_same(statistics_of(again), sums)
    assert again.counts() == counts


def test_a_row_is_not_pruned_before_a_snapshot_has_it(start, tmp_path):
    service = start()
    service.make_fleet(features=FEATURES, time_to_live=1000.0, retention=2000.0)
    feed(service, seed=7, steps=30, reward_all=True)
    service.runtime.upkeep.prune(service.live(), service.runtime.clock() + 3000)
    sums = statistics_of(service)
    again = start(copy_of(service, tmp_path / "copy.db"))
    require_same(statistics_of(again), sums)


# Erasing.


def names_on_disk(folder, *texts):
    """Which of some texts can be found in any file of a folder."""
    data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return {text for text in texts if text.encode() in data}


@pytest.mark.slow
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_an_erased_task_is_nowhere(start, tmp_path, shape, path_of, with_snapshot):
    folder = tmp_path / "data"
    folder.mkdir()
    service = start(folder / "posse.db")
    service.make_fleet(features=FEATURES)
    feed(service, seed=1, steps=30)
    private = feed(service, seed=2, steps=40, tasks=1, prefix="patient-zero", shop="zeroville")
    task = private[0]["task"]
    context = {"hour": 1.0, "shop": "zeroville-x"}
    service.decide(task, context, headers={"idempotency-key": "appointment-of-zero"})
    others = feed(service, seed=3, steps=30)
    if with_snapshot:
        service.snapshot()
    marks = (task, "zeroville", "appointment-of-zero", private[0]["id"])
    assert names_on_disk(folder, *marks) == set(marks)

    assert service.delete(path_of("stores", task)).status_code == 204
    assert names_on_disk(folder, *marks) == set()
    assert task not in service.live().replica.tasks
    for part in ("tasks", "history", "export"):
        shape(service.get(path_of("stores", task, part)), 404, "unknown_task")
    assert task not in service.get("/v1/fleets/stores/log").text
    assert task not in service.get("/v1/fleets/stores/tasks").text
    assert task not in service.get("/v1/fleets/stores/pending?limit=1000").text
    for decision in private:
        shape(service.get(f"/v1/decisions/{decision['id']}"), 404, "unknown_decision")
        shape(service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0}), 404, "unknown_decision")
    assert service.counts()["decisions"] == 60
    assert service.read(f"/v1/decisions/{others[0]['id']}")["task"] == others[0]["task"]

    service.stop()
    assert names_on_disk(folder, *marks) == set()
    again = start(folder / "posse.db")
    assert task not in again.live().replica.tasks
    # It may come again, and knows nothing then.
    decision = again.decide(task, context, headers={"idempotency-key": "appointment-of-zero"})
    assert decision["id"] not in {each["id"] for each in private}
    assert {arm["rewards"] for arm in again.task(task)["arms"]} == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "silence"),
    [
        ("at once", {}),
        ("from the log", COUNTING),
        pytest.param("after a snapshot", {}, marks=pytest.mark.slow),
        pytest.param("from the log", {}, marks=pytest.mark.slow),
        pytest.param("after a snapshot", COUNTING, marks=pytest.mark.slow),
    ],
)
def test_the_others_believe_as_if_an_erased_task_had_never_been(start, tmp_path, wait_for, then, silence):
    service = start()
    everything = not silence  # where pending decisions count, some wait
    for fleet in ("with", "without"):
        service.make_fleet(fleet, features=FEATURES, **silence)
        feed(service, fleet, seed=1, steps=40, reward_all=everything)
    feed(service, "with", seed=9, steps=40, tasks=1, prefix="odd", shop="elsewhere", reward_all=everything)
    for fleet in ("with", "without"):
        feed(service, fleet, seed=2, steps=20, reward_all=everything)
    if then == "after a snapshot":
        service.snapshot("with")
    assert service.delete("/v1/fleets/with/tasks/odd-0").status_code == 204
    wait_for(lambda: published(service, "with"))
    if then == "from the log":
        service = start(without_snapshots(copy_of(service, tmp_path / "copy.db")))

    require_same(statistics_of(service, "with"), statistics_of(service, "without"))
    # The one that forgot estimated the population anew; so does the other, which leads both to the same.
    plain, forgot = service.live("without").replica, service.live("with").replica
    feed(service, "without", seed=9, steps=1, tasks=1, prefix="odd", shop="elsewhere", reward_all=everything)
    assert service.delete("/v1/fleets/without/tasks/odd-0").status_code == 204
    wait_for(lambda: published(service, "without"))
    for name in ("covariance", "noise_variance", "shared_precision"):
        assert_allclose(getattr(forgot.prior, name), getattr(plain.prior, name), rtol=1e-6, atol=1e-9, err_msg=name)
    # With one population, beliefs are the same to the last digits.
    population = plain.dump_population()
    assert forgot.adopt(population)
    assert plain.adopt(population)
    require_same(posteriors_of(service, "with"), posteriors_of(service, "without"))


@pytest.mark.slow
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_clicks_are_learned_again_without_an_erased_task_though_that_fails_at_first(
    start, wait_for, monkeypatch, with_snapshot
):
    """Each click was learned under what all before it said, so others know of the task until then."""
    service = start()
    service.make_fleet(features=FEATURES, **CLICKS)
    feed(service, seed=1)
    if with_snapshot:
        service.snapshot()
    before, failures, real = service.live().replica, [], LiveFleet._learned_again

    def fail_once(self, replica):
        if not failures:
            failures.append(replica)
            raise MemoryError
        return real(self, replica)

    monkeypatch.setattr(LiveFleet, "_learned_again", fail_once)
    assert service.delete("/v1/fleets/stores/tasks/store-1").status_code == 204
    wait_for(lambda: service.live().replica is not before)
    wait_for(lambda: service.read("/v1/fleets/stores")["state"] == "serving")
    assert len(failures) == 1
    storage = service.runtime.storage
    row = storage.fleet("stores")
    assert row.snapshot == 0 or row.snapshot >= storage.erasure("stores")
    found, expected = service.live().replica, LiveFleet(storage, row, from_log=True).replica
    context = {"hour": 3.0, "shop": "north"}
    for task in ("store-0", "store-2"):
        assert str(found.expected(task, context)) == str(expected.expected(task, context))


def test_a_population_that_an_erased_task_shaped_does_not_come_back(start, tmp_path, wait_for):
    service = start()
    # The population is estimated at the first reward and then not again by itself.
    service.make_fleet(features=FEATURES, refresh_growth=1e6, arms=["only"])
    service.reward(service.decide("odd", {"hour": 5.0, "shop": "x"}), 1000.0)
    wait_for(lambda: published(service))
    service.reward(service.decide("plain", {"hour": 1.0, "shop": "x"}), 1.0)
    assert service.delete("/v1/fleets/stores/tasks/odd").status_code == 204
    wait_for(lambda: published(service))
    # Time for the one that looks after the fleets to tell the others.
    time.sleep(3 * service.settings.follow_seconds)
    expected = service.read("/v1/fleets/stores/population")["arms"]

    again = start(without_snapshots(copy_of(service, tmp_path / "copy.db")))
    (found,) = again.read("/v1/fleets/stores/population")["arms"]
    assert found["noise_sd"] == pytest.approx(expected[0]["noise_sd"], rel=1e-9)
    assert_allclose(found["covariance"], expected[0]["covariance"], **EXACT)


def fail_to_publish(*_):
    raise StorageUnavailable("the database is away")


def test_a_crash_right_after_erasing_does_not_bring_its_population_back(start, tmp_path, wait_for, monkeypatch):
    service = start()
    service.make_fleet(features=FEATURES, arms=["only"])
    for i in range(10):
        service.reward(service.decide("odd", {"hour": float(i), "shop": "x"}), 1000.0 * (-1) ** i)
    wait_for(lambda: published(service))
    monkeypatch.setattr(service.runtime.storage, "add_population", fail_to_publish)
    for i in range(10):
        service.reward(service.decide("plain", {"hour": float(i), "shop": "x"}), 1.0 + i % 2)
    assert service.delete("/v1/fleets/stores/tasks/odd").status_code == 204
    (expected,) = service.read("/v1/fleets/stores/population")["arms"]
    assert expected["noise_sd"] < 100

    again = start(copy_of(service, tmp_path / "copy.db"))
    (found,) = again.read("/v1/fleets/stores/population")["arms"]
    assert found["noise_sd"] == pytest.approx(expected["noise_sd"], rel=1e-3)


def test_a_population_that_could_not_be_published_is_published_later(start, tmp_path, wait_for, monkeypatch):
    service = start()
    service.make_fleet(features=FEATURES, arms=["only"])
    with monkeypatch.context() as broken:
        broken.setattr(service.runtime.storage, "add_population", fail_to_publish)
        for i in range(30):
            service.reward(service.decide("t", {"hour": float(i), "shop": "x"}), float(i % 3))
        wait_for(lambda: not service.live().replica.refreshing)
        time.sleep(1.0)
    wait_for(lambda: any(change.kind == "population" for change in service.runtime.storage.changes("stores", 0)))


def test_a_deleted_fleet_is_nowhere_on_disk(start, tmp_path, wait_for):
    folder = tmp_path / "data"
    folder.mkdir()
    service = start(folder / "posse.db")
    service.make_fleet("secretive", features=FEATURES)
    feed(service, "secretive", seed=2, steps=30, prefix="hidden-task", shop="hidden-shop")
    service.snapshot("secretive")
    assert names_on_disk(folder, "hidden-task", "hidden-shop") == {"hidden-task", "hidden-shop"}
    assert service.delete("/v1/fleets/secretive").status_code == 204
    wait_for(lambda: names_on_disk(folder, "hidden-task", "hidden-shop") == set())


def test_a_second_service_on_the_same_file_is_refused(start):
    service = start()
    with pytest.raises(InvalidValue, match="another posse serve uses"):
        start(service.settings.database)
    service.make_fleet(features=FEATURES)


AGED = {"arms": ["x", "y"], "features": ["age"]}


def replace_fleet(service):
    """What an administrator does: the same name for something else."""
    assert service.delete("/v1/fleets/stores").status_code == 204
    assert service.put("/v1/fleets/stores", json=AGED).status_code == 201


@pytest.mark.slow
def test_a_snapshot_of_a_deleted_fleet_is_not_one_of_the_next_with_its_name(start, tmp_path):
    service = start()
    service.make_fleet(features=FEATURES)
    feed(service)
    old, run = service.live(), service.runtime.writer.run

    def run_late(job):
        # The file was being written meanwhile.
        if service.live() is old:
            replace_fleet(service)
        return run(job)

    assert old.write_snapshot(run_late, 0.0) is None
    service.runtime.upkeep.publish(old, old.replica.dump_population())
    row = service.runtime.storage.fleet("stores")
    assert (row.snapshot, row.changes) == (0, 0)
    service.reward(service.decide("t", {"age": 1.0}), 2.0)
    service.stop()
    again = start(tmp_path / "posse.db")
    assert again.live().replica.arms == ("x", "y")
    assert again.live().replica.n_rewards == 1


@pytest.mark.slow
def test_a_fleet_that_is_replaced_while_fleets_are_looked_for_is_the_new_one(start, monkeypatch):
    service = start()
    service.make_fleet(features=FEATURES)
    storage, replaced = service.runtime.storage, threading.Event()
    progress = storage.progress

    def read():
        rows = progress()
        if threading.current_thread().name == "posse-maintenance" and not replaced.is_set():
            replace_fleet(service)
            replaced.set()
        return rows

    monkeypatch.setattr(storage, "progress", read)
    assert replaced.wait(10)
    for _ in range(20):
        service.reward(service.decide("t", {"age": 1.0}), 2.0)
    assert service.live().replica.n_rewards == 20


def test_a_population_of_another_version_is_left_aside(start, tmp_path, wait_for, caplog):
    service = start(snapshot_seconds=1e6)
    service.make_fleet(features=FEATURES)
    feed(service)
    wait_for(lambda: service.live().published)
    known = statistics_of(service)
    service.stop()
    with sqlite3.connect(tmp_path / "posse.db") as database:
        database.execute("DELETE FROM snapshot_parts")
        database.execute("DELETE FROM snapshots")
        database.execute("UPDATE changes SET data = ? WHERE kind = 'population'", (b'{"of": "tomorrow"}',))
    database.close()
    again = start(tmp_path / "posse.db")
    assert "is not taken" in caplog.text
    assert statistics_of(again).keys() == known.keys()
    wait_for(lambda: again.live().published)
