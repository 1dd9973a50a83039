"""How large a number may be: powers and sums of contexts and rewards stay finite."""

from __future__ import annotations

from posse.core.compiler import compiled
from posse.types import Array

LARGEST = 1e50  # of a context's or a reward's size


@compiled
def moderate(values: Array) -> bool:
    """Return whether every number is finite and small enough for its powers and sums to stay finite."""
    for i in range(values.shape[0]):  # noqa: SIM110 -- a generator does not compile
        if not abs(values[i]) <= LARGEST:
            return False
    return True
