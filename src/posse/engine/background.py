"""A refresh that nobody notices: the population is estimated beside the fleet, and put in place at once.

Decisions go on under the old population meanwhile, and rewards are learned. The estimate is of the rewards at its
beginning; before it is put in place, what came since is added, so that the posterior is exact for all rewards.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.engine.batch import Batch
from posse.engine.drift import Fade
from posse.engine.site_store import SiteStore
from posse.engine.sums_snapshot import ChangedReader, ChangedSums, SnapshotReader
from posse.interrupts import defer_interrupts
from posse.model.refresh import COARSE, LiveReader, Refresh
from posse.threads import workers

if TYPE_CHECKING:
    from posse.engine.engine import Engine
    from posse.types import IntArray

FEW = 256  # pairs that are caught up with under the lock: well below a millisecond
ROUNDS = 20  # of catching up without it

logger = logging.getLogger("posse")


def run_later(
    engine: Engine, *, steps: int, settled: float, sample: int | None = None, look: bool = False
) -> threading.Thread:
    """Start a refresh of the evidence prior on a thread of its own; the lock must be held.

    With ``look`` the population stays, and only the shared means are computed from the sums as they are.
    """
    store = engine.store
    # One core stays free for decisions.
    threads = max(1, workers() - 1)
    executor = ThreadPoolExecutor(threads, "posse-refresh", _lower_priority) if threads > 1 else None
    keys = store.task_keys
    if keys is not None and (sample is not None or store.n_slots > COARSE):
        taken = keys()  # while nobody changes the names
        keys = lambda: taken  # noqa: E731
    refresh = Refresh(store.belief, store.memory.evidence, threads=threads, copied=True, executor=executor, keys=keys)
    kept, version, replaced = ChangedSums(store.n_slots, store.n_features), store.version, store.replaced

    def work() -> None:
        _lower_priority()
        try:
            _run(engine, refresh, kept, version, 0 if look else replaced, steps, settled, sample, look)
        except Exception as error:
            # At its end a program refuses further work of threads, while its main thread still counts as alive.
            ending = isinstance(error, RuntimeError) and "shutdown" in str(error)
            if not ending and threading.main_thread().is_alive():
                with engine.lock:
                    store.postpone(error)
                logger.exception("a refresh in the background failed; the population stays as it was")
        finally:
            with engine.lock:
                engine.thread = None
                store.kept = None
            if executor is not None:
                executor.shutdown(wait=False)

    thread = threading.Thread(target=work, name="posse-refresh", daemon=True)
    # Whoever holds the lock is here, so the thread does not come to its end before this does.
    with defer_interrupts():
        try:
            thread.start()
        except BaseException:
            if executor is not None:
                executor.shutdown(wait=False)
            raise
        engine.thread, store.kept = thread, kept
    return thread


def run_beside(engine: Engine, *, steps: int, settled: float) -> None:
    """Start a refresh of clicks or counts on a thread of its own; the lock must be held.

    Sites are made again where they stand, so it works on a copy of the fleet's arrays. What is learned meanwhile is
    learned by both, and then the copy takes the place of what was there: the fleet believes what it would believe had
    it been estimated at once, only later.
    """
    store = engine.store
    assert isinstance(store, SiteStore)
    twin, changes, estimated = store.twin(), deque[Batch | Fade | int](), threading.Event()

    def work() -> None:
        _lower_priority()
        try:
            try:
                twin.refresh(steps=steps, settled=settled)
            except Exception as error:
                twin.postpone(error)
                logger.exception("a refresh in the background failed; the population stays as it was")
            twin.catch_up(FEW, changes)
        finally:
            # Whoever holds the lock may wait for this.
            estimated.set()
        with engine.lock:
            end_beside(engine, store)

    thread = threading.Thread(target=work, name="posse-refresh", daemon=True)
    with defer_interrupts():
        thread.start()
        engine.thread, store.beside, store.twin_of = thread, changes, Beside(twin, estimated)


class Beside(NamedTuple):
    """A copy of a fleet's arrays whose population is being estimated, and when that is done."""

    store: SiteStore
    estimated: threading.Event


def end_beside(engine: Engine, store: SiteStore | None = None) -> None:
    """Put the copy in the place of a store when its population is estimated; the lock must be held.

    With ``store``, only if that one still waits for it.
    """
    mine = engine.store
    if not isinstance(mine, SiteStore) or mine.beside is None or (store is not None and store is not mine):
        return
    twin, estimated = mine.twin_of
    thread = engine.thread
    while not estimated.wait(0.1):
        if thread is None or not thread.is_alive():
            # A forked child does not have its parent's thread: it goes on with what it has.
            mine.beside = None
            return
    with defer_interrupts():
        twin.catch_up(0, mine.beside)
        mine.beside = None
        engine.store, engine.thread = twin, None


def _run(
    engine: Engine,
    refresh: Refresh,
    kept: ChangedSums,
    version: int,
    replaced: int,
    steps: int,
    settled: float,
    sample: int | None,
    look: bool,
) -> None:
    store, lock = engine.store, engine.lock
    source = SnapshotReader(store, lock, kept)
    if look:
        refresh.look_from(source)
    else:
        refresh.run(source, steps=steps, settled=settled, sample=sample)
    known = [rows.size for rows in refresh.rows]
    for attempt in range(ROUNDS + 1):
        with lock:
            if store.version != version:
                return  # arms, tasks or sums changed in a way that this estimate knows nothing of
            then, now = _changes(engine, kept, known)
            if sum(rows.size for rows in now) <= FEW or attempt == ROUNDS:
                _add(engine, refresh, kept, then, now, LiveReader(store.belief))
                refresh.finish()
                store.install(refresh, replaced)
                return
            before, kept = kept, ChangedSums(store.n_slots, store.n_features)
            store.kept = kept
            known = store.belief.n_seen.tolist()
        _add(engine, refresh, before, then, now, SnapshotReader(store, lock, kept))


def _changes(engine: Engine, kept: ChangedSums, known: list[int]) -> tuple[list[IntArray], list[IntArray]]:
    """Return the copies of slots that have changed, and the slots that have changed or are new, by arm."""
    belief = engine.store.belief
    then = kept.changed(len(known))
    now = [
        np.concatenate([kept.slots(then[arm]), belief.seen[arm, known[arm] : belief.n_seen[arm]]])
        for arm in range(len(known))
    ]
    # A slot without rewards at that moment may have been copied, too; it is among the new ones.
    then = [copies[kept.sums.counts[copies] > 0] for copies in then]
    return then, [np.unique(slots) for slots in now]


def _add(
    engine: Engine,
    refresh: Refresh,
    kept: ChangedSums,
    then: list[IntArray],
    now: list[IntArray],
    source: LiveReader | SnapshotReader,
) -> None:
    """Replace what changed pairs said about the shared means by what they say."""
    refresh.make_room(now, engine.store.belief.task_weight)
    after, before = np.zeros_like(refresh.information), np.zeros_like(refresh.information)
    refresh.sum_information(source, now, after)
    refresh.sum_information(ChangedReader(engine.store, kept), then, before)
    refresh.information += after - before


def _lower_priority() -> None:
    """Let decisions go first, where the system knows priorities of threads."""
    with suppress(AttributeError, OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + 10, 19))
