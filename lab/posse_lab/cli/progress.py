"""Progress over many runs of a simulation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from posse.cli.progress import display


@contextlib.contextmanager
def many_runs(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Yield what to call with the name of a run before it starts, and with the number of seeds newly done."""
    name, done = [""], [0]
    with display(total, "seeds") as update:

        def begin(run: str) -> None:
            name[0] = run
            update(run, done[0], total)

        def advance(seeds: int) -> None:
            done[0] += seeds
            update(name[0], done[0], total)

        yield begin, advance
