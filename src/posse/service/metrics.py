"""What Prometheus is told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from posse.errors import PosseError
from posse.service.engine import Engine
from posse.service.roster import DEGRADED, SET_ASIDE

COUNTS = ("tasks", "decisions", "rewards", "pending")
RECENT = 3600.0  # seconds over which rewards are averaged
SIZE_SECONDS = 60.0  # after which the size of the database is asked for again: a server looks at every file for it

OF_A_FLEET = {
    **{name: f"{name.capitalize()} of a fleet" for name in COUNTS},
    "snapshot_age_seconds": "Seconds since the newest snapshot, if there is one",
    "oldest_pending_seconds": "Age of the oldest decision that waits for its reward, 0 if none does",
    "mean_reward": "Mean of the rewards that came in the last hour, if any did",
}
"""Gauges by fleet, without ``posse_fleet_``, that the database knows. What only processes know: ``OF_PROCESSES``."""


class Metrics:
    """What was counted (:mod:`posse.service.measures`), and fleets as they are when somebody asks.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._size, self._size_at = 0, -SIZE_SECONDS
        engine.measures.registry.register(self)
        engine.measures.before_telling = self.note

    def collect(self) -> Iterator[Metric]:
        """Yield what is true now: of the database, so that every worker says the same."""
        engine = self._engine
        try:
            found = self._fleets() if engine.ready else {}
            size = self._database_bytes() if engine.ready else 0
        except PosseError:
            found, size = {}, self._size  # the database is away; what is known is told
        for name, words in OF_A_FLEET.items():
            family = GaugeMetricFamily(f"posse_fleet_{name}", words, labels=("fleet",))
            for fleet, values in found.items():
                if values.get(name) is not None:
                    family.add_metric((fleet,), float(values[name] or 0))
            yield family
        yield GaugeMetricFamily("posse_database_bytes", "Size of the database", value=size)
        if engine.settings.embedded:
            path = Path(engine.settings.database.removeprefix("sqlite:///")).absolute().parent
            free = shutil.disk_usage(path).free if path.exists() else 0
            yield GaugeMetricFamily("posse_disk_free_bytes", "Room left where the database is", value=free)

    def _fleets(self) -> dict[str, dict[str, float | None]]:
        engine = self._engine
        now, times = engine.clock(), engine.storage.fleet_times()
        found: dict[str, dict[str, float | None]] = {}
        for row in engine.storage.fleets():
            values: dict[str, float | None] = {name: getattr(row, name) for name in COUNTS}
            pending, snapshot = times.get(row.name, (None, None))
            values["oldest_pending_seconds"] = 0.0 if pending is None else max(now - pending, 0.0)
            if snapshot is not None:
                values["snapshot_age_seconds"] = max(now - snapshot, 0.0)
            recent = engine.storage.activity(row.name, now - RECENT, RECENT)
            rewards = sum(part.rewards for part in recent)
            if rewards:
                values["mean_reward"] = sum(part.reward_sum for part in recent) / rewards
            found[row.name] = values
        return found

    def note(self) -> None:
        """Note what only this process knows, for whichever worker is asked."""
        engine = self._engine
        engine.measures.note_clock(held=engine.steady.held, off=engine.steady.off)
        found: dict[str, dict[str, float]] = {}
        names = {live.name for live in engine.roster.all()}.union(engine.roster.troubled()) if engine.opened else ()
        for name in names:
            state, _ = engine.roster.state_of(name)
            # Who led before may remember that a snapshot failed; whether one does now is known to who leads.
            degraded = state == DEGRADED and (engine.leading or not engine.roster.can_learn(name))
            values: dict[str, float] = {"set_aside": state == SET_ASIDE, "degraded": degraded}
            checked, live = engine.checker.last.get(name), engine.roster.find(name)
            if checked is not None and checked.failed is None:  # no number is better than a 0 that nobody has seen
                values["differing_tasks"] = checked.found.different
            if live is not None:
                replica = live.replica
                values["refresh_failing"] = replica.refresh_problem is not None
                values["population_age_seconds"] = time.monotonic() - live.population_at
                values["rewards_since_population"] = max(replica.n_rewards - replica.estimated_at, 0)
            found[name] = values
        engine.measures.note_fleets(found)

    def _database_bytes(self) -> int:
        if time.monotonic() - self._size_at >= SIZE_SECONDS:
            self._size, self._size_at = self._engine.storage.size(), time.monotonic()
        return self._size

    def text(self) -> bytes:
        """Return all of it in Prometheus' format."""
        self._engine.note_measures()
        self._engine.measures.bury()
        return generate_latest(self._engine.measures.registry)
