"""Rewards of very many pairs that count less with time, and sums that follow when they are looked at."""

from __future__ import annotations

from posse.kernels.compiler import kernel
from posse.kernels.sums import Sums
from posse.types import Array, IntArray


@kernel
def age_counts(
    counts: Array, share: Array, seen: IntArray, n_seen: IntArray, stays: float, worth: float, least: float,
    after: Array, rewards: Array,
) -> None:  # fmt: skip
    """Write what pairs still count for, slot by slot, and by arm; ``share`` is multiplied by what is left of each.

    See :func:`posse.engine.drift.aged`. Slots that are in no list of those seen are left alone.
    """
    lost = (1.0 - stays) * worth
    for arm in range(n_seen.shape[0]):
        total = 0.0
        for place in range(n_seen[arm]):
            slot = seen[arm, place]
            count = counts[slot]
            if count > least:
                left = stays / (1.0 + lost * count)
                count *= left
                share[slot] *= left
            after[slot] = count
            total += count
        rewards[arm] = total


@kernel
def fade_rows(sums: Sums, rows: IntArray, share: Array, squares: Array, faded: float) -> None:
    """Multiply the sums of rows, counts apart, by their shares, which are 1 after that.

    A feature that is left with less than ``faded`` of its largest square counts as never met. Gram matrices are upper
    triangles.
    """
    d = sums.moment.shape[1]
    for position in range(rows.shape[0]):
        row = rows[position]
        left = share[row]
        if left == 1.0:
            continue
        for i in range(sums.gram.shape[1]):
            sums.gram[row, i] *= left
        for i in range(d):
            sums.moment[row, i] *= left
        sums.sum_of_squares[row] *= left
        share[row] = 1.0
        for i in range(d):
            own = sums.gram[row, i * d - i * (i - 1) // 2]
            if own != 0.0 and own < faded * squares[i]:
                for j in range(d):
                    first, last = min(i, j), max(i, j)
                    sums.gram[row, first * d - first * (first - 1) // 2 + last - first] = 0.0
                sums.moment[row, i] = 0.0
