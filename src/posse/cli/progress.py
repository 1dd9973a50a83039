"""Progress of commands: one display over many runs, and a line about whatever takes longer than people wait."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import typer

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
