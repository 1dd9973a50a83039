"""Cells: a partition of rows by thresholds, for data that name no groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.checks import whole_number
from posse.errors import InvalidValue
from posse.types import Array, IntArray


@dataclass(frozen=True, slots=True)
class Cells:
    """A k-d tree: the fullest cell is split at the median of its widest column until there are enough.

    Widest means the largest standard deviation within the cell. Every split sends values up to a threshold to one side
    and larger ones to the other, so any row has a cell, and equal rows have the same one.

    Parameters
    ----------
    splits : tuple of (cell, column, threshold)
        Split number s moves the rows of ``cell`` whose ``column`` is above ``threshold`` to the new cell s + 1.

    Examples
    --------
    >>> cells = Cells.of(np.array([[0.0, 5.0], [1.0, 5.0], [8.0, 5.0], [9.0, 6.0]]), 2)
    >>> cells.splits
    ((0, 0, 1.0),)
    >>> cells.assign(np.array([[-7.0, 0.0], [1.5, 0.0]]))
    array([0, 1])
    """

    splits: tuple[tuple[int, int, float], ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.splits) + 1

    @classmethod
    def of(cls, columns: Array, n_cells: int) -> Cells:
        """Find ``n_cells`` cells that hold about equally many of these rows."""
        n_cells = whole_number(n_cells, "n_cells", at_least=1)
        labels = np.zeros(len(columns), dtype=np.int64)
        splits: list[tuple[int, int, float]] = []
        for new in range(1, n_cells):
            # Cells without two different rows stay whole.
            for cell in np.argsort(-np.bincount(labels, minlength=new), kind="stable"):
                rows = columns[labels == cell]
                spread = rows.std(axis=0) * (rows.min(axis=0) < rows.max(axis=0)) if len(rows) else np.zeros(1)
                if spread.any():
                    break
            else:
                raise InvalidValue(f"expected n_cells to be at most {new}, the number of different rows, got {n_cells}")
            column = int(spread.argmax())
            splits.append((int(cell), column, _middle(rows[:, column])))
            _split(labels, columns, new, *splits[-1])
        return cls(tuple(splits))

    def assign(self, columns: Array) -> IntArray:
        """Return the cell of every row, shape (n_rows,)."""
        labels = np.zeros(len(columns), dtype=np.int64)
        for new, split in enumerate(self.splits, start=1):
            _split(labels, columns, new, *split)
        return labels


def _split(labels: IntArray, columns: Array, new: int, cell: int, column: int, threshold: float) -> None:
    labels[(labels == cell) & (columns[:, column] > threshold)] = new


def _middle(values: Array) -> float:
    """Return the value that has most nearly half of ``values`` at or below it, but not all of them."""
    distinct, counts = np.unique(values, return_counts=True)
    below = np.cumsum(counts)[:-1]
    return float(distinct[np.abs(2 * below - values.size).argmin()])
