"""How the core is compiled: plain Numba, cached on disk."""

from __future__ import annotations

from numba import njit

# error_model="numpy": a division by zero gives inf, as in the plain array code that tests compare with.
compiled = njit(cache=True, nogil=True, error_model="numpy")

# For functions that take a whole store: passing some ten arrays costs as much as a small step.
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
