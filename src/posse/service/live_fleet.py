"""A fleet in memory that follows its log."""

from __future__ import annotations

import gc
import json
import logging
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import compress, groupby
from operator import eq, ne
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter

from posse.errors import PosseError, StorageError
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.fleet.replica import Replica
from posse.service.contexts import Contexts
from posse.service.definition import CATALOGUE, first_replica, known_arms, match_arms, new_replica, read_line
from posse.storage import Change, FleetRow, RewardRun, Storage, digest_of

PART = 1 << 18  # bytes of a snapshot that are written at a time: a few milliseconds that requests wait for
AT_ONCE = 10_000  # changes that are read at a time
LONG_RUN = 500  # rewards that follow each other and are worth being read by themselves
ROWS = "rows"
RELEARNING_CALM = 20  # times as long as it took passes before a log is learned again, so that others have their turn
MOMENT = 0.002  # seconds of learning that cost less to wait for than a thread does

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
    from_log : bool
        Leave snapshots aside and learn the log from its start, unless old rows have left it.
    """

    def __init__(self, storage: Storage, row: FleetRow, largest: float = 1e9, *, from_log: bool = False) -> None:
        self._storage = storage
        self.name, self.created = row.name, row.created
        self.definition: dict[str, Any] = row.definition
        self.threads: CapacityLimiter | None = None  # that requests for this fleet may use
        self._lock = threading.RLock()
        self.keeping = threading.Lock()  # held by whoever has a snapshot written
        self._started_from = 0
        self.own_population = 0  # the number of the one that this process wrote last
        self.took = 0.0  # seconds that applying took the last time and the time before, the lesser of both
        self._took_last = 0.0
        self._learning = False  # what this process has just written
        alone = from_log and storage.is_whole(row.name)
        self._forgot = False  # a task of clicks or counts that others' sites may still know of
        self._relearned, self._relearning_took = -math.inf, 0.0  # when that ended the last time, and how long it took
        self.replica = first_replica(row.definition) if alone else _from_snapshot(storage, row)
        self.contexts = Contexts(self.replica.logged_features, largest)
        self._published, self._estimate_seen = -1, -1
        self.population_at = time.monotonic()  # when it was noted that another population is in force
        if self._catch_up(self.replica):
            self._published = self.replica.estimate
        if self._disagrees(self.replica):
            self._rebuild(row, self.replica)
        self.replica.start_apart(row.decisions)
        self._relearn_if_due()

    @property
    def applied(self) -> int:
        """The number of the last change that was applied."""
        return self.replica.applied

    def follow(self) -> int:
        """Apply all changes of the log that were not applied yet; return how many."""
        count, begin = 0, time.monotonic()
        with self._lock:
            while True:
                changes = self._storage.changes(self.name, self.applied, AT_ONCE)
                if self._was_pruned():
                    self._start_again()
                    continue
                self._apply(self.replica, changes)
                count += len(changes)
                if len(changes) < AT_ONCE:
                    if count:
                        self._note_time(begin)
                    self._relearn_if_due()
                    return count

    def try_arms(self, definition: dict[str, Any]) -> None:
        """Raise if this fleet, or one that is made anew, cannot have the arms of a definition; nothing changes.

        The one that serves may refuse what a new one takes. It must have applied the change before.
        """
        self.replica.try_arms(definition["arms"], definition["retired"], known_arms(definition))
        new_replica(definition)

    def _note_time(self, begin: float) -> None:
        now = time.monotonic() - begin
        self.took, self._took_last = min(now, self._took_last), now

    def _was_pruned(self) -> bool:
        """Whether changes that were not applied yet may have left the log: those in the newest snapshot may."""
        if self.definition["retention"] is None:
            return False
        row = self._storage.fleet(self.name)
        return row is not None and row.snapshot > max(self.applied, self._started_from)

    def _start_again(self) -> None:
        row = self._storage.fleet(self.name)
        if row is not None:
            replica = _from_snapshot(self._storage, row)
            replica.leading = self.replica.leading
            replica.start_apart(row.decisions)
            self.replica, self._started_from = replica, max(replica.applied, row.snapshot)

    def _disagrees(self, replica: Replica) -> bool:
        """Whether a replica has learned more rewards than the log has up to the same change, or fewer."""
        if replica.fades:
            return False  # what is left of old rewards is no count of them
        expected = self._storage.rewards_up_to(self.name, replica.applied)
        learned = int(replica.n_rewards) + replica.unlearned
        if expected is None or expected == learned:
            return False
        logger.error(
            "fleet %r has learned %d rewards, but its log has %d up to change %d; it is learned again",
            self.name, learned, expected, replica.applied,
        )  # fmt: skip
        return True

    def _rebuild(self, row: FleetRow, wrong: Replica | None = None) -> None:
        """Learn all of it again: from the newest snapshot, unless that is ``wrong``, or from the log alone."""
        last, adopted = wrong, False
        if wrong is None:
            last, adopted = self._learned_again(_from_snapshot(self._storage, row))
        assert last is not None
        if wrong is not None or self._disagrees(last):
            if self._storage.is_whole(self.name):
                last, adopted = self._learned_again(first_replica(row.definition))
            else:
                logger.error("old rows of fleet %r have left its log, so it cannot be learned from that", self.name)
        expected = self._storage.rewards_up_to(self.name, last.applied)
        if expected is not None and not last.fades:
            # Whatever is left of the difference has no remedy, and was said; it is no news the next time.
            last.unlearned = expected - int(last.n_rewards)
        self.replica = last
        self._published = last.estimate if adopted else -1

    def relearn(self) -> bool:
        """Learn all of it again from the log alone, while what is there goes on serving; False if that cannot be."""
        row = self._storage.fleet(self.name)
        if row is None or row.created != self.created:
            return False
        replica, adopted = self._learned_again(first_replica(row.definition))
        with self._lock:
            adopted = self._catch_up(replica) or adopted
            # Asked for last: rows may have left the log while it was read.
            if not self._storage.is_whole(self.name):
                return False
            self.replica = replica
            self._published = replica.estimate if adopted else -1
        return True

    @property
    def is_relearning_due(self) -> bool:
        """Whether the log is to be learned again: after a correction not before the last time is long enough ago."""
        calm = time.monotonic() - self._relearned >= RELEARNING_CALM * self._relearning_took
        return self._forgot or (self.replica.unsettled and calm)

    def _relearn_if_due(self, *, now: bool = False) -> None:
        """Learn the log again without a task that was erased, or with a reward that was corrected.

        Each reward of clicks, counts and catalogues was learned under what all before it said. Where rows have left the
        log, only the task's own are gone, and rewards that could be replaced are.
        """
        if not (self.is_relearning_due or (now and self.replica.unsettled)):
            return
        begin = time.monotonic()
        if self._storage.is_whole(self.name):
            self.relearn()
        else:
            logger.warning("old rows of fleet %r have left its log; what they said of others stays learned", self.name)
        # Not before: what raises is tried again by whoever follows next.
        self._forgot = self.replica.unsettled = False
        self._relearned = time.monotonic()
        self._relearning_took = self._relearned - begin

    def _learned_again(self, replica: Replica) -> tuple[Replica, bool]:
        replica.leading = self.replica.leading
        adopted = self._catch_up(replica)
        replica.start_apart(self.replica.n_decisions)
        return replica, adopted

    def is_there(self) -> bool:
        """Whether this is still the fleet of its name: it may have been deleted, and another made."""
        row = self._storage.fleet(self.name)
        return row is not None and row.created == self.created

    @property
    def patience(self) -> float:
        """For how many seconds a request should wait for this fleet, and everybody with it, before it is handed on.

        Learning what was just written is over sooner than that, and so is each look at sums by an estimate in the
        background; nothing else need be.
        """
        return MOMENT if (self._learning and self.took < MOMENT) or self.replica.refreshing else 0.0

    def working(self) -> AbstractContextManager[Any]:
        """Keep others from applying changes meanwhile."""
        return self._lock

    @contextmanager
    def working_if_free(self, patience: float) -> Iterator[bool]:
        """Keep others from applying changes meanwhile, unless somebody works on it for longer than so many seconds."""
        free = self._lock.acquire(timeout=patience)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def apply(self, before: int, changes: list[Change], patience: float = -1.0) -> bool:
        """Apply changes that this process has just written, and others that came before them, if any.

        False if somebody else worked on the fleet for longer than ``patience`` (seconds; negative: however long), and
        nothing was applied: the log has them for :meth:`follow`.
        """
        if not self._lock.acquire(timeout=patience):
            return False
        try:
            with self.replica.reserved(patience) as reserved:
                if not reserved:
                    return False
                if before == self.applied:
                    begin = time.monotonic()
                    self._learning = True
                    self._apply(self.replica, changes)
                    self._note_time(begin)
                elif patience < 0:
                    self.follow()
                else:
                    return False
                return True
        finally:
            self._learning = False
            self._lock.release()

    def _apply(self, replica: Replica, changes: Iterable[Change]) -> None:
        """Apply changes in order. What is repeated after an error does no harm, and rows are never repeated."""
        for kind, group in groupby(changes, key=_kind):
            if kind == ROWS:
                some = list(group)
                self._learn(replica, _columns(some), provisional=all(one.kind == "decision" for one in some))
                continue
            if kind == "task":
                self._know_tasks(replica, list(group))
                continue
            for change in group:
                if kind == "arms":
                    definition = json.loads(change.data)
                    match_arms(replica, definition)
                    if replica is self.replica or change.number > self.applied:
                        self.definition = definition
                elif kind == "erase":
                    gone = replica.discard(lambda task: digest_of(self.name, str(task)) == change.data)  # noqa: B023
                    self._forgot |= gone > 0 and replica.learns_in_order
                    self._published = -1  # populations from before have left the log
                elif kind == "drift":
                    event = json.loads(change.data)
                    replica.notice(event, lambda task: digest_of(self.name, str(task)).hex() == event["task"])  # noqa: B023
                elif kind == "population" and change.number != self.own_population and self._adopt(replica, change):
                    self._published = replica.estimate
                replica.applied = change.number

    def _know_tasks(self, replica: Replica, changes: list[Change]) -> None:
        at_once = 1 if replica.learns_in_order else len(changes)
        for first in range(0, len(changes), at_once):
            some = changes[first : first + at_once]
            replica.know_tasks(dict(read_line(change.data) for change in some), applied=some[-1].number)

    def _learn(
        self, replica: Replica, rows: RewardRun, *, provisional: bool = False, catching_up: bool = False
    ) -> None:
        """Learn rewards, and decisions that count as one; ``provisional`` says that all of them are such decisions."""
        last, news = rows.numbers[-1], rows
        # A decision that was given the absent reward when its time was over has counted as that from the start; but of
        # clicks, and where rewards are compared, it waits no more.
        if not replica.learns_in_order and not replica.fades and any(map(eq, rows.old, rows.rewards)):
            news = RewardRun._make([*compress(column, map(ne, rows.old, rows.rewards))] for column in rows)
        try:
            replica.learn(
                news.tasks,
                news.arms,
                self.contexts.of_bodies(news.bodies),
                news.rewards,
                replaces=news.old,
                provisional=provisional,
                applied=last,
                catching_up=catching_up,
                times=news.times,
                numbers=news.numbers,
                first=news.first,
            )
        except PosseError:
            if replica.applied == last:
                raise  # they are learned, and something after that failed
            if len(rows.numbers) == 1:
                # The log is the truth, and this row of it cannot be learned; the others can.
                logger.exception("change %d of fleet %r cannot be learned", last, self.name)
                replica.leave_out(last, counts=rows.old[0] is None)
            else:
                for row in zip(*rows, strict=True):
                    one = RewardRun._make((value,) for value in row)
                    if one.numbers[0] > replica.applied:  # some fleets learn row by row, up to the one that failed
                        self._learn(replica, one, provisional=provisional, catching_up=catching_up)

    def _catch_up(self, replica: Replica) -> bool:
        """Apply what the log has beyond a snapshot: sums first, then the newest population once; True if there is one.

        If this raises, all up to ``replica.applied`` is applied.
        """
        population: Change | None = None
        erased = False
        if not replica.applied:
            # Learned from the start: rewards as they are by now, whatever they were before.
            row = self._storage.fleet(self.name)
            replica.settled = 0 if row is None else row.changes
        settled = replica.settled
        while True:
            with _no_collecting():
                for run in self._reward_runs(replica.applied, settled):
                    self._learn(replica, run, catching_up=True)
            changes = self._storage.changes(self.name, replica.applied, AT_ONCE, settled=settled)
            for kind, group in groupby(changes, key=_kind):
                if kind == ROWS:
                    some = list(group)
                    provisional = all(one.kind == "decision" for one in some)
                    with _no_collecting():
                        self._learn(replica, _columns(some), provisional=provisional, catching_up=True)
                elif kind == "population":
                    *_, population = group
                    replica.applied = population.number
                else:
                    if kind == "erase":
                        # The task had its part in populations from before.
                        population, erased = None, True
                    self._apply(replica, group)
            if len(changes) < AT_ONCE:
                break
        replica.applied = max(replica.applied, settled)
        if population is None:
            # The snapshot may have one that was never published: whoever wrote it died before it could.
            population = self._storage.population(self.name)
        adopted = population is not None and self._adopt(replica, population)
        # Clicks and counts were estimated when the task was forgotten; their log has no other place for it.
        if erased and not adopted and replica.n_rewards and not replica.learns_in_order:
            try:
                replica.refresh()
            except Exception:
                logger.exception("the population of fleet %r could not be estimated; tried again later", self.name)
        replica.look()  # here, where nobody waits, and not at the first decision
        return adopted

    def _reward_runs(self, after: int, settled: int) -> Iterator[RewardRun]:
        """Yield long runs of rewards; where a server reads them, the next is read while one is learned."""
        read = partial(self._storage.reward_run, self.name, limit=AT_ONCE, least=LONG_RUN, settled=settled)
        if not self._storage.reads_beside:
            while True:
                run = read(after)
                if run is None:
                    return
                yield run
                after = run.numbers[-1]
        run = read(after)
        if run is None:
            return
        with ThreadPoolExecutor(1, "posse-reader") as reader:
            while run is not None:
                following = reader.submit(read, run.numbers[-1])
                yield run
                run = following.result()

    def _adopt(self, replica: Replica, population: Change) -> bool:
        try:
            return replica.adopt(population.data)
        except PosseError as error:
            # Of another version, say. Whoever leads estimates another, so there is no reason to stop here.
            logger.warning("population %d of fleet %r is not taken: %s", population.number, self.name, error)
            return False

    @property
    def published(self) -> bool:
        """Whether the population in force is in the log, as far as it was estimated here."""
        return self._published == self.replica.estimate

    def note_population(self) -> None:
        """Note whether another population is in force than the last time."""
        estimate = self.replica.estimate
        if estimate != self._estimate_seen:
            self._estimate_seen, self.population_at = estimate, time.monotonic()

    def publish(self, write: Callable[[bytes], None]) -> None:
        """Have the population written to the log if it was estimated here since the last time."""
        if self.published:
            return
        number = self.replica.estimate
        data = self.replica.dump_population()
        if data is not None:
            write(data)
        self._published = number

    def publish_drift(self, write: Callable[[bytes], None]) -> None:
        """Have what was noticed about changes written to the log; it counts from there on, here as elsewhere.

        What could not be written is noticed again if it is so.
        """
        for event in self.replica.noticed():
            if event.get("task") is not None:
                # Names of tasks leave the log when they are erased.
                event["task"] = digest_of(self.name, str(event["task"])).hex()
            write(json.dumps(event).encode())

    def write_snapshot(
        self, run: Callable[[Callable[[], Any]], Any], now: float, rest: Callable[[float], None] = lambda _: None
    ) -> int | None:
        """Write a snapshot of what was applied so far; return its number, or None if the fleet is gone.

        A fleet that has learned another number of rewards than its log has is learned again first. ``run`` does
        something on the thread that writes; between two parts, ``rest`` is told how many seconds the last one took.
        """
        with self._lock:
            if self.is_there() and self._disagrees(self.replica):
                row = self._storage.fleet(self.name)
                if row is not None and row.created == self.created:
                    self._rebuild(row)
            self._relearn_if_due(now=True)  # whoever starts from the snapshot would not know of it
            number, write = self.applied, self.replica.freeze()
        with tempfile.TemporaryDirectory(prefix="posse-") as folder:
            path = Path(folder) / "snapshot"
            write(path)
            del write
            # On the thread that writes, so that no other fleet gets this name in between.
            snapshot = run(lambda: self._storage.start_snapshot(self.name, number, now) if self.is_there() else None)
            if snapshot is None:
                return None
            with path.open("rb") as stream:
                took = 0.0
                for part, data in enumerate(iter(lambda: stream.read(PART), b"")):
                    if part:
                        rest(took)
                    begin = time.monotonic()
                    run(lambda: self._storage.add_snapshot_part(snapshot, part, data))  # noqa: B023
                    took = time.monotonic() - begin
            run(lambda: self._storage.finish_snapshot(snapshot))
        return number


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Look for no garbage meanwhile: thousands of rows are none, and looking takes as long as reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _kind(change: Change) -> str:
    """Return the kind of a change; rewards and decisions that count are learned together."""
    return ROWS if change.kind in ("reward", "decision") else change.kind


def _columns(changes: list[Change]) -> RewardRun:
    number, _, tasks, arms, bodies, rewards, _, old, times, first = zip(*changes, strict=True)
    return RewardRun(number, tasks, arms, bodies, rewards, old, times, first)


def read_snapshot(storage: Storage, fleet: str) -> Replica | None:
    """Return what the newest snapshot of a fleet has learned, None if there is none; raise if it cannot be read."""
    row = storage.fleet(fleet)
    is_catalogue = row is not None and row.definition.get("kind") == CATALOGUE
    found = storage.snapshot(fleet)
    if found is None:
        return None
    number, parts = found
    with tempfile.NamedTemporaryFile(prefix="posse-") as stream:
        for part in parts:
            stream.write(part)
        stream.flush()
        replica = (CatalogueReplica if is_catalogue else Replica).load(stream.name, background=True)
    replica.applied = number
    return replica


def _from_snapshot(storage: Storage, row: FleetRow) -> Replica:
    try:
        replica = read_snapshot(storage, row.name)
    except StorageError:
        raise
    except PosseError:
        # The log has it all, unless old rows of it were pruned: say so loudly.
        logger.exception("the snapshot of fleet %r cannot be read; its log is learned from the start", row.name)
        replica = None
    # Arms that came later come again with their changes.
    return first_replica(row.definition) if replica is None else replica
