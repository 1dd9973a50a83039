"""Logs of rankings: how likely a target would have come to a place, by the places above it.

A place is a decision among the arms that the places above have left. So the probability of the first places of a
ranking is a product, and the weight of a place is that of the target over that of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.types import Array, IntArray

if TYPE_CHECKING:
    import polars as pl

    from posse.offline.data import LoggedBandit


ABSENT = -2  # a place above that the log does not have


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Places of rankings, those without a reward among them: what stands below depends on them, too.

    Parameters
    ----------
    whole : LoggedBandit
        All rows with a propensity; rewards of those without one are 0 and nobody looks at them.
    rows : int ndarray
        Which of them have a reward, and are the rows of the log that is evaluated.
    above : int ndarray
        Of all rows, the one with the place above; -1 at first places and where there is no ranking.
    """

    whole: LoggedBandit
    rows: IntArray
    above: IntArray

    def weights(self, ratios: Array) -> tuple[Array, Array]:
        """Return the weights of the rows with a reward, and those of the places above them (1 at the first).

        Parameters
        ----------
        ratios : ndarray
            Of all rows: how much more likely the target takes what the log shows, given the places above.
        """
        reach, weights, above = np.ones(ratios.size), ratios.copy(), self.above.copy()
        while (below := above >= 0).any():  # once per place
            reach[below] *= ratios[above[below]]
            weights[below] *= ratios[above[below]]
            above[below] = self.above[above[below]]
        return weights[self.rows], reach[self.rows]


def places_above(frame: pl.DataFrame) -> IntArray | None:
    """Return the row of the place above each row; -1 where there is none, ABSENT where the log lacks it.

    None if no ranking has a second place.
    """
    if not (frame["ranking_place"].fill_null(1) > 1).any():
        return None
    ids, places = frame["ranking_id"].to_list(), frame["ranking_place"].to_list()
    row_of: dict[tuple[Any, int], int] = {}
    for row, (ranking, place) in enumerate(zip(ids, places, strict=True)):
        if place is not None:
            row_of.setdefault((ranking, place), row)
    above = np.full(frame.height, -1, dtype=np.int64)
    for (ranking, place), row in row_of.items():
        if place > 1:
            above[row] = ABSENT if ranking is None else row_of.get((ranking, place - 1), ABSENT)
    # A second row of the same place belongs to nothing, and below a place that is missing all are.
    rows = [row for row, place in enumerate(places) if place is not None and row_of[ids[row], place] != row]
    above[rows] = ABSENT
    order = np.argsort([place or 0 for place in places], kind="stable")
    for row in order.tolist():
        if above[row] >= 0 and above[above[row]] == ABSENT:
            above[row] = ABSENT
    return above
