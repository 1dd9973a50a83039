"""A fleet that is worked on makes nobody wait who asks for another one."""

import threading
import time
from contextlib import contextmanager

import pytest

from posse.storage import NewDecision, NewReward, open_storage

pytest.importorskip("fastapi")


@pytest.fixture
def two(start):
    service = start()
    service.make_fleet("stores")
    service.make_fleet("quiet")
    return service


@contextmanager
def worked_on(fleet):
    """Let somebody work on a fleet, until told to let go or the body ends."""
    held, let_go = threading.Event(), threading.Event()

    def work():
        with fleet._lock:
            held.set()
            let_go.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        let_go.set()
        thread.join()


@pytest.mark.slow
def test_others_are_answered_while_a_fleet_is_worked_on(two):
    waiting = []
    body = {"task": "t", "context": {"hour": 9.5, "weather": "rain"}}
    threads = [
        threading.Thread(target=lambda: waiting.append(two.post("/v1/fleets/stores/decisions", json=body)))
        for _ in range(20)
    ]
    with worked_on(two.live().replica):
        for thread in threads:
            thread.start()
        # More of them than there are threads: on the loop, in the writer and beside them there is room for others.
        decision = two.decide(fleet="quiet")
        assert two.reward(decision, 1.0)["new"]
        assert two.get("/healthz").status_code == 200
        assert two.get("/v1/fleets/quiet/population").status_code == 200
        assert two.get(f"/v1/decisions/{decision['id']}").status_code == 200
        assert two.live("quiet").replica.n_rewards == 1
        assert waiting == []
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in waiting] == [200] * 20


def test_a_reward_of_a_busy_fleet_is_acknowledged_and_learned_after(two, wait_for):
    decisions = [two.decide() for _ in range(3)]
    with worked_on(two.live().replica):
        for decision in decisions:
            assert two.reward(decision, 2.0)["new"]
        assert two.live().replica.n_rewards == 0
    wait_for(lambda: two.live().replica.n_rewards == 3)


def test_a_fleet_that_is_slow_to_learn_does_so_beside_the_thread_that_writes(two, wait_for):
    live = two.live()
    learners, real = [], live._apply

    def noting(replica, changes):
        changes = list(changes)
        if any(change.kind != "population" for change in changes):  # which is applied where it is written
            learners.append(threading.current_thread().name)
        return real(replica, changes)

    live._apply = noting
    decisions = [two.decide() for _ in range(2)]
    two.reward(decisions[0], 1.0)
    assert learners == ["posse-writer"]
    live.took = 10.0  # as measured the last time
    two.reward(decisions[1], 1.0)
    wait_for(lambda: live.replica.n_rewards == 2)
    assert learners.count("posse-writer") == 1
    wait_for(lambda: live.took < 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["learned again", "kept", "erased"])
def test_others_learn_what_other_processes_write_while_one_takes_long(two, wait_for, what):
    """Whoever looks after all fleets waits neither for one of them nor for rows that somebody else removes."""
    storage, body = two.engine.storage, '{"context": {"hour": 9.5, "weather": "rain"}}'

    def write(fleet, number):
        """As another process does: this one finds it in the log."""
        made = NewDecision(fleet, f"{fleet}-{number}", time.time(), "t", "coffee", 0.5, body, "p", "v")
        storage.write([[made], [NewReward(made.id, 1.0, time.time())]])

    two.reward(two.decide(), 1.0)
    two.engine.snapshot(two.live())
    live = two.live()
    held = {"learned again": live.working(), "kept": live.keeping, "erased": two.engine._sweeping}[what]
    with held:
        if what == "kept":
            storage.erase("stores", "store-17")  # so that a snapshot is due at once
        write("stores", 1)
        time.sleep(0.3)  # a few turns of the one that looks after all
        write("quiet", 2)
        wait_for(lambda: two.live("quiet").replica.n_rewards == 1)
        assert what != "learned again" or live.replica.n_rewards == 1
    wait_for(lambda: live.applied == storage.fleet("stores").changes)
    wait_for(lambda: storage.fleet("stores").snapshot >= storage.erasure("stores"))


