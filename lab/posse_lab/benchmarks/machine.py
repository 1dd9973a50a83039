"""What a benchmark ran on, and how it keeps time."""

from __future__ import annotations

import platform
import resource
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psutil

from posse._version import __version__
from posse.threads import workers
from posse.types import Settings


@cache
def machine() -> Settings:
    """Return the machine and the versions that a timing depends on; nothing that names the machine or its owner."""
    import numba
    import numpy as np

    return {
        "processor": _processor(),
        "cores": workers(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "posse": __version__,
        # Only the numbers of a release: what follows them is chosen by whoever built the system.
        "operating_system": f"{platform.system()} {platform.release().split('-')[0]}".strip(),
    }


def machine_words() -> str:
    """Return the machine in one line."""
    return (
        "{processor}, cores: {cores}, {memory_gb:.0f} GB; {operating_system}, Python {python}, NumPy {numpy}, "
        "Numba {numba}, posse {posse}"
    ).format(**machine())


def _processor() -> str:
    file = Path("/proc/cpuinfo")  # where Linux is
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.processor() or platform.machine() or "unknown processor"


def memory_in_use() -> tuple[float, float]:
    """Return bytes of memory that this process has now, and the most it had."""
    now = float(psutil.Process().memory_info().rss)
    most = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return now, max(now, most if platform.system() == "Darwin" else most * 1024)


class Stopwatch:
    """Seconds of wall time and of processor time that a block took; as a context."""

    wall = processor = 0.0

    def __enter__(self) -> Stopwatch:
        self._started = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.processor = time.perf_counter() - self._started[0], time.process_time() - self._started[1]


class Timing(NamedTuple):
    """How long one call takes.

    Parameters
    ----------
    best, median : float
        Seconds per call, of the rounds: the best is what the code can do, the median what it did on a machine that
        others use too.
    calls : int
        In one round.
    """

    best: float
    median: float
    calls: int


def seconds_per_call(
    run: Callable[[int], object],
    *,
    rounds: int = 7,
    at_least: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time many calls at once, so that neither the clock nor the loop around them counts.

    Parameters
    ----------
    run : callable
        ``run(n)`` makes n calls. The first, which may have to compile, is not counted.
    rounds : int, default 7
    at_least : float, default 0.05
        Seconds that a round should take; n grows until it does.
    clock : callable, default time.perf_counter

    Examples
    --------
    >>> timing = seconds_per_call(lambda n: [None for _ in range(n)], rounds=3, at_least=1e-4)
    >>> 0 < timing.best <= timing.median and timing.calls > 1
    True
    """
    run(1)
    calls = 1
    while (took := _seconds(run, calls, clock)) < at_least:
        # At most tenfold: a first call is often slower than the rest.
        calls *= 10 if took <= 0 else min(10, max(2, int(1.2 * at_least / took)))
    each = [_seconds(run, calls, clock) / calls for _ in range(rounds)]
    return Timing(min(each), statistics.median(each), calls)


def _seconds(run: Callable[[int], object], calls: int, clock: Callable[[], float]) -> float:
    started = clock()
    run(calls)
    return clock() - started
