"""Compares what a fleet has learned with what its log says, task by task.

The log's sums are added up here by plain array code, not by the kernels that learn. Of clicks and counts, whose beliefs
depend on the order of rewards, sums of rewards, of contexts and of their squares are compared, which do not. Tasks are
taken in slices: what was learned of one is copied under the fleet's lock, which takes no longer than a decision, and
its rows are read after that up to the change that was applied by then. Whoever compares while others are to be served
waits between two slices.

What has left the log by ``retention`` cannot be compared. Of such a task it is known how many rewards it had, and that
what was learned beyond the rows that are left must be sums of squares where it is one. Where numbers fade, sums of
squares must be no larger than those of the log.
"""

from __future__ import annotations

import bisect
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json

from posse.errors import PosseError
from posse.fleet.catalogue_replica import CatalogueReplica, counted
from posse.fleet.names import Label
from posse.fleet.replica import Learned, Replica
from posse.service.contexts import Contexts
from posse.service.live_fleet import LiveFleet
from posse.service.roster import Roster
from posse.storage import REWARDED, FleetRow, LoggedDecision, Progress, Storage, digest_of

AT_ONCE = 50  # tasks whose sums are copied at a time
ROWS = 200  # of the log that are read at a time: a millisecond
TOGETHER = 50  # rows that are added up at a time
NUMBERS = 2_000_000  # that are copied at a time, unless one task has more
TOLERANCE = 1e-9  # of the size that a sum has when nothing in it cancels
MOST = 100  # differences that are told one by one


Pair = tuple[Label, Label]

PAUSE = 3600.0  # seconds between two comparisons of a fleet, if it has changed
WORK = 0.001  # seconds that are worked at a time: others wait for the interpreter meanwhile
CALM = 30  # times as long as that took passes before the next

logger = logging.getLogger("posse.service")


@dataclass(frozen=True, slots=True)
class Difference:
    """A task and an arm whose sums are not those of the log.

    Parameters
    ----------
    task, arm : str
    learned, logged : float
        How many rewards: those that were learned, and those of the log (with rows that have left it, where the arm of
        those does not matter; arm is "" then).
    off : float
        The largest difference between two sums, as a part of the size of what is added up in them.
    """

    task: str
    arm: str
    learned: float
    logged: float
    off: float


@dataclass(slots=True)
class Comparison:
    """What was compared so far.

    Parameters
    ----------
    fleet : str
    applied : int
        The change up to which it was compared last.
    tasks, rewards : int
        How many were compared.
    partial : int
        Tasks of which rows have left the log, so that only what is left was compared, and the number of rewards.
    left_out : int
        Rows of the log that cannot be learned.
    different : int
        Tasks that differ.
    differences : list of Difference
        At most 100 of them.
    next : str or None
        The last task that was compared, if there are more.
    """

    fleet: str
    applied: int = 0
    tasks: int = 0
    rewards: int = 0
    partial: int = 0
    left_out: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    next: str | None = None

    def words(self) -> str:
        """Return the result in one sentence."""
        what = f"fleet {self.fleet!r}, {self.tasks:,} tasks with {self.rewards:,} rewards, up to change {self.applied}"
        more = f"; {self.partial:,} tasks have rows that left the log by retention" if self.partial else ""
        more += f"; {self.left_out:,} rows cannot be learned" if self.left_out else ""
        if not self.different:
            return f"{what}: what was learned is what the log says{more}"
        first = self.differences[0]
        of = f" of arm {first.arm!r}" if first.arm else ""
        return (
            f"{what}: {self.different:,} tasks differ from the log, {first.task!r}{of} for one: {first.learned:,g} "
            f"rewards learned, {first.logged:,g} in the log, sums off by {first.off:.2g}{more}"
        )


