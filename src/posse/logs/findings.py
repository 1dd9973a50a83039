"""What a check of a log finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a log that whoever evaluates from it should know.

    Parameters
    ----------
    code : str
        What it is, in words joined by hyphens; stable, for programs.
    severity : {"error", "warning", "note"}
        An error spoils any evaluation, a warning biases or weakens it, a note is good to know.
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
