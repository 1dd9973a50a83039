"""What a benchmark ran on, how it keeps time, and the file it leaves."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from posse._version import __version__
from posse.errors import ResultFileError
from posse.threads import workers
from posse.types import Settings


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions that a timing depends on; nothing that names the machine or its owner.

    Parameters
    ----------
    processor : str
        As it calls itself.
    cores : int
        That this process may use.
    memory_gb : float or None
        In gigabytes of 10^9 bytes; None where the system does not say.
    python, numpy, numba, posse : str
        Versions.
    operating_system : str
    """

    processor: str
    cores: int
    memory_gb: float | None
    python: str
    numpy: str
    numba: str
    posse: str
    operating_system: str

    def words(self) -> str:
        """Return the machine in one line."""
        memory = "" if self.memory_gb is None else f", {self.memory_gb:.0f} GB"
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return (
            f"{self.processor}, {cores}{memory}; {self.operating_system}, Python {self.python}, NumPy {self.numpy}, "
            f"Numba {self.numba}, posse {self.posse}"
        )

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self)


@cache
def machine() -> Machine:
    """Return what this process runs on."""
    import numba
    import numpy as np

    return Machine(
        processor=_processor(),
        cores=workers(),
        memory_gb=_memory(),
        python=platform.python_version(),
        numpy=np.__version__,
        numba=numba.__version__,
        posse=__version__,
        # Only the numbers of a release: what follows them is chosen by whoever built the system.
        operating_system=f"{platform.system()} {platform.release().split('-')[0]}".strip(),
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    except OSError:  # not on this system
        pass
    return platform.processor() or platform.machine() or "unknown processor"


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    except (AttributeError, OSError, ValueError):  # not on this system
        return None


def memory_in_use() -> tuple[float | None, float | None]:
    """Return bytes of memory that this process has now, and the most it had; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        words = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        return float(words["VmRSS"][0]) * 1024, float(words["VmHWM"][0]) * 1024
    except (OSError, KeyError, IndexError):  # not on this system
        pass
    try:
        import resource
    except ImportError:  # not on this one either
        return None, None
    most = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None, most if platform.system() == "Darwin" else most * 1024


@dataclass(frozen=True, slots=True)
class Timing:
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

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self)


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
        Returns seconds; ``time.process_time`` leaves out what others do on a shared machine.

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


def write_report(folder: Path, name: str, data: Settings) -> Path:
    """Write ``<name>.json`` into the folder, with the machine in it, and return its path."""
    path = folder / f"{name}.json"
    text = json.dumps({"benchmark": name, "machine": machine().to_dict()} | data, indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultFileError(f"cannot write {path}: {error.strerror or error}; choose another --out") from None
    return path
