"""Errors that name a row of a log, and findings of its check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posse.errors import InvalidValue

if TYPE_CHECKING:
    import polars as pl

LONGEST_SHOWN = 60  # characters of a value in an error
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a log before it is evaluated.

    Parameters
    ----------
    code : str
        What it is, in words joined by hyphens; stable, for programs.
    severity : {"error", "warning", "note"}
        An error makes any evaluation wrong, a warning biases or weakens it, a note is good to know.
    message : str
        What was found, with numbers.
    rows : int
        How many rows it concerns.
    example : str or None
        The first of them: its row, counted from 0, and the decision's id where it has one.
    what_to_do : str
        How to go on.
    """

    code: str
    severity: Severity
    message: str
    rows: int
    example: str | None
    what_to_do: str
