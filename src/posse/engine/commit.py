"""Changes that are made as a whole or not at all.

Whatever can fail comes first: checks, memory, loading compiled code, and writing to the log. What is left is a list of
*steps*, each of which runs no Python code: a compiled kernel that has been loaded, an assignment to an array that is
there, an update of a dict. So no exception finds a change half done, whichever it is and wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from posse.threads import pool
from posse.undisturbed import undisturbed

Step: TypeAlias = Callable[[], object]
Steps: TypeAlias = list[Step | list[Step]]
"""What makes a change, in order; steps of an inner list may run side by side."""


def commit(steps: Steps, note: Step | None = None) -> None:
    """Make a change.

    Parameters
    ----------
    steps : list
        Calls of compiled or built-in code only.
    note : callable, optional
        Writes the change to a log. If it raises, nothing is changed.
    """
    # Asked for here, as it may fail.
    submit = pool().submit if any(type(step) is list for step in steps) else None
    with undisturbed():
        if note is not None:
            note()
        # From here on nothing can fail, and nobody interrupts.
        for step in steps:
            if not isinstance(step, list):
                step()
                continue
            futures = []
            try:
                if submit is not None:
                    for part in step:
                        futures.append(submit(part))  # noqa: PERF401 -- those that were begun must be known
            except BaseException:  # no threads any more: the program is ending
                pass
            for part in step[len(futures) :]:
                part()
            for part, future in zip(step, futures, strict=False):
                if future.exception() is not None:  # it could not be begun there
                    part()
