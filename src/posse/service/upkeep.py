"""What happens by itself, on one thread: following the log, leading, and jobs for fleets and for all.

Each job has a period, and the dearer ones rest for a multiple of what they cost. What fails for one fleet is tried
again after a pause, and keeps nothing else from being done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING

from posse.errors import PosseError, StorageMismatch
from posse.service.heap import Heap
from posse.service.live_fleet import LiveFleet
from posse.service.roster import BUSY_SECONDS
from posse.storage import Change, NewReward, Progress

if TYPE_CHECKING:
    from posse.service.runtime import Runtime

WARM_SECONDS, LONGEST_PAUSE = 0.5, 60.0  # between two tries to load compiled code: twice as long every time
LOAD_SECONDS = 0.02  # between two lots of fleets that are loaded after a start
CHECK_SECONDS = 0.030  # between two moments of comparing a fleet with its log
TURN_SECONDS = 0.5  # of a turn that one kind of long work may take
LONGEST_REST = 0.050  # seconds between two parts of a snapshot
MANY_CHANGES = 20_000  # after which a snapshot is due at once: a restart reads all since the last

# Periods in seconds of what is done again and again; calm: how many times as long as it took it rests, if that is more.
LEAD, KEEP_CLOCK, KEY_USE = 1.0, 10.0, 30.0
EXPIRE, PRUNE = 5.0, 60.0  # at most: a tenth of the time to live, or of the retention, if that is shorter
MEASURES, EVERYONE = (0.0, 100.0), (1.0, 150.0)  # period, and calm; with a thousand fleets they take some work
LONGEST_CALM = 5.0
SNAPSHOT_CALM = 20.0

SLICE_SECONDS = 0.010  # that a slice of long work may take, so that a decision which waits for it is still quick
FEWEST, FIRST, MOST = 10, 100, 1000  # rows of a slice

logger = logging.getLogger("posse.service")


class Periods:
    """When jobs are due, by name."""

    def __init__(self) -> None:
        self._due: dict[Hashable, float] = {}

    def is_due(self, job: Hashable) -> bool:
        """Whether a job is to be done now."""
        return time.monotonic() >= self._due.get(job, 0.0)

    def rest(self, job: Hashable, seconds: float) -> None:
        """Let a job be due again after so long."""
        self._due[job] = time.monotonic() + seconds

    def take(self, job: Hashable, seconds: float) -> bool:
        """Whether a job is to be done now; if so, it is due again after so long."""
        due = self.is_due(job)
        if due:
            self.rest(job, seconds)
        return due

    def clear(self) -> None:
        """Let everything be due."""
        self._due.clear()


class Slices:
    """Cuts long work in the database into short transactions, so that requests go in between.

    Parameters
    ----------
    stopped : callable
        Whether to leave the rest for later.
    """

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped, self.rows = stopped, FIRST

    def run(self, work: Callable[[int], int], seconds: float = float("inf")) -> bool:
        """Do some work slice by slice, for so long at most; return whether all of it was done.

        ``work`` is given how many rows to work on at most, and returns how many there were: fewer were the last.
        """
        begin = now = time.monotonic()
        while not self._stopped() and now - begin < seconds:
            asked = self.rows
            done = work(asked)
            took = max(time.monotonic() - now, 1e-6)
            # Twice as many at most: one quick slice says little about the next.
            self.rows = round(min(max(asked * min(SLICE_SECONDS / took, 2.0), FEWEST), MOST))
            if done < asked:
                return True
            time.sleep(took)
            now = time.monotonic()
        return False


class Upkeep:
    """The thread that keeps a service going.

    Parameters
    ----------
    runtime : Runtime
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.periods, self.heap = Periods(), Heap()
        self._slices, self.sweeping = Slices(lambda: runtime.stopping), threading.Lock()
        self._looked_at: dict[str, int] = {}
        self._snapshots: dict[str, tuple[float, float]] = {}  # when the last one was written, and what that took
        self.repairer: threading.Thread | None = None
        self.of_fleets: dict[str, Callable[[LiveFleet, Progress], None]] = {
            "publishing": self._publish_news,
            "expiry": lambda live, row: self.expire(live, row, runtime.clock()),
            "snapshot": self._snapshot_news,
            "pruning": lambda live, _: self.prune(live, runtime.clock()),
        }
        """What one process does for each fleet."""

    def run(self) -> None:
        """Load compiled code and fleets, and look after them until the service stops."""
        runtime, begin, warned = self._runtime, time.monotonic(), ""
        self.warm()
        runtime.problem = "fleets are being loaded"
        while not runtime.stopping:
            pause = runtime.settings.follow_seconds
            try:
                if not runtime.opened:
                    runtime.open()
                self._lead()
                runtime.keys.replace(runtime.storage.keys(revoked=True))
                rows = {row.name: row for row in runtime.storage.progress()}
                if runtime.roster.follow(rows):
                    self.heap.settle(live.replica for live in runtime.roster.all())
                else:
                    pause = min(pause, LOAD_SECONDS)
                if not runtime.ready:
                    logger.info("ready after %.1f s", time.monotonic() - begin)
                runtime.ready, runtime.problem, warned = True, "", ""
                self._note_measures(rows)
                if runtime.leading:
                    self._look_after_all(rows)
                    self.sweep(TURN_SECONDS, patience=0.0)
                if self.periods.take("key use", KEY_USE):
                    self._keep_key_uses()
                self._repair_one()
                self._compare(pause, rows)
                continue
            except PosseError as error:
                if runtime.opened and isinstance(error, StorageMismatch):
                    runtime.writer.disk.failed(error)
                elif str(error) != warned:
                    logger.warning("%s; trying again", error)
                runtime.problem, warned = runtime.public(error), str(error)
                runtime.ending.wait(0.5)
            except Exception:
                logger.exception("looking after the fleets failed; trying again")
                runtime.ending.wait(1.0)
            runtime.ending.wait(pause)

    def _rest_calmly(self, job: Hashable, begin: float, period: float, calm: float) -> None:
        """Let a job rest for a multiple of what it took."""
        self.periods.rest(job, min(max(period, calm * (time.monotonic() - begin)), LONGEST_CALM))

    def warm(self) -> None:
        """Load compiled code, however often that takes: without it nothing could be decided or learned."""
        runtime, pause = self._runtime, WARM_SECONDS

        def tell() -> None:
            runtime.problem = str(runtime.warming)

        while not runtime.stopping:
            try:
                runtime.warming.run(tell, runtime.ending.is_set)
                return
            except Exception:
                logger.exception("compiled code could not be loaded; trying again in %g s", pause)
                tell()
            runtime.ending.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def finish(self, seconds: float) -> None:
        """Write what must not be lost when the service stops: last snapshots, the clock and uses of keys."""
        if self.repairer is not None:
            self.repairer.join(seconds)
        if self._runtime.leading:
            self.write_last_snapshots(seconds)
            self._keep_clock()
        self._keep_key_uses()

    # For all.

    def _lead(self) -> None:
        """Find out whether the disk can be written to, who leads, and what time it is."""
        runtime = self._runtime
        if not self.periods.take("leading", LEAD):
            return
        if runtime.writer.disk.problem is not None or not runtime.writer.disk.tried:
            runtime.writer.probe()
        try:
            leading = runtime.storage.lead()
            runtime.leader_known = True
        except PosseError:
            leading = runtime.leader_known = False
            raise
        finally:
            if leading != runtime.leading:
                logger.info("this process %s", "learns from now on" if leading else "no longer learns")
                runtime.leading = runtime.roster.leading = leading
        runtime.steady.look(runtime.storage.now())
        if leading and self.periods.take("clock", KEEP_CLOCK):
            self._keep_clock()

    def _note_measures(self, rows: dict[str, Progress]) -> None:
        if self.periods.is_due("measures"):
            begin = time.monotonic()
            self._runtime.note_measures(rows)
            self._rest_calmly("measures", begin, *MEASURES)

    def _keep_clock(self) -> None:
        runtime = self._runtime
        if not runtime.steady.held:
            with suppress(PosseError):  # a full disk is found out by others, and is no reason to stop here
                runtime.writer.run(lambda: runtime.storage.keep_clock(runtime.steady.kept))

    def _keep_key_uses(self) -> None:
        runtime, uses = self._runtime, self._runtime.keys.take_uses()
        if uses:
            with suppress(PosseError):  # as above
                runtime.writer.run(lambda: runtime.storage.note_key_use(uses))

    def sweep(self, seconds: float = float("inf"), patience: float = -1.0) -> bool:
        """Remove rows of what was deleted, in slices, for so long at most; return whether none is left.

        Others who do so are waited for, ``patience`` seconds at most if that is not negative.
        """
        # One at a time: whoever finds nothing left must not be quicker than another's last slice.
        if not self.sweeping.acquire(timeout=patience):
            return False
        try:
            return self._slices.run(lambda limit: limit if self._runtime.storage.sweep(limit) else 0, seconds)
        finally:
            self.sweeping.release()

    def _repair_one(self) -> None:
        """Try a fleet again that is set aside, on a thread of its own: a large one may take long."""
        if self.repairer is not None and self.repairer.is_alive():
            return
        name = self._runtime.roster.to_repair()
        if name is not None:
            self.repairer = threading.Thread(target=self._repair, args=(name,), name="posse-repair", daemon=True)
            self.repairer.start()

    def _repair(self, name: str) -> None:
        try:
            self._runtime.repair(name, from_log=False)
        except Exception as error:
            logger.info("fleet %r is still set aside: %s", name, error)

    def _compare(self, seconds: float, rows: dict[str, Progress]) -> None:
        """Wait, and compare fleets with their logs meanwhile: in moments, since requests wait for each of them."""
        runtime, end = self._runtime, time.monotonic() + seconds
        while not runtime.stopping and (left := end - time.monotonic()) > 0:
            comparing = runtime.checker.step(runtime.storage, runtime.roster, rows)
            runtime.ending.wait(min(left, CHECK_SECONDS) if comparing else left)

    # For fleets.

    def _look_after_all(self, rows: dict[str, Progress]) -> None:
        """Look after fleets that have news, and now and then after all: a thousand that are idle cost nothing."""
        begin, everyone = time.monotonic(), self.periods.is_due("everyone")
        for live in self._runtime.roster.all():
            row = rows.get(live.name)
            if row is not None and (everyone or row.changes != self._looked_at.get(live.name)):
                self._looked_at[live.name] = row.changes
                for what, job in self.of_fleets.items():
                    self._runtime.roster.attempt(live, what, lambda: job(live, row))  # noqa: B023
        if everyone:
            self._rest_calmly("everyone", begin, *EVERYONE)

    def _publish_news(self, live: LiveFleet, _row: Progress) -> None:
        live.publish(lambda population: self.publish(live, population))
        live.publish_drift(lambda data: self._publish_drift(live, data))

    def publish(self, live: LiveFleet, population: bytes) -> None:
        """Write a population to the log and let the fleet have it."""

        def job() -> None:
            if live.is_there():
                number = live.own_population = self._runtime.storage.add_population(live.name, population)
                # Here, so that rewards which are written next find all before them applied.
                live.apply(number - 1, [Change(number, "population", data=population)], patience=BUSY_SECONDS)

        self._runtime.writer.run(job)

    def _publish_drift(self, live: LiveFleet, data: bytes) -> None:
        def job() -> None:
            if live.is_there():
                number = self._runtime.storage.add_drift(live.name, data)
                live.apply(number - 1, [Change(number, "drift", data=data)], patience=BUSY_SECONDS)

        self._runtime.writer.run(job)

    def expire(self, live: LiveFleet, row: Progress, now: float) -> None:
        """Let decisions go that have waited too long for their rewards, or give them the absent one."""
        storage, writer = self._runtime.storage, self._runtime.writer
        lifetime, absent = live.definition["time_to_live"], live.definition["absent_reward"]
        if lifetime is None or self._runtime.steady.held:
            return
        if not self.periods.take(("expiry", live.name), min(lifetime / 10, EXPIRE)):
            return
        before = now - lifetime - self._runtime.steady.allowance(lifetime)
        holds = absent is not None and not live.definition["count_pending"]
        # A read that finds nothing costs far less than a write that changes nothing.
        if not (row.pending or holds) or not storage.waiting(live.name, before, 1):
            return

        def expire(limit: int) -> int:
            if absent is None:
                return writer.run(lambda: storage.expire(live.name, before, limit))
            late = storage.waiting(live.name, before, limit)
            groups = [[NewReward(decision_id, absent, now, expiring=True)] for decision_id in late]
            if groups:
                writer.run(lambda: self._runtime.learn_written(storage.write(groups)))
            return len(late)

        if not self._slices.run(expire, TURN_SECONDS):
            self.periods.rest(("expiry", live.name), 0.0)  # goes on at the next turn

    def prune(self, live: LiveFleet, now: float) -> None:
        """Let rows leave the log that are older than the fleet's retention."""
        retention, steady = live.definition["retention"], self._runtime.steady
        if (
            retention is None
            or steady.held
            or not self.periods.take(("pruning", live.name), min(retention / 10, PRUNE))
        ):
            return
        before = now - retention - steady.allowance(retention)
        if not self._slices.run(lambda limit: self._runtime.storage.prune(live.name, before, limit), TURN_SECONDS):
            self.periods.rest(("pruning", live.name), 0.0)

    # Snapshots.

    def _snapshot_news(self, live: LiveFleet, row: Progress) -> None:
        erased, news = 0 < row.snapshot < row.erasure, row.changes - row.snapshot
        at, cost = self._snapshots.setdefault(live.name, (time.monotonic(), 0.0))
        pause = self._runtime.settings.snapshot_seconds if news < MANY_CHANGES else 0.0
        due = news > 0 and time.monotonic() - at >= max(pause, SNAPSHOT_CALM * cost)
        if (erased or due) and not live.keeping.locked():
            with live.working_if_free(BUSY_SECONDS) as free:
                pass
            if free:  # or else at the next turn: others are to be looked after
                self.write_snapshot(live, row.erasure if erased else None)

    def write_snapshot(self, live: LiveFleet, since: int | None = None) -> None:
        """Write a snapshot of a fleet, which replaces all before it.

        Parameters
        ----------
        live : LiveFleet
        since : int, optional
            The number of a change: none is written if the newest one has it, as another thread may have seen to.
        """
        runtime = self._runtime
        with live.keeping:
            row = None if since is None else runtime.storage.fleet(live.name)
            if row is not None and since is not None and row.created == live.created and row.snapshot >= since:
                return
            begin = time.monotonic()
            live.write_snapshot(runtime.writer.run, runtime.clock(), self._rest)
            end = time.monotonic()
            self._snapshots[live.name] = end, end - begin

    def _rest(self, seconds: float) -> None:
        """Leave the thread that writes to requests for as long as a part of a snapshot took."""
        self._runtime.ending.wait(min(seconds, LONGEST_REST))

    def write_last_snapshots(self, seconds: float) -> None:
        """Write snapshots of all fleets with news, for so long at most."""
        runtime, end = self._runtime, time.monotonic() + seconds
        try:
            rows = runtime.storage.progress()
        except PosseError as error:
            logger.warning("no last snapshots: %s", error)
            return
        for row in rows:
            live = runtime.roster.find(row.name)
            if time.monotonic() > end:
                logger.warning("no last snapshots from fleet %r on, for lack of time; their logs have it all", row.name)
                return
            try:
                if live is not None and live.created == row.created and row.changes > row.snapshot:
                    live.write_snapshot(runtime.writer.run, runtime.clock())
            except Exception as error:
                logger.warning("no last snapshot of fleet %r: %s", row.name, error)
