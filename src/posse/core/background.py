"""Estimates that nobody waits for: the population is estimated on a copy, and put in place at once.

The copy is made slice by slice, so that decisions wait for one slice at most; a pair that is touched before its turn is
copied first, so the copy is of one moment. Rewards are learned under the old population meanwhile. Before the new one
is put in place, pairs that were touched are taken over as they are now: the message that the copy told is taken away
and the present one added, so the posterior is exact for all rewards.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.capacity import copied, grown
from posse.core.changes import know_tasks
from posse.core.compiler import compiled
from posse.core.pair import Work, new_work, tell_slots
from posse.core.state import AT_LAST, BEHIND, FAILURES, N_SLOTS, NEWS, RETRY_AT, TOTAL, State
from posse.core.store import FIRST, LAST, NEXT, Store
from posse.families.sites import NUMBER
from posse.interrupts import defer_interrupts
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posse.core.core import Core
    from posse.core.sums import Keys

SLICE = 2048  # slots that are copied while decisions wait
FEW = 128  # pairs that are taken over while decisions wait
ROUNDS = 20  # of taking over without that
PATIENCE = 0.05  # seconds between looks whether whoever holds the lock waits for the estimate

logger = logging.getLogger("posse")


def copy_slots(store: Store, slots: IntArray, done: BoolArray, copy: Store, place: IntArray) -> None:
    """Copy sums and kept rows of slots that were not copied before; ``place`` says where a row came from."""
    slots = slots[~done[slots]]
    copy.pairs[slots] = store.pairs[slots]
    if store.family != NUMBER:
        copy.row_ends[slots] = store.row_ends[slots]
        first = int(copy.free_rows[1])
        last = copy_lists(store.row_ends, store.row_links, slots, copy.row_ends, copy.row_links, place, first)
        rows = slice(first, last)
        copy.row_context[rows], copy.row_values[rows] = store.row_context[place[rows]], store.row_values[place[rows]]
        copy.free_rows[1] = last
    done[slots] = True  # last: until then they are copied again


@compiled
def copy_lists(
    ends: IntArray, links: IntArray, slots: IntArray, new_ends: IntArray, new_links: IntArray, place: IntArray,
    first: int,
) -> int:  # fmt: skip
    """Copy lists of rows to places from ``first`` on; return the first place behind them."""
    n = first
    for slot in slots:
        row, new_ends[slot, FIRST], new_ends[slot, LAST] = ends[slot, FIRST], -1, -1
        while row >= 0:
            place[n] = row
            for column in range(links.shape[1]):
                new_links[n, column] = links[row, column]
            new_links[n, NEXT] = -1
            if new_ends[slot, FIRST] < 0:
                new_ends[slot, FIRST] = n
            else:
                new_links[n - 1, NEXT] = n
            new_ends[slot, LAST] = n
            row = links[row, NEXT]
            n += 1
    return n


def take_over(
    store: Store, work: Work, slots: IntArray, owners: IntArray, pairs: Array, known: Array, given: BoolArray
) -> None:
    """Put pairs as they are now in the place of those that were estimated, and tell their arms."""
    owner = np.zeros((len(store.pairs), 2), dtype=np.int64)  # of what is not touched the system makes nothing
    owner[slots] = owners
    store = store._replace(owner=owner)
    tell_slots(store, work, slots, -1.0)
    rows = np.ascontiguousarray(known[:, 1:])
    know_tasks(store.known, store.given, np.ascontiguousarray(owners[:, 0]), rows, given)
    store.pairs[slots], store.factors[slots, 0] = pairs, -1.0
    tell_slots(store, work, slots, 1.0)


@compiled
def copy_values(ends: IntArray, links: IntArray, values: Array, slots: IntArray, out: Array) -> None:
    """Write the values of the rows of some slots."""
    for slot in slots:
        row = ends[slot, FIRST]
        while row >= 0:
            for column in range(values.shape[1]):
                out[row, column] = values[row, column]
            row = links[row, NEXT]


class Background:
    """One estimate beside a core, from its start to its end; the lock of the core's owner must be held to make it.

    Parameters
    ----------
    core : Core
    lock : RLock
    steps, settled, sample, keys
        As of :meth:`posse.core.core.Core.estimate`.
    """

    def __init__(
        self, core: Core, lock: threading.RLock, steps: int, settled: float, sample: int | None, keys: Keys | None
    ) -> None:
        self._core, self._lock, self._how = core, lock, (steps, settled, sample, keys)
        self.dropped, self._granted, self._done = False, threading.Event(), threading.Event()
        state = core.state
        self._n, self._numbers = int(state.numbers[N_SLOTS]), state.numbers.copy()
        self._taken = np.zeros(self._n, dtype=np.bool_)
        self._dirty: dict[int, None] = {}
        self._state = state._replace(store=self._empty_copy(state.store), numbers=self._numbers.copy())
        self._place = np.zeros(len(self._state.store.row_links), dtype=np.int64)
        self._thread = threading.Thread(target=self._run, name="posse-refresh", daemon=True)

    def _empty_copy(self, store: Store) -> Store:
        """Return a store for the copy: pairs and rows are to come, and what is over tasks is there."""
        n_rows = 0
        if store.family != NUMBER:
            n_rows = int(store.free_rows[1])
        names = ("slot", "known", "given", "weight")
        parts: dict[str, Any] = {name: getattr(store, name).copy() for name in names}
        return store._replace(
            **parts,
            owner=copied(store.owner, self._n),
            pairs=np.zeros(store.pairs.shape),
            factors=np.zeros(store.factors.shape),
            row_ends=np.zeros(store.row_ends.shape, dtype=np.int64),
            row_context=np.zeros((n_rows, store.row_context.shape[1])),
            row_values=np.zeros((n_rows, store.row_values.shape[1])),
            row_links=np.zeros((n_rows, store.row_links.shape[1]), dtype=np.int64),
            free_rows=np.zeros(2 + n_rows, dtype=np.int64),
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it goes on; a forked child does not have its parent's thread."""
        return self._thread.is_alive() and not self._done.is_set()

    def wait(self) -> None:
        """Wait for its end; whoever calls holds the lock, and the estimate goes on under it."""
        self._granted.set()
        while not self._done.wait(PATIENCE) and self._thread.is_alive():
            pass

    def touch(self, store: Store, slot: int) -> None:
        """Note that a slot is about to change."""
        if slot not in self._dirty:
            self.touch_all(store, np.array([slot]))

    def touch_all(self, store: Store, slots: IntArray) -> None:
        """Note that slots are about to change."""
        slots = np.unique(slots)
        before = slots[slots < self._n]
        if before.size:
            copy_slots(store, before, self._taken, self._state.store, self._place)
        self._dirty.update(dict.fromkeys(slots.tolist()))

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the lock, or go on under that of whoever waits; yields whether the estimate is still wanted."""
        while not self._granted.is_set():
            if self._lock.acquire(timeout=PATIENCE):
                try:
                    yield not self.dropped
                finally:
                    self._lock.release()
                return
        yield not self.dropped

    def _run(self) -> None:
        _lower_priority()
        try:
            self._copy_all()
            if not self.dropped:
                self._finish(self._core.estimated_on_copy(self._state, *self._how))
        except Exception as error:
            # At its end a program refuses further work of threads, while its main thread still counts as alive.
            ending = isinstance(error, RuntimeError) and "shutdown" in str(error)
            if not ending and threading.main_thread().is_alive():
                with self._locked() as wanted:
                    if wanted:
                        self._core.postpone(error)
                logger.exception("a refresh in the background failed; the population stays as it was")
        finally:
            with self._locked():
                self._core.background_ended(self)
                self._done.set()

    def _copy_all(self) -> None:
        for first in range(0, self._n, SLICE):
            with self._locked() as wanted:
                if not wanted:
                    return
                slots = np.arange(first, min(first + SLICE, self._n))
                copy_slots(self._core.state.store, slots, self._taken, self._state.store, self._place)

    def _finish(self, estimated: State) -> None:
        """Take over what was touched, and put the estimate in place."""
        store = estimated.store
        work = new_work(store.prior.shape[2], store.shared.shape[2])
        values, all_dirty = self._row_values(store), dict[int, None]()
        for attempt in range(ROUNDS + 1):
            with self._locked() as wanted:
                if not wanted:
                    return
                live = self._core.state.store
                slots, self._dirty = np.array(list(self._dirty), dtype=np.int64), {}
                all_dirty.update(dict.fromkeys(slots.tolist()))
                store = _with_capacity(store, live)
                owners = live.owner[slots]
                now = live.pairs[slots], live.known[owners[:, 0]], live.given[owners[:, 0]]
                if slots.size <= FEW or attempt == ROUNDS:
                    take_over(store, work, slots, owners, *now)
                    self._install(estimated, store, values, np.array(list(all_dirty), dtype=np.int64))
                    return
            take_over(store, work, slots, owners, *now)

    def _row_values(self, store: Store) -> Array:
        """Return values of all rows that were copied, in the places where they are kept."""
        values = np.zeros(self._core.state.store.row_values.shape)
        used = int(self._state.store.free_rows[1])
        values[self._place[:used]] = store.row_values[:used]
        return values

    def _install(self, estimated: State, store: Store, values: Array, dirty: IntArray) -> None:
        core = self._core
        state = core.state
        live, numbers = state.store, state.numbers.copy()
        if len(values) < len(live.row_values):
            values = grown(values, len(live.row_values))
        if live.family != NUMBER:
            copy_values(live.row_ends, live.row_links, live.row_values, dirty, values)
        known, given = live.known.copy(), live.given
        known[~given] = store.known[-1]
        weight = live.weight.copy()
        weight[: len(self._state.store.weight) - 1] = store.weight[: len(self._state.store.weight) - 1]
        for number in (AT_LAST, RETRY_AT, FAILURES, BEHIND):
            numbers[number] = estimated.numbers[number]
        for number in (NEWS, TOTAL):
            numbers[number] += estimated.numbers[number] - self._numbers[number]
        store = live._replace(
            pairs=store.pairs, factors=store.factors, known=known, weight=weight, generation=store.generation,
            noise=store.noise,
            prior=store.prior, shared=store.shared, apart=store.apart, dispersion=store.dispersion, told=store.told,
            summed_at=store.summed_at, row_values=values,
        )  # fmt: skip
        with defer_interrupts():
            core.install(
                state._replace(store=store, population=estimated.population, silent=estimated.silent, numbers=numbers)
            )


def _with_capacity(store: Store, live: Store) -> Store:
    """Return the estimated store with as many slots and tasks as there are now."""
    if len(store.pairs) < len(live.pairs):
        size = len(live.pairs)
        store = store._replace(pairs=grown(store.pairs, size), factors=grown(store.factors, size))
    if len(store.known) < len(live.known):
        known, given, weight = live.known.copy(), live.given.copy(), live.weight.copy()
        n = len(store.known) - 1
        known[:n], given[:n], weight[:n] = store.known[:n], store.given[:n], store.weight[:n]
        known[-1] = store.known[-1]
        store = store._replace(known=known, given=given, weight=weight)
    return store


def _lower_priority() -> None:
    """Let decisions go first, where the system knows priorities of threads."""
    with suppress(AttributeError, OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + 10, 19))
