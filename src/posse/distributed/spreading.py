"""Which shard has which tasks: by a hash of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue, UnknownDecision
from posse.fleet.names import N_BUCKETS

if TYPE_CHECKING:
    from posse.types import IntArray


def spread_buckets(count: int) -> list[list[int]]:
    """Return the buckets of so many shards, evenly spread."""
    if count > N_BUCKETS:
        raise InvalidValue(f"expected at most {N_BUCKETS} shards, got {count}")
    return [list(range(number, N_BUCKETS, count)) for number in range(count)]


def homes_of(buckets: list[list[int]]) -> IntArray:
    """Return the shard of every bucket."""
    home = np.empty(N_BUCKETS, dtype=np.int64)
    for number, some in enumerate(buckets):
        home[some] = number
    return home


def split_rows(homes: IntArray) -> list[tuple[int, IntArray]]:
    """Return the rows of every shard that has any, in their order, given the shard of each."""
    order = np.argsort(homes, kind="stable")
    found, first = np.unique(homes[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(homes) else []


def place_of(decision_id: Any, home: IntArray) -> tuple[int, str]:
    """Return the shard of a decision, and its id there."""
    bucket, _, inner = decision_id.partition(".") if isinstance(decision_id, str) else ("", "", "")
    if not (bucket.isascii() and bucket.isdigit() and int(bucket) < N_BUCKETS) or not inner:
        raise UnknownDecision(f"no decision {decision_id!r} was made by this fleet; pass the id of a Decision")
    return int(home[int(bucket)]), inner


def outer_id(bucket: Any, inner: str) -> str:
    """Return the id by which a fleet knows a decision of a shard; one that was not recorded has none."""
    return f"{bucket}.{inner}" if inner else ""
