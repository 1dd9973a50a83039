"""Changes that must not be left half done."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

logger = logging.getLogger("posse")

# What the module signal is made of: its own functions turn numbers into names, and a reward may be waiting.
_signals: Any = import_module("_signal")
_NUMBER = int(signal.SIGINT)


class defer_interrupts:  # noqa: N801 -- it reads as a word: with defer_interrupts()
    """Let an interrupt from the keyboard wait for the end of a change.

    Compiled code cannot be interrupted, so an interrupt that comes meanwhile is raised at the first line of Python
    after it, between two halves of a change; and threads that were waited for would go on without the lock. Only the
    main thread is ever interrupted.
    """

    __slots__ = ("_came", "_handler")

    def __enter__(self) -> None:
        self._came: list[Any] = []
        self._handler: Any = None
        if threading.get_ident() == threading.main_thread().ident:
            handler = _signals.getsignal(_NUMBER)
            if callable(handler):  # else nothing in Python happens
                self._handler = handler
                try:
                    _signals.signal(_NUMBER, self._wait)
                except ValueError:  # not the interpreter that gets signals
                    self._handler = None

    def __exit__(self, *_error: object) -> None:
        if self._handler is not None:
            _signals.signal(_NUMBER, self._handler)
            if self._came:
                self._handler(_NUMBER, self._came[0])

    def _wait(self, _number: int, frame: Any) -> None:
        self._came.append(frame)


def finish(steps: Iterable[Callable[[], object]]) -> None:
    """Take steps that make one change: none if the first raises, else all of them.

    A step that raises must have changed nothing, and should not raise by itself. If one after the first does, for want
    of memory say, it is taken once more, as a change must not be left half done; and the error is logged.
    """
    begun = False
    with defer_interrupts():
        for step in steps:
            try:
                step()
            except BaseException:
                if not begun:
                    raise
                step()
                logger.exception("something failed in the midst of a change, which was made as a whole all the same")
            begun = True
