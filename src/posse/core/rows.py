"""Rows of clicks and counts that are kept, so that their sites can be made again: a linked list for every slot.

The last 40 closed rows of a pair are kept, and all open ones: those whose reward may still come.
"""

from __future__ import annotations

import math

from posse.core.compiler import compiled, inlined
from posse.core.linalg import dot, multiply
from posse.core.pair import Work, finish_arm, pair_posterior, tell, touch
from posse.core.store import (
    CLOSED,
    DECAY,
    DECAY_AT,
    FIRST,
    INFORMATION,
    LAST,
    MOMENT,
    NEXT,
    OFFSET,
    OPEN,
    PRECISION,
    REWARD,
    SERIAL,
    SPREAD,
    Store,
    n_triangle,
    totals_at,
)
from posse.families.links import FAINTEST
from posse.families.sites import site_of_part
from posse.types import Array, IntArray

KEPT_ROWS = 40  # closed rows of a pair whose sites are still made again
ALL_KNOWN = 1e-9  # a site that leaves less than this of the precision is all that is known


@inlined
def keep_row(
    store: Store, slot: int, serial: int, is_open: bool, x: Array, reward: float, w: float, h: float, offset: float,
    spread: float,
) -> int:  # fmt: skip
    """Append a row to the list of a slot and return where it is; there must be a free one."""
    free, ends = store.free_rows, store.row_ends[slot]
    if free[0] > 0:
        free[0] -= 1
        row: int = free[2 + free[0]]
    else:
        row = free[1]
        free[1] += 1
    values, links = store.row_values[row], store.row_links[row]
    for i in range(x.shape[0]):
        store.row_context[row, i] = x[i]
    values[REWARD], values[PRECISION], values[MOMENT] = reward, w, h
    values[DECAY_AT] = store.pairs[slot, totals_at(x.shape[0]) + DECAY]
    values[OFFSET], values[SPREAD] = offset, spread
    links[NEXT], links[OPEN], links[SERIAL] = -1, is_open, serial
    if ends[FIRST] < 0:
        ends[FIRST] = row
    else:
        store.row_links[ends[LAST], NEXT] = row
    ends[LAST] = row
    ends[CLOSED] += not is_open
    if ends[CLOSED] > KEPT_ROWS:
        release_oldest(store.row_ends, store.row_links, store.free_rows, slot)
    return row


@compiled
def release_oldest(ends: IntArray, links: IntArray, free: IntArray, slot: int) -> None:
    """Keep the oldest closed row of a slot no more; its site stays in the sums as it is."""
    before, row = -1, ends[slot, FIRST]
    while links[row, OPEN]:
        before, row = row, links[row, NEXT]
    after = links[row, NEXT]
    if before < 0:
        ends[slot, FIRST] = after
    else:
        links[before, NEXT] = after
    if after < 0:
        ends[slot, LAST] = before
    ends[slot, CLOSED] -= 1
    links[row, SERIAL] = -1
    free[2 + free[0]] = row
    free[0] += 1


@inlined
def remake_sites(store: Store, work: Work, slot: int) -> None:
    """Make the sites of a pair's kept rows again, one after another, each given all others; its message is not told."""
    d, pair = work.solved.shape[0], store.pairs[slot]
    task, arm, totals = store.owner[slot, 0], store.owner[slot, 1], pair[totals_at(d) :]
    mean, covariance, through = work.mean, work.matrices[0], work.solved
    pair_posterior(store, work, slot, task, arm, 1.0, mean, covariance)
    row = store.row_ends[slot, FIRST]
    while row >= 0:
        x, values = store.row_context[row], store.row_values[row]
        weight = math.exp(totals[DECAY] - values[DECAY_AT])
        multiply(covariance, x, through)
        e, q = dot(x, mean), dot(x, through)
        left = 1.0 - q * weight * values[PRECISION]
        if left > ALL_KNOWN and weight > FAINTEST:  # else the site is all that is known, or says nothing any more
            m, v = (e - q * weight * values[MOMENT]) / left, q / left
            w, h = site_of_part(
                store.family, values[REWARD], weight, m, v, values[OFFSET], values[SPREAD], store.dispersion[arm]
            )
            more, further = w - weight * values[PRECISION], h - weight * values[MOMENT]
            values[PRECISION], values[MOMENT] = w / weight, h / weight
            totals[INFORMATION] += more
            scale, at, surprise = 1.0 / (1.0 + more * q), 0, further - more * e
            for i in range(d):
                mean[i] += scale * surprise * through[i]
                pair[n_triangle(d) + i] += further * x[i]
                for j in range(d):
                    covariance[i, j] -= scale * more * through[i] * through[j]
                for j in range(i, d):
                    pair[at] += more * x[i] * x[j]
                    at += 1
        row = store.row_links[row, NEXT]
    touch(store.factors, slot)


@compiled
def remake_slots(store: Store, work: Work, slots: IntArray) -> None:
    """Make the sites of some pairs' rows again, one pair after another, and tell their arms."""
    for slot in slots:
        task, arm = store.owner[slot, 0], store.owner[slot, 1]
        if store.row_ends[slot, FIRST] >= 0:
            tell(store, work, slot, task, arm, -1.0)
            remake_sites(store, work, slot)
            tell(store, work, slot, task, arm, 1.0)
            finish_arm(store.told, store.shared, arm, work)
