"""What runs behind the routes: storage, the thread that writes, fleets that follow their logs, and who leads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from posse.errors import InvalidValue, PosseError, StorageMismatch, StorageUnavailable
from posse.service.clock import SteadyClock
from posse.service.http.errors import ApiError
from posse.service.keys import KeyRing
from posse.service.live_fleet import LiveFleet
from posse.service.measures import Measures
from posse.service.roster import BUSY_SECONDS, Roster, set_aside, unknown_fleet
from posse.service.settings import Settings
from posse.service.upkeep import Upkeep
from posse.service.verify import Checker
from posse.service.warming import Warming
from posse.service.writer import Writer
from posse.storage import Change, Progress, Storage, Written, digest_of, open_storage

ERASE_SECONDS = 10.0  # for which whoever erases a task waits until its last row is gone
SLOW_SECONDS = 0.050  # after which a fleet does not learn on the thread that writes any more
STOP_SECONDS = 20.0  # that what happens by itself may take to end
AWAY = "the database does not answer (the log of this service says more)"

logger = logging.getLogger("posse.service")


class Runtime:
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
        self.checker, self.measures = Checker(), Measures()
        self.keys = KeyRing(rule=settings.require_keys)
        self.ready = self.opened = self.leading = self.leader_known = False
        self.problem = "the service is starting"
        self.warming = Warming()
        self.ending = threading.Event()
        self.upkeep = Upkeep(self)
        self._upkeep = threading.Thread(target=self.upkeep.run, name="posse-upkeep", daemon=True)

    # Opening and closing.

    def start(self) -> None:
        """Open the storage and begin; a database that is away is tried again until it answers."""
        try:
            self.open()
        except StorageUnavailable as error:
            if self.settings.embedded:
                raise
            self.problem = AWAY
            logger.warning("%s; trying again", error)
        self._upkeep.start()

    def open(self) -> None:
        """Open the storage."""
        storage = open_storage(self.settings.database)
        try:
            if self.settings.embedded:
                require_alone(storage, self.settings)
            self.storage = storage
            self.steady.resume(storage.clock(), storage.now())
            self.keys.replace(storage.keys(revoked=True))
            if not self.settings.embedded and not len(self.keys):
                who = "nobody" if self.keys.needed else "this machine only"
                logger.warning(
                    "there are no API keys, so this service answers %s; see `posse service keys create`", who
                )
            self.roster = Roster(storage, self.settings.limits.number, self.public)
            self.writer = Writer(storage, self.learn_written, self.settings.limits.waiting, self.measures.wrote)
        except BaseException:
            storage.close()
            raise
        self.opened = True

    @property
    def stopping(self) -> bool:
        """Whether this is being stopped: what takes long is given up."""
        return self.ending.is_set()

    def stop(self) -> None:
        """Write what waits and a last snapshot, and close."""
        self.ending.set()
        if self._upkeep.ident is not None:
            self._upkeep.join(STOP_SECONDS)
        if self.opened:
            self.upkeep.finish(STOP_SECONDS)
            self.writer.close()
            self.storage.close()
        self.upkeep.heap.release()

    # Readiness.

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

    def public(self, error: PosseError) -> str:
        """Return what anybody may know: a server's words name its address, its user and, misread, bits of passwords."""
        shared = isinstance(error, StorageUnavailable | StorageMismatch) and not self.settings.embedded
        return AWAY if shared else str(error)

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

    @property
    def n_fleets(self) -> int:
        """How many fleets are in memory."""
        return len(self.roster) if self.opened else 0

    def learn_written(self, written: Written) -> None:
        """Learn what was just written; on the thread that writes."""
        for name, changes in written.changes.items():
            live = self.roster.find(name)
            # Where other processes wrote in between, all of it is read together by upkeep, soon after; so it is where
            # learning failed, and for a fleet that somebody works on, or that takes long to learn: others must not wait
            # for it.
            at_once = live is not None and live.applied == written.before[name] and live.took < SLOW_SECONDS
            if live is not None and at_once and self.roster.can_learn(name):
                try:
                    live.apply(written.before[name], changes, patience=BUSY_SECONDS)
                except Exception:
                    logger.exception("fleet %r could not learn at once what was written", name)

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

    def know_tasks(self, live: LiveFleet, about: list[tuple[str, bytes]]) -> bool:
        """Write what is known about tasks and apply it; False if the fleet is gone."""

        def job() -> int:
            if not live.is_there():
                return 0
            number = self.storage.know_tasks(live.name, about, self.clock())
            first = number - len(about) + 1
            lines = [digest_of(live.name, task) + data for task, data in about]
            changes = [Change(at, "task", data=line) for at, line in enumerate(lines, first)]
            # Here, so that rewards which are written next find all before them applied. If somebody works on the fleet,
            # the log has it for whoever follows.
            live.apply(first - 1, changes, patience=BUSY_SECONDS)
            return number

        number: int = self.writer.run(job)
        return number > 0

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
                self.roster.attempt(live, "snapshot", lambda: self.upkeep.write_snapshot(live, change))
        try:
            self.upkeep.sweep(ERASE_SECONDS, patience=ERASE_SECONDS)
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
            self.roster.attempt(live, "snapshot", lambda: self.upkeep.write_snapshot(live))


def require_alone(storage: Storage, settings: Settings) -> None:
    """Raise if another process serves the same file; hold it if not."""
    if not storage.lead():
        raise InvalidValue(
            f"another posse serve uses {settings.database}; stop it, or name another file with --database "
            "(several processes can share a PostgreSQL database)"
        )
