"""What Prometheus is told: what is counted as it happens, and what the database says when somebody asks.

Workers of one service share a folder (``PROMETHEUS_MULTIPROC_DIR``, which ``posse serve --workers`` makes), in which
each keeps its numbers; whichever of them is asked for ``/metrics`` adds them up.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric, Sample
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from posse.errors import PosseError
from posse.service.roster import DEGRADED, SET_ASIDE

if TYPE_CHECKING:
    from posse.service.runtime import Runtime

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
MOST_ARMS = 5000  # pairs of fleet and arm that are counted by themselves; others are counted as "other"


COUNTS = ("tasks", "decisions", "rewards", "pending")
RECENT = 3600.0  # seconds over which rewards are averaged
SIZE_SECONDS = 60.0  # after which the size of the database is asked for again: a server looks at every file for it

OF_A_FLEET = {
    **{name: f"{name.capitalize()} of a fleet" for name in COUNTS},
    "snapshot_age_seconds": "Seconds since the newest snapshot, if there is one",
    "oldest_pending_seconds": "Age of the oldest decision that waits for its reward, 0 if none does",
    "mean_reward": "Mean of the rewards that came in the last hour, if any did",
}
"""Gauges by fleet, without ``posse_fleet_``, that the database knows."""


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

        def count(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"posse_{name}", words, labels, registry=own)

        def time_of(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(f"posse_{name}", words, labels, buckets=SECONDS, registry=own)

        def gauge(name: str, words: str, mode: str, *labels: str) -> Gauge:
            living: Any = f"live{mode}"
            return Gauge(f"posse_{name}", words, labels, registry=own, multiprocess_mode=living)

        self._requests = count("requests", "Requests by route, method and status", "route", "method", "status")
        self._seconds = time_of("request_seconds", "Seconds to the end of the answer", "route")
        self._errors = count("errors", "Requests that failed, by code of the error", "code")
        self._writes = time_of("write_seconds", "Seconds of a transaction that writes to disk")
        self._failures = count("write_failures", "Transactions that could not be written")
        self._decisions = count("arm_decisions", "Decisions for an arm since the start", "fleet", "arm")
        self._memory = gauge("resident_bytes", "Memory of a process", "all")
        self._waiting = gauge("waiting_writes", "Requests that wait for the disk", "sum")
        self._ready = gauge("ready", "1 if requests are answered (by all workers)", "min")
        self._leading = gauge("leading", "1 if this process, or one of the workers, learns", "max")
        behind = "Changes of the log that were not applied yet (by the slowest worker)"
        self._behind = gauge("fleet_changes_behind", behind, "max", "fleet")
        self._of_fleets = {name: gauge(f"fleet_{name}", words, "max", "fleet") for name, words in OF_PROCESSES.items()}
        self._held = gauge("clock_held", "1 if nothing expires or is pruned, since the clock jumped", "max")
        self._off = gauge(CLOCK_OFF.removeprefix("posse_"), "Seconds by which a clock that jumped is ahead", "all")
        self._noted: dict[tuple[str, str], float] = {}
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
        """Note numbers of all fleets of this process, by fleet and name."""
        with self._noting:  # both who asks for metrics and the thread that looks after fleets note them
            told = {(name, fleet): float(value) for fleet, values in found.items() for name, value in values.items()}
            for key in self._noted.keys() - told.keys():
                self._drop(self._of_fleets[key[0]], key[1])
            for (name, fleet), value in told.items():
                if value != self._noted.get((name, fleet)):  # most are as they were, of thousands
                    self._of_fleets[name].labels(fleet).set(value)
            self._noted = told

    def _forget(self, fleet: str) -> None:
        self._drop(self._behind, fleet)
        for key in [key for key in list(self._arms) if key[0] == fleet]:
            del self._arms[key]
            self._drop(self._decisions, *key)

    def _drop(self, metric: Any, *labels: str) -> None:
        """Leave out a fleet that is gone, or say 0: nothing can be taken out of the files of workers."""
        if not self.shared:
            with suppress(KeyError):
                metric.remove(*labels)
        elif isinstance(metric, Gauge):
            metric.labels(*labels).set(0)

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
        """Yield metrics, and the clock of the worker that is furthest off."""
        # A worker that starts makes its files empty first, and the library cannot read those.
        with os.scandir(self._folder) as entries:
            files = [entry.path for entry in entries if entry.name.endswith(".db") and _has_bytes(entry)]
        for metric in MultiProcessCollector.merge(files, accumulate=True):  # type: ignore[no-untyped-call]
            if metric.name == CLOCK_OFF:
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


class Metrics:
    """What was counted, and fleets as they are when somebody asks.

    Parameters
    ----------
    runtime : Runtime
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._size, self._size_at = 0, -SIZE_SECONDS
        runtime.measures.registry.register(self)
        runtime.measures.before_telling = self.note

    def collect(self) -> Iterator[Metric]:
        """Yield what is true now: of the database, so that every worker says the same."""
        runtime = self._runtime
        try:
            found = self._fleets() if runtime.ready else {}
            size = self._database_bytes() if runtime.ready else 0
        except PosseError:
            found, size = {}, self._size  # the database is away; what is known is told
        for name, words in OF_A_FLEET.items():
            family = GaugeMetricFamily(f"posse_fleet_{name}", words, labels=("fleet",))
            for fleet, values in found.items():
                if values.get(name) is not None:
                    family.add_metric((fleet,), float(values[name] or 0))
            yield family
        yield GaugeMetricFamily("posse_database_bytes", "Size of the database", value=size)
        if runtime.settings.embedded:
            path = Path(runtime.settings.database.removeprefix("sqlite:///")).absolute().parent
            free = shutil.disk_usage(path).free if path.exists() else 0
            yield GaugeMetricFamily("posse_disk_free_bytes", "Room left where the database is", value=free)

    def _fleets(self) -> dict[str, dict[str, float | None]]:
        runtime = self._runtime
        now, times = runtime.clock(), runtime.storage.fleet_times()
        found: dict[str, dict[str, float | None]] = {}
        for row in runtime.storage.fleets():
            values: dict[str, float | None] = {name: getattr(row, name) for name in COUNTS}
            pending, snapshot = times.get(row.name, (None, None))
            values["oldest_pending_seconds"] = 0.0 if pending is None else max(now - pending, 0.0)
            if snapshot is not None:
                values["snapshot_age_seconds"] = max(now - snapshot, 0.0)
            recent = runtime.storage.activity(row.name, now - RECENT, RECENT)
            rewards = sum(part.rewards for part in recent)
            if rewards:
                values["mean_reward"] = sum(part.reward_sum for part in recent) / rewards
            found[row.name] = values
        return found

    def note(self) -> None:
        """Note what only this process knows, for whichever worker is asked."""
        runtime = self._runtime
        runtime.measures.note_clock(held=runtime.steady.held, off=runtime.steady.off)
        found: dict[str, dict[str, float]] = {}
        names = {live.name for live in runtime.roster.all()}.union(runtime.roster.troubled()) if runtime.opened else ()
        for name in names:
            state, _ = runtime.roster.state_of(name)
            # Who led before may remember that a snapshot failed; whether one does now is known to who leads.
            degraded = state == DEGRADED and (runtime.leading or not runtime.roster.can_learn(name))
            values: dict[str, float] = {"set_aside": state == SET_ASIDE, "degraded": degraded}
            checked, live = runtime.checker.last.get(name), runtime.roster.find(name)
            if checked is not None and checked.failed is None:  # no number is better than a 0 that nobody has seen
                values["differing_tasks"] = checked.found.different
            if live is not None:
                replica = live.replica
                values["refresh_failing"] = replica.refresh_problem is not None
                values["population_age_seconds"] = time.monotonic() - live.population_at
                values["rewards_since_population"] = max(replica.n_rewards - replica.estimated_at, 0)
            found[name] = values
        runtime.measures.note_fleets(found)

    def _database_bytes(self) -> int:
        if time.monotonic() - self._size_at >= SIZE_SECONDS:
            self._size, self._size_at = self._runtime.storage.size(), time.monotonic()
        return self._size

    def text(self) -> bytes:
        """Return all of it in Prometheus' format."""
        self._runtime.note_measures()
        self._runtime.measures.bury()
        return generate_latest(self._runtime.measures.registry)
