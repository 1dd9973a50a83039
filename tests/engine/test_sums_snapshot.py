"""Sums as they were at one moment, while the fleet goes on learning."""

import threading

import numpy as np
import pytest

import posse.engine.sums_snapshot
from posse.engine.store import Store
from posse.engine.sums_snapshot import FIRST_ROOM, ChangedReader, ChangedSums, SnapshotReader
from posse.kernels import estimators
from posse.kernels.changed_sums import new_block
from posse.kernels.posterior import new_buffers
from posse.model import Prior
from posse.model.refresh import BLOCK, Scratch

D, K = 3, 2


def new_store(n_tasks=6, rows=40, seed=0):
    store = Store(start=Prior.isotropic(n_arms=K, n_features=D), method=estimators.EVIDENCE, robust=True)
    store.add_tasks(n_tasks)
    learn(store, some_rows(rows, n_tasks, seed))
    store.belief.task_weight[:] = np.linspace(0.5, 2.0, n_tasks)
    return store


def some_rows(n, n_tasks, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(n_tasks, size=n), rng.integers(K, size=n), rng.normal(size=(n, D)), rng.normal(size=n)


def learn(store, rows):
    """As a fleet does it: what changes is kept before."""
    slots = store.claim(rows[0], rows[1])
    store.keep(slots, rows[1])
    store.learn_rows(*rows)


def copies(store):
    """The sums of all slots, as bytes."""
    return [tuple(field[slot].tobytes() for field in store.belief.sums) for slot in range(store.n_slots)]


def rows_of(pairs):
    return [tuple(field[row].tobytes() for field in pairs.sums) for row in pairs.rows.tolist()]


def new_room():
    return Scratch(new_buffers(D), new_block(BLOCK, D), np.zeros(0))


def test_nothing_is_kept_unless_someone_reads():
    store = new_store()

    store.keep(np.array([0]), np.array([0]))

    assert store.kept is None


def test_a_frozen_fleet_stays_as_it_was_while_it_learns():
    store = new_store()
    before, n_slots = copies(store), store.n_slots
    weight = store.belief.task_weight.copy()
    store.kept = ChangedSums(store.n_slots, D)
    frozen = SnapshotReader(store, threading.RLock(), store.kept)

    for seed in range(1, 4):
        # Pairs that there were, again and again, and new tasks, beyond the room that there was.
        learn(store, some_rows(5, 6, seed))
        store.add_tasks(50)
        learn(store, some_rows(30, store.n_tasks, seed + 10))
        rows = np.random.default_rng(seed).permutation(n_slots)
        pairs = frozen.pairs(rows, weight, new_room())
        assert rows_of(pairs) == [before[row] for row in rows.tolist()]
        assert pairs.task_weight[pairs.task_of[pairs.rows]].tolist() == weight[store.belief.task_of[rows]].tolist()

    assert copies(store)[:n_slots] != before
    assert store.kept.count < n_slots + 1  # each of those once at most


def test_what_is_read_is_a_copy():
    store = new_store()
    store.kept = ChangedSums(store.n_slots, D)
    frozen, room = SnapshotReader(store, threading.RLock(), store.kept), new_room()
    rows = np.arange(store.n_slots)
    before = copies(store)

    pairs = frozen.pairs(rows, store.belief.task_weight, room)
    learn(store, some_rows(40, 6, 5))

    assert rows_of(pairs) == before
    assert not any(np.shares_memory(field, mine) for field, mine in zip(pairs.sums, store.belief.sums, strict=True))


def test_reading_waits_for_the_lock():
    store = new_store()
    lock = threading.RLock()
    frozen = SnapshotReader(store, lock, ChangedSums(store.n_slots, D))
    done = threading.Event()

    def read():
        frozen.pairs(np.arange(store.n_slots), store.belief.task_weight, new_room())
        done.set()

    with lock:
        thread = threading.Thread(target=read)
        thread.start()
        assert not done.wait(0.1)
    assert done.wait(10)
    thread.join()


def test_copies_know_their_slots_and_arms():
    store = new_store()
    before = copies(store)
    kept = store.kept = ChangedSums(store.n_slots, D)
    rows = some_rows(6, 6, 7)
    learn(store, rows)
    learn(store, some_rows(9, 6, 8))

    by_arm = kept.changed(K)
    assert sorted(np.concatenate(by_arm).tolist()) == list(range(kept.count))
    for arm, which in enumerate(by_arm):
        slots = kept.slots(which)
        assert (store.belief.slot[store.belief.task_of[slots], arm] == slots).all()
        pairs = ChangedReader(store, kept).pairs(which, store.belief.task_weight, new_room())
        assert rows_of(pairs) == [before[slot] for slot in slots.tolist()]
        assert pairs.task_of[which].tolist() == store.belief.task_of[slots].tolist()
    # All that changed, and nothing else.
    changed = {slot for slot, (was, now) in enumerate(zip(before, copies(store), strict=False)) if was != now}
    assert set(kept.slots(np.arange(kept.count)).tolist()) == changed


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_there_is_room_for_as_many_as_change(monkeypatch, at_once):
    monkeypatch.setattr(posse.engine.sums_snapshot, "FIRST_ROOM", 4)
    store = new_store(n_tasks=100, rows=600)
    before = copies(store)
    kept = store.kept = ChangedSums(store.n_slots, D)
    slots = np.random.default_rng(0).permutation(store.n_slots)
    arms = np.array([0 if slot in store.belief.seen[0, : store.belief.n_seen[0]] else 1 for slot in slots])

    for first in range(0, slots.size, at_once):
        part = slice(first, first + at_once)
        kept.keep(store.belief.sums, slots[part], arms[part])

    assert kept.count == store.n_slots
    assert kept.slots(np.arange(kept.count)).tolist() == slots.tolist()
    assert [len(which) for which in kept.changed(K)] == store.belief.n_seen.tolist()
    found = [tuple(field[place].tobytes() for field in kept.sums) for place in range(kept.count)]
    assert found == [before[slot] for slot in slots.tolist()]


def test_memory_that_runs_out_keeps_what_there_was(monkeypatch):
    store = new_store(n_tasks=100, rows=600)
    kept = ChangedSums(store.n_slots, D)
    kept.keep(store.belief.sums, np.arange(10), np.zeros(10, dtype=np.int64))
    before = kept.count, kept.place.tolist()

    def no_more(*args):
        raise MemoryError("no more memory")

    monkeypatch.setattr(posse.engine.sums_snapshot, "new_sums", no_more)
    many = np.arange(FIRST_ROOM) % store.n_slots
    with pytest.raises(MemoryError):
        kept.keep(store.belief.sums, many, np.zeros(FIRST_ROOM, dtype=np.int64))
    assert (kept.count, kept.place.tolist()) == before
