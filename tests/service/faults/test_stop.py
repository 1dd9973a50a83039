"""SIGTERM under load: everybody gets an answer or none, and what was answered is there."""

import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from posse_lab.servers.checking import check_all, make_fleet
from posse_lab.servers.clients import FLEET
from posse_lab.servers.service import BROKEN, Connection

pytestmark = pytest.mark.slow


def snapshots(database):
    """Numbers of finished snapshots, and the number of the last change."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        finished = [number for (number,) in connection.execute("SELECT number FROM snapshots WHERE finished = 1")]
        [(changes,)] = connection.execute("SELECT changes FROM fleets")
    return finished, changes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_under_load(services, loads, number):
    service = services(snapshot_seconds=3600)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=51, clients=4, erasing=True)
    for _ in range(3):
        load.wait_for_answers(150)
        begin = time.monotonic()
        service.send(number)
        assert service.wait() == 0
        ended = time.monotonic() - begin
        finished, changes = snapshots(service.database)
        assert finished[-1] == changes, "the last snapshot holds all there is; those before it go in slices"
        again = service.start()
        print(f"ended in {ended:.2f} s, ready {again:.2f} s after its start")
        assert ended < 30
    books = load.rest()
    for refusal in books.refusals:
        assert refusal.answer.body["error"]["code"] in ("storage_unavailable", "not_ready"), refusal
        assert "again" in refusal.answer.body["error"]["message"]
    check_all(service.connection, books, service.database)
    assert service.stop() == 0
    assert service.complaints() == []


def test_requests_that_are_open_are_answered(services):
    """Those that have begun when it is told to stop, among them large ones."""
    service = services()
    service.start()
    make_fleet(service.connection)
    asks = [{"task": f"task-{i}", "context": {"hour": float(i % 5), "rain": 1.0}} for i in range(500)]
    said = []

    def ask():
        connection = Connection(service.port)
        try:
            answer = connection.ask("POST", f"/v1/fleets/{FLEET}/decisions/batch", {"decisions": asks})
            said.append((answer.status, [one["id"] for one in answer.body.get("decisions", [])]))
        except BROKEN as error:
            said.append((None, error))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert service.stop() == 0
    for thread in threads:
        thread.join(60)
    assert len(said) == 6
    service.start()
    answered = [ids for status, ids in said if status == 200]
    assert all(status in (200, 503, None) for status, _ in said), said
    for ids in answered:
        assert len(ids) == 500
        assert service.connection.ask("GET", f"/v1/decisions/{ids[-1]}").status == 200
    # Those without an answer may have been written all the same, but as a whole.
    total = service.connection.read(f"/v1/fleets/{FLEET}")["decisions"]
    assert total % 500 == 0
    assert total >= 500 * len(answered)
    print(f"{len(answered)} of 6 were answered")


def test_a_second_service_on_the_same_file_is_refused(services):
    one = services("one")
    one.start()
    other = services("other", database=one.database)
    other.start(ready=False)
    assert other.wait() != 0
    assert "another posse serve uses" in other.tail()
    assert one.connection.ask("GET", "/readyz").status == 200
    one.kill()
    other.start()  # a dead one does not hold the file
