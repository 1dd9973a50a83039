"""The rows of clicks and counts whose sites are made again: the last of every pair, and those that wait."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.capacity import first_rows, longer
from posse.kernels.kept_rows import KeptRows

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.engine.waiting import Waiting
    from posse.kernels.fleet_sites import Sites
    from posse.types import Array, IntArray

KEPT = 40
"""Rows of every pair whose sites are made again when the population is estimated."""

OF_ROWS = ("contexts", "rewards", "precision", "moment")
OF_KEPT_ROWS = (*OF_ROWS, "weight")  # those that wait have not faded
OF_PAIRS = ("contexts", "squares", "total")


def places_of(first: IntArray, kept: IntArray) -> IntArray:
    """Return where the rows of slots stand that begin at ``first``, ``kept`` of each."""
    before = np.cumsum(kept) - kept
    places: IntArray = np.arange(int(kept.sum())) + np.repeat(first - before, kept)
    return places


def in_order(rows: KeptRows, slot: int) -> IntArray:
    """Return where the kept rows of a slot stand, the oldest first."""
    kept, room = rows.kept[slot], rows.room[slot]
    return np.asarray(rows.first[slot] + (rows.seen[slot] - kept + np.arange(kept)) % room)


def keeping_rows(
    rows: KeptRows,
    slots: IntArray,
    kept: IntArray,
    seen: IntArray,
    came: dict[str, Array],
    moment: Array | None = None,
) -> Steps:
    """Keep further rows of slots, ``kept`` of each, as the last of ``seen``; the oldest make way. No slot twice.

    ``moment`` has what the moments of the rows that are there will be by then. Default: what they are.
    """
    steps: Steps = []
    for slot, n, more, last in zip(slots.tolist(), kept.tolist(), seen.tolist(), np.cumsum(kept), strict=True):
        old, total = in_order(rows, slot), int(rows.seen[slot]) + more
        count = min(total, KEPT)
        targets = rows.first[slot] + (total - count + np.arange(count)) % KEPT
        for name in OF_KEPT_ROWS:
            target = getattr(rows, name)
            there = target if moment is None or name != "moment" else moment
            both = np.concatenate([there[old], came[name][last - n : last]])[-count:]
            steps.append(partial(target.__setitem__, targets, both))
        steps += [partial(rows.seen.__setitem__, slot, total), partial(rows.kept.__setitem__, slot, count)]
    return steps


def with_waiting(rows: KeptRows, waiting: Waiting, n_slots: int) -> KeptRows:
    """Return all rows whose sites are made again: those that are kept, and behind them those that wait."""
    if not len(waiting):
        return rows
    slots, kept, waits = np.arange(n_slots), rows.kept[:n_slots], waiting.counts(n_slots)
    there, places = places_of(rows.first[:n_slots], kept), waiting.places(slots)
    order = np.argsort(np.concatenate([np.repeat(slots, kept), np.repeat(slots, waits)]), kind="stable")

    def together(name: str) -> Array:
        both = np.concatenate([getattr(rows, name)[there], getattr(waiting, name)[places]])
        return np.ascontiguousarray(both[order])

    contexts, rewards, precision, moment = map(together, OF_ROWS)
    weight = np.concatenate([rows.weight[there], np.ones(places.size)])[order]
    count = kept + waits
    first = np.cumsum(count) - count
    return KeptRows(
        contexts, rewards, precision, moment, weight, first, count, count, count, passes=rows.passes, offset=rows.offset
    )


def giving_back(made: KeptRows, rows: KeptRows, waiting: Waiting, n_slots: int) -> Steps:
    """Put sites that were made again with :func:`with_waiting` to where they are kept."""
    if made is rows:
        return []
    kept = rows.kept[:n_slots]
    among = np.concatenate([places_of(made.first, kept), places_of(made.first + kept, made.kept - kept)])
    there, places = places_of(rows.first[:n_slots], kept), waiting.places(np.arange(n_slots))
    steps: Steps = []
    for name in ("precision", "moment"):
        values = getattr(made, name)[among]
        steps.append(partial(getattr(rows, name).__setitem__, there, values[: there.size]))
        steps.append(partial(getattr(waiting, name).__setitem__, places, values[there.size :]))
    return steps


def with_more_slots(sites: Sites, size: int) -> Sites:
    """Return sites with room for so many slots."""
    rows = sites.rows
    of_rows: dict[str, Any] = {name: longer(getattr(rows, name), size * KEPT) for name in OF_KEPT_ROWS}
    of_pairs: dict[str, Any] = {name: longer(getattr(sites, name), size) for name in OF_PAIRS}
    grown = rows._replace(
        **of_rows,
        first=np.arange(size, dtype=np.int64) * KEPT,
        room=np.full(size, KEPT, dtype=np.int64),
        kept=longer(rows.kept, size),
        seen=longer(rows.seen, size),
        offset=longer(rows.offset, size) if len(rows.offset) else rows.offset,
    )
    return sites._replace(rows=grown, **of_pairs)


def copy_of_sites(sites: Sites, n_slots: int) -> Sites:
    """Return a copy of the slots that are in use, with as much room."""
    rows, size = sites.rows, sites.total.size
    of_rows: dict[str, Any] = {
        name: first_rows(getattr(rows, name), n_slots * KEPT, size * KEPT) for name in OF_KEPT_ROWS
    }  # fmt: skip
    of_rows |= {name: getattr(rows, name).copy() for name in ("first", "room", "kept", "seen", "passes", "offset")}
    of_pairs: dict[str, Any] = {name: first_rows(getattr(sites, name), n_slots, size) for name in OF_PAIRS}
    return sites._replace(rows=rows._replace(**of_rows), scaled=sites.scaled.copy(), **of_pairs)
