"""Exceptions in the middle of an operation: in the n-th call of a function of posse, or Ctrl-C at its n-th line."""

import itertools
import linecache
import signal
import sys
import traceback
import warnings
from pathlib import Path

from numba.core.errors import LoweringError, NumbaRuntimeError

import posse

ROOT = str(Path(posse.__file__).parent)
UNDISTURBED = str(Path(ROOT) / "interrupts.py")
ERRORS = (OSError, MemoryError, KeyboardInterrupt, RuntimeError, LoweringError, NumbaRuntimeError)
QUIET = len(ERRORS) + 1  # injections in a row that came too late, one of every kind: there is no place left


class Injection:
    """Run something once, with one exception in it.

    Parameters
    ----------
    place : int
        Which call, or line, counted from 1.
    error : type or None
        What is raised where a function of posse is entered. None presses Ctrl-C at a line instead, which is a real
        signal: the handler that is in force then decides what becomes of it.
    """

    def __init__(self, place, error):
        self.place, self.error = place, error
        self.seen, self.fired = 0, False
        self.raised = None

    def run(self, operation):
        """Return what the operation returns, or None if it raised because of the exception that was put in."""
        before = sys.gettrace()
        sys.settrace(self._at_call)
        try:
            return operation()
        except BaseException as error:
            if not self.fired:
                raise
            self.raised = error
            let_go(error)
            return None
        finally:
            sys.settrace(before)

    def _at_call(self, frame, event, argument):
        # A generator is also entered when it is thrown away, where nobody could be told of an exception.
        if not frame.f_code.co_filename.startswith(ROOT) or frame.f_code.co_name == "<genexpr>":
            return None
        if self.error is None:
            return self._at_line
        # The end of a change gives the keyboard back and calls nothing that could fail.
        if event == "call" and not (frame.f_code.co_filename == UNDISTURBED and frame.f_code.co_name != "__enter__"):
            self.seen += 1
            if self.seen == self.place:
                self.fired = True
                sys.settrace(None)
                raise self.error(f"put into {frame.f_code.co_name}")
        return None

    def _at_line(self, frame, event, argument):
        if event == "line":
            self.seen += 1
            # At the end of a with statement its line comes again. Python lets no signal through between the body and
            # __exit__; a trace function could, and a lock would stay locked.
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if self.seen >= self.place and not text.lstrip().startswith("with "):
                self.fired = True
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self._at_line


def let_go(error):
    """Let go of what the functions that an exception ended knew.

    One that comes where a file is to be closed leaves that to whoever lets go of it last; if that were the collector,
    some later test would be told of it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__


def places(most, stride=1, dense=0, middle=0, errors=None):
    """Yield injections up to call ``most``, with one error after another and now and then Ctrl-C.

    One in ``stride`` calls gets one; up to call ``middle``, where what is prepared is made, one in ``dense``. Only
    ``errors``, and no Ctrl-C, if these are given.
    """
    kinds = itertools.cycle((*(ERRORS if errors is None else errors), *((None,) if errors is None else ())))
    for number in itertools.chain(range(1, middle, dense or 1), range(max(middle, 1), most, stride)):
        kind = next(kinds)
        # Lines are about five times as many as calls.
        yield Injection(number if kind is not None else 5 * number, kind)
