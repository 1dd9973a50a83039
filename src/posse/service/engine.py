"""What runs behind the routes: storage, the thread that writes, fleets that follow their logs, and who learns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from posse.errors import InvalidValue, PosseError, StorageMismatch, StorageUnavailable
from posse.service.checking import Checker
from posse.service.clock import SteadyClock
from posse.service.heap import Heap
from posse.service.http.errors import ApiError
from posse.service.keys import KeyRing
from posse.service.live_fleet import LiveFleet
from posse.service.measures import Measures
from posse.service.roster import BUSY_SECONDS, Roster, set_aside, unknown_fleet
from posse.service.settings import Settings
from posse.service.slices import Slices
from posse.service.warming import Warming
from posse.service.writer import Writer
from posse.storage import Change, NewReward, Progress, Storage, Written, digest_of, open_storage

WARM_SECONDS, LONGEST_PAUSE = 0.5, 60.0  # between two tries to load compiled code: twice as long every time
LOAD_SECONDS = 0.02  # between two lots of fleets that are loaded after a start
LEAD_SECONDS = 1.0  # between two tries to be the one that learns
TURN_SECONDS = 0.5  # of a turn of the maintenance thread that one kind of long work may take
ERASE_SECONDS = 10.0  # for which whoever erases a task waits until its last row is gone
SLOW_SECONDS = 0.050  # after which a fleet does not learn on the thread that writes any more
MANY_CHANGES = 20_000  # after which a snapshot is due at once: a restart reads all since the last
PRUNE_SECONDS = 60.0
CHECK_SECONDS = 0.030  # between two moments of comparing a fleet with its log
UPKEEP_SECONDS = 1.0  # after which fleets without news are looked after, too
LONGEST_UPKEEP = 5.0  # seconds between two such looks, at most
UPKEEP_CALM = 150.0  # times as long as that took, if it is more: a thousand of them take some work
NOTE_CALM, LONGEST_NOTE = (
    100,
    5.0,
)  # measures are noted in one part of so many of the time, after so many seconds at most
KEEP_CLOCK_SECONDS = 10.0  # after which it is kept again what time it is
EXPIRE_SECONDS = 5.0  # after which it is asked again, at the latest, who has waited too long
KEY_USE_SECONDS = 30.0  # after which it is written again when keys were used
STOP_SECONDS = 20.0  # that what happens by itself may take to end
AWAY = "the database does not answer (the log of this service says more)"
LONGEST_REST = 0.050  # seconds between two parts of a snapshot
CALM = 20  # a snapshot is written at most in one part of so many of the time

logger = logging.getLogger("posse.service")


class Engine:
    """All that outlives a request.

    Parameters
    ----------
    settings : Settings
    clock : SteadyClock, optional
        Default: that of this machine, or of a database that is shared.
    """

    storage: Storage
    writer: Writer
    roster: Roster

    def __init__(self, settings: Settings, clock: SteadyClock | None = None) -> None:
        self.settings = settings
        self.steady = SteadyClock() if clock is None else clock
        self.clock: Callable[[], float] = self.steady
        self._clock_kept_at = -KEEP_CLOCK_SECONDS
        self.checker = Checker()
        self.measures = Measures()
        self.keys = KeyRing(rule=settings.require_keys)
        self.ready = False
        self.leading, self.leader_known = False, False
        self.problem = "the service is starting"
        self.warming, self.heap = Warming(), Heap()
        self.opened = False
        self._probe_at = 0.0
        self._stop = threading.Event()
        self._led_at = -LEAD_SECONDS
        self._uses_at = 0.0
        self._everyone_at = 0.0
        self._note_at = 0.0
        self._looked_at: dict[str, int] = {}
        self._snapshot_at: dict[str, float] = {}
        self._expire_at: dict[str, float] = {}
        self._prune_at: dict[str, float] = {}
        self._snapshot_cost: dict[str, float] = {}
        self._repairer: threading.Thread | None = None
        self._slices, self._sweeping = Slices(self._stop.is_set), threading.Lock()
        self._maintenance = threading.Thread(target=self._keep, name="posse-maintenance", daemon=True)

    def start(self) -> None:
        """Open the storage and begin; a database that is away is tried again until it answers."""
        try:
            self._open()
        except StorageUnavailable as error:
            if self.settings.embedded:
                raise
            self.problem = AWAY
            logger.warning("%s; trying again", error)
        self._maintenance.start()

    @property
    def stopping(self) -> bool:
        """Whether this is being stopped: what takes long is given up."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Write what waits and a last snapshot, and close."""
        self._stop.set()
        if self._maintenance.ident is not None:
            self._maintenance.join(STOP_SECONDS)
        if self._repairer is not None:
            self._repairer.join(STOP_SECONDS)
        if self.opened:
            if self.leading:
                self._write_last_snapshots()
                self._keep_clock()
            self._keep_key_uses(0.0)
            self.writer.close()
            self.storage.close()
        self.heap.release()

    def _write_last_snapshots(self) -> None:
        try:
            rows = self.storage.progress()
        except PosseError as error:
            logger.warning("no last snapshots: %s", error)
            return
        end = time.monotonic() + STOP_SECONDS
        for row in rows:
            live = self.roster.find(row.name)
            if time.monotonic() > end:
                logger.warning("no last snapshots from fleet %r on, for lack of time; their logs have it all", row.name)
                return
            try:
                if live is not None and live.created == row.created and row.changes > row.snapshot:
                    live.write_snapshot(self.writer.run, self.clock())
            except Exception as error:
                logger.warning("no last snapshot of fleet %r: %s", row.name, error)

    def _open(self) -> None:
        storage = open_storage(self.settings.database)
        try:
            self._begin_with(storage)
        except BaseException:
            storage.close()
            raise

    def _begin_with(self, storage: Storage) -> None:
        if self.settings.embedded:
            require_alone(storage, self.settings)
        self.storage = storage
        self.steady.resume(storage.clock(), storage.now())
        self.keys.replace(storage.keys(revoked=True))
        if not self.settings.embedded and not len(self.keys):
            who = "nobody" if self.keys.needed else "this machine only"
            logger.warning("there are no API keys, so this service answers %s; see `posse service keys create`", who)
        self.roster = Roster(storage, self.settings.limits.number, self.public)
        self.writer = Writer(storage, self._written, self.settings.limits.waiting, self.measures.wrote)
        self.opened = True

    # Fleets.

    def live(self, name: str) -> LiveFleet:
        """Return a fleet that is in memory and serves, or raise."""
        live = self.roster.serving(name) if self.opened else None
        if live is None:
            self.require_ready()
            raise unknown_fleet(name)
        return live

    def knows(self, name: str) -> bool:
        """Whether a fleet is in memory, or is known to be set aside."""
        return self.opened and self.roster.knows(name)

    def look_for(self, name: str) -> LiveFleet:
        """Return a fleet that another process may just have made, or raise; reads the storage."""
        self.require_ready()
        # What was loaded is returned, and not looked up again: whoever follows the log may drop and load it meanwhile.
        return self.roster.load(name) or self.live(name)

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

    @property
    def n_fleets(self) -> int:
        """How many fleets are in memory."""
        return len(self.roster) if self.opened else 0

    def public(self, error: PosseError) -> str:
        """Return what anybody may know: a server's words name its address, its user and, misread, bits of passwords."""
        shared = isinstance(error, StorageUnavailable | StorageMismatch) and not self.settings.embedded
        return AWAY if shared else str(error)

    def _written(self, written: Written) -> None:
        """Learn what was just written; on the thread that writes."""
        for name, changes in written.changes.items():
            live = self.roster.find(name)
            # Where other processes wrote in between, all of it is read together by the maintenance thread, soon after;
            # so it is where learning failed, and for a fleet that somebody works on, or that takes long to learn:
            # others must not wait for it.
            at_once = live is not None and live.applied == written.before[name] and live.took < SLOW_SECONDS
            if live is not None and at_once and self.roster.can_learn(name):
                try:
                    live.apply(written.before[name], changes, patience=BUSY_SECONDS)
                except Exception:
                    logger.exception("fleet %r could not learn at once what was written", name)

    # What happens by itself.

    def _keep(self) -> None:
        begin = time.monotonic()
        self._warm()
        self.problem, warned = "fleets are being loaded", ""
        while not self._stop.is_set():
            pause = self.settings.follow_seconds
            try:
                if not self.opened:
                    self._open()
                self._probe()
                self._lead()
                self.keys.replace(self.storage.keys(revoked=True))
                rows = {row.name: row for row in self.storage.progress()}
                if self.roster.follow(rows):
                    self.heap.settle(live.replica for live in self.roster.all())
                else:
                    pause = min(pause, LOAD_SECONDS)
                if not self.ready:
                    logger.info("ready after %.1f s", time.monotonic() - begin)
                self.ready, self.problem, warned = True, "", ""
                self._note_now_and_then(rows)
                if self.leading:
                    self._look_after_all(rows)
                    self.sweep(TURN_SECONDS, patience=0.0)
                self._keep_key_uses()
                self._repair_one()
                self._pause(pause, rows)
                continue
            except PosseError as error:
                if self.opened and isinstance(error, StorageMismatch):
                    self.writer.disk.failed(error)
                elif str(error) != warned:
                    logger.warning("%s; trying again", error)
                self.problem, warned = self.public(error), str(error)
                self._stop.wait(0.5)
            except Exception:
                logger.exception("looking after the fleets failed; trying again")
                self._stop.wait(1.0)
            self._stop.wait(pause)

    def _pause(self, seconds: float, rows: dict[str, Progress]) -> None:
        """Wait, and compare fleets with their logs meanwhile: in moments, since requests wait for each of them."""
        end = time.monotonic() + seconds
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            comparing = self.checker.step(self.storage, self.roster, rows)
            self._stop.wait(min(left, CHECK_SECONDS) if comparing else left)

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
        self._led_at = now
        try:
            leading = self.storage.lead()
            self.leader_known = True
        except PosseError:
            leading = self.leader_known = False
            raise
        finally:
            if leading != self.leading:
                logger.info("this process %s", "learns from now on" if leading else "no longer learns")
                self.leading = self.roster.leading = leading
        self.steady.look(self.storage.now())
        if self.leading and now - self._clock_kept_at >= KEEP_CLOCK_SECONDS:
            self._keep_clock()
            self._clock_kept_at = now

    def _keep_clock(self) -> None:
        if not self.steady.held:
            with suppress(PosseError):  # a full disk is found out by others, and is no reason to stop here
                self.writer.run(lambda: self.storage.keep_clock(self.steady.kept))

    def _keep_key_uses(self, after: float = KEY_USE_SECONDS) -> None:
        """Write now and then when keys were last used."""
        if time.monotonic() - self._uses_at < after:
            return
        self._uses_at = time.monotonic()
        uses = self.keys.take_uses()
        if uses:
            with suppress(PosseError):  # a full disk is found out by others
                self.writer.run(lambda: self.storage.note_key_use(uses))

    def _repair_one(self) -> None:
        """Try a fleet again that is set aside, on a thread of its own: a large one may take long."""
        if self._repairer is not None and self._repairer.is_alive():
            return
        name = self.roster.to_repair()
        if name is not None:
            self._repairer = threading.Thread(target=self._try_again, args=(name,), name="posse-repair", daemon=True)
            self._repairer.start()

    def _try_again(self, name: str) -> None:
        try:
            self.repair(name, from_log=False)
        except Exception as error:
            logger.info("fleet %r is still set aside: %s", name, error)

    def _look_after_all(self, rows: dict[str, Progress]) -> None:
        """Look after fleets that have news, and now and then after all: a thousand that are idle cost nothing."""
        begin = time.monotonic()
        everyone = begin >= self._everyone_at
        for live in self.roster.all():
            row = rows.get(live.name)
            if row is not None and (everyone or row.changes != self._looked_at.get(live.name)):
                self._looked_at[live.name] = row.changes
                self._look_after(live, row)
        if everyone:
            end = time.monotonic()
            self._everyone_at = end + min(max(UPKEEP_SECONDS, UPKEEP_CALM * (end - begin)), LONGEST_UPKEEP)

    def _look_after(self, live: LiveFleet, row: Progress) -> None:
        """Do what one process does for all; what fails is tried again later, and keeps nothing else from being done."""
        now, attempt = self.clock(), self.roster.attempt
        attempt(live, "publishing", lambda: self._publish_news(live))
        attempt(live, "expiry", lambda: self._expire(live, row, now))
        attempt(live, "snapshot", lambda: self._snapshot_news(live, row))
        attempt(live, "pruning", lambda: self._prune(live, now))

    def _publish_news(self, live: LiveFleet) -> None:
        live.publish(lambda population: self._publish(live, population))
        live.publish_drift(lambda data: self._publish_drift(live, data))

    def _snapshot_news(self, live: LiveFleet, row: Progress) -> None:
        erased = 0 < row.snapshot < row.erasure
        last = self._snapshot_at.setdefault(live.name, time.monotonic())
        news = row.changes - row.snapshot
        pause = self.settings.snapshot_seconds if news < MANY_CHANGES else 0.0
        pause = max(pause, CALM * self._snapshot_cost.get(live.name, 0.0))
        if (erased or (news > 0 and time.monotonic() - last >= pause)) and not live.keeping.locked():
            with live.working_if_free(BUSY_SECONDS) as free:
                pass
            if free:  # or else at the next turn: others are to be looked after
                self.snapshot(live, row.erasure if erased else None)

    def _publish(self, live: LiveFleet, population: bytes) -> None:
        def job() -> None:
            if live.is_there():
                number = live.own_population = self.storage.add_population(live.name, population)
                # Here, so that rewards which are written next find all before them applied.
                live.apply(number - 1, [Change(number, "population", data=population)], patience=BUSY_SECONDS)

        self.writer.run(job)

    def _publish_drift(self, live: LiveFleet, data: bytes) -> None:
        def job() -> None:
            if live.is_there():
                number = self.storage.add_drift(live.name, data)
                live.apply(number - 1, [Change(number, "drift", data=data)], patience=BUSY_SECONDS)

        self.writer.run(job)

    def know_tasks(self, live: LiveFleet, about: list[tuple[str, bytes]]) -> bool:
        """Write what is known about tasks and apply it; False if the fleet is gone."""

        def job() -> int:
            if not live.is_there():
                return 0
            number = self.storage.know_tasks(live.name, about, self.clock())
            first = number - len(about) + 1
            lines = [digest_of(live.name, task) + data for task, data in about]
            changes = [Change(at, "task", data=line) for at, line in enumerate(lines, first)]
            # As above. If somebody works on the fleet, the log has it for whoever follows.
            live.apply(first - 1, changes, patience=BUSY_SECONDS)
            return number

        number: int = self.writer.run(job)
        return number > 0

    def snapshot(self, live: LiveFleet, since: int | None = None) -> None:
        """Write a snapshot of a fleet, which replaces all before it.

        Parameters
        ----------
        live : LiveFleet
        since : int, optional
            The number of a change: none is written if the newest one has it, as another thread may have seen to.
        """
        with live.keeping:
            row = None if since is None else self.storage.fleet(live.name)
            if row is not None and since is not None and row.created == live.created and row.snapshot >= since:
                return
            begin = time.monotonic()
            live.write_snapshot(self.writer.run, self.clock(), self._rest)
            self._snapshot_at[live.name] = time.monotonic()
            self._snapshot_cost[live.name] = self._snapshot_at[live.name] - begin

    def _rest(self, seconds: float) -> None:
        """Leave the thread that writes to requests for as long as a part of a snapshot took."""
        self._stop.wait(min(seconds, LONGEST_REST))

    def _expire(self, live: LiveFleet, row: Progress, now: float) -> None:
        lifetime, absent = live.definition["time_to_live"], live.definition["absent_reward"]
        if lifetime is None or _later(self._expire_at.get(live.name, 0.0) - now, EXPIRE_SECONDS) or self.steady.held:
            return
        self._expire_at[live.name] = now + min(lifetime / 10, EXPIRE_SECONDS)
        before = now - lifetime - self.steady.allowance(lifetime)
        holds = absent is not None and not live.definition["count_pending"]
        # A read that finds nothing costs far less than a write that changes nothing.
        if not (row.pending or holds) or not self.storage.waiting(live.name, before, 1):
            return

        def expire(limit: int) -> int:
            if absent is None:
                return self.writer.run(lambda: self.storage.expire(live.name, before, limit))
            late = self.storage.waiting(live.name, before, limit)
            groups = [[NewReward(decision_id, absent, now, expiring=True)] for decision_id in late]
            if groups:
                self.writer.run(lambda: self._written(self.storage.write(groups)))
            return len(late)

        if not self._slices.run(expire, TURN_SECONDS):
            del self._expire_at[live.name]  # goes on at the next turn

    def _prune(self, live: LiveFleet, now: float) -> None:
        retention = live.definition["retention"]
        if retention is None or _later(self._prune_at.get(live.name, 0.0) - now, PRUNE_SECONDS) or self.steady.held:
            return
        self._prune_at[live.name] = now + min(retention / 10, PRUNE_SECONDS)
        before = now - retention - self.steady.allowance(retention)
        if not self._slices.run(lambda limit: self.storage.prune(live.name, before, limit), TURN_SECONDS):
            del self._prune_at[live.name]

    def sweep(self, seconds: float = float("inf"), patience: float = -1.0) -> bool:
        """Remove rows of what was deleted, in slices, for so long at most; return whether none is left.

        Others who do so are waited for, ``patience`` seconds at most if that is not negative.
        """
        # One at a time: whoever finds nothing left must not be quicker than another's last slice.
        if not self._sweeping.acquire(timeout=patience):
            return False
        try:
            return self._slices.run(lambda limit: limit if self.storage.sweep(limit) else 0, seconds)
        finally:
            self._sweeping.release()

    def _note_now_and_then(self, rows: dict[str, Progress]) -> None:
        """Note how this process is for others, who are asked for metrics; with a thousand fleets that is some work."""
        begin = time.monotonic()
        if begin >= self._note_at:
            self.note_measures(rows)
            end = time.monotonic()
            self._note_at = end + min(NOTE_CALM * (end - begin), LONGEST_NOTE)

    def note_measures(self, rows: dict[str, Progress] | None = None) -> None:
        """Note how this process is, for whoever asks for metrics."""
        behind = {}
        if self.opened and self.ready:
            with suppress(PosseError):  # the database is away; what is known is told
                rows = {row.name: row for row in self.storage.progress()} if rows is None else rows
                for live in self.roster.all():
                    live.note_population()
                    if live.name in rows:
                        behind[live.name] = max(rows[live.name].changes - live.applied, 0)
        waiting = self.writer.waiting if self.opened else 0
        self.measures.look(ready=self.ready, leading=self.leading, waiting=waiting, behind=behind)

    # What is asked for now and then; on threads that may wait.

    def erase(self, name: str, task: str) -> bool:
        """Delete a task from the log, from memory and from snapshots; False if there is none.

        A fleet that is set aside forgets it when it is built anew.
        """
        # Not on the thread that writes: forgetting a task takes as long as estimating the population without it.
        change = self.storage.erase(name, task)
        if change is None:
            return False
        live, row = self.roster.find(name), self.storage.fleet(name)
        if live is not None:
            self.roster.learn(live)
            if row is not None and row.snapshot:
                # If this fails, the old one is not read any more; it is replaced when there is room again.
                self.roster.attempt(live, "snapshot", lambda: self.snapshot(live, change))
        try:
            self.sweep(ERASE_SECONDS, patience=ERASE_SECONDS)
        except (PosseError, OSError) as error:
            logger.warning("rows of fleet %r from before an erasure are still there: %s", name, error)
        return True

    def change_arms(self, live: LiveFleet, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Give a fleet another definition, whatever other processes do meanwhile.

        It is tried on the fleet that serves before it is written, and written only if the definition is still the one
        that it was tried on; so what is in the log can be applied.
        """
        while True:
            row = self.storage.fleet(live.name)
            if row is None or row.created != live.created:
                raise unknown_fleet(live.name)
            old, new = row.definition, change(row.definition)
            if new == old:
                return
            # Nobody teaches it anything between the try and the change, and the thread that writes waits for no fleet.
            with live.working():
                if not self.roster.learn(live):
                    raise set_aside(live.name, str(self.roster.state_of(live.name)[1]))
                live.try_arms(new)
                if self.writer.run(lambda: self.storage.change_arms(live.name, new, old)):  # noqa: B023
                    self.roster.learn(live)  # if not now, then later: it is written
                    return

    def repair(self, name: str, *, from_log: bool = True) -> None:
        """Build a fleet again from its log and serve that; see :meth:`posse.service.roster.Roster.repair`."""
        live = self.roster.repair(name, from_log=from_log)
        if self.leading:
            self.roster.attempt(live, "snapshot", lambda: self.snapshot(live))


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
