"""Progress of commands, on standard error: a bar on a terminal, a line now and then elsewhere, nothing with --quiet."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from posse.fleet.streaming import Progress as RowProgress

PATIENCE = 2.0  # seconds for which nobody wonders whether anything happens
AGAIN = 2.5  # seconds between two lines after that
LATER, SELDOM = 300.0, 10.0  # seconds after which lines come seldom, and between two of them then

_quiet = False


def be_quiet(quiet: bool) -> None:
    """Show no progress in this process, that of the compiler included; or show it again."""
    global _quiet
    _quiet = quiet
    if quiet:
        from posse.core.compiler import announcement

        announcement.quiet = True


def is_quiet() -> bool:
    """Return whether nothing but results is to be shown."""
    return _quiet


class Lines:
    """Says what a command is doing in lines: the first after :data:`PATIENCE`, the next every :data:`AGAIN` seconds.

    Parameters
    ----------
    total : int, optional
        How many units or stages there will be.
    unit : str
        What is counted; without one, stages are.
    """

    def __init__(self, total: float | None, unit: str) -> None:
        self.total, self.unit = total, unit
        self.name, self.done = "", 0.0
        self.started = time.monotonic()
        self._ended = Event()
        Thread(target=self._speak, daemon=True).start()

    def update(self, name: str, done: float, total: float | None) -> None:
        """Take notice of how far it is."""
        self.name, self.done, self.total = name, done, total

    def stop(self) -> None:
        """Fall silent."""
        self._ended.set()

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,.0f}"
        counted = f"{self.done:,.0f}{of} {self.unit}".strip() if self.unit or self.total is not None else ""
        seconds = time.monotonic() - self.started
        parts = [part for part in (self.name, counted, f"{seconds:,.0f} s") if part]
        if self.total is not None and 0 < self.done < self.total and self.unit:
            parts.append(f"about {seconds * (self.total - self.done) / self.done:,.0f} s left")
        return ", ".join(parts)

    def _speak(self) -> None:
        pause = PATIENCE
        while not self._ended.wait(pause):
            typer.echo(f"{self} ...", err=True)
            pause = AGAIN if time.monotonic() - self.started < LATER else SELDOM


class Bar:
    """Draws what :class:`Lines` says in lines.

    Parameters
    ----------
    console : Console
    total : int, optional
    unit : str
    moves : bool
        Whether it is drawn between two stages, too: a display that moves by itself takes the processor from what is
        being timed.
    """

    def __init__(self, console: Any, total: float | None, unit: str, *, moves: bool) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if unit or total is not None:
            columns += [BarColumn(), TextColumn("{task.completed:,.0f}/{task.fields[shown]}"), TextColumn(unit)]
        columns += [TimeElapsedColumn()]
        if unit:
            columns += [TextColumn("left"), TimeRemainingColumn()]
        self._bar = Progress(*columns, console=console, transient=True, auto_refresh=moves)
        self._task = self._bar.add_task("", total=total, shown="?")
        self._bar.start()

    def update(self, name: str, done: float, total: float | None) -> None:
        """Draw how far it is."""
        shown = "?" if total is None else f"{total:,.0f}"
        self._bar.update(self._task, description=name, completed=done, total=total, shown=shown, refresh=True)

    def stop(self) -> None:
        """Erase the bar."""
        self._bar.stop()


@contextlib.contextmanager
def display(
    total: float | None, unit: str, *, moves: bool = True
) -> Iterator[Callable[[str, float, float | None], None]]:
    """Yield what to call with the name of the stage, how much is done, and how much there is."""
    from rich.console import Console

    if _quiet:
        yield lambda _name, _done, _total: None
        return
    console = Console(stderr=True)
    shown = Bar(console, total, unit, moves=moves) if console.is_terminal else Lines(total, unit)
    try:
        yield shown.update
    finally:
        shown.stop()


@contextlib.contextmanager
def stages(total: int | None = None, *, moves: bool = True) -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each stage before it starts.

    Parameters
    ----------
    total : int, optional
        How many stages there will be, if that is known.
    moves : bool
        False where stages are timed: what is shown changes only when one begins.
    """
    begun = [0]
    with display(total, "", moves=moves) as update:

        def begin(name: str) -> None:
            update(name, begun[0], total)
            begun[0] += 1

        yield begin


class Rows:
    """Notes how many rows of a stream were read."""

    def __init__(self, update: Callable[[str, float, float | None], None]) -> None:
        self.rows, self._update = 0, update

    def __call__(self, now: RowProgress) -> None:
        """Take notice of a batch."""
        self.rows = now.rows
        self._update("learning", now.rows, now.total)


@contextlib.contextmanager
def rows_done() -> Iterator[Rows]:
    """Yield what to call with how far a stream of rows has come."""
    with display(None, "rows") as update:
        yield Rows(update)
