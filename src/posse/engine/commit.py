"""Changes that are made as a whole or not at all.

Whatever can fail comes first: checks, memory, loading compiled code, and writing to the log. What is left is a list of
*steps*, each of which runs no Python code: a compiled kernel that has been loaded, an assignment to an array that is
there, an update of a dict. So no exception finds a change half done, whichever it is and wherever it comes from. What
has its place between two steps and may fail, an estimate of the population, is an :class:`Attempt`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from posse.interrupts import defer_interrupts
from posse.threads import pool

logger = logging.getLogger("posse")

Step: TypeAlias = Callable[[], object]


class Attempt(NamedTuple):
    """Something between two steps that may fail, and without which the change is whole all the same: an estimate."""

    call: Step


Steps: TypeAlias = list[Step | list[Step] | Attempt]
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
    with defer_interrupts():
        if note is not None:
            note()
        # From here on nothing can fail, and nobody interrupts.
        for step in steps:
            if isinstance(step, Attempt):
                try:
                    step.call()
                except BaseException:
                    logger.exception("an estimate in the midst of a batch failed; all rewards are learned")
                continue
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
