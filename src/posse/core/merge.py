"""Merging: sums and kept rows of one core added to another, whose tasks and arms have other numbers."""

from __future__ import annotations

import numpy as np

from posse.core.compiler import compiled
from posse.core.forgetting import age_at
from posse.core.pair import age_silently, touch
from posse.core.rows import keep_row
from posse.core.state import BEHIND, CLOCK, NEWS, SERIALS, TOTAL
from posse.core.store import (
    COUNT,
    DECAY,
    DECAY_AT,
    FIRST,
    FRACTIONS,
    INFORMATION,
    MOMENT,
    N_TOTALS,
    N_VALUES,
    NEGATIVES,
    NEXT,
    OFFSET,
    OPEN,
    PRECISION,
    REWARD,
    SERIAL,
    SPREAD,
    SQUARES,
    ZEROS,
    Store,
    totals_at,
)
from posse.families.sites import NUMBER
from posse.types import Array, IntArray


@compiled
def merge_slots(
    store: Store, other: Store, slots: IntArray, mine: IntArray, now: float, rows: IntArray, decays: Array,
    numbers: Array, others: Array, of_receipts: IntArray, decay: Array, row_of: IntArray, serial: IntArray,
) -> None:  # fmt: skip
    """Add slots of another store to slots of this one, both aged to ``now``, and write receipts as they are here.

    ``rows`` and ``decays`` are buffers: where each of the other's rows is here, and by how much more the log of decay
    of each of its slots is here. Messages are to be summed before anything else is done.
    """
    d = store.prior.shape[2]
    at, serials, before = totals_at(d), int(numbers[SERIALS]), numbers[TOTAL]
    numbers[BEHIND] = 1.0
    sources, stamps = np.empty((1, other.pairs.shape[1])), np.empty((1, 1))
    source = sources[0]
    for n in range(slots.shape[0]):
        pair, place = store.pairs[mine[n]], slots[n]
        for column in range(source.shape[0]):
            source[column] = other.pairs[place, column]
        age_silently(store.pairs, store.factors, mine[n], d, age_at(now, store.ageing))
        age_silently(sources, stamps, 0, d, age_at(now, other.ageing))
        totals, theirs = pair[at : at + N_TOTALS], source[at : at + N_TOTALS]
        for column in range(at):
            pair[column] += source[column]
        for column in (COUNT, SQUARES, INFORMATION, ZEROS, FRACTIONS, NEGATIVES):
            totals[column] += theirs[column]
        decays[place] = totals[DECAY] - theirs[DECAY]
        numbers[TOTAL] += theirs[COUNT]
        touch(store.factors, mine[n])
        if store.family == NUMBER:
            continue
        for column in range(2 * d + 2):
            store.plain[mine[n], column] += other.plain[place, column]
        row = other.row_ends[place, FIRST]
        while row >= 0:
            values, links = other.row_values[row], other.row_links[row]
            new = keep_row(
                store, mine[n], serials + links[SERIAL], links[OPEN] > 0, other.row_context[row], values[REWARD],
                values[PRECISION], values[MOMENT], values[OFFSET], values[SPREAD],
            )  # fmt: skip
            store.row_values[new, DECAY_AT] = values[DECAY_AT] + decays[place]
            for column in range(N_VALUES, values.shape[0]):
                store.row_values[new, column] = values[column]
            rows[row] = new
            row = links[NEXT]
    numbers[SERIALS] += others[SERIALS]
    numbers[NEWS] += numbers[TOTAL] - before
    numbers[CLOCK] = max(numbers[CLOCK], now)
    for n in range(of_receipts.shape[0]):
        slot, row = of_receipts[n], row_of[n]
        decay[n] += decays[slot] if slot >= 0 else 0.0
        row_of[n] = rows[row] if slot >= 0 and 0 <= row < rows.shape[0] else -1  # numbers have no rows
        serial[n] = serial[n] + serials if serial[n] >= 0 else -1
