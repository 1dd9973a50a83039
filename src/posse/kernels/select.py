"""From beliefs to scores, see :mod:`posse.core.select`; and a quick look at a context."""

from __future__ import annotations

from posse.core.select import OPTIMISTIC, RANDOMISED, SAMPLING, Exploration, best, explore, growth
from posse.core.size import moderate
from posse.kernels.compiler import short_kernel
from posse.types import Array

__all__ = ["OPTIMISTIC", "RANDOMISED", "SAMPLING", "Exploration", "best", "explore", "growth", "usable"]


@short_kernel
def usable(context: Array) -> bool:
    """Return whether a context can be decided on."""
    return moderate(context)
