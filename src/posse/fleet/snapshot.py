"""A fleet as a file that is written while the fleet goes on: what a service keeps of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from posse.container import Streamed
from posse.engine.site_store import SiteStore
from posse.engine.sums_snapshot import SumsSnapshot
from posse.fleet.file import freeze_whole, write_fleet
from posse.fleet.file_format import KIND, require_finite
from posse.fleet.file_state import label_arrays, state_but_pairs, version_without_beliefs

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.types import Array


LONGEST_WAIT = 60.0  # seconds for an estimate of clicks or counts that is under way


def freeze_fleet(
    fleet: Fleet,
    *,
    look: bool = True,
    kind: str = KIND,
    more: dict[str, Any] | None = None,
    replaced: dict[str, Array] | None = None,
) -> Callable[[str | os.PathLike[str]], None]:
    """Return what writes the state that a fleet is in now to a file, without beliefs about pairs.

    Nothing that grows with the sums is copied, and the lock is held for some pairs at a time: what is learned before
    they are written is kept apart. Of clicks and counts all is copied, beliefs too: the next sites depend on them.

    Parameters
    ----------
    fleet : Fleet
    look : bool, default True
        False writes the population in force even if sums were added that it does not know of.
    kind : str
        Of the file. Default: a fleet.
    more : dict, optional
        Further entries of its header.
    replaced : dict, optional
        Arrays that take the place of the fleet's own.
    """
    if isinstance(fleet._engine.store, SiteStore):
        estimating = fleet._engine.thread
        if estimating is not None:
            estimating.join(LONGEST_WAIT)  # here, and not while decisions wait for the lock
        return freeze_whole(fleet)
    with fleet._lock:
        fleet._require_whole()
        if look:
            fleet._engine.ensure_fresh()
        header, arrays = state_but_pairs(fleet)
        header, arrays = header | (more or {}), arrays | (replaced or {})
        labels, type_of_labels = list(fleet._tasks), fleet._tasks.kind
        sums = SumsSnapshot(fleet._engine.store, fleet._lock)

    def write(path: str | os.PathLike[str]) -> None:
        pairs = {
            f"pair_{name}": Streamed("float64", shape, partial(_finite_blocks, sums, field, f"pair_{name}"))
            for name, (field, shape) in sums.fields.items()
        }
        names = label_arrays(labels, type_of_labels)
        write_fleet(path, version_without_beliefs(fleet), header, {**arrays, **names, **pairs}, kind=kind)

    return write


def _finite_blocks(sums: SumsSnapshot, field: int, name: str) -> Iterator[Array]:
    for block in sums.blocks(field):
        require_finite(name, block)
        yield block
