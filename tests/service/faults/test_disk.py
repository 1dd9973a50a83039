"""The disk is full: clear refusals, nothing lost, and it goes on by itself when there is room again."""

import os
import random
import resource
import subprocess
import time

import pytest

from posse_lab.servers.checking import check_all, decide, make_fleet, read_log, task_path
from posse_lab.servers.clients import FLEET
from posse_lab.servers.service import settle

from .test_workers import workers_of

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this needs the right to mount a small disk: run the tests as root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    """Leave no byte free."""
    with (folder / "ballast").open("ab", buffering=0) as stream:
        for size in (1 << 16, 4096, 1):
            while True:
                try:
                    stream.write(b"x" * size)
                except OSError:
                    break


@pytest.mark.parametrize("temporary", ["elsewhere", "there"])
def test_a_full_disk_is_reported_and_waited_out(services, loads, small_disk, tmp_path, temporary):
    scratch = small_disk / "tmp" if temporary == "there" else tmp_path / "tmp"
    scratch.mkdir()
    service = services(
        database=str(small_disk / "posse.db"), snapshot_seconds=0.3, environment={"TMPDIR": str(scratch)}
    )
    service.start()
    connection = service.connection
    make_fleet(connection)
    load = loads(service, seed=5, clients=3, erasing=True)
    load.wait_for_answers(300)
    fill(small_disk)
    load.wait_for_refusals(10)
    fill(small_disk)  # what a snapshot gave back, too
    load.wait_for_refusals(10)

    # What is asked meanwhile.
    begin = time.monotonic()
    answer = settle(lambda: (found := decide(connection)).status == 503 and found)
    assert answer.body["error"]["code"] == "storage_unavailable"
    assert "free some space" in answer.body["error"]["message"]
    assert int(answer.headers["retry-after"]) >= 1
    answer = connection.ask("PUT", f"/v1/fleets/another-{'x' * 40}", {"arms": ["a"], "features": ["f" * 100]})
    assert answer.status in (503, 201), answer
    assert connection.ask("GET", "/healthz").status == 200
    assert len(connection.read("/v1/fleets")["fleets"]) >= 1
    assert connection.read(f"/v1/fleets/{FLEET}")["decisions"] > 0
    assert connection.read(f"/v1/fleets/{FLEET}/tasks")["tasks"]
    assert connection.ask("GET", task_path("task-1")).status == 200
    before = len(load.books.decisions) - 10  # those of a task that is being erased
    rows = read_log(connection)
    assert len(rows) >= before
    assert time.monotonic() - begin < 30
    settle(lambda: time.monotonic() - begin > 1.5)  # snapshots fail meanwhile, too
    for refusal in load.books.refusals:
        assert refusal.answer.body["error"]["code"] == "storage_unavailable", refusal
        assert refusal.seconds < 15

    # There is room again.
    (small_disk / "ballast").unlink()
    load.wait_for_answers(200)
    books = load.rest()
    check_all(connection, books, service.database)
    assert service.process.poll() is None, "it is still the same process"

    # Also after the machine went down with the disk full.
    load.resume()
    load.wait_for_answers(20)
    fill(small_disk)
    time.sleep(random.Random(1).uniform(0, 0.3))
    service.kill()
    (small_disk / "ballast").unlink()
    service.start()
    load.wait_for_answers(20)
    books = load.rest()
    check_all(connection, books, service.database)
    assert service.stop() == 0
    assert service.complaints() == []


