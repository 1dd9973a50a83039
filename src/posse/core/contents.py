"""Contents of a core, copied out: sums of pairs, and of rewards as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.changes import age_pairs
from posse.core.state import N_SLOTS
from posse.core.store import COUNT, SQUARES, n_triangle, totals_at
from posse.families.sites import NUMBER

if TYPE_CHECKING:
    from posse.core.state import State
    from posse.types import Array, IntArray


class Sums(NamedTuple):
    """Sums of pairs with rewards, in the order of slots; of clicks and counts they are of sites."""

    tasks: IntArray
    arms: IntArray
    gram: Array  # (n, T) upper triangles, row after row
    moment: Array  # (n, d)
    squares: Array
    counts: Array


class PlainSums(NamedTuple):
    """Sums over rewards of clicks and counts as they came, in the order of slots."""

    tasks: IntArray
    arms: IntArray
    contexts: Array  # (n, d)
    squares: Array  # (n, d) of the contexts
    total: Array
    counts: Array


def slots_of(state: State, tasks: IntArray | None) -> IntArray:
    """Return the slots that have rewards, of some tasks or of all, in ascending order."""
    store = state.store
    slots: IntArray = np.arange(int(state.numbers[N_SLOTS]))
    if tasks is not None:
        slots = store.slot[tasks, : store.noise.size].ravel()
        slots = np.sort(slots[slots >= 0])
    with_rewards: IntArray = slots[store.pairs[slots, totals_at(store.prior.shape[2]) + COUNT] > 0.0]
    return with_rewards


def sums_of(state: State, tasks: IntArray | None, now: float | None) -> Sums:
    """Return the sums of some tasks or of all, aged to ``now`` or as of when each pair was last aged."""
    store, slots = state.store, slots_of(state, tasks)
    d, owner = store.prior.shape[2], store.owner[slots]
    pairs, at = store.pairs[slots], totals_at(d)
    if now is not None:
        age_pairs(pairs, d, now, store.ageing)
    return Sums(
        owner[:, 0], owner[:, 1], pairs[:, : n_triangle(d)].copy(), pairs[:, n_triangle(d) : at].copy(),
        pairs[:, at + SQUARES].copy(), pairs[:, at + COUNT].copy(),
    )  # fmt: skip


def plain_sums_of(state: State, tasks: IntArray | None) -> PlainSums:
    """Return the sums of clicks or counts of some tasks or of all, whatever was aged."""
    if state.store.family == NUMBER:
        raise ValueError("expected a core of clicks or counts, got one of numbers, whose sums are as they came")
    slots, d = slots_of(state, tasks), state.store.prior.shape[2]
    owner, plain = state.store.owner[slots], state.store.plain[slots]
    return PlainSums(
        owner[:, 0], owner[:, 1], plain[:, :d].copy(), plain[:, d : 2 * d].copy(), plain[:, 2 * d].copy(),
        plain[:, 2 * d + 1].copy(),
    )  # fmt: skip
