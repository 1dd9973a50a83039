"""Threads that compiled work is spread over."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache, partial
from threading import Barrier
from typing import TYPE_CHECKING, Any

from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MANY_ROWS = 4096  # rows of a batch from which on threads are worth their start


def workers() -> int:
    """Return how many threads work side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool() -> Executor:
    """Return the threads that compiled work is spread over; it holds no interpreter lock.

    All of them are started here, so that a system that allows no more threads is found out before anything is begun:
    work is then done by whoever asks.
    """
    count = workers()
    executor, together = ThreadPoolExecutor(max_workers=count, thread_name_prefix="posse"), Barrier(count)
    try:
        for started in [executor.submit(together.wait) for _ in range(count)]:
            started.result()
    except RuntimeError:  # no thread, or a barrier that was given up
        together.abort()
        executor.shutdown(wait=False)
        return _Here()
    return executor


class _Here(Executor):
    """Does everything at once, on the thread that asks."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Return what is done already."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


def spread(work: Callable[[int, int], object], n_rows: int) -> None:
    """Call ``work(part, parts)`` for every part, side by side if there are many rows, and wait for all."""
    parts = workers() if n_rows >= MANY_ROWS else 1
    if parts == 1:
        work(0, 1)
    else:
        spread_parts([partial(work, part, parts) for part in range(parts)])


def spread_parts(parts: Sequence[Callable[[], object]]) -> None:
    """Call every part, side by side, and wait for all."""
    with defer_interrupts():
        running = [pool().submit(part) for part in parts]
        # All of them end before any error is raised: none may still be at work on arrays of the caller.
        for future in running:
            future.exception()
    for future in running:
        future.result()


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; a child makes its own.
    os.register_at_fork(after_in_child=pool.cache_clear)
