"""Sums as they were at one moment, while the fleet goes on learning."""

import threading

import numpy as np
import pytest

import posse.engine.sums_snapshot
from posse.engine.store import Store
from posse.engine.sums_snapshot import FIRST_ROOM, ChangedSums, SnapshotReader
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
