"""Loading the compiled code of learning before anything changes.

A kernel is compiled, or read from Numba's cache, when it is first called. That opens files and takes memory, so it may
fail; in the middle of a change it must not.
"""

from __future__ import annotations

import numpy as np

from posse.engine.commit import commit
from posse.engine.store import Store
from posse.engine.sums_snapshot import ChangedSums
from posse.kernels import estimators
from posse.kernels.fleet import sort_by_slots
from posse.model.prior import Prior
from posse.model.refresh import LiveReader, Refresh

loaded: set[str] = set()
"""What has been through in this process: learning one reward, learning many."""


def load_one() -> None:
    """Learn one reward of something tiny; kernels do not depend on sizes."""
    store = tiny_store(estimators.EVIDENCE)
    tasks, arms = np.array(store.add_tasks(1)), np.zeros(1, dtype=np.int64)
    slots = store.claim(tasks, arms)
    ChangedSums(store.n_slots, 1).keep(store.belief.sums, slots, arms)
    store.learn(0, 0, np.ones(1), 1.0)
    store.rebuild()
    store.settle()
    loaded.add("one")


def load_many() -> None:
    """Learn something tiny in every way that there is."""
    load_one()
    store = tiny_store(estimators.EVIDENCE)
    tasks, arms = np.array(store.add_tasks(1)), np.zeros(1, dtype=np.int64)
    contexts, rewards = np.ones((1, 1)), np.ones(1)
    slots = store.claim(tasks, arms)
    store.learn_rows(tasks, arms, contexts, rewards)
    store.replace_rows(tasks, arms, contexts, rewards, rewards)
    store.add_rows(slots, arms, contexts, rewards)
    store.exchange_rows(slots, contexts, rewards, rewards)
    sort_by_slots(slots, 0, np.empty(2, dtype=np.int64), np.empty(1, dtype=np.int64))
    commit(store.adding_sums(slots, arms, store.copy_of_sums()[2]))
    loaded.add("many")


def load_fading() -> None:
    """Let something tiny count less, first what it counts for and then its sums."""
    store = tiny_store(estimators.EVIDENCE)
    tasks, arms = np.array(store.add_tasks(1)), np.zeros(1, dtype=np.int64)
    store.add_rows(store.claim(tasks, arms), arms, np.ones((1, 1)), np.ones(1))
    store.fade_later(1.0, 1.0, np.ones(1), [])
    store.fade_overdue()


def tiny_store(method: int) -> Store:
    """Return a store of one arm and one feature; what making one takes is loaded after that."""
    start = Prior(covariance=np.ones((1, 1, 1)), noise_variance=np.ones(1), shared_precision=np.ones((1, 1)))
    return Store(start=start, method=method)


def load_paper() -> None:
    """Estimate a population by least squares; one kernel has all such methods."""
    store = tiny_store(estimators.PAPER)
    estimators.refresh(store.belief, store.memory, 0, store.method, store.buffers, store.n_live_tasks)


def load_evidence() -> None:
    """Do what an estimate of the evidence prior does, to its end."""
    refresh, source = _tiny_refresh()
    refresh.run(source, steps=1, settled=0.0)


def _tiny_refresh() -> tuple[Refresh, LiveReader]:
    store = tiny_store(estimators.EVIDENCE)
    tasks, arms = np.array(store.add_tasks(2)), np.zeros(2, dtype=np.int64)
    store.add_rows(store.claim(tasks, arms), arms, np.ones((2, 1)), np.array([1.0, 2.0]))
    refresh = store.new_refresh()
    assert refresh is not None
    return refresh, LiveReader(store.belief)


def require_loaded(*, one: bool = False) -> None:
    """Raise what keeps compiled code from being loaded, if anything does; costs nothing once it is there.

    With ``one``, only what learning a single reward takes: the first reward does not wait for what tables need.
    """
    if "many" in loaded or (one and "one" in loaded):
        return
    (load_one if one else load_many)()
