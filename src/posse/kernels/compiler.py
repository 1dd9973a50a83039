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

AGAIN = 10  # seconds after which it says that it goes on

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
    """Says on stderr why the first call takes so long, and every ten seconds that it goes on.

    Only what is in no cache is compiled. Kernels that call each other are compiled within each other, so there is
    always a beginning or an end of one to speak at.
    """

    def __init__(self) -> None:
        self.made = False
        self.said = -math.inf

    def on_start(self, event: Any) -> None:
        """Speak up when the first kernel of posse is compiled."""
        if event.data["dispatcher"].py_func.__module__.startswith(("posse.kernels.", "posse.families.")):
            self.tell()

    def on_end(self, event: Any) -> None:
        """Say that it goes on."""
        self.on_start(event)

    def tell(self) -> None:
        """Print a line if none was printed for a while."""
        now = time.monotonic()
        if not self.made:
            self.made, self.said = True, now
            print(
                "posse: compiling, once: a first fleet takes about 20 seconds, everything two minutes "
                "(posse warmup does it ahead)",
                file=sys.stderr,
            )
        elif math.isfinite(self.said) and now - self.said >= AGAIN:
            self.said = now
            print("posse: still compiling", file=sys.stderr)


announcement = Announcement()
event.register("numba:compile", announcement)
event.register("numba:compile", uncollected)
use_quick_settings()
