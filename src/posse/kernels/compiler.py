"""How every kernel is compiled."""

from __future__ import annotations

from numba import njit

# error_model="numpy": a division by zero gives inf, as in the plain array code the kernels are tested against.
kernel = njit(cache=True, nogil=True, error_model="numpy")

# For kernels that are over in a microsecond: to let go of the interpreter lock and take it back costs as much as a
# small step, and while other threads are busy the wait for it may cost a thousand times that.
short_kernel = njit(cache=True, error_model="numpy")

# For what every step calls: a belief is some hundred words of pointers and sizes, and passing them costs more than the
# arithmetic of a small step.
inlined_kernel = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)

# For kernels that only put others together: they become part of their caller before anything is compiled. Every level
# of calls is otherwise compiled once more with all that it calls, and a whole run is five levels deep.
woven_kernel = njit(cache=True, nogil=True, error_model="numpy", inline="always")
