"""How every kernel is compiled."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from numba import njit
from numba.core import event

from posse.kernels.llvm.inner import inner
from posse.kernels.llvm.quick import uncollected, use_quick_settings

AGAIN = 2.5  # seconds after which it says that it goes on
PROBE = 24  # kernels that every fleet begins with, by which it is measured how long the rest will take
NUMBERS, CLICKS = 8.0, 14.0  # how often the time of these goes into all of a first fleet that decides and learns

COUNTED: Any = {"_nrt": True}  # whether references to arrays are counted; Numba's types do not know of it
UNCOUNTED: Any = {"_nrt": False}

# error_model="numpy": a division by zero gives inf, as in the plain array code the kernels are tested against.
# UNCOUNTED: kernels allocate nothing, so nothing counts references to arrays; that code would be a tenth of all that
# is compiled.
kernel = njit(cache=True, nogil=True, error_model="numpy", **UNCOUNTED)

# For the few that allocate. None of them may call a kernel that returns an array.
allocating_kernel = njit(cache=True, nogil=True, error_model="numpy", **COUNTED)

# For kernels that are over in a microsecond: to let go of the interpreter lock and take it back costs as much as a
# small step, and while other threads are busy the wait for it may cost a thousand times that.
short_kernel = njit(cache=True, error_model="numpy")

# For pieces that only other kernels call, and tests.
inner_kernel = inner(nogil=True, error_model="numpy", **UNCOUNTED)
allocating_inner_kernel = inner(nogil=True, error_model="numpy", **COUNTED)

# For small pieces that every step calls, and for those that look at how many axes an array has: they become part of
# their caller when it is optimised.
inlined_kernel = inner(nogil=True, error_model="numpy", forceinline=True, **UNCOUNTED)

# For pieces that are made of others which come as arguments. A cache would not know by which of them they were made; it
# has the kernels that they are part of.
made_kernel = inner(nogil=True, error_model="numpy", kept=False, **UNCOUNTED)

# For larger pieces, and those that take a whole belief: they become part of their caller before anything is compiled.
# Every level of calls is otherwise compiled once more with all that it calls, and passing some hundred words of
# pointers and sizes costs more than the arithmetic of a small step.
woven_kernel = njit(cache=True, nogil=True, error_model="numpy", inline="always")


class Announcement(event.Listener):
    """Says on stderr that kernels are compiled, how long that will take on this machine, and that it goes on.

    Only what is in no cache is compiled. The estimate is the time of the first kernels, times what a first fleet takes
    beside these. Kernels that call each other are compiled within each other, so there is always a beginning or an end
    of one to speak at.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.done = 0  # kernels
        self.spent = 0.0  # seconds with the compiler
        self.expected = 0.0  # of them for a first fleet, once that is known
        self.whole = NUMBERS  # or CLICKS, which whoever makes such a fleet says
        self._depth, self._began, self._said = 0, 0.0, -math.inf

    def on_start(self, event: Any) -> None:
        """Begin a kernel of posse, and speak up if it is the first."""
        if _is_ours(event):
            self._count_time(1)
            if not math.isfinite(self._said):
                self._say("posse: compiling its kernels, once (posse warmup does it ahead)")

    def on_end(self, event: Any) -> None:
        """End it, and say how far it is if nothing was said for a while."""
        if not _is_ours(event):
            return
        self._count_time(-1)
        self.done += 1
        if self.done == PROBE:
            self.expected = self.spent * self.whole
        if self.done == PROBE or time.monotonic() - self._said >= AGAIN:
            self._say(f"posse: compiling, {self}")

    def __str__(self) -> str:
        if self.done < PROBE:
            return f"{self.spent:.0f} s so far"
        left = self.expected - self.spent
        if left < 1:
            return f"{self.spent:.0f} s so far, {self.done} kernels"
        return f"about {left:.0f} s left for a first fleet, {self.spent:.0f} s so far"

    def _count_time(self, deeper: int) -> None:
        now = time.monotonic()
        if self._depth > 0:
            self.spent += now - self._began
        self._began = now
        self._depth += deeper

    def _say(self, words: str) -> None:
        self._said = time.monotonic()
        if not self.quiet:
            print(words, file=sys.stderr, flush=True)


def _is_ours(event: Any) -> bool:
    module: str = event.data["dispatcher"].py_func.__module__
    return module.startswith(("posse.kernels.", "posse.families."))


announcement = Announcement()
event.register("numba:compile", announcement)
event.register("numba:compile", uncollected)
use_quick_settings()
