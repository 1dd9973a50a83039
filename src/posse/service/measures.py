"""What is counted as it happens, in this process or in all workers of a service together.

Workers of one service share a folder (``PROMETHEUS_MULTIPROC_DIR``, which ``posse serve --workers`` makes), in which
each keeps its numbers; whichever of them is asked for ``/metrics`` adds them up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import Metric, Sample
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SHARED = "PROMETHEUS_MULTIPROC_DIR"
OF_PROCESSES = {
    "set_aside": "1 if a fleet is not served: it cannot be loaded or cannot learn",
    "degraded": "1 if something fails that is done for a fleet, which decides",
    "refresh_failing": "1 if the last estimate of a population failed",
    "differing_tasks": "Tasks whose sums were not those of the log when last compared",
    "population_age_seconds": "Seconds for which the population has been in force (in the worker with the oldest)",
    "rewards_since_population": "Rewards that were learned since the population was estimated",
}
"""Gauges by fleet, without ``posse_fleet_``, that processes know of their fleets; of workers' the highest is told."""

CLOCK_OFF = "posse_clock_off_seconds"
NOTHING = -1.0  # a number of a fleet that is not there: nothing can be taken out of the files of workers
MOST_ARMS = 5000  # pairs of fleet and arm that are counted by themselves; others are counted as "other"


