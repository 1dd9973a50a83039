"""What only a server can do: several writers, connections that break, a database that goes away."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from posse.errors import InvalidValue, MissingDependency, StorageMismatch, StorageUnavailable
from posse.storage import ACCEPTED, SAME, open_storage
from posse.storage.migrations import FIRST, migrations

psycopg = pytest.importorskip("psycopg")

LEADER = """
import sys
from posse.storage import open_storage
storage = open_storage(sys.argv[1])
print(storage.lead(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def address(postgres_url):
    return postgres_url


@pytest.fixture
def admin(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def break_connections(admin):
    """End all other sessions on this database, as a restart would."""
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.slow
def test_follower_misses_no_change_of_concurrent_writers(storage, open_one, make):
    """Numbers are given in the order of commits: what a follower has not seen comes after what it has."""
    writers = [open_one() for _ in range(4)]
    storage.create_fleet("other", {}, 1.0)
    failed, over = [], threading.Event()

    def work(number, one):
        try:
            for turn in range(40):
                # In either order of fleets, which must not deadlock.
                fleets = ("stores", "other") if (number + turn) % 2 else ("other", "stores")
                new = [make.decision(f"{number}-{turn}-{fleet}", f"t{turn % 7}", fleet=fleet) for fleet in fleets]
                one.write([[entry] for entry in new])
                one.write([[make.reward(entry.id)] for entry in new])
                if turn % 10 == 0:
                    one.add_population("stores", b"p")
        except Exception as error:
            failed.append(error)

    followed, pages = [], 0

    def follow():
        nonlocal pages
        while True:
            last = over.is_set()
            after = followed[-1].number if followed else 0
            page = storage.changes("stores", after, 50)
            followed.extend(page)
            pages += bool(page)
            if last and not page:
                return

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(writers)]
    follower = threading.Thread(target=follow)
    for thread in [*threads, follower]:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    follower.join()
    assert failed == []
    numbers = [change.number for change in followed]
    assert numbers == sorted(set(numbers))
    rewards = [change for change in followed if change.kind == "reward"]
    assert len(rewards) == 160
    assert pages > 10, "the follower ran beside the writers"
    fleet = storage.fleet("stores")
    assert (fleet.tasks, fleet.decisions, fleet.rewards, fleet.pending, fleet.changes) == (7, 160, 160, 0, 176)
    assert [row.number for row in storage.decisions("stores")] == list(range(1, 161))


def test_one_reward_of_many_that_come_at_once_counts(storage, open_one, make):
    storage.write([[make.decision(f"d{n}")] for n in range(30)])
    storages, kinds = [open_one() for _ in range(4)], []

    def work(number, one):
        kinds.extend(one.write([[make.reward(f"d{n}", 1.0)]]).outcomes[0][0].kind for n in range(30))

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(storages)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (kinds.count(ACCEPTED), kinds.count(SAME)) == (30, 90)
    assert storage.fleet("stores").rewards == 30


def test_decisions_under_one_key_meet_across_processes(storage, open_one, make):
    storages, outcomes = [open_one() for _ in range(4)], []

    def work(number, one):
        outcomes.extend(
            one.write([[make.decision(f"{number}-{n}", key=f"k{n}", digest="x")]]).outcomes[0][0] for n in range(20)
        )

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(storages)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [outcome.kind for outcome in outcomes]
    assert (kinds.count(ACCEPTED), kinds.count(SAME)) == (20, 60)


def test_connections_that_broke_while_idle_are_replaced_quietly(storage, admin, make, write):
    write(make.decision("a"))
    assert storage.lead()
    break_connections(admin)
    assert storage.decision("a") is not None
    assert write(make.reward("a")) == [ACCEPTED]
    break_connections(admin)
    assert storage.create_fleet("new", {}, 1.0)


@pytest.mark.slow
def test_leader_whose_connection_is_killed_is_followed(storage, open_one, admin):
    other = open_one()
    assert storage.lead()
    assert not other.lead()
    admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'")
    assert other.lead()
    assert not storage.lead()
    assert other.lead()
    other.close()
    assert storage.lead()


@pytest.mark.slow
def test_leader_that_is_killed_is_followed_within_seconds(storage, address):
    process = subprocess.Popen([sys.executable, "-c", LEADER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"True\n"
    assert not storage.lead()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while not storage.lead():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_leader_that_stands_still_is_followed(open_one, monkeypatch):
    monkeypatch.setattr("posse.storage.postgres.LEASE", 0.5)
    still, other = open_one(), open_one()
    assert still.lead()
    assert not other.lead()
    deadline = time.monotonic() + 60
    while not other.lead():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not still.lead()


@pytest.mark.slow
def test_database_that_goes_away_and_comes_back(storage, postgres_server, make, write):
    write(make.decision("a"), make.decision("b"))
    assert storage.lead()
    postgres_server.stop()
    try:
        for call in (
            lambda: storage.write([[make.reward("a")]]),
            lambda: storage.fleets(),
            lambda: storage.lead(),
            lambda: storage.ping(),
            lambda: storage.add_population("stores", b""),
            lambda: storage.write([[make.reward("a")]]),
        ):
            started = time.monotonic()
            with pytest.raises(StorageUnavailable, match="asked again"):
                call()
            assert time.monotonic() - started < 60
    finally:
        postgres_server.start()
    assert write(make.reward("a")) == [ACCEPTED]
    assert storage.lead()
    assert storage.fleet("stores").rewards == 1


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_crash_of_the_server(storage, postgres_server, make, write):
    acknowledged = []
    over = threading.Event()

    def work():
        while not over.is_set():
            new = make.decision()
            try:
                storage.write([[new], [make.reward(new.id)]])
            except StorageUnavailable:
                continue
            acknowledged.append(new.id)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        time.sleep(0.5)
        postgres_server.kill()
        before = len(acknowledged)
        postgres_server.start()
        deadline = time.monotonic() + 60
        while len(acknowledged) < before + 20 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        over.set()
        thread.join()
    assert before > 20
    assert len(acknowledged) >= before + 20, "it went on by itself"
    stored = {row.id: row.reward for row in storage.decisions("stores", limit=100_000)}
    assert all(stored.get(name) == 1.5 for name in acknowledged)
    fleet = storage.fleet("stores")
    assert fleet.decisions == fleet.rewards == fleet.changes == len(stored)


def test_server_that_does_not_answer_is_not_waited_for_for_ever(storage, make, write, monkeypatch):
    monkeypatch.setattr("posse.storage.postgres.STATEMENT_TIMEOUT", 0.2)
    monkeypatch.setattr("posse.storage.postgres.LOCK_TIMEOUT", 0.3)
    write(make.decision("a"))
    pid = storage._writer.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert write(make.reward("a")) == [ACCEPTED], "through a new connection"
        assert 0.4 < time.monotonic() - started < 30
        assert storage._writer.info.backend_pid != pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_lock_of_another_is_waited_for_but_not_for_ever(storage, open_one, admin, make, monkeypatch):
    monkeypatch.setattr("posse.storage.postgres.LOCK_TIMEOUT", 0.3)
    other = open_one()
    with admin.transaction():
        admin.execute("SELECT * FROM posse.fleets FOR UPDATE")
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            other.write([[make.decision("a")]])
    assert other.write([[make.decision("a")]]).outcomes[0][0].kind == ACCEPTED


def test_nul_is_refused_and_the_next_write_goes_on(storage, make, write):
    for wrong in (make.decision("a", "n\0"), make.decision("\0"), make.reward("\0")):
        with pytest.raises(InvalidValue, match="cannot be stored"):
            storage.write([[wrong]])
    with pytest.raises(InvalidValue):
        storage.tasks("stores", search="\0")
    assert write(make.decision("a")) == [ACCEPTED]


def test_schema_of_something_else_is_refused(postgres_server):
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE strange")
    with psycopg.connect(postgres_server.database("strange"), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA posse CREATE TABLE fleets (ships integer)")
    with pytest.raises(StorageMismatch, match="not a storage"):
        open_storage(postgres_server.database("strange"))
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE western ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StorageMismatch, match="UTF8"):
        open_storage(postgres_server.database("western"))


def test_processes_that_open_an_empty_database_at_once_share_it(postgres_server):
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE fresh")
    url, versions = postgres_server.database("fresh"), []

    def work():
        storage = open_storage(url)
        versions.append(storage.schema_version())
        storage.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [FIRST - 1 + len(migrations("postgres"))] * 4


def test_server_that_is_not_there_is_unavailable():
    with pytest.raises(StorageUnavailable):
        open_storage("postgresql://127.0.0.1:1/none")


def test_missing_psycopg_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "posse.storage.postgres", raising=False)
    with pytest.raises(MissingDependency, match=r"psycopg\[binary\]"):
        open_storage("postgresql://127.0.0.1:1/none")
