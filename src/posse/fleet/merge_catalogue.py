"""Adding what one catalogue has learned to another.

The fleets inside are merged as any two are. Beside them, arms of the same name are the same, and what rewards said
about residuals adds up, pair by pair.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.errors import InvalidValue
from posse.fleet.catalogue import Catalogue
from posse.fleet.merge import merge_fleet

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.fleet.labels import Label
    from posse.types import IntArray


def merge_catalogue(mine: Catalogue, other: Catalogue) -> None:
    """Add what ``other`` has learned to ``mine``; see :meth:`posse.Catalogue.merge`."""
    if not isinstance(other, Catalogue):
        raise InvalidValue(f"expected a Catalogue to merge, got {type(other).__name__}; Posse.merge takes fleets")
    if other is mine:
        raise InvalidValue("a catalogue cannot be merged with itself: every reward would count twice")
    first, second = sorted((mine._fleet, other._fleet), key=id)
    with first._lock, second._lock:
        for what in ("features", "arm_features", "interactions"):
            values = [getattr(catalogue, what) for catalogue in (mine, other)]
            if values[0] != values[1]:
                raise InvalidValue(
                    f"expected a catalogue with the {what} of this one, {values[0]!r}, got {values[1]!r}; learn the "
                    "log of the other with learn_many"
                )
        labels = mine._arms.checked_all(other._arms)
        merge_fleet(mine._fleet, other._fleet, partial(_joining, mine, other, labels))
        # The population was estimated just now, and how far arms are from their features is judged beside it.
        mine._estimate_residuals()


def _joining(mine: Catalogue, other: Catalogue, labels: list[Label], task_of: IntArray) -> tuple[IntArray, Steps]:
    """Return the numbers here of the other's arms, and the steps with which they and their residuals join."""
    numbers, named = mine._number_arms(labels)
    arm_of = np.full(max(other._arms.numbers.values(), default=-1) + 2, -1, dtype=np.int64)
    arm_of[[other._arms.numbers[label] for label in labels]] = numbers
    # Decisions of the other count as later than those of this catalogue.
    decided = mine._fleet._decided
    used = {int(arm_of[arm]): decided + when for arm, when in other._used.items()}
    tasks, arms, sums = other._residuals.pairs
    return arm_of, [
        *mine._arms.adding(named),
        partial(mine._used.update, used),
        *mine._residuals.joining(task_of[tasks], arm_of[arms], sums),
    ]
