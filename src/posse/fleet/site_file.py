"""What a file of a fleet of clicks or counts has beside sums and beliefs: the kept rows and their sites.

Pairs stand in the order of the sums; the rows of each follow one another in the order of their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.site_rows import KEPT, OF_PAIRS, OF_ROWS, places_of
from posse.engine.site_store import SiteStore
from posse.errors import InvalidValue
from posse.families import FAMILIES
from posse.kernels.linalg import moderate

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.types import Array, IntArray

MOST_ROWS = 2**53


def site_state(store: SiteStore, slots: IntArray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes into the header, and arrays: sums over rewards of these slots, and their kept rows."""
    sites = store.sites.parts
    rows = sites.rows
    header = {"rewards": store.family.name, "kept_rows": KEPT, "passes": int(rows.passes[0])}
    arrays = {f"pair_{name}": getattr(sites, name)[slots] for name in OF_PAIRS}
    arrays |= {"pair_seen": rows.seen[slots], "pair_kept": rows.kept[slots]}
    places = places_of(rows.first[slots], rows.kept[slots])
    arrays |= {f"row_{name}": getattr(rows, name)[places] for name in OF_ROWS}
    if store.fades:
        arrays["row_weight"] = rows.weight[places]
    waiting, places = store.waiting, store.waiting.places(slots)
    arrays["pair_waiting"] = waiting.counts(store.n_slots)[slots]
    return header, arrays | {f"waiting_{name}": getattr(waiting, name)[places] for name in OF_ROWS}


def rewards_in(header: dict[str, Any]) -> Rewards:
    """Return the family of rewards that a header names."""
    rewards = header["rewards"]
    if rewards not in FAMILIES or rewards == "number":
        raise InvalidValue(f"rewards is {rewards!r}")
    result: Rewards = rewards
    return result


def restore_sites(store: SiteStore, reader: Any, n_pairs: int, some: IntArray | None) -> None:
    """Put what a file says into the arrays of a new store, whose slots are in the order of the file's pairs.

    ``some`` are the pairs that are loaded, if not all: such a fleet does not learn, and needs no rows.
    """
    if reader.whole("kept_rows", 1) != KEPT:
        raise reader.damaged(f"kept_rows is {reader.header['kept_rows']}, but this posse keeps {KEPT}")
    d = store.n_features
    store.make_room()
    sites = store.sites.parts
    rows = sites.rows
    n = n_pairs if some is None else some.size
    for name, shape in (("contexts", (n_pairs, d)), ("squares", (n_pairs, d)), ("total", (n_pairs,))):
        getattr(sites, name)[:n] = reader.array(f"pair_{name}", shape, rows=some)
    if some is not None:
        return
    seen, kept, waiting = (reader.array(f"pair_{name}", (n_pairs,), np.int64) for name in ("seen", "kept", "waiting"))
    for name, counts in (("pair_seen", seen), ("pair_waiting", waiting)):
        reader.within(name, counts, 0, MOST_ROWS)
    counted = store.fades or bool((seen + waiting == store.belief.sums.counts[:n]).all())
    if (kept != np.minimum(seen, KEPT)).any() or not counted:
        raise reader.damaged("a pair has more or fewer rows than rewards")
    rows.seen[:n], rows.kept[:n] = seen, kept
    rows.passes[0] = reader.whole("passes")
    places = places_of(rows.first[:n], kept)
    for name, values in _rows(store, reader, "row", int(kept.sum())).items():
        getattr(rows, name)[places] = values
    rows.weight[places] = 1.0
    if store.fades:
        weight = reader.array("row_weight", (places.size,))
        if not ((weight > 0) & (weight <= 1)).all():
            raise reader.damaged("row_weight has numbers that are not between 0 and 1")
        rows.weight[places] = weight
    found = _rows(store, reader, "waiting", int(waiting.sum()))
    store.waiting.reserve(int(waiting.sum()))
    for row, slot in enumerate(np.repeat(np.arange(n), waiting).tolist()):
        store.waiting.add(slot, *(found[name][row] for name in OF_ROWS))


def _rows(store: SiteStore, reader: Any, prefix: str, count: int) -> dict[str, Array]:
    """Return what a file has about so many rows, or raise."""
    found = {}
    for name in OF_ROWS:
        shape = (count, store.n_features) if name == "contexts" else (count,)
        values: Array = reader.array(f"{prefix}_{name}", shape)
        if not moderate(values.reshape(-1)) or (name == "precision" and not (values > 0).all()):
            raise reader.damaged(f"{prefix}_{name} has numbers that no fleet has")
        if name == "rewards":
            store.family.check_many(values)
        found[name] = values
    return found
