"""PostgreSQL goes away under load: refusals that say so, then everything goes on by itself and nothing is missing."""

import os
import signal
import time
from contextlib import closing

import pytest

from posse_lab.servers.checking import check_all, decide, make_fleet, task_path
from posse_lab.servers.clients import FLEET
from posse_lab.servers.service import BROKEN, Connection, settle

pytestmark = pytest.mark.slow

LONGEST = 20.0  # seconds a request may take while the database is away: time-outs of a connection and of a statement
ASK = {"task": "task-0", "context": {"hour": 1.0, "rain": 0.0}}


@pytest.fixture
def database(postgres_server, postgres_url):
    """A database whose server is there again when the test ends."""
    yield postgres_url
    postgres_server.stop()
    postgres_server.start()


def crash(server):
    server.kill()


def stop(server):
    server.stop()


def refused(connection):
    """Ask all that needs the database, while it is away; nothing hangs, and all say the same."""
    requests = [
        ("POST", f"/v1/fleets/{FLEET}/decisions", ASK),
        ("POST", "/v1/decisions/abc-1/reward", {"reward": 1.0}),
        ("POST", "/v1/rewards", {"rewards": [{"id": "abc-1", "reward": 1.0}]}),
        ("GET", f"/v1/fleets/{FLEET}", None),
        ("GET", "/v1/fleets", None),
        ("GET", task_path("task-1"), None),
        ("PUT", "/v1/fleets/another", {"arms": ["a"], "features": ["x"]}),
        ("DELETE", task_path("task-1"), None),
        ("GET", "/readyz", None),
    ]
    for method, path, body in requests:
        begin = time.monotonic()
        answer = connection.ask(method, path, body)
        assert answer.status == 503, (method, path, answer)
        error = answer.body["error"]
        assert error["code"] in ("storage_unavailable", "not_ready")
        assert "again" in error["message"], error
        assert "retry-after" in answer.headers
        assert time.monotonic() - begin < LONGEST
        assert connection.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("end", [stop, crash])
@pytest.mark.parametrize("seconds", [2, 10])
def test_a_database_that_goes_away_is_waited_out(services, loads, postgres_server, database, end, seconds):
    service = services(database=database, snapshot_seconds=0.5)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=seconds, clients=3, erasing=True)
    for _ in range(2):
        load.wait_for_answers(200)
        end(postgres_server)
        away = time.monotonic()
        load.wait_for_refusals()
        refused(service.connection)
        time.sleep(max(0.0, away + seconds - time.monotonic()))
        postgres_server.start()
        back = time.monotonic()
        load.wait_for_answers(100)
        print(f"away for {back - away:.1f} s; 100 answers {time.monotonic() - back:.2f} s later")
        settle(lambda: service.connection.ask("GET", "/readyz").status == 200)
    books = load.rest()
    for refusal in books.refusals:
        assert refusal.answer.body["error"]["code"] in ("storage_unavailable", "not_ready"), refusal
    assert books.slowest < LONGEST
    settle(lambda: service.leading)
    check_all(service.connection, books, service.database)
    assert service.stop() == 0
    assert service.complaints() == []


def processes_of(server):
    """The server's processes, itself first."""
    main = server._process.pid
    children = []
    for folder in os.listdir("/proc"):
        if folder.isdigit():
            try:
                with open(f"/proc/{folder}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == main:
                children.append(int(folder))
    return [main, *children]


def test_a_database_that_stands_still_is_waited_out(services, loads, postgres_server, database):
    """Connections stay open and nobody answers, as when a virtual machine is paused."""
    service = services(database=database)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=9, clients=3)
    load.wait_for_answers(100)
    stopped = processes_of(postgres_server)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        load.wait_for_refusals()
        assert service.connection.ask("GET", "/healthz").status == 200
        with closing(Connection(service.port, 60)) as connection:
            refused(connection)
    finally:
        for process in reversed(stopped):
            os.kill(process, signal.SIGCONT)
    load.wait_for_answers(100)
    books = load.rest()
    print(f"the slowest request took {books.slowest:.1f} s")
    settle(lambda: service.leading)
    check_all(service.connection, books, service.database)


def test_a_service_that_is_started_first_waits_for_its_database(services, postgres_server, database):
    postgres_server.stop()
    service = services(database=database)
    service.start(ready=False)

    def alive():
        try:
            return service.connection.ask("GET", "/healthz").status == 200
        except BROKEN:
            return False

    settle(alive)
    for method, path, body in [
        ("GET", "/readyz", None),
        ("GET", "/v1/fleets", None),
        ("POST", f"/v1/fleets/{FLEET}/decisions", ASK),
        ("POST", "/v1/decisions/abc-1/reward", {"reward": 1.0}),
    ]:
        answer = service.connection.ask(method, path, body)
        assert answer.status == 503, answer
        assert "again" in answer.body["error"]["message"]
    postgres_server.start()
    back = time.monotonic()
    service.wait_until_ready()
    print(f"ready {time.monotonic() - back:.2f} s after its database")
    make_fleet(service.connection)
    assert decide(service.connection).status == 200
    assert service.stop() == 0


def test_a_service_ends_while_its_database_is_away(services, loads, postgres_server, database):
    service = services(database=database)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=4, clients=2)
    load.wait_for_answers(50)
    postgres_server.kill()
    load.wait_for_refusals()
    begin = time.monotonic()
    assert service.stop() == 0
    print(f"ended in {time.monotonic() - begin:.2f} s without a database")
    postgres_server.start()
    service.start()
    load.wait_for_answers(50)
    books = load.rest()
    settle(lambda: service.leading)
    check_all(service.connection, books, service.database)
