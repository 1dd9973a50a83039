"""Threads that compiled work is spread over."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

MANY_ROWS = 4096  # rows of a batch from which on threads are worth their start


def workers() -> int:
    """Return how many threads work side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads that compiled work is spread over; it holds no interpreter lock."""
    return ThreadPoolExecutor(max_workers=workers(), thread_name_prefix="posse")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; a child makes its own.
    os.register_at_fork(after_in_child=pool.cache_clear)
