"""Sums that have yet to fade.

How many rewards a pair still counts for is one number, and all of these are aged at every tick of the clock. The sums
beside it are a hundred: where there are very many pairs, nobody waits until all of them are multiplied. What each is to
be multiplied by is remembered, and whoever is next to read or to change it does that first. What fades twice fades by
the product, so it does not matter when.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.engine.drift import FADED
from posse.kernels.fading import fade_rows

if TYPE_CHECKING:
    from posse.engine.commit import Step
    from posse.kernels.sums import Sums
    from posse.types import Array, IntArray


class Overdue:
    """What sums of pairs, counts apart, are still to be multiplied by.

    Parameters
    ----------
    share : ndarray of shape (n_slots,)
        By slot, 1 for those that are up to date; later slots are.
    squares : ndarray of shape (n_features,)
        The largest squares of features at the last tick, beside which what has faded away is told.
    """

    def __init__(self, share: Array, squares: Array) -> None:
        self.share, self.squares = share, squares

    def copy(self) -> Overdue:
        """Return the same, which does not change with this."""
        return Overdue(self.share.copy(), self.squares)

    def of(self, slots: IntArray) -> Array:
        """Return what the sums of some slots are still to be multiplied by."""
        there = slots < self.share.size
        if there.all():
            return self.share[slots]
        result = np.ones(slots.size)
        result[there] = self.share[slots[there]]
        return result

    def fading(self, sums: Sums, slots: IntArray) -> Step:
        """Let the sums of some slots fade, which are up to date after that; counts are."""
        step = partial(fade_rows, sums, slots, self.share, self.squares, FADED)
        fade_rows(sums, slots[:0], self.share, self.squares, FADED)  # what cannot be loaded is found out here
        return step

    def let_fade(self, copies: Sums, share: Array) -> None:
        """Let the first so many rows of copied sums fade by their shares."""
        fade_rows(copies, np.arange(share.size), share, self.squares, FADED)
