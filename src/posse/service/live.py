"""A fleet in memory that follows its log."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from posse.errors import PosseError
from posse.fleet.replica import Replica
from posse.service.contexts import Contexts
from posse.service.definition import match_arms, new_replica
from posse.storage import Change, FleetRow, Storage, digest_of

PART = 1 << 20  # bytes of a snapshot that are written at a time, so that rewards need not wait for all of it
AT_ONCE = 10_000  # changes that are read at a time
ROWS = "rows"

logger = logging.getLogger("posse.service")


class LiveFleet:
    """What the log says about one fleet, up to some change.

    Parameters
    ----------
    storage : Storage
    row : FleetRow
        The fleet as it is stored; its newest snapshot and all changes since are read.
    largest : float
        How large numbers of contexts may be.
    """

    def __init__(self, storage: Storage, row: FleetRow, largest: float = 1e9) -> None:
        self._storage = storage
        self.name, self.created = row.name, row.created
        self.definition: dict[str, Any] = row.definition
        self._lock = threading.RLock()
        self.replica, self.applied = _from_snapshot(storage, row)
        self._started_from = 0
        self.own_population = 0  # the number of the one that this process wrote last
        self.contexts = Contexts(self.replica.features, largest)
        self._published = -1
        self._catch_up()
        self.replica.start_apart(row.decisions)

    def follow(self) -> int:
        """Apply all changes of the log that were not applied yet; return how many."""
        count = 0
        with self._lock:
            while True:
                changes = self._storage.changes(self.name, self.applied, AT_ONCE)
                if self._was_pruned():
                    self._start_again()
                    continue
                self._apply(changes)
                count += len(changes)
                if len(changes) < AT_ONCE:
                    return count

    def _was_pruned(self) -> bool:
        """Whether changes that were not applied yet may have left the log: those in the newest snapshot may."""
        if self.definition["retention"] is None:
            return False
        row = self._storage.fleet(self.name)
        return row is not None and row.snapshot > max(self.applied, self._started_from)

    def _start_again(self) -> None:
        row = self._storage.fleet(self.name)
        if row is not None:
            replica, number = _from_snapshot(self._storage, row)
            replica.leading = self.replica.leading
            replica.start_apart(row.decisions)
            self.replica, self.applied, self._started_from = replica, number, max(number, row.snapshot)

    def is_there(self) -> bool:
        """Whether this is still the fleet of its name: it may have been deleted, and another made."""
        row = self._storage.fleet(self.name)
        return row is not None and row.created == self.created

    def apply(self, before: int, changes: list[Change]) -> None:
        """Apply changes that this process has just written, and others that came before them, if any."""
        with self._lock:
            if before == self.applied:
                self._apply(changes)
            else:
                self.follow()

    def _apply(self, changes: Iterable[Change]) -> None:
        for kind, group in groupby(changes, key=_kind):
            if kind == ROWS:
                self._learn(list(group))
                continue
            for change in group:
                if kind == "arms":
                    self.definition = json.loads(change.data)
                    match_arms(self.replica, self.definition)
                elif kind == "erase":
                    self.replica.discard(lambda task: digest_of(self.name, str(task)) == change.data)  # noqa: B023
                    self._published = -1  # populations from before have left the log
                elif kind == "population" and change.number != self.own_population:
                    self._adopt(change)
                self.applied = change.number

    def _learn(self, changes: list[Change], *, catching_up: bool = False) -> None:
        # A decision that was given the absent reward when its time was over has counted as that from the start.
        news = [change for change in changes if change.old is None or change.old != change.reward]
        try:
            self.replica.learn(
                [change.task for change in news],
                [change.arm for change in news],
                self.contexts.logged([from_json(change.body)["context"] for change in news]),
                [change.reward for change in news],
                replaces=[change.old for change in news],
                provisional=all(change.kind == "decision" for change in news),
                catching_up=catching_up,
            )
        except PosseError:
            if len(changes) == 1:
                # The log is the truth, and this row of it cannot be learned; the others can.
                logger.exception("change %d of fleet %r cannot be learned", changes[0].number, self.name)
            else:
                for change in changes:
                    self._learn([change], catching_up=catching_up)
        self.applied = changes[-1].number

    def _catch_up(self) -> None:
        """Apply what the log has beyond the snapshot: sums first, then the newest population once."""
        population: Change | None = None
        erased = False
        while True:
            changes = self._storage.changes(self.name, self.applied, AT_ONCE)
            for kind, group in groupby(changes, key=_kind):
                if kind == ROWS:
                    self._learn(list(group), catching_up=True)
                elif kind == "population":
                    *_, population = group
                    self.applied = population.number
                else:
                    if kind == "erase":
                        # The task had its part in populations from before.
                        population, erased = None, True
                    self._apply(group)
            if len(changes) < AT_ONCE:
                break
        if population is None:
            # The snapshot may have one that was never published: whoever wrote it died before it could.
            population = self._storage.population(self.name)
        adopted = population is not None and self._adopt(population)
        if erased and not adopted and self.replica.n_rewards:
            self.replica.refresh()

    def _adopt(self, population: Change) -> bool:
        try:
            adopted = self.replica.adopt(population.data)
        except PosseError as error:
            # Of another version, say. Whoever leads estimates another, so there is no reason to stop here.
            logger.warning("population %d of fleet %r is not taken: %s", population.number, self.name, error)
            return False
        if adopted:
            self._published = self.replica.estimate
        return adopted

    @property
    def published(self) -> bool:
        """Whether the population in force is in the log, as far as it was estimated here."""
        return self._published == self.replica.estimate

    def publish(self, write: Callable[[bytes], None]) -> None:
        """Have the population written to the log if it was estimated here since the last time."""
        if self.published:
            return
        number = self.replica.estimate
        data = self.replica.dump_population()
        if data is not None:
            write(data)
        self._published = number

    def write_snapshot(self, run: Callable[[Callable[[], Any]], Any], time: float) -> int | None:
        """Write a snapshot of what was applied so far; return its number, or None if the fleet is gone.

        ``run`` does something on the thread that writes.
        """
        with self._lock:
            number, write = self.applied, self.replica.freeze()
        with tempfile.TemporaryDirectory(prefix="posse-") as folder:
            path = Path(folder) / "snapshot"
            write(path)
            del write
            # On the thread that writes, so that no other fleet gets this name in between.
            snapshot = run(lambda: self._storage.start_snapshot(self.name, number, time) if self.is_there() else None)
            if snapshot is None:
                return None
            with path.open("rb") as stream:
                for part, data in enumerate(iter(lambda: stream.read(PART), b"")):
                    run(lambda: self._storage.add_snapshot_part(snapshot, part, data))  # noqa: B023
            run(lambda: self._storage.finish_snapshot(snapshot))
        return number


def _kind(change: Change) -> str:
    """Return the kind of a change; rewards and decisions that count are learned together."""
    return ROWS if change.kind in ("reward", "decision") else change.kind


def _from_snapshot(storage: Storage, row: FleetRow) -> tuple[Replica, int]:
    found = storage.snapshot(row.name)
    if found is not None:
        number, parts = found
        with tempfile.TemporaryDirectory(prefix="posse-") as folder:
            path = os.path.join(folder, "snapshot")
            with open(path, "wb") as stream:
                for part in parts:
                    stream.write(part)
            try:
                return Replica.load(path, background=True), number
            except PosseError:
                # The log has it all, unless old rows of it were pruned: say so loudly.
                logger.exception("the snapshot of fleet %r cannot be read; its log is learned from the start", row.name)
    # Arms that came later come again with their changes.
    return new_replica(row.definition), 0
