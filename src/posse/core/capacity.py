"""Capacity of a core's arrays: they grow without being copied again and again.

Memory that was asked for and never touched costs nothing. So when the arrays over slots or rows, which are all but a
few percent, have outgrown their first small sizes, they move once, to address ranges as large as the memory of the
machine, and fill up in place. Arrays over tasks double.
"""

from __future__ import annotations

import math
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.store import N_ROW_VALUES, Store, pair_width
from posse.families.sites import NUMBER

if TYPE_CHECKING:
    import numpy.typing as npt

SMALL = 4 << 20  # bytes up to which an array doubles
FIRST_SIZE = 8  # tasks, slots and rows of a new core


@cache
def memory() -> int:
    """Return how many bytes of memory this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 8 << 30


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return a larger copy, zeros behind; untouched zeros cost no memory."""
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def copied(array: npt.NDArray[Any], used: int) -> npt.NDArray[Any]:
    """Return a copy of the rows in use, with the same capacity if the system gives that much."""
    try:
        size = np.zeros(array.shape, array.dtype)
    except MemoryError:
        size = np.zeros((2 * used + FIRST_SIZE, *array.shape[1:]), array.dtype)
    size[:used] = array[:used]
    return size


def sizes(array: npt.NDArray[Any], at_least: int) -> list[int]:
    """Return lengths to try, the largest first, for an array that needs this many rows."""
    size = max(at_least, 2 * len(array), FIRST_SIZE)
    row = max(array.itemsize * math.prod(array.shape[1:]), 1)
    if size * row <= SMALL:
        return [size]
    return [*(max(size, memory() // (row * part)) for part in (2, 4, 8, 16, 32)), size]


def with_size(store: Store, names: tuple[str, ...], largest: str, at_least: int) -> dict[str, Any]:
    """Return longer copies of arrays of one kind, as long as the largest of them may be."""
    tried = sizes(getattr(store, largest), at_least)
    for size in tried[:-1]:
        try:
            return {name: grown(getattr(store, name), size) for name in names}
        except MemoryError:  # the system does not give away what it has not
            continue
    return {name: grown(getattr(store, name), tried[-1]) for name in names}


def new_store(family: int, ageing: Any, n_arms: int, d: int, n_task_features: int) -> Store:
    """Return a store without tasks and rewards, whose population is to be put in."""
    n, n_linked, n_shared = FIRST_SIZE, 0 if family == NUMBER else FIRST_SIZE, (1 + n_task_features) * d
    return Store(
        family=family,
        ageing=np.ascontiguousarray(ageing, dtype=np.float64),
        slot=np.full((n + 1, n_arms), -1, dtype=np.int64),
        pairs=np.zeros((n, pair_width(d))),
        factors=np.zeros((n, 1 + d * (d + 1) // 2)),
        known=np.eye(1, 1 + n_task_features).repeat(n + 1, axis=0),
        given=np.zeros(n + 1, dtype=np.bool_),
        weight=np.ones(n + 1),
        generation=np.zeros(n_arms),
        noise=np.ones(n_arms),
        prior=np.zeros((n_arms, 2 * d + 1, d)),
        shared=np.zeros((n_arms, n_shared + 1, n_shared)),
        apart=np.zeros((n_arms, d, d)),
        told=np.zeros((n_arms, n_shared + 1, n_shared)),
        summed_at=np.zeros(1),
        owner=np.full((n, 2), -1, dtype=np.int64),
        plain=np.zeros((n_linked, 2 * d + 2)),
        row_context=np.zeros((n_linked, d)),
        row_values=np.zeros((n_linked, N_ROW_VALUES)),
        row_links=np.zeros((n_linked, 3), dtype=np.int64),
        row_ends=np.zeros((n_linked, 3), dtype=np.int64),
        free_rows=np.zeros(2 + n_linked, dtype=np.int64),
    )


def with_more_slots(store: Store, at_least: int) -> Store:
    """Return a store with capacity for more slots."""
    store = store._replace(**with_size(store, ("owner", "pairs", "factors"), "pairs", at_least))
    if store.family == NUMBER:
        return store
    size = len(store.owner)
    return store._replace(row_ends=grown(store.row_ends, size), plain=grown(store.plain, size))


def free_rows(store: Store) -> int:
    """Return how many rows can be kept without more capacity."""
    return int(store.free_rows[0]) + len(store.row_links) - int(store.free_rows[1])


def with_more_rows(store: Store, count: int) -> Store:
    """Return a store with capacity for at least this many further rows."""
    names = ("row_context", "row_values", "row_links")
    store = store._replace(**with_size(store, names, "row_context", int(store.free_rows[1]) + count))
    return store._replace(free_rows=grown(store.free_rows, 2 + len(store.row_links)))


def with_more_tasks(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return an array over tasks with capacity for more, each like one never seen, which stays the last."""
    larger = np.empty((size + 1, *array.shape[1:]), array.dtype)
    larger[: len(array) - 1] = array[:-1]
    larger[len(array) - 1 :] = array[-1]
    return larger
