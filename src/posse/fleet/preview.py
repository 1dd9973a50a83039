"""What a fleet would decide, without deciding: nothing is recorded, nobody waits for a reward, no number is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from posse.fleet.core import require_beliefs
from posse.fleet.decision import Decisions

if TYPE_CHECKING:
    from posse.fleet.core import Core
    from posse.fleet.labels import Label
    from posse.types import Array, IntArray


def preview(
    fleet: Core,
    labels: list[Label],
    codes: IntArray,
    encoded: Array,
    eligible: Iterable[Iterable[Label] | None] | None,
    explore: bool,
    library: str = "polars",
) -> Decisions:
    """Return the decisions that a fleet would make next, with empty ids; it stays as it is.

    Parameters
    ----------
    fleet : Posse
    labels : list of str or int
        Distinct tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position in ``labels``.
    encoded : ndarray of shape (n_rows, n_columns)
    eligible, explore
        As in :meth:`posse.fleet.Posse.decide_many`.
    library : str
        Of the table that the decisions are returned in.
    """
    with fleet._lock:
        for label in labels if fleet._elsewhere else ():
            fleet._require_loaded(label)
        mask = fleet._mask(eligible, len(codes))
        fleet._look()
        # The numbers that the next decisions would draw, from a stream of its own.
        uniforms = fleet._stream(fleet._decided).random(len(codes))
        chosen, *parts = fleet._decide_rows(
            fleet._tasks.known(labels)[codes], np.ascontiguousarray(encoded), mask, explore, uniforms
        )
        require_beliefs(chosen, codes, labels)
        active, names = fleet._active, fleet._active_names
    position = np.full(mask.shape[1], -1)
    position[active] = np.arange(active.size)
    places = position[chosen]
    probabilities, mean, sd = (np.ascontiguousarray(part[:, active]) for part in parts)
    return Decisions(
        prefix="",
        first=0,
        tasks=[labels[code] for code in codes.tolist()],
        arms=names,
        chosen=places,
        propensity=probabilities[np.arange(len(codes)), places],
        probabilities=probabilities,
        mean=mean,
        sd=sd,
        library=library,
    )
