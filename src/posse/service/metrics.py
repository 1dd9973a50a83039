"""What Prometheus is told."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from posse.errors import PosseError
from posse.service.engine import Engine
from posse.service.roster import DEGRADED, SET_ASIDE

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
COUNTS = ("tasks", "decisions", "rewards", "pending")


class Metrics:
    """Requests as they come, and fleets as they are when somebody asks.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Engine) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._engine = engine
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "posse_requests", "Requests by route, method and status", ("route", "method", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "posse_request_seconds", "Seconds to the end of the answer", ("route",), buckets=SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._registry.register(self)

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Note a request."""
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route).observe(seconds)

    def collect(self) -> list[Metric]:
        """Return what is true now."""
        engine = self._engine
        ready = GaugeMetricFamily("posse_ready", "1 if requests are answered", value=float(engine.ready))
        leading = GaugeMetricFamily("posse_leading", "1 if this process learns", value=float(engine.leading))
        clock = GaugeMetricFamily(
            "posse_clock_held",
            "1 if nothing expires or is pruned, since the clock jumped",
            value=float(engine.steady.held),
        )
        off = GaugeMetricFamily(
            "posse_clock_off_seconds", "Seconds by which a clock that jumped is ahead", value=engine.steady.off
        )
        waiting = engine.writer.waiting if engine.ready else 0
        queue = GaugeMetricFamily("posse_waiting_writes", "Requests that wait for the disk", value=waiting)
        fleets = {
            name: GaugeMetricFamily(f"posse_fleet_{name}", f"{name.capitalize()} of a fleet", labels=("fleet",))
            for name in COUNTS
        }
        behind = GaugeMetricFamily(
            "posse_fleet_changes_behind", "Changes of the log that this process has not applied", labels=("fleet",)
        )
        failing = GaugeMetricFamily(
            "posse_fleet_refresh_failing", "1 if the last estimate of a population failed", labels=("fleet",)
        )
        aside = GaugeMetricFamily(
            "posse_fleet_set_aside",
            "1 if a fleet is not served: it cannot be loaded or cannot learn",
            labels=("fleet",),
        )
        degraded = GaugeMetricFamily(
            "posse_fleet_degraded", "1 if something fails that is done for a fleet, which decides", labels=("fleet",)
        )
        differing = GaugeMetricFamily(
            "posse_fleet_differing_tasks",
            "Tasks whose sums were not those of the log when last compared",
            labels=("fleet",),
        )
        for name, checked in engine.checker.last.copy().items():
            differing.add_metric((name,), checked.found.different)
        try:
            rows = engine.storage.fleets() if engine.ready else []
        except PosseError:
            rows = []  # the database is away; what is known is told
        for row in rows:
            for name, family in fleets.items():
                family.add_metric((row.name,), getattr(row, name))
            state, _ = engine.roster.state_of(row.name)
            aside.add_metric((row.name,), float(state == SET_ASIDE))
            degraded.add_metric((row.name,), float(state == DEGRADED))
            live = engine.roster.find(row.name)
            if live is not None:
                behind.add_metric((row.name,), max(row.changes - live.applied, 0))
                failing.add_metric((row.name,), float(live.replica.refresh_problem is not None))
        return [ready, leading, clock, off, queue, *fleets.values(), behind, failing, aside, degraded, differing]

    def text(self) -> bytes:
        """Return all of it in Prometheus' format."""
        return generate_latest(self._registry)