class Measures:
    """Counters of requests, writes, decisions and errors; gauges of this process.

    Attributes
    ----------
    registry : CollectorRegistry
        What of it is to be told; adds up over workers.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.shared = SHARED in os.environ
        own = CollectorRegistry()
        self._requests = Counter(
            "posse_requests", "Requests by route, method and status", ("route", "method", "status"), registry=own
        )
        self._seconds = Histogram(
            "posse_request_seconds", "Seconds to the end of the answer", ("route",), buckets=SECONDS, registry=own
        )
        self._errors = Counter("posse_errors", "Requests that failed, by code of the error", ("code",), registry=own)
        self._writes = Histogram(
            "posse_write_seconds", "Seconds of a transaction that writes to disk", buckets=SECONDS, registry=own
        )
        self._failures = Counter("posse_write_failures", "Transactions that could not be written", registry=own)
        self._decisions = Counter(
            "posse_arm_decisions", "Decisions for an arm since the start", ("fleet", "arm"), registry=own
        )
        self._memory = Gauge("posse_resident_bytes", "Memory of a process", registry=own, multiprocess_mode="liveall")
        self._waiting = Gauge(
            "posse_waiting_writes", "Requests that wait for the disk", registry=own, multiprocess_mode="livesum"
        )
        self._ready = Gauge(
            "posse_ready", "1 if requests are answered (by all workers)", registry=own, multiprocess_mode="livemin"
        )
        self._leading = Gauge(
            "posse_leading", "1 if this process, or one of the workers, learns", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self._behind = Gauge(
            "posse_fleet_changes_behind", "Changes of the log that were not applied yet (by the slowest worker)",
            ("fleet",), registry=own, multiprocess_mode="livemax",
        )  # fmt: skip
        self._of_fleets = {
            name: Gauge(f"posse_fleet_{name}", words, ("fleet",), registry=own, multiprocess_mode="livemax")
            for name, words in OF_PROCESSES.items()
        }
        self._held = Gauge(
            "posse_clock_held", "1 if nothing expires or is pruned, since the clock jumped", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self._off = Gauge(
            CLOCK_OFF, "Seconds by which a clock that jumped is ahead", registry=own, multiprocess_mode="liveall"
        )
        self._noted: dict[tuple[str, str], tuple[Any, float]] = {}
        self._noting = threading.Lock()
        self.before_telling: Callable[[], None] | None = None
        """Called whenever this process notes how it is; sees to :meth:`note_fleets` and :meth:`note_clock`."""
        self._children: dict[tuple[Any, ...], Any] = {}
        self._arms: dict[tuple[str, str], Any] = {}
        self._known: set[str] = set()
        self.registry = CollectorRegistry() if self.shared else own
        if self.shared:
            self.registry.register(_Together(Path(os.environ[SHARED])))

    def requested(self, route: str, method: str, status: int, seconds: float, code: str | None) -> None:
        """Count a request, and its error if it had one."""
        key = (route, method, status)
        found = self._children.get(key)
        if found is None:
            # Labels are looked up once: that takes longer than counting.
            found = self._children[key] = (self._requests.labels(*key), self._seconds.labels(route))
        found[0].inc()
        found[1].observe(seconds)
        if code is not None:
            self._errors.labels(code).inc()

    def wrote(self, seconds: float | None) -> None:
        """Count a transaction: how long it took, or None if it could not be written."""
        if seconds is None:
            self._failures.inc()
        else:
            self._writes.observe(seconds)

    def decided(self, fleet: str, arm: str) -> None:
        """Count a decision that was accepted."""
        found = self._arms.get((fleet, arm))
        if found is None:
            names = (fleet, arm) if len(self._arms) < MOST_ARMS else ("other", "other")
            found = self._arms[fleet, arm] = self._decisions.labels(*names)
        found.inc()

    def look(self, *, ready: bool, leading: bool, waiting: int, behind: dict[str, int]) -> None:
        """Note how this process is, for whichever worker is asked; fleets that are not among these are gone."""
        self._ready.set(float(ready))
        self._leading.set(float(leading))
        self._waiting.set(waiting)
        self._memory.set(resident_bytes())
        for fleet, changes in behind.items():
            self._behind.labels(fleet).set(changes)
        for fleet in self._known.difference(behind):
            self._forget(fleet)
        self._known = set(behind)
        if self.before_telling is not None:
            self.before_telling()

    def note_clock(self, *, held: bool, off: float) -> None:
        """Note what this process thinks of the clock."""
        self._held.set(float(held))
        self._off.set(off)

    def note_fleets(self, found: dict[str, dict[str, float]]) -> None:
        """Note numbers of all fleets of this process, by fleet and name; what is not among these is gone."""
        told = {(name, fleet): float(value) for fleet, values in found.items() for name, value in values.items()}
        with self._noting:  # both who asks for metrics and the thread that looks after fleets note them
            self._note(told)

    def _note(self, told: dict[tuple[str, str], float]) -> None:
        for key in [key for key in self._noted if key not in told]:
            child, value = self._noted[key]
            if not self.shared:
                del self._noted[key]
                self._of_fleets[key[0]].remove(key[1])
            elif value != NOTHING:
                child.set(NOTHING)
                self._noted[key] = child, NOTHING
        for key, value in told.items():
            child, before = self._noted.get(key) or (self._of_fleets[key[0]].labels(key[1]), None)
            if value != before:  # most are as they were, of thousands
                child.set(value)
                self._noted[key] = child, value

    def _forget(self, fleet: str) -> None:
        if self.shared:  # nothing can be taken out of the files of workers
            self._behind.labels(fleet).set(0)
            return
        self._behind.remove(fleet)
        for key in [key for key in list(self._arms) if key[0] == fleet]:
            del self._arms[key]
            with suppress(KeyError):
                self._decisions.remove(*key)

    def bury(self) -> None:
        """Leave out the gauges of workers that have died."""
        folder = os.environ.get(SHARED)
        if folder is None:
            return
        for path in Path(folder).glob("gauge_live*_*.db"):
            number = path.stem.rpartition("_")[2]
            if number.isdigit() and not Path(f"/proc/{number}").exists():
                mark_process_dead(int(number), folder)  # type: ignore[no-untyped-call]


class _Together:
    """What all workers noted, put together.

    Parameters
    ----------
    folder : Path
        Where each worker has its files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Yield metrics without fleets that are gone; the clock of the worker that is furthest off."""
        gauges = {f"posse_fleet_{name}" for name in OF_PROCESSES}
        # A worker that starts makes its files empty first, and the library cannot read those.
        with os.scandir(self._folder) as entries:
            files = [entry.path for entry in entries if entry.name.endswith(".db") and _has_bytes(entry)]
        for metric in MultiProcessCollector.merge(files, accumulate=True):  # type: ignore[no-untyped-call]
            if metric.name in gauges:
                metric.samples = [sample for sample in metric.samples if sample.value != NOTHING]
            elif metric.name == CLOCK_OFF:
                furthest = max(metric.samples, key=lambda sample: abs(sample.value))
                metric.samples = [Sample(CLOCK_OFF, {}, furthest.value)]
            yield metric


def _has_bytes(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat().st_size > 0
    except FileNotFoundError:  # that of a worker which has died
        return False


def resident_bytes() -> int:
    """Return the memory of this process, 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
