"""How values show themselves to people: a screenful of text, the same as HTML in a notebook, never all the numbers.

Whoever wants all of them has the attributes.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

MOST_ROWS, MOST_COLUMNS = 8, 8  # of a table; four tables and their titles stay below 40 lines
LONGEST_CELL, LONGEST_LINE = 32, 160  # characters
SMALL = 12  # entries of an array that is shown as it is


class Table(NamedTuple):
    """A table of which the first rows and columns are shown.

    Parameters
    ----------
    title : str
    columns : sequence of str
    rows : sequence of sequences
        Text and numbers. Those that are not among the first may be left out.
    n_rows : int, optional
        How many there are in all. Default: as many as came.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    n_rows: int | None = None


class Sheet(NamedTuple):
    """A title, tables and sentences.

    Parameters
    ----------
    title : str
    tables : list of Table
    notes : list of str
    """

    title: str
    tables: list[Table]
    notes: list[str] = []  # noqa: RUF012 -- never changed

    def text(self) -> str:
        """Return it as lines."""
        lines = [_cut(self.title, LONGEST_LINE)]
        for table in self.tables:
            lines += [f"{table.title}:"] if table.title else []
            lines += _lines(table)
        return "\n".join([*lines, *(f"- {_cut(note, LONGEST_LINE)}" for note in _few(self.notes))])

    def html(self) -> str:
        """Return it as HTML; every name is escaped."""
        parts = [f"<p><b>{html.escape(_cut(self.title, LONGEST_LINE))}</b></p>"]
        for table in self.tables:
            columns, cells, more = _part(table)
            head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
            body = "".join(
                f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells
            )  # fmt: skip
            caption = html.escape(table.title + (f" ({more})" if more else ""))
            parts.append(
                f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in _few(self.notes))
        return "".join(parts) + (f"<ul>{notes}</ul>" if notes else "")


def cell(value: Any) -> str:
    """Return what a cell of a table shows: three digits of a number, and not more of a name than there is room for."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.3g}" if abs(float(value)) < 1000 or not np.isfinite(value) else f"{value:,.0f}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    return _cut(str(value), LONGEST_CELL)


def brief_repr(value: Any) -> str:
    """Return the repr of a dataclass or named tuple with large arrays by their shape.

    Examples
    --------
    >>> class Two(NamedTuple):
    ...     small: Any
    ...     large: Any
    >>> brief_repr(Two(np.arange(2.0), np.zeros((8, 300, 12, 12))))
    'Two(small=array([0., 1.]), large=<array (8, 300, 12, 12)>)'
    """
    names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
    return f"{type(value).__name__}({', '.join(f'{name}={_brief(getattr(value, name))}' for name in names)})"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > SMALL:
        return f"<array {value.shape}>"
    if isinstance(value, list | tuple) and len(value) > SMALL:
        return f"<{type(value).__name__} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= 4 * LONGEST_LINE else f"<{type(value).__name__}>"


def _few(notes: Sequence[str]) -> list[str]:
    left = len(notes) - MOST_ROWS
    return [*notes[:MOST_ROWS], *([f"and {left} more"] if left > 0 else [])]


def _part(table: Table) -> tuple[list[str], list[list[str]], str]:
    """Return the columns and cells that are shown, and what is left out in words."""
    n_rows, shown = len(table.rows) if table.n_rows is None else table.n_rows, min(len(table.rows), MOST_ROWS)
    more = [f"{shown} of {n_rows} rows"] if n_rows > shown else []
    if len(table.columns) > MOST_COLUMNS:
        more.append(f"{MOST_COLUMNS} of {len(table.columns)} columns")
    cells = [[cell(value) for value in row[:MOST_COLUMNS]] for row in table.rows[:MOST_ROWS]]
    return [cell(column) for column in table.columns[:MOST_COLUMNS]], cells, ", ".join(more)


def _lines(table: Table) -> list[str]:
    columns, cells, more = _part(table)
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    numbers = [
        all(not isinstance(row[place], str) for row in table.rows[:MOST_ROWS]) and bool(cells)
        for place in range(len(columns))
    ]
    lines = [
        "  " + "  ".join(
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in [columns, *cells]
    ]  # fmt: skip
    return lines + ([f"  ({more})"] if more else [])


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
