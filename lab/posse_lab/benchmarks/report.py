"""What a benchmark found: tables, numbers beside what was promised, and a file that holds both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from posse.cli.console import table_console, titled_table
from posse.errors import ResultFileError
from posse.types import Settings
from posse_lab.benchmarks.machine import machine, machine_words

if TYPE_CHECKING:
    from rich.console import Console

Begin = Callable[[str], None]
"""Called with the name of what is measured next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A measured number beside the promise it is held against.

    Parameters
    ----------
    what : str
        What was measured, in words for a table.
    measured : float or None
        None if it could not be measured here.
    unit : str
        Of the number and the bar.
    at_most, at_least : float, optional
        The promise; neither if nothing was promised.
    interval : tuple of two floats, optional
        95 %.
    note : str
        Why it could not be measured.

    Examples
    --------
    >>> bar = Bar(what="decide", measured=2.51, unit="µs", at_most=3)
    >>> bar.measured_words, bar.bar_words, bar.met
    ('2.51 µs', 'at most 3 µs', True)
    """

    what: str
    measured: float | None
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the promise is kept; None if it was not measured, or nothing was promised."""
        if self.measured is None or (self.at_least is None and self.at_most is None):
            return None
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)

    @property
    def measured_words(self) -> str:
        """The measured number with its unit."""
        return "not measured" if self.measured is None else f"{quantity(self.measured)} {self.unit}".rstrip()

    @property
    def interval_words(self) -> str:
        """The interval, if there is one."""
        return "" if self.interval is None else f"{quantity(self.interval[0])} to {quantity(self.interval[1])}"

    @property
    def bar_words(self) -> str:
        """The promise with its unit."""
        ends = (("at least", self.at_least), ("at most", self.at_most))
        return ", ".join(f"{words} {quantity(end)} {self.unit}".rstrip() for words, end in ends if end is not None)

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self) | {"met": self.met}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column is to the left, the others, numbers mostly, to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one benchmark found.

    Parameters
    ----------
    name : str
        Of the benchmark and its file.
    tables : list of Table
    bars : list of Bar
    data : dict
        Everything that was measured, as plain values.
    notes : list of str
        What to know when reading the tables.
    """

    name: str
    tables: list[Table] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    data: Settings = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether no promise was broken."""
        return all(bar.met is not False for bar in self.bars)

    def show(self, out: Path | None = None) -> None:
        """Print everything, and write the file if there is a folder for it."""
        console = table_console()
        console.print(machine_words(), highlight=False, soft_wrap=True)
        tables = [*self.tables, *([bars_table(self.bars)] if self.bars else [])]
        for table in tables:
            _print(console, table)
        missing = [f"not measured, {bar.note}: {bar.what}" for bar in self.bars if bar.measured is None]
        for line in [*self.notes, *missing]:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if out is not None:
            console.print(f"wrote {self.write(out)}", highlight=False, markup=False, soft_wrap=True)

    def write(self, folder: Path) -> Path:
        """Write ``<name>.json`` into the folder, with the machine in it, and return its path."""
        path = folder / f"{self.name}.json"
        head = {"benchmark": self.name, "machine": machine()}
        data = head | self.data | {"bars": [bar.to_dict() for bar in self.bars]}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise ResultFileError(f"cannot write {path}: {error.strerror or error}; choose another --out") from None
        return path


def bars_table(bars: Sequence[Bar]) -> Table:
    """Return what was measured beside what was promised."""
    rows = [(bar.what, bar.measured_words, bar.interval_words, bar.bar_words, verdict(bar.met)) for bar in bars]
    return Table("What was promised", ["what", "measured", "95 %", "bar", "met"], rows)


def verdict(met: bool | None) -> str:
    """Return a promise kept, broken or never made, in a word."""
    return "–" if met is None else "yes" if met else "no"


def quantity(value: float) -> str:
    """Return a number with three digits that count.

    Examples
    --------
    >>> [quantity(value) for value in (1_234_567.0, 123.4, 12.34, 3.0, 0.01234, 0.0)]
    ['1,230,000', '123', '12.3', '3', '0.0123', '0']
    """
    return f"{float(f'{value:.3g}'):,.10g}"


def _print(console: Console, table: Table) -> None:
    # A column without a word in it says nothing.
    used = [i for i in range(len(table.columns)) if i == 0 or any(row[i] for row in table.rows)]
    printed = titled_table(table.title, [table.columns[0]], [table.columns[i] for i in used[1:]])
    for row in table.rows:
        printed.add_row(*(row[i] for i in used))
    console.print()
    console.print(printed, markup=False)