def test_what_a_kill_left_of_a_deleted_fleet_goes_after_the_start(start, tmp_path, wait_for):
    service = start()
    service.make_fleet("stores")
    service.make_fleet("quiet")
    service.decide(fleet="quiet")
    service.stop()
    storage = open_storage(tmp_path / "posse.db")
    storage.write(
        [[NewDecision("stores", f"d{n}", 1.0, f"t{n}", "coffee", 0.5, "{}", "ebm-ts", "1")] for n in range(300)]
    )
    assert storage.delete_fleet("stores")
    assert storage.sweep(100)  # and then it was killed
    storage.close()
    again = start(tmp_path / "posse.db")
    assert [fleet["name"] for fleet in again.read("/v1/fleets")["fleets"]] == ["quiet"]
    again.make_fleet("stores")
    count = again.engine.storage._read
    wait_for(lambda: count("SELECT count(*) FROM decisions") == [(1,)])
    wait_for(lambda: count("SELECT count(*) FROM fleets") == [(2,)])
    assert count("SELECT count(*) FROM tasks") == [(1,)]


def test_an_erasure_has_one_snapshot_written(two, monkeypatch):
    """The thread that erases and the one that looks after fleets both see that the old one still has the task."""
    for n in range(6):
        two.reward(two.decide(f"t{n % 2}"), 1.0)
    two.engine.snapshot(two.live())
    live = two.live()
    two.engine.storage.erase("stores", "t1")
    live.follow()
    change = two.engine.storage.erasure("stores")
    written, real = [], live.write_snapshot
    monkeypatch.setattr(live, "write_snapshot", lambda *rest: written.append(live.applied) or real(*rest))
    with live.keeping:  # whoever comes meanwhile waits
        others = [threading.Thread(target=two.engine.snapshot, args=(live, change)) for _ in range(3)]
        for other in others:
            other.start()
    for other in others:
        other.join()
    assert len(written) <= 1, "at most one: the keeper may have been quicker"
    assert two.engine.storage.fleet("stores").snapshot >= change
    two.engine.snapshot(live)
    assert written, "one that is asked for as such is written"


def test_parts_of_a_snapshot_leave_the_thread_that_writes_to_others(two, monkeypatch):
    monkeypatch.setattr("posse.service.live_fleet.PART", 100)
    two.reward(two.decide(), 1.0)
    order, real = [], two.engine.storage.add_snapshot_part
    monkeypatch.setattr(
        two.engine.storage, "add_snapshot_part", lambda *rest: (order.append(len(rest[2])), real(*rest))[1]
    )
    rests, wait = [], two.engine._stop.wait

    def resting(seconds=None):
        if threading.current_thread() is threading.main_thread():  # the keeper waits, too
            rests.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(two.engine._stop, "wait", resting)
    two.engine.snapshot(two.live())
    assert len(order) > 5
    assert max(order) == 100, "no part is longer"
    assert len(rests) == len(order) - 1, "a rest between two parts"
    assert all(0 < seconds <= 0.05 for seconds in rests)


def test_measures_that_take_long_to_note_are_noted_seldom(start, monkeypatch, wait_for):
    """With a thousand fleets that was half of what a service did that nobody asks."""
    service = start(follow_seconds=0.01)
    service.make_fleet("stores")
    noted, real = [], service.engine.note_measures

    def slowly(*rest):
        time.sleep(0.03)
        noted.append(rest)
        real(*rest)

    monkeypatch.setattr(service.engine, "note_measures", slowly)
    wait_for(lambda: noted)
    time.sleep(1.0)  # a third of what it rests for
    assert len(noted) == 1
    assert service.get("/metrics").status_code == 200
    assert len(noted) == 2, "whoever asks is told what is so now"
