"""``posse serve`` is killed without warning, at any moment, and knows all that it acknowledged when it comes back."""

import random
import sqlite3
import statistics
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from posse.service.definition import new_definition
from posse.service.settings import Limits
from posse.storage import NewDecision, NewReward, open_storage
from posse_lab.servers.checking import (
    check_all,
    check_counts,
    check_learned,
    check_log,
    decide_and_report,
    make_fleet,
    read_log,
    task_path,
)
from posse_lab.servers.clients import DEFINITION, FLEET
from posse_lab.servers.service import BROKEN, Connection, settle

pytestmark = pytest.mark.slow


def describe(what, seconds):
    ordered = sorted(seconds)
    print(
        f"{what}: {len(ordered)} times, median {statistics.median(ordered):.2f} s, "
        f"p90 {ordered[int(0.9 * (len(ordered) - 1))]:.2f} s, slowest {ordered[-1]:.2f} s"
    )


@pytest.mark.parametrize(
    ("kills", "silence"),
    [(4, {"absent_reward": -0.5}), (20, {}), (20, {"absent_reward": -0.5}), (200, {})],
    ids=["4, pending counts", "20", "20, pending counts", "200"],
)
def test_nothing_acknowledged_is_lost_or_counted_twice_however_often_it_is_killed(services, loads, kills, silence):
    rng = random.Random(kills)
    # Snapshots as often as it can, so that kills hit those as well.
    service = services(snapshot_seconds=0.1)
    service.start()
    make_fleet(service.connection, **silence)
    load = loads(service, seed=kills, clients=3, erasing=True, pause=0.0 if kills == 20 else 0.005)
    restarts = []
    for kill in range(1, kills + 1):
        load.wait_for_answers(rng.randrange(1, 60))
        time.sleep(rng.uniform(0, 0.3))
        service.kill()
        restarts.append(service.start())
        load.require_no_failure()
        if kill % (kills // 4) == 0:
            books = load.rest()
            rows = check_all(service.connection, books, service.database)
            load.resume()
    describe("restart under load", restarts)
    print(
        f"{len(rows)} decisions, {len(books.rewards)} rewards, {len(books.erased)} tasks erased, {books.broken} broken"
    )
    assert books.broken > kills
    assert books.erased
    assert service.complaints() == []


def filled(path, n_decisions, n_tasks, definition=DEFINITION, rewarded=0.9):
    """Make a log, straight through the storage."""
    rng = np.random.default_rng(3)
    given = {
        "intercept": True, "policy": "ebm-rand-ucb", "prior": None, "exploration": None, "evaluation_budget": 0.0,
        "refresh_growth": None, "robust": False, "time_to_live": None, "absent_reward": None, "count_pending": True,
        "retention": None, **definition,
    }  # fmt: skip
    now = time.time() - n_decisions
    storage = open_storage(path)
    with closing(storage):
        storage.create_fleet(FLEET, new_definition(given, Limits()), now)
        for first in range(0, n_decisions, 5000):
            groups = []
            for number in range(first, min(first + 5000, n_decisions)):
                arm = ("coffee", "cake", "newspaper")[rng.integers(3)]
                hour, rain = round(float(rng.uniform(-2, 2)), 3), float(rng.integers(2))
                body = (
                    f'{{"context":{{"hour":{hour},"rain":{rain}}},"eligible":["coffee","cake","newspaper"],'
                    '"probabilities":[0.4,0.3,0.3],"mean":[0.0,0.0,0.0],"sd":[1.0,1.0,1.0]}'
                )
                entry = NewDecision(
                    FLEET,
                    f"old-{number}",
                    now + number,
                    f"task-{rng.integers(n_tasks)}",
                    arm,
                    1 / 3,
                    body,
                    "ebm-rand-ucb",
                    "0",
                )
                groups.append([entry])
                if rng.random() < rewarded:
                    groups.append([NewReward(entry.id, round(hour + rng.normal(), 3), now + number + 1)])
            storage.write(groups)


def test_a_long_log_is_back_in_seconds_with_and_without_a_snapshot(services):
    service = services(snapshot_seconds=3600)
    filled(service.database, 100_000, 1000)  # as many tasks as one page of a list may have
    without = service.start()
    rows = read_log(service.connection)
    assert len(rows) == 100_000
    check_counts(service.connection, rows)
    few = [f"task-{number}" for number in range(5)]
    check_learned(service.connection, [row for row in rows if row["task"] in few])
    service.kill()
    again = service.start()
    assert service.stop() == 0
    with_snapshot = service.start()
    check_learned(service.connection, [row for row in rows if row["task"] in few])
    service.kill()
    killed = service.start()
    check_learned(service.connection, [row for row in rows if row["task"] in few])
    print(
        f"100,000 decisions are back after {without:.2f} and {again:.2f} s without a snapshot, "
        f"{with_snapshot:.2f} and {killed:.2f} s with one"
    )
    # The promise is 3 s on a machine that does nothing else; docs and benchmarks hold the service to it.
    assert max(without, again, with_snapshot, killed) < 20


def unfinished(database):
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0)) as connection:
        return connection.execute("SELECT count(*) FROM snapshots WHERE finished = 0").fetchone()[0]


