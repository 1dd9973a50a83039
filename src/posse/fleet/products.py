"""Sums over all pairs of a fleet, taken in slices: decisions go on in between, however many pairs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.engine.site_store import SiteStore
from posse.engine.sums_snapshot import slice_rows
from posse.kernels import estimators
from posse.kernels.packing import whole_matrix
from posse.model.borrowing import mean_squares

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.types import Array


class Products(NamedTuple):
    """Sums of products of columns and, last, rewards; and of how many rewards."""

    sums: Array  # (d + 1, d + 1)
    rewards: float


def products_of(fleet: Fleet) -> Products:
    """Return the products of all pairs: the last refresh's if they are at hand; the lock must not be held.

    They are not in files, nor told to other processes, and another's population may have come since they were taken.
    What is learned while slices are read may be among them or not.
    """
    store = fleet._engine.store
    with fleet._lock:
        fleet._engine.ensure_fresh()
        evidence, d = store.memory.evidence, store.n_features
        measures, at = evidence.measures, float(evidence.refreshed_at[0])
        squares = evidence.reward_square[0]
        if fleet._behaviour.method == estimators.EVIDENCE and squares > 0 and measures[d, d] / at == squares:
            return Products(measures.copy(), at)
        n_slots = store.n_slots
    products, rewards = np.zeros((d + 1, d + 1)), 0.0
    rows = slice_rows(d)
    for start in range(0, n_slots, rows):
        with fleet._lock:
            sums, some = store.belief.sums, slice(start, min(start + rows, n_slots))
            store.fade_overdue(np.arange(some.start, some.stop))
            products[:d, :d] += whole_matrix(sums.gram[some].sum(axis=0))
            products[:d, d] += sums.moment[some].sum(axis=0)
            products[d, d] += sums.sum_of_squares[some].sum()
            rewards += float(sums.counts[some].sum())
    return Products(products, rewards)


def squares_of(fleet: Fleet) -> Array:
    """Return the mean squares of the features over all rewards; the lock must not be held."""
    store = fleet._engine.store
    if isinstance(store, SiteStore):  # the products are weighted
        with fleet._lock:
            return mean_squares(store.sum_of_squares(), store.n_rewards)
    products = products_of(fleet)
    return mean_squares(np.diagonal(products.sums)[:-1], products.rewards)
