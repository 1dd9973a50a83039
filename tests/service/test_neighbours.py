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
        with fleet.lock:
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


@pytest.mark.slow
@pytest.mark.parametrize("what", ["learned again", "kept", "erased"])
def test_others_learn_what_other_processes_write_while_one_takes_long(two, wait_for, what):
    """Whoever looks after all fleets waits neither for one of them nor for rows that somebody else removes."""
    storage, body = two.runtime.storage, '{"context": {"hour": 9.5, "weather": "rain"}}'

    def write(fleet, number):
        """As another process does: this one finds it in the log."""
        made = NewDecision(fleet, f"{fleet}-{number}", time.time(), "t", "coffee", 0.5, body, "p", "v")
        storage.write([[made], [NewReward(made.id, 1.0, time.time())]])

    two.reward(two.decide(), 1.0)
    two.runtime.upkeep.write_snapshot(two.live())
    live = two.live()
    held = {"learned again": live.working(), "kept": live.keeping, "erased": two.runtime.upkeep.sweeping}[what]
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
    count = again.runtime.storage._read
    wait_for(lambda: count("SELECT count(*) FROM decisions") == [(1,)])
    wait_for(lambda: count("SELECT count(*) FROM fleets") == [(2,)])
    assert count("SELECT count(*) FROM tasks") == [(1,)]