def test_a_snapshot_that_was_being_written_is_no_snapshot(services, loads):
    service = services(snapshot_seconds=0.05)
    filled(service.database, 6000, 3000)
    service.start()
    load = loads(service, seed=3, clients=2)
    old = [row for row in read_log(service.connection) if row["decision_id"].startswith("old-")]
    hit = 0
    for _ in range(3):

        def caught():
            try:
                return unfinished(service.database)
            except sqlite3.OperationalError:
                return 0

        settle(caught, pause=0.0)
        service.kill()
        hit += unfinished(service.database) > 0
        service.start()
        load.wait_for_answers(20)
    assert hit, "no snapshot was being written when it was killed"
    books = load.rest()
    rows = read_log(service.connection)
    check_log([row for row in rows if not row["decision_id"].startswith("old-")], books)
    few = {f"task-{number}" for number in range(40)}
    check_learned(service.connection, [row for row in rows if row["task"] in few])
    assert [row for row in rows if row["decision_id"].startswith("old-")] == old
    # What was left of those is gone once another snapshot is there, so they do not pile up.
    settle(lambda: unfinished(service.database) <= 1, 20)
    assert service.complaints() == []  # such as of a snapshot that cannot be read


def test_an_erasure_is_done_or_not_done_and_never_comes_back(services):
    rng = random.Random(11)
    service = services(snapshot_seconds=0.2)
    service.start()
    make_fleet(service.connection)

    done = unanswered = 0
    for number in range(4):
        task = f"person/{number}"
        decide_and_report(service.connection, task, 6, 4)
        decide_and_report(service.connection, f"stays-{number}", 6, 4)
        time.sleep(rng.uniform(0, 0.3))  # so that snapshots with and without it are there
        path = task_path(task)
        eraser = Connection(service.port)
        said = []

        def erase(eraser=eraser, said=said, path=path):
            try:
                said.append(eraser.ask("DELETE", path).status)
            except BROKEN:
                said.append(None)
            eraser.close()

        thread = threading.Thread(target=erase)
        thread.start()
        time.sleep(rng.uniform(0, (0.02, 0.1, 0.5, 1.5)[number % 4]))
        service.kill()
        thread.join()
        service.start()
        rows = read_log(service.connection)
        left = sum(row["task"] == task for row in rows)
        assert said[0] in (204, None)
        if said[0] == 204:
            done += 1
            assert left == 0, "an acknowledged erasure came undone"
        else:
            unanswered += 1
            assert left in (0, 6), "a task was erased in part"
        check_counts(service.connection, rows)
        check_learned(service.connection, rows)
        if left:
            assert service.connection.ask("DELETE", path).status == 204
        assert service.connection.ask("GET", path).status == 404
    print(f"{done} erasures were acknowledged before the kill, {unanswered} were not")
    assert unanswered
    service.kill()
    service.start()
    rows = read_log(service.connection)
    assert {row["task"] for row in rows} == {f"stays-{number}" for number in range(4)}
    check_learned(service.connection, rows)
    # Also not in what is kept on disk beside the log.
    settle(lambda: b"person/" not in b"".join(file.read_bytes() for file in service.folder.glob("posse.db*")), 30, 0.2)


def on_disk(service, text):
    return any(text in file.read_bytes() for file in service.folder.glob("posse.db*"))


def test_an_erasure_reaches_snapshots_at_once(services):
    service = services(snapshot_seconds=3600)
    service.start()
    make_fleet(service.connection)
    for task in ("person-who-wants-out", "person-who-stays"):
        decide_and_report(service.connection, task)
    assert service.stop() == 0  # with a last snapshot
    service.start()
    assert on_disk(service, b"person-who-wants-out")
    assert service.connection.ask("DELETE", task_path("person-who-wants-out")).status == 204
    settle(lambda: not on_disk(service, b"person-who-wants-out"), 10, 0.1)
    assert on_disk(service, b"person-who-stays")


def test_an_erasure_does_not_lose_what_the_log_does_not_hold_any_more(services):
    service = services(snapshot_seconds=0.3)
    service.start()
    make_fleet(service.connection, time_to_live=1.0, retention=1.0)
    for task in ("leaves", "stays"):
        decide_and_report(service.connection, task)

    def pruned():
        # Something has to be new for a snapshot to be written, and only then old rows go.
        decide_and_report(service.connection, "news", 1, 1)
        return not any(row["task"] in ("leaves", "stays") for row in read_log(service.connection))

    settle(pruned, 30, 0.2)
    before = service.connection.read(task_path("stays"))["arms"]
    assert sum(arm["rewards"] for arm in before) == 6
    assert service.connection.ask("DELETE", task_path("leaves")).status == 204
    service.kill()
    service.start()
    after = service.connection.read(task_path("stays"))["arms"]
    assert [arm["rewards"] for arm in after] == [arm["rewards"] for arm in before]
    assert service.connection.ask("GET", task_path("leaves")).status == 404
