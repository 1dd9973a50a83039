"""``posse serve --workers``: processes that share a port, and outlive each other."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from posse_lab.servers.checking import check_all, check_learned, decide, make_fleet, read_log, settle_learned
from posse_lab.servers.service import BROKEN, Connection, settle

pytestmark = pytest.mark.slow


def is_gone(process):
    """Whether a process has ended, even if nobody has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def workers_of(service):
    """The processes of a service that answer."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == service.process.pid and b"spawn_main" in command:
                found.append(int(folder.name))
    return found


def test_workers_share_a_port_and_outlive_each_other(services, loads, postgres_url):
    service = services("service", "--workers", "2", database=postgres_url)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=41, clients=4)

    def deciders():
        """Prefixes of ids of some decisions over new connections, which any process may get."""
        found = set()
        for _ in range(6):
            connection = Connection(service.port)
            try:
                answer = decide(connection, "probe")
            except BROKEN:
                continue
            finally:
                connection.close()
            if answer.status == 200:
                found.add(answer.body["id"].partition("-")[0])
        return found

    seen = set()
    settle(lambda: (seen.update(deciders()), len(seen) >= 2)[1])
    assert len(workers_of(service)) == 2
    # Every process has a log.
    assert service.errors.read_text().count("INFO posse.service: ready after") == 2
    for _ in range(2):
        load.wait_for_answers(50)
        before = workers_of(service)
        os.kill(before[0], signal.SIGKILL)
        load.wait_for_answers(50)
        settle(lambda before=before: len(set(workers_of(service)) - {before[0]}) == 2, 60)
    load.wait_for_answers(50)
    books = load.rest()
    service.connection.close()  # it may be one with a process that is gone
    rows = [row for row in read_log(service.connection) if row["task"] != "probe"]
    assert {row["decision_id"]: row["reward"] for row in rows} == {
        name: books.rewards.get(name) for name in books.decisions
    }
    settle_learned(service.connection)
    check_learned(service.connection, rows)
    left = workers_of(service)
    load.resume()
    load.wait_for_answers(10)
    assert service.stop() == 0
    for process in left:
        settle(lambda process=process: is_gone(process), 20)
    assert service.complaints() == []


def test_workers_end_when_their_parent_is_gone(services, loads, postgres_url):
    """Nobody would start them again when they die, and they would hold the port."""
    service = services("service", "--workers", "2", database=postgres_url)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=43, clients=2)
    load.wait_for_answers(50)
    left = workers_of(service)
    group = service.process.pid
    service.kill()
    try:
        for process in left:
            settle(lambda process=process: is_gone(process), 20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    service.start()
    load.wait_for_answers(50)
    books = load.rest()
    settle_learned(service.connection)
    check_all(service.connection, books)
