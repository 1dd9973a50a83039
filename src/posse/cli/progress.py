"""Progress of commands: one display over many runs, and a line about whatever takes longer than people wait."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Timer
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from posse.fleet.streaming import Progress as RowProgress

PATIENCE = 2.0  # seconds for which nobody wonders whether anything happens


@contextlib.contextmanager
def long_stages() -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each stage before it starts; one that takes long is named on stderr."""
    timers: list[Timer] = []

    def end() -> None:
        if timers:
            timers.pop().cancel()

    def begin(name: str) -> None:
        end()
        timers.append(Timer(PATIENCE, typer.echo, (f"{name} ...",), {"err": True}))
        timers[-1].daemon = True
        timers[-1].start()

    try:
        yield begin
    finally:
        end()


@contextlib.contextmanager
def preparing() -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of what is being prepared; shown on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _name: None
        return
    with console.status("preparing") as status:
        yield lambda name: status.update(f"preparing {name}")


@contextlib.contextmanager
def many_runs(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Yield what to call with the name of a run before it starts, and with the number of seeds newly done.

    One bar over all seeds of all runs on a terminal, a line per run elsewhere.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from _lines(total)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: list[Any] = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("seeds"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, description=name), lambda seeds: bar.advance(task, seeds)


def _lines(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    done, current = [0, 0], [""]

    def say() -> None:
        if current[0]:
            typer.echo(f"{current[0]}: {done[1]} seeds done ({done[0]} of {total})", err=True)

    def begin(name: str) -> None:
        say()
        current[0], done[1] = name, 0

    def advance(seeds: int) -> None:
        done[0] += seeds
        done[1] += seeds

    try:
        yield begin, advance
    finally:
        say()


class Rows:
    """Shows how many rows were read: one bar on a terminal, a line now and then elsewhere."""

    SECONDS = 10.0  # between two lines

    def __init__(self) -> None:
        self.rows = 0
        self._said = 0.0
        self._bar: Any = None

    def __call__(self, now: RowProgress) -> None:
        """Take notice of a batch."""
        self.rows = now.rows
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=now.rows, total=now.total)
        elif now.seconds - self._said >= self.SECONDS:
            self._said = now.seconds
            left = "" if now.left is None else f", about {now.left:,.0f} s left"
            of = "" if now.total is None else f" of {now.total:,}"
            typer.echo(f"{now.rows:,}{of} rows in {now.seconds:,.0f} s{left}", err=True)


@contextlib.contextmanager
def rows_done() -> Iterator[Rows]:
    """Yield what to call with how far a stream of rows has come."""
    from rich.console import Console

    console, rows = Console(stderr=True), Rows()
    if not console.is_terminal:
        yield rows
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: list[Any] = [
        TextColumn("{task.completed:,.0f} rows"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task("rows", total=None)
        rows._bar = bar
        yield rows
