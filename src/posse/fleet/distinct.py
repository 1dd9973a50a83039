"""Which numbers a list is made of."""

from __future__ import annotations

import numpy as np

from posse.core.compiler import compiled
from posse.types import IntArray


@compiled
def mix(value: int) -> int:
    """Return a number whose every bit depends on all bits of ``value``."""
    mixed = np.uint64(value)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return int(mixed >> np.uint64(1))


@compiled
def number_values(values: IntArray, table: IntArray, codes: IntArray, distinct: IntArray) -> int:
    """Give values numbers in the order of their first place; return how many different ones there are.

    ``table`` has a power of two of entries, at least twice as many as values, all -1. ``distinct`` gets the values.
    """
    mask = table.shape[0] - 1
    count = 0
    for place in range(values.shape[0]):
        value = values[place]
        entry = mix(value) & mask
        while table[entry] >= 0 and distinct[table[entry]] != value:
            entry = (entry + 1) & mask
        if table[entry] < 0:
            table[entry] = count
            distinct[count] = value
            count += 1
        codes[place] = table[entry]
    return count
