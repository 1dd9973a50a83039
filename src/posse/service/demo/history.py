"""Four weeks of decisions and rewards, written to the log and learned from it as a service would have."""

from __future__ import annotations

import datetime
import heapq
import json
import time
from typing import Any, NamedTuple

from posse._version import __version__
from posse.service.definition import new_definition
from posse.service.demo.business import (
    CLOSE,
    DEFINITION,
    FLEET,
    NEW_ARM,
    NEW_OFFER,
    OPEN,
    STORES,
    WEEKS,
    Business,
)
from posse.service.http.answers import decision_body
from posse.service.http.requests import Definition
from posse.service.live_fleet import LiveFleet
from posse.service.settings import Limits
from posse.storage import ACCEPTED, Change, NewDecision, NewReward, Storage

DAY = 86_400.0
CUSTOMERS = 32.0  # of all stores in an hour, on average
SLICE = 1000  # decisions that are let go at a time


class History(NamedTuple):
    """What a database has of the demo.

    Parameters
    ----------
    made : bool
        Whether it was written now; False if a fleet of this name was there.
    decisions : int
    """

    made: bool
    decisions: int


def make_history(
    storage: Storage, limits: Limits, now: float | None = None, *, customers: float = CUSTOMERS
) -> History:
    """Write four weeks of simulated business that end now, unless the database has a fleet of the demo's name.

    Parameters
    ----------
    storage : Storage
        Which no service uses yet.
    limits : Limits
    now : float, optional
        Seconds since the epoch. Default: what the clock says.
    customers : float
        Of all stores in an hour, on average.
    """
    there = storage.fleet(FLEET)
    if there is not None:
        return History(False, there.decisions)
    now = time.time() if now is None else now
    definition = new_definition(Definition(**DEFINITION).model_dump(), limits)
    storage.create_fleet(FLEET, definition, now - 7 * WEEKS * DAY)
    try:
        _Past(storage, limits, now, customers).run()
    except BaseException:
        # Half of it would be taken for all of it at the next start.
        storage.delete_fleet(FLEET)
        raise
    row = storage.fleet(FLEET)
    return History(True, 0 if row is None else row.decisions)


class _Past:
    """The service as it would have been, hour by hour."""

    def __init__(self, storage: Storage, limits: Limits, now: float, customers: float) -> None:
        row = storage.fleet(FLEET)
        assert row is not None
        self._storage, self._now, self._customers = storage, now, customers
        self._live = LiveFleet(storage, row, limits.number)
        self._business = Business()
        self._due: list[tuple[float, str, float]] = []  # when a reward comes, of which decision, and what it is

    def run(self) -> None:
        # Days of the reader's calendar, so that mornings and weekends are where the page shows them.
        today = datetime.datetime.fromtimestamp(self._now).replace(hour=0, minute=0, second=0, microsecond=0)
        for day in range(7 * WEEKS + 1):
            date = today + datetime.timedelta(days=day - 7 * WEEKS)
            if day == NEW_OFFER:
                self._add_arm(NEW_ARM)
            weather = self._business.weather()
            for hour in range(OPEN, CLOSE):
                start = (date + datetime.timedelta(hours=hour)).timestamp()
                if start >= self._now:
                    break
                self._hour(day, hour, start, weather, date.weekday() >= 5)
            self._end_day((date + datetime.timedelta(days=1)).timestamp())
        self._live.write_snapshot(lambda job: job(), self._now)

    def _hour(self, day: int, hour: int, start: float, weather: str, weekend: bool) -> None:
        written: list[NewDecision | NewReward] = []
        moments = sorted(self._business.moment() for _ in range(self._business.customers(self._customers)))
        for part in moments:
            at = start + 3600 * part
            if not self._now - 7 * WEEKS * DAY <= at < self._now:
                continue
            visit = self._business.visit(day, hour + part, weather, weekend)
            context = self._live.contexts.plain(visit.context)
            made = self._live.replica.propose(visit.store, context)
            arm = str(made.arm)
            written.append(
                NewDecision(
                    FLEET, made.id, at, visit.store, arm, made.propensity, decision_body(made, context),
                    self._live.definition["policy"], __version__, created=self._live.created,
                )
            )  # fmt: skip
            if self._business.is_reported():
                reward = self._business.sale(visit, arm, day)
                heapq.heappush(self._due, (at + self._business.delay(), made.id, reward))
        end = min(start + 3600.0, self._now)
        while self._due and self._due[0][0] <= end:
            at, decision, reward = heapq.heappop(self._due)
            written.append(NewReward(decision, reward, at))
        self._write(written)

    def _write(self, entries: list[NewDecision | NewReward]) -> None:
        if entries:
            done = self._storage.write([entries])
            assert all(outcome.kind == ACCEPTED for outcome in done.outcomes[0])
            for name, changes in done.changes.items():
                self._live.apply(done.before[name], changes)

    def _end_day(self, end: float) -> None:
        """Estimate the population, and publish it; let go what has waited too long by then."""
        if self._live.replica.n_rewards:
            self._live.replica.refresh()
            self._live.publish(self._publish)
        while self._storage.expire(FLEET, end - DEFINITION["time_to_live"], SLICE) == SLICE:
            pass

    def _publish(self, population: bytes) -> None:
        number = self._live.own_population = self._storage.add_population(FLEET, population)
        self._live.apply(number - 1, [Change(number, "population", data=population)])

    def _add_arm(self, arm: str) -> None:
        definition: dict[str, Any] = self._live.definition
        new = json.loads(json.dumps({**definition, "arms": [*definition["arms"], arm]}))
        self._storage.change_arms(FLEET, new, definition)
        self._live.follow()


def announcement(history: History, seconds: float) -> str:
    """Return what is said of a history: that it was made, or that there is one."""
    if history.made:
        return (
            f"the demo: wrote {WEEKS} simulated weeks of {len(STORES)} stores, {history.decisions:,} decisions, to "
            f"fleet {FLEET!r} in {seconds:.1f} s; customers go on coming, one every few seconds"
        )
    return (
        f"the demo: fleet {FLEET!r} is there with {history.decisions:,} decisions, so no history is written; "
        "customers go on coming, one every few seconds"
    )
