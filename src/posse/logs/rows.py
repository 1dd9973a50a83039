"""The error that names a row, so that readers of files can name the line instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue

if TYPE_CHECKING:
    import polars as pl

LONGEST_SHOWN = 60  # characters of a value in an error


class BadRow(InvalidValue):
    """A value of a log is not what its column holds.

    Parameters
    ----------
    problem : str
        What was expected, what came and what to do, without the place.
    row : int
        Where it is, counted from 0.
    """

    def __init__(self, problem: str, row: int) -> None:
        super().__init__(f"row {row} of the log: {problem}")
        self.problem = problem
        self.row = row


def shown(value: Any) -> str:
    """Return a value as an error shows it: never long.

    Examples
    --------
    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def first_row(mask: pl.Series) -> int:
    """Return the first row at which a mask is true; it must be somewhere."""
    row = mask.fill_null(False).arg_max()
    assert row is not None
    return row
