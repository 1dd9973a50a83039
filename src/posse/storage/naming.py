"""Names of tasks that are gone, without their names."""

from __future__ import annotations

import hashlib

DIGEST = 32  # bytes that stand for the name of a task


def digest_of(fleet: str, task: str) -> bytes:
    """Return what stands for an erased task: processes that still know its name recognise it, nobody else does.

    Examples
    --------
    >>> len(digest_of("stores", "store-17"))
    32
    """
    return hashlib.blake2b(task.encode(), key=hashlib.sha256(fleet.encode()).digest(), digest_size=DIGEST).digest()
