"""What runs behind the routes: storage, the thread that writes, fleets that follow their logs, and who learns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from posse.errors import InvalidValue, PosseError, StorageMismatch, StorageUnavailable
from posse.service.errors import ApiError
from posse.service.keys import KeyRing
from posse.service.live import LiveFleet
from posse.service.settings import Settings
from posse.service.warming import Warming
from posse.service.writer import Writer
from posse.storage import FleetRow, NewReward, Storage, Written, open_storage

WARM_SECONDS, LONGEST_PAUSE = 0.5, 60.0  # between two tries of what failed: twice as long every time
LEAD_SECONDS = 1.0  # between two tries to be the one that learns
AT_ONCE = 1000  # decisions that are let go in one transaction
MANY_CHANGES = 20_000  # after which a snapshot is due at once: a restart reads all since the last
PRUNE_SECONDS = 60.0
EXPIRE_SECONDS = 5.0  # after which it is asked again, at the latest, who has waited too long
STOP_SECONDS = 20.0  # that what happens by itself may take to end
AWAY = "the database does not answer (the log of this service says more)"
CALM = 20  # a snapshot is written at most in one part of so many of the time

logger = logging.getLogger("posse.service")


class Engine:
    """All that outlives a request.

    Parameters
    ----------
    settings : Settings
    clock : callable
    """

    storage: Storage
    writer: Writer

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.clock = settings, clock
        self.keys = KeyRing(rule=settings.require_keys)
        self.ready = False
        self.leading, self.leader_known = False, False
        self.problem = "the service is starting"
        self.warming = Warming()
        self._fleets: dict[str, LiveFleet] = {}
        self._loading = threading.Lock()
        self.opened = False
        self._probe_at = 0.0
        self._stop = threading.Event()
        self._led_at = -LEAD_SECONDS
        self._snapshot_at: dict[str, float] = {}
        self._expire_at: dict[str, float] = {}
        self._prune_at: dict[str, float] = {}
        self._snapshot_cost: dict[str, float] = {}
        self._trouble: dict[str, tuple[float, float]] = {}  # by fleet that cannot learn: pause, and since when
        self._keeper = threading.Thread(target=self._keep, name="posse-keeper", daemon=True)

    def start(self) -> None:
        """Open the storage and begin; a database that is away is tried again until it answers."""
        try:
            self._open()
        except StorageUnavailable as error:
            if self.settings.embedded:
                raise
            self.problem = AWAY
            logger.warning("%s; trying again", error)
        self._keeper.start()

    def stop(self) -> None:
        """Write what waits and a last snapshot, and close."""
        self._stop.set()
        if self._keeper.ident is not None:
            self._keeper.join(STOP_SECONDS)
        if self.opened:
            if self.leading:
                for live in list(self._fleets.values()):
                    try:
                        row = self.storage.fleet(live.name)
                        if row is not None and row.changes > row.snapshot:
                            live.write_snapshot(self.writer.run, self.clock())
                    except Exception as error:
                        logger.warning("no last snapshot of fleet %r: %s", live.name, error)
            self.writer.close()
            self.storage.close()

    def _open(self) -> None:
        storage = open_storage(self.settings.database)
        if self.settings.embedded:
            try:
                require_alone(storage, self.settings)
            except BaseException:
                storage.close()
                raise
        self.storage = storage
        self.keys.replace(storage.keys(revoked=True))
        if not self.settings.embedded and not len(self.keys):
            who = "nobody" if self.keys.needed else "this machine only"
            logger.warning("there are no API keys, so this service answers %s; see `posse keys create`", who)
        self.writer = Writer(storage, self._written, self.settings.limits.waiting)
        self.opened = True

    # Fleets.

    def live(self, name: str) -> LiveFleet:
        """Return a fleet that is in memory, or raise."""
        live = self._fleets.get(name)
        if live is None:
            self.require_ready()
            raise unknown_fleet(name)
        return live

    def knows(self, name: str) -> bool:
        """Whether a fleet is in memory."""
        return name in self._fleets

    def look_for(self, name: str) -> None:
        """Load a fleet that another process may just have made; reads the storage."""
        self.require_ready()
        self._load(name)

    def wait_until_ready(self, seconds: float) -> None:
        """Return when all fleets are in memory, or after so long."""
        end = time.monotonic() + seconds
        while not self.ready and time.monotonic() < end:
            time.sleep(0.02)

    def require_ready(self) -> None:
        """Raise until all fleets are in memory."""
        if not self.ready:
            raise ApiError("not_ready", f"{self.problem}; try again in a second", retry_after=1)

    def require_keys(self) -> None:
        """Raise until it is known which keys there are."""
        if not self.opened:
            self.require_ready()

    def _load(self, name: str) -> LiveFleet | None:
        with self._loading:
            # Read here, and not before: whoever deletes a fleet waits for this lock before letting go of it.
            row = self.storage.fleet(name)
            live = self._fleets.get(name)
            if row is None:
                return None
            if live is None or live.created != row.created:
                live = LiveFleet(self.storage, row, self.settings.limits.number)
                live.replica.leading = self.leading
                self._fleets[name] = live
            return live

    @property
    def n_fleets(self) -> int:
        """How many fleets are in memory."""
        return len(self._fleets)

    def public(self, error: PosseError) -> str:
        """Return what anybody may know: a server's words name its address, its user and, misread, bits of passwords."""
        shared = isinstance(error, StorageUnavailable | StorageMismatch) and not self.settings.embedded
        return AWAY if shared else str(error)

    def drop(self, name: str) -> None:
        """Let go of a fleet that was deleted."""
        with self._loading:
            self._fleets.pop(name, None)

    def _written(self, written: Written) -> None:
        """Learn what was just written; on the thread that writes."""
        for name, changes in written.changes.items():
            live = self._fleets.get(name)
            # Where other processes wrote in between, all of it is read together by the keeper, soon after.
            if live is not None and live.applied == written.before[name]:
                live.apply(written.before[name], changes)

    # What happens by itself.

    def _keep(self) -> None:
        begin = time.monotonic()
        self._warm()
        self.problem, warned = "fleets are being loaded", ""
        while not self._stop.is_set():
            try:
                if not self.opened:
                    self._open()
                self._probe()
                self._lead()
                self.keys.replace(self.storage.keys(revoked=True))
                rows = self._follow()
                if not self.ready:
                    logger.info("ready after %.1f s", time.monotonic() - begin)
                self.ready, self.problem, warned = True, "", ""
                if self.leading:
                    for name, live in list(self._fleets.items()):
                        if name in rows:
                            self._look_after(live, rows[name])
            except PosseError as error:
                if str(error) != warned:
                    logger.warning("%s; trying again", error)
                self.problem, warned = self.public(error), str(error)
                self._stop.wait(0.5)
            except Exception:
                logger.exception("looking after the fleets failed; trying again")
                self._stop.wait(1.0)
            self._stop.wait(self.settings.follow_seconds)

    def _warm(self) -> None:
        """Load compiled code, however often that takes: without it nothing could be decided or learned."""

        def tell() -> None:
            self.problem = str(self.warming)

        pause = WARM_SECONDS
        while not self._stop.is_set():
            try:
                self.warming.run(tell, self._stop.is_set)
                return
            except Exception:
                logger.exception("compiled code could not be loaded; trying again in %g s", pause)
                tell()
            self._stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _probe(self) -> None:
        """Find out whether the disk can be written to, at the start and while the last write failed."""
        disk, now = self.writer.disk, time.monotonic()
        if (disk.problem is not None or not disk.tried) and now >= self._probe_at:
            self._probe_at = now + LEAD_SECONDS
            self.writer.probe()

    def _lead(self) -> None:
        now = time.monotonic()
        if now - self._led_at < LEAD_SECONDS:
            return
        self._led_at, self.leader_known = now, False
        try:
            leading = self.storage.lead()
            self.leader_known = True
        except PosseError:
            leading = False
            raise
        finally:
            if leading != self.leading:
                logger.info("this process %s", "learns from now on" if leading else "no longer learns")
                self.leading = leading
                for live in list(self._fleets.values()):
                    live.replica.leading = leading

    def _follow(self) -> dict[str, FleetRow]:
        rows = {row.name: row for row in self.storage.fleets()}
        for name, live in list(self._fleets.items()):
            row = rows.get(name)
            if row is None or row.created != live.created:
                self.drop(name)
        for name, row in rows.items():
            found = self._fleets.get(name) or self._load(name)
            if found is not None and row.changes > found.applied:
                self._follow_one(found)
        return rows

    def _follow_one(self, live: LiveFleet) -> None:
        """Let a fleet apply what it has not; one that cannot is tried again later and keeps nobody else waiting."""
        now = time.monotonic()
        pause, since = self._trouble.get(live.name, (0.0, now))
        if now < since + pause:
            return
        try:
            live.follow()
            self._trouble.pop(live.name, None)
        except PosseError:
            raise  # the database is away: so it is for all
        except Exception:
            pause = min(2 * pause, LONGEST_PAUSE) if pause else WARM_SECONDS
            self._trouble[live.name] = (pause, now)
            logger.exception("fleet %r could not learn what its log says; trying again in %g s", live.name, pause)

    def _look_after(self, live: LiveFleet, row: FleetRow) -> None:
        """Do what one process does for all: publish populations, let old decisions go, write snapshots."""
        live.publish(lambda population: self.writer.run(lambda: self._publish(live, population)))
        now = self.clock()
        self._expire(live, now)
        erased = row.snapshot > 0 and self.storage.erasure(live.name) > row.snapshot
        last = self._snapshot_at.setdefault(live.name, time.monotonic())
        news = row.changes - row.snapshot
        pause = self.settings.snapshot_seconds if news < MANY_CHANGES else 0.0
        pause = max(pause, CALM * self._snapshot_cost.get(live.name, 0.0))
        if erased or (news > 0 and time.monotonic() - last >= pause):
            self.snapshot(live)
        self._prune(live, now)

    def _publish(self, live: LiveFleet, population: bytes) -> None:
        if live.is_there():
            live.own_population = self.storage.add_population(live.name, population)
            live.follow()

    def snapshot(self, live: LiveFleet) -> None:
        """Write a snapshot of a fleet, which replaces all before it."""
        begin = time.monotonic()
        live.write_snapshot(self.writer.run, self.clock())
        self._snapshot_at[live.name] = time.monotonic()
        self._snapshot_cost[live.name] = self._snapshot_at[live.name] - begin

    def _expire(self, live: LiveFleet, now: float) -> None:
        lifetime, absent = live.definition["time_to_live"], live.definition["absent_reward"]
        if lifetime is None or _later(self._expire_at.get(live.name, 0.0) - now, EXPIRE_SECONDS):
            return
        self._expire_at[live.name] = now + min(lifetime / 10, EXPIRE_SECONDS)
        count = AT_ONCE
        while count == AT_ONCE and not self._stop.is_set():
            if absent is None:
                count = self.writer.run(lambda: self.storage.expire(live.name, now - lifetime, AT_ONCE))
                continue
            late = self.storage.waiting(live.name, now - lifetime, AT_ONCE)
            groups = [[NewReward(decision_id, absent, now, expiring=True)] for decision_id in late]
            if groups:
                self.writer.run(lambda: self._written(self.storage.write(groups)))  # noqa: B023
            count = len(late)

    def _prune(self, live: LiveFleet, now: float) -> None:
        retention = live.definition["retention"]
        if retention is None or _later(self._prune_at.get(live.name, 0.0) - now, PRUNE_SECONDS):
            return
        self._prune_at[live.name] = now + min(retention / 10, PRUNE_SECONDS)
        while self.writer.run(lambda: self.storage.prune(live.name, now - retention)) and not self._stop.is_set():
            pass

    # What is asked for now and then; on threads that may wait.

    def erase(self, live: LiveFleet, task: str) -> bool:
        """Delete a task from the log, from memory and from snapshots; False if there is none."""

        def job() -> int | None:
            number = self.storage.erase(live.name, task)
            if number is not None:
                live.follow()
            return number

        if self.writer.run(job) is None:
            return False
        row = self.storage.fleet(live.name)
        if row is not None and row.snapshot:
            try:
                self.snapshot(live)
            except (PosseError, OSError) as error:
                # The old one is not read any more; it is replaced when there is room again.
                logger.warning("the snapshot of fleet %r before an erasure is still there: %s", live.name, error)
        return True

    def change_arms(self, live: LiveFleet, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Give a fleet another definition, whatever other processes do meanwhile."""

        def job() -> bool:
            row = self.storage.fleet(live.name)
            if row is None:
                raise unknown_fleet(live.name)
            new = change(row.definition)
            if new == row.definition:
                return True
            if not self.storage.change_arms(live.name, new, row.definition):
                return False
            live.follow()
            return True

        while not self.writer.run(job):
            pass


def _later(seconds: float, most: float) -> bool:
    """Whether something is to be done later; much later means that the clock was set back, and it is done now."""
    return 0 < seconds <= most


def require_alone(storage: Storage, settings: Settings) -> None:
    """Raise if another process serves the same file; hold it if not."""
    if not storage.lead():
        raise InvalidValue(
            f"another posse serve uses {settings.database}; stop it, or name another file with --database "
            "(several processes can share a PostgreSQL database)"
        )


def unknown_fleet(name: str) -> ApiError:
    """Return the error about a fleet that is not there."""
    return ApiError("unknown_fleet", f"no fleet {name[:100]!r}; create it with PUT /v1/fleets/NAME", "fleet")
