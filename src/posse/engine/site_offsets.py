"""Clicks and counts where something is known about tasks and arms: sites less what features say of predictors.

A site is a Gaussian factor on a predictor, with precision w and moment h. Less the offset o it is one with moment
h - w o, so rows move with the sums of their pairs when offsets do, and the factor itself stays what it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.engine.site_rows import places_of

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.engine.known import Known
    from posse.engine.site_store import SiteStore
    from posse.types import Array, IntArray


def lowered(contexts: Array, precision: Array, moment: Array, delta: Array) -> Array:
    """Return the moments of sites, one row each, less this much more in the offsets of their pairs."""
    result: Array = moment - precision * np.einsum("ni,ni->n", contexts, delta)
    return result


def moving_rows(store: SiteStore, slots: IntArray, delta: Array) -> Steps:
    """Move the sites of pairs by this much in their offsets, those of rows that wait included; sums are not moved."""
    waiting, places = store.waiting, store.waiting.places(slots)
    by_row = np.repeat(delta, waiting.counts(store.n_slots)[slots], axis=0)
    moved = lowered(waiting.contexts[places], waiting.precision[places], waiting.moment[places], by_row)
    return [
        partial(store.sites.parts.rows.moment.__setitem__, *moved_rows(store, slots, delta)),
        partial(waiting.moment.__setitem__, places, moved),
    ]


def moved_rows(store: SiteStore, slots: IntArray, delta: Array) -> tuple[IntArray, Array]:
    """Return where the kept rows of pairs stand, and what the moments of their sites will be."""
    rows = store.sites.parts.rows
    kept = rows.kept[slots]
    places, by_row = places_of(rows.first[slots], kept), np.repeat(delta, kept, axis=0)
    return places, lowered(rows.contexts[places], rows.precision[places], rows.moment[places], by_row)


def setting_offsets(
    store: SiteStore, known: Known, tasks: IntArray | None = None, encoded: Array | None = None
) -> Steps:
    """Let the next sites of pairs be less what ``known`` says of them, those of some tasks or of all.

    ``encoded`` is what will be known about these tasks. Default: what is.
    """
    slot = store._capacity.belief.slot
    everyone = np.arange(len(slot)) if tasks is None else tasks  # those included that have only been reserved
    slots = slot[everyone, : store.n_arms]
    place, arms = np.nonzero(slots >= 0)
    z = None if encoded is None else encoded[place]
    store.make_room()
    offsets = store.sites.parts.rows.offset
    return [partial(offsets.__setitem__, slots[place, arms], known.offsets(everyone[place], arms, z))]
