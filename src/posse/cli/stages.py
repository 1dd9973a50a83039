"""Progress of a command whose parts are timed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import typer


@contextlib.contextmanager
def stages(total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each stage before it starts.

    A bar on a terminal, a line per stage elsewhere. It is drawn when a stage begins and at no other time: a display
    that moves by itself would take the processor from what is being timed.

    Parameters
    ----------
    total : int, optional
        How many stages there will be, if that is known.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), TimeElapsedColumn()]
    if total is not None:
        columns[1:1] = [BarColumn(bar_width=20), MofNCompleteColumn()]
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)
        begun = [0]

        def begin(name: str) -> None:
            bar.update(task, description=name, completed=begun[0])
            bar.refresh()
            begun[0] += 1

        yield begin


def _lines(total: int | None) -> Callable[[str], None]:
    begun = [0]

    def begin(name: str) -> None:
        begun[0] += 1
        typer.echo(name if total is None else f"{name} ({begun[0]} of {total})", err=True)

    return begin
