"""Threads that compiled work is spread over."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MANY_ROWS = 4096  # rows of a batch from which on threads are worth their start


def workers() -> int:
    """Return how many threads work side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads that compiled work is spread over; it holds no interpreter lock."""
    return ThreadPoolExecutor(max_workers=workers(), thread_name_prefix="posse")


def spread(work: Callable[[int, int], object], n_rows: int) -> None:
    """Call ``work(part, parts)`` for every part, side by side if there are many rows, and wait for all."""
    parts = workers() if n_rows >= MANY_ROWS else 1
    if parts == 1:
        work(0, 1)
        return
    running = [pool().submit(work, part, parts) for part in range(parts)]
    # All of them end before any error is raised: none may still be at work on arrays of the caller.
    for future in running:
        future.exception()
    for future in running:
        future.result()


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; a child makes its own.
    os.register_at_fork(after_in_child=pool.cache_clear)