class Verification:
    """Compares a replica with the log of its fleet.

    Parameters
    ----------
    storage : Storage
    row : FleetRow
    replica : Replica
        It may go on learning.
    contexts : Contexts, optional
        Default: made from the replica's features.
    """

    def __init__(self, storage: Storage, row: FleetRow, replica: Replica, contexts: Contexts | None = None) -> None:
        self._storage, self._replica = storage, replica
        self._fleet, self._absent = row.name, row.definition["absent_reward"]
        self._prunes = row.definition["retention"] is not None
        self._contexts = Contexts(replica.logged_features) if contexts is None else contexts
        # What rewards of a catalogue weigh depends on those before them, so only their number is compared.
        self._counts_only = isinstance(replica, CatalogueReplica)
        d, n_arms = replica.features.n_features, len(row.definition["arms"])
        self._n_features, self._triangle = d, np.triu_indices(d)
        self._diagonal = np.flatnonzero(self._triangle[0] == self._triangle[1])
        self._plain = replica.rewards != "number"
        self._fades = replica.fades and not self._plain  # sums of clicks and counts are as they came
        self._at_once = max(1, min(AT_ONCE, NUMBERS // (n_arms * d * d)))
        self.found = Comparison(row.name)

    def all(self) -> Comparison:
        """Compare all tasks, and return what was found."""
        for _ in self.steps():
            pass
        return self.found

    def steps(self, after: str = "", limit: int | None = None) -> Iterator[None]:
        """Compare tasks with names after one, at most so many; yields between two short pieces of work."""
        known = sorted(str(task) for task in self._replica.tasks)
        found, left = self.found, limit
        while True:
            most = self._at_once if left is None else min(self._at_once, left)
            logged = [task.task for task in self._storage.tasks(self._fleet, after=after, limit=most)]
            yield
            # Those that were learned and are not in the log belong to the slice by their names.
            begin = bisect.bisect_right(known, after)
            end = bisect.bisect_right(known, logged[-1]) if len(logged) == most else len(known)
            names = sorted({*logged, *known[begin:end]})[:most]
            if not names:
                found.next = None
                return
            yield from self._slice(names)
            after, found.next = names[-1], names[-1]
            left = None if left is None else left - len(names)
            if left == 0:
                return

    def _slice(self, names: list[str]) -> Iterator[None]:
        done: list[_Slice] = []
        yield from self._compare(names, done)
        wrong = sorted({one.task for one in done[0].differences})
        if wrong:
            # Rows may have been erased or pruned between two looks: what differs is looked at again.
            yield from self._compare(wrong, done)
        first, last = done[0], done[-1]
        differences = [one for one in last.differences if one.task in set(wrong)]
        found = self.found
        found.applied, found.tasks = last.applied, found.tasks + len(names)
        found.rewards += first.rewards
        found.partial += first.partial
        found.left_out += first.left_out
        found.different += len({one.task for one in differences})
        found.differences += differences[: MOST - len(found.differences)]

    def _compare(self, names: list[str], done: list[_Slice]) -> Iterator[None]:
        before: dict[str, int] = {}
        for name in names:
            row = self._storage.task(self._fleet, name)
            if row is not None:
                before[name] = row.rewards
            yield
        applied, learned = self._replica.learned(names)
        log = _Log(self, applied)
        for name in names:
            yield from log.read(name)
            yield
        log.flush()
        yield
        erased = self._erased_since(applied)
        result = _Slice(applied, left_out=log.left_out)
        all_mine, all_theirs = _by_task(learned), _by_task(log.sums)
        for name in names:
            yield
            if digest_of(self._fleet, name) in erased:
                continue  # the log does not have it any more; whoever has not come to that change still does
            gone = max(before.get(name, 0) - log.rewarded.get(name, 0), 0) if self._prunes else 0
            mine, theirs = all_mine.get(name, {}), all_theirs.get(name, {})
            result.partial += gone > 0
            result.rewards += int(sum(sums.rewards for sums in theirs.values()))
            result.differences += self._differences(name, mine, theirs, gone)
        done.append(result)

    def _erased_since(self, applied: int) -> set[bytes]:
        found: set[bytes] = set()
        if self._storage.erasure(self._fleet) <= applied:
            return found
        while changes := self._storage.changes(self._fleet, applied, 10_000):
            found.update(change.data for change in changes if change.kind == "erase")
            applied = changes[-1].number
        return found

    def _differences(
        self, task: str, mine: dict[Label, Learned], theirs: dict[Label, Learned], gone: int
    ) -> Iterator[Difference]:
        d = self._n_features
        squares = d if self._plain else d * (d + 1) // 2
        nothing = Learned(np.zeros(squares), np.zeros(d), 0.0, 0.0)
        counts = [sum(sums.rewards for sums in each.values()) for each in (mine, theirs)]
        if gone and not self._fades and counts[0] != counts[1] + gone:
            yield Difference(
                task, "", counts[0], counts[1] + gone, abs(counts[0] - counts[1] - gone) / (counts[0] or 1)
            )
        for arm in sorted({*mine, *theirs}, key=str):
            learned, logged = mine.get(arm, nothing), theirs.get(arm, nothing)
            off = self._off(learned, logged, partial=gone > 0)
            if not off <= TOLERANCE:  # also if it is not a number
                yield Difference(task, str(arm), learned.rewards, logged.rewards, off)

    def _off(self, learned: Learned, logged: Learned, *, partial: bool) -> float:
        """Return by how much sums differ; of ``partial`` ones what is left must only be possible."""
        if self._counts_only:
            counts = learned.rewards, logged.rewards
            more = counts[0] - counts[1]
            return 0.0 if partial else (max(more, 0.0) if self._fades else abs(more)) / max(*counts, 1.0)
        if self._plain:
            return self._plainly_off(learned, logged, partial=partial)
        places = self._diagonal
        count = max(learned.rewards, logged.rewards, 1.0)
        # What a row counted as before its reward came was added and taken off again: its rounding is left.
        squares = max(learned.squares, logged.squares) + count * (self._absent or 0.0) ** 2
        width = np.sqrt(np.maximum(np.maximum(learned.gram[places], logged.gram[places]), 0.0))
        rows, columns = self._triangle
        pairs = [
            (learned.rewards, logged.rewards, count),
            (learned.squares, logged.squares, squares),
            (learned.gram, logged.gram, width[rows] * width[columns]),
            (learned.moment, logged.moment, width * np.sqrt(squares)),
        ]
        if partial or self._fades:
            pairs = [*pairs[:2], (learned.gram[places], logged.gram[places], width**2)]
        return self._largest(pairs, partial=partial)

    def _plainly_off(self, learned: Learned, logged: Learned, *, partial: bool) -> float:
        """Return the same for sums of rewards, of contexts and of their squares."""
        count = max(learned.rewards, logged.rewards, 1.0)
        total = max(learned.squares, logged.squares) + count * (self._absent or 0.0)
        squares = np.maximum(learned.gram, logged.gram)
        pairs = [
            (learned.rewards, logged.rewards, count),
            (learned.squares, logged.squares, total),
            (learned.gram, logged.gram, squares),
        ]
        if not partial:
            pairs.append((learned.moment, logged.moment, np.sqrt(count * squares)))
        return self._largest(pairs, partial=partial)

    def _largest(self, pairs: list[tuple[Any, Any, Any]], *, partial: bool) -> float:
        if partial and self._fades:
            return 0.0  # less than before by what has faded, and more by what has left the log
        return _largest(pairs, partial=partial, fades=self._fades)


def _by_task(sums: dict[Pair, Learned]) -> dict[Label, dict[Label, Learned]]:
    found: dict[Label, dict[Label, Learned]] = {}
    for (task, arm), some in sums.items():
        found.setdefault(task, {})[arm] = some
    return found


def _largest(pairs: list[tuple[Any, Any, Any]], *, partial: bool, fades: bool = False) -> float:
    """Return the largest difference of two sums as a part of their size, or of what is missing in ``partial`` ones.

    Of sums that fade, it is by how much they are too large.
    """
    off = 0.0
    for a, b, size in pairs:
        apart = np.maximum(b - a, 0.0) if partial else np.maximum(a - b, 0.0) if fades else np.abs(a - b)
        off = float(np.max(np.append(apart / np.maximum(size, 1e-300), off)))
    return off


@dataclass(slots=True)
class _Slice:
    applied: int
    rewards: int = 0
    partial: int = 0
    left_out: int = 0
    differences: list[Difference] = field(default_factory=list)


class _Log:
    """Adds up what the log says that was learned up to some change."""

    def __init__(self, verification: Verification, applied: int) -> None:
        self._of, self._applied = verification, applied
        self._rows: list[tuple[LoggedDecision, float]] = []
        self.sums: dict[Pair, Learned] = {}
        self.rewarded: dict[str, int] = {}
        self.left_out = 0

    def read(self, task: str) -> Iterator[None]:
        """Read all rows of a task."""
        after = 0
        while True:
            rows = self._of._storage.decisions(self._of._fleet, task=task, after=after, limit=ROWS)
            for row in rows:
                if row.state == REWARDED:
                    self.rewarded[task] = self.rewarded.get(task, 0) + 1
                value = self._value(row)
                if value is not None:
                    self._rows.append((row, value))
            if len(self._rows) >= TOGETHER:
                self.flush()
            if len(rows) < ROWS:
                return
            after = rows[-1].number
            yield

    def _value(self, row: LoggedDecision) -> float | None:
        if row.change is not None and row.change <= self._applied:
            if row.corrected is not None and row.corrected > self._applied:
                # The first of what is not applied yet says what it was before.
                events = self._of._storage.reward_events(row.id)
                return next(
                    (one.old for one in events if one.number is not None and one.number > self._applied), row.reward
                )
            return row.reward
        if row.counted is not None and row.counted <= self._applied:
            absent: float | None = self._of._absent
            return absent
        return None

    def flush(self) -> None:
        """Add up rows that were read."""
        rows, self._rows = self._rows, []
        if self._of._counts_only:
            for row, _ in rows:
                pair: Pair = (row.task, self._of._replica.names.arms.label(0))
                there = self.sums.get(pair)
                self.sums[pair] = counted(1.0 if there is None else there.rewards + 1.0)
            return
        arms = self._of._replica.names.arms.numbers
        kept = [(row, value) for row, value in rows if row.arm in arms]
        self.left_out += len(rows) - len(kept)
        if not kept:
            return
        contexts = [from_json(row.body)["context"] for row, _ in kept]
        try:
            X = self._of._replica.features.encode_many(self._of._contexts.logged(contexts))
        except PosseError:
            X, kept = self._one_by_one(contexts, kept)
        places: dict[Pair, list[int]] = {}
        for place, (row, _) in enumerate(kept):
            places.setdefault((row.task, row.arm), []).append(place)
        for pair, some in places.items():
            self._add(pair, X[some], np.array([kept[place][1] for place in some]))

    def _one_by_one(self, contexts: list[Any], rows: list[Any]) -> tuple[Any, list[Any]]:
        encoded, kept = [], []
        for context, row in zip(contexts, rows, strict=True):
            try:
                encoded.append(self._of._replica.features.encode(context))
                kept.append(row)
            except PosseError:
                self.left_out += 1
        return np.array(encoded).reshape(len(kept), -1), kept

    def _add(self, pair: Pair, X: Any, y: Any) -> None:
        count = float(len(y))
        if self._of._plain:
            more = Learned((X * X).sum(axis=0), X.sum(axis=0), float(y.sum()), count)
        else:
            more = Learned((X.T @ X)[self._of._triangle], X.T @ y, float(y @ y), count)
        there = self.sums.get(pair)
        if there is not None:
            more = Learned(
                there.gram + more.gram,
                there.moment + more.moment,
                there.squares + more.squares,
                there.rewards + more.rewards,
            )
        self.sums[pair] = more


class Checked(NamedTuple):
    """The last comparison of a fleet.

    ``repaired`` says whether what differed was learned again, None while that is being done; ``failed`` is why it could
    not be compared, if so.
    """

    at: float
    created: float
    found: Comparison
    repaired: bool | None = False
    failed: str | None = None


class Checker:
    """Compares fleets in memory with their logs, in the time that is left.

    Parameters
    ----------
    monotonic : callable
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.last: dict[str, Checked] = {}
        self._now: tuple[LiveFleet, Verification, Iterator[None]] | None = None
        self._rest_until = 0.0
        self.relearner: threading.Thread | None = None
        """What learns a fleet again at the moment."""

    def step(self, storage: Storage, roster: Roster, rows: dict[str, Progress]) -> bool:
        """Work for a moment, if anything is due; return whether a comparison is under way after that."""
        begin = self._monotonic()
        if begin < self._rest_until:
            return self._now is not None
        for name in [name for name in self.last if name not in rows]:
            del self.last[name]
        try:
            if self._now is None:
                self._now = self._begin(storage, roster, rows, begin)
            while self._now is not None:
                self._go_on(roster)
                if self._monotonic() - begin >= WORK:
                    break
        except PosseError:
            self._now = None
            raise  # the database is away
        except Exception as error:
            if self._now is not None:
                live, self._now = self._now[0], None
                logger.exception("fleet %r could not be compared with its log; tried again later", live.name)
                found = Comparison(live.name, live.applied)
                self.last[live.name] = Checked(begin, live.created, found, failed=f"{type(error).__name__}: {error}")
        finally:
            self._rest_until = self._monotonic() + CALM * (self._monotonic() - begin)
        return self._now is not None

    def _begin(
        self, storage: Storage, roster: Roster, rows: dict[str, Progress], now: float
    ) -> tuple[LiveFleet, Verification, Iterator[None]] | None:
        waiting = [live for live in roster.all() if live.name in rows and self._due(live, now)]
        if not waiting:
            return None
        live = min(waiting, key=lambda one: self.last[one.name].at if one.name in self.last else -1.0)
        row = storage.fleet(live.name)
        if row is None or row.created != live.created:
            return None
        verification = Verification(storage, row, live.replica, live.contexts)
        return live, verification, verification.steps()

    def _due(self, live: LiveFleet, now: float) -> bool:
        last = self.last.get(live.name)
        if last is None or last.created != live.created:
            return live.applied > 0
        if last.repaired is None:
            return False  # it is being learned again
        return now - last.at >= PAUSE and (live.applied > last.found.applied or last.failed is not None)

    def _go_on(self, roster: Roster) -> None:
        assert self._now is not None
        live, verification, steps = self._now
        if roster.find(live.name) is not live or verification._replica is not live.replica:
            self._now = None  # another fleet, or learned again: from the start
            return
        try:
            next(steps)
        except StopIteration:
            self._now = None
            self._note(live, verification.found)

    def _note(self, live: LiveFleet, found: Comparison) -> None:
        checked = self.last[live.name] = Checked(self._monotonic(), live.created, found)
        if not found.different:
            return
        if self.relearner is not None and self.relearner.is_alive():
            logger.error("%s; it is learned again after another fleet", found.words())
            self.last[live.name] = checked._replace(at=-PAUSE, found=dataclasses.replace(found, applied=-1))
            return
        logger.error("%s; learning it again", found.words())
        self.last[live.name] = checked._replace(repaired=None)
        # On a thread of its own: a long log takes long, and all other fleets are looked after here.
        self.relearner = threading.Thread(target=self._relearn, args=(live, checked), name="posse-relearn", daemon=True)
        try:
            self.relearner.start()
        except BaseException:
            self.last[live.name] = checked
            raise

    def _relearn(self, live: LiveFleet, checked: Checked) -> None:
        repaired = False
        try:
            repaired = live.relearn()
            if not repaired:
                logger.error("rows of fleet %r have left its log, so it cannot be learned from that", live.name)
        except Exception:
            logger.exception("fleet %r could not be learned again; tried again later", live.name)
        finally:
            self.last[live.name] = checked._replace(repaired=repaired)

    def findings(self, fleet: str) -> list[str]:
        """Return what the last comparison found that was not repaired, in sentences."""
        last = self.last.get(fleet)
        if last is not None and last.failed is not None:
            return [
                f"it could not be compared with its log ({last.failed}); this is tried again, and the log says more"
            ]
        return [] if last is None or not last.found.different or last.repaired else [last.found.words()]