def test_readiness_and_log_report_a_full_disk(services, small_disk, tmp_path):
    service = services(database=str(small_disk / "posse.db"), environment={"TMPDIR": str(tmp_path)})
    service.start()
    connection = service.connection
    make_fleet(connection)
    assert connection.read("/readyz")["checks"]["disk"] == {"ok": True, "detail": "writable"}
    fill(small_disk)
    settle(lambda: decide(connection).status == 503)
    for _ in range(50):
        decide(connection)
    answer = connection.ask("GET", "/readyz")
    assert answer.status == 503
    assert answer.body["error"]["field"] == "disk"
    assert "the disk is full" in answer.body["error"]["message"]
    assert answer.body["checks"]["disk"]["ok"] is False
    assert answer.body["checks"]["loaded"]["ok"] is True
    # Nobody asks for anything: a load balancer has taken it out.
    time.sleep(2.5)
    said = service.errors.read_text()
    assert said.count("nothing can be written") == 1, said
    assert connection.ask("GET", "/readyz").status == 503
    (small_disk / "ballast").unlink()
    settle(lambda: connection.ask("GET", "/readyz").status == 200, 10)
    assert service.errors.read_text().count("writing works again") == 1
    assert service.stop() == 0


def test_it_ends_cleanly_while_the_disk_is_full(services, loads, small_disk):
    (small_disk / "tmp").mkdir()
    service = services(database=str(small_disk / "posse.db"), environment={"TMPDIR": str(small_disk / "tmp")})
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=6, clients=2)
    load.wait_for_answers(200)
    fill(small_disk)
    load.wait_for_refusals(5)
    assert service.stop() == 0
    (small_disk / "ballast").unlink()
    service.start()
    load.wait_for_answers(20)
    check_all(service.connection, load.rest(), service.database)
    assert service.complaints() == []


def test_a_full_temporary_folder_stops_snapshots_and_nothing_else(services, loads, small_disk):
    service = services(snapshot_seconds=0.2, environment={"TMPDIR": str(small_disk)})
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=8, clients=2, erasing=True)
    load.wait_for_answers(100)
    fill(small_disk)
    load.wait_for_answers(200)
    erased = len(load.books.erased)
    settle(lambda: load.require_no_failure() or len(load.books.erased) > erased + 1)
    assert not load.books.refusals
    (small_disk / "ballast").unlink()
    check_all(service.connection, load.rest(), service.database)
    assert service.complaints() == []


def test_workers_do_not_die_of_a_full_temporary_folder(services, small_disk, postgres_url):
    """What they count is in files that are mapped into memory: a page without room on the disk is a signal."""
    arms = [f"{number}-" + "x" * 100 for number in range(60)]  # each is counted by itself: more than a page of names
    service = services("service", "--workers", "2", database=postgres_url, environment={"TMPDIR": str(small_disk)})
    service.start()
    make_fleet(service.connection, arms=arms, floor=0.0)
    fill(small_disk)
    before = workers_of(service)
    for arm in arms:
        ask = {"task": "task-0", "context": {"hour": 1.0, "rain": 0.0}, "eligible": [arm]}
        assert service.connection.ask("POST", f"/v1/fleets/{FLEET}/decisions", ask).status == 200
    assert service.connection.ask("GET", "/metrics").status == 200
    assert sorted(workers_of(service)) == sorted(before)
    assert service.stop() == 0


def test_a_disk_that_does_not_write_is_waited_out(services, loads):
    """Every write fails with an error, and then none does; this needs no disk of its own."""
    service = services(snapshot_seconds=0.3)
    service.start()
    make_fleet(service.connection)
    load = loads(service, seed=12, clients=3, erasing=True)
    before = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
    for _ in range(3):
        load.wait_for_answers(100)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        load.wait_for_refusals(20)
        assert service.connection.read(f"/v1/fleets/{FLEET}")["decisions"] > 0
        assert service.connection.ask("GET", task_path("task-1")).status == 200
        answer = decide(service.connection)
        assert answer.status == 503, answer
        assert "disk" in answer.body["error"]["message"]
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)
    load.wait_for_answers(100)
    check_all(service.connection, load.rest(), service.database)
    for refusal in load.books.refusals:
        assert refusal.answer.body["error"]["code"] == "storage_unavailable", refusal
    service.kill()
    service.start()
    check_all(service.connection, load.books, service.database)
    assert service.complaints() == []
