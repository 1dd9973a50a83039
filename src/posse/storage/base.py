"""What a storage promises: the log of decisions and rewards is the truth, and what is acknowledged is on disk.

Everything that changes what a fleet believes has a number: rewards, decisions that count as an absent reward until
theirs comes, arms that come or go, tasks that are erased and populations that were estimated. Numbers of one fleet grow
in the order in which changes became visible, so whoever has applied all up to n asks for those after n and misses none.
A snapshot is the state after some number.

The promises, which ``tests/storage/test_contract.py`` asks of every storage:

- When :meth:`Storage.write` returns, what it accepted survives a crash of the process and of the machine. If it
  raises, nothing of it was accepted, or (if the connection was lost while the database committed) all of it; asking
  again with the same ids, keys and values is safe in both cases and never counts twice.
- A decision has at most one reward. The same reward again is :data:`SAME`, another one :data:`CONFLICT`.
- A key names at most one decision of a fleet. The same request again gets the decision that was made then.
- Entries of one group are accepted together or not at all; groups do not disturb each other.
- After :meth:`Storage.erase` the log does not show the task, nor does any snapshot of this change or a later one.
- What is deleted is gone for callers at once, and its rows go in slices: :meth:`Storage.sweep` removes the next one. A
  note of what is to go is in the database, so whoever opens it after a crash can go on.
- Failures of the database are :class:`posse.errors.StorageUnavailable` (worth trying again: away, busy, disk full); a
  file that is no storage, or of a newer posse, is :class:`posse.errors.StorageMismatch`; a value that cannot be stored
  (NaN as a reward, a NUL in a name on PostgreSQL) is :class:`posse.errors.InvalidValue`, and nothing of the call was
  accepted. No other errors come out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posse.storage.rows import (
    Activity,
    AuditRow,
    Change,
    ClockRow,
    FleetRow,
    KeyRow,
    LoggedDecision,
    NewDecision,
    NewReward,
    Progress,
    RewardEvent,
    RewardRun,
    TaskRow,
    Written,
)


class Storage(ABC):
    """Where a service keeps its log. Methods may be called from any thread; those that write wait for each other."""

    reads_beside = False
    """Whether somebody else reads while this process does something else.

    A file is read here, and Python lets go of the interpreter for every row: a thread that reads and one that learns
    would take turns ten thousand times, which costs twice what either does.
    """

    # Fleets.

    @abstractmethod
    def create_fleet(self, name: str, definition: dict[str, Any], time: float) -> bool:
        """Create a fleet; False if there is one of this name."""

    @abstractmethod
    def fleet(self, name: str) -> FleetRow | None:
        """Return a fleet with its counts, or None."""

    @abstractmethod
    def fleets(self) -> list[FleetRow]:
        """Return all fleets, by name."""

    @abstractmethod
    def progress(self) -> list[Progress]:
        """Return how far every fleet is, by name; cheap enough to be asked several times a second."""

    @abstractmethod
    def fleet_times(self) -> dict[str, tuple[float | None, float | None]]:
        """Return, by fleet, the times of its oldest pending decision and its newest snapshot, or None."""

    @abstractmethod
    def change_arms(self, name: str, definition: dict[str, Any], expected: dict[str, Any]) -> int:
        """Replace a fleet's definition and note the change; return its number, or 0 if it is not ``expected`` any more.

        Whoever gets 0 reads the fleet and tries again: two processes may add an arm at once.
        """

    @abstractmethod
    def delete_fleet(self, name: str) -> bool:
        """Delete a fleet with its log and snapshots; False if there is none.

        Its name is free at once; its rows go with :meth:`sweep`.
        """

    # The log.

    @abstractmethod
    def write(self, groups: Sequence[Sequence[NewDecision | NewReward]]) -> Written:
        """Write groups of entries in one transaction.

        Checks against what is stored and what earlier groups of this call wrote. A group in which an entry is CONFLICT,
        UNKNOWN, GONE or UNFIT writes nothing. Also counts tasks, decisions, rewards, pending and activity. A reward is
        GONE if its decision has expired, or is older at the reward's time than the ``time_to_live`` (seconds, or None)
        of the fleet's definition; one that is ``expiring`` is not asked for its age. A reward for a decision that was
        given the absent one when its time was over is GONE, too. It is UNFIT if the definition says that ``rewards``
        are "binary" and it is neither 0 nor 1, that they are "count" or "revenue" and it is none, or that they are
        numbers and it came as true or false. A decision whose id is stored is SAME if all of it is, else CONFLICT. In a
        group that is refused, entries with nothing wrong are WITHHELD.

        If the fleet's definition has an ``absent_reward``, a decision is a change, and its reward replaces it; unless
        ``count_pending`` is false: then a reward is held, and is a change when it is written as ``expiring``.

        If its ``reward_events`` is "sum", further rewards are added to the first, and every one needs an ``event``;
        if "last", they replace it; each is a change of its own, unless rewards are held. Those that come more than
        ``reward_window`` seconds after the decision are GONE. One that ``corrects`` replaces what is there.
        """

    @abstractmethod
    def changes(self, fleet: str, after: int, limit: int = 10_000, *, settled: int = 0) -> list[Change]:
        """Return changes with numbers greater than ``after``, in order; fewer than ``limit`` means that these are all.

        Numbers may be left out: those of erased and pruned rows, and of populations that were replaced.

        Whoever learns a log from its start may give the number of its last change as ``settled``: rewards are then
        told as they were after it, and what made them so is left out up to there. A wrong reward of a billion that was
        corrected leaves no rounding behind in sums that never saw it.
        """

    @abstractmethod
    def reward_run(self, fleet: str, after: int, limit: int, *, least: int, settled: int = 0) -> RewardRun | None:
        """Return the rewards that come next as columns: what :meth:`changes` tells, at half the cost.

        None if fewer than ``least`` changes are left before one of another kind, or before the end.
        """

    @abstractmethod
    def rewards_up_to(self, fleet: str, number: int) -> int | None:
        """Return how many rewards a fleet has learned that has applied all changes up to ``number``.

        Decisions that count as the absent reward are among them from the change on with which they began to; rewards
        that are held are not. Pruned rows count, those of erased tasks do not. None if it cannot be told: a task was
        erased since, rows may have been pruned since (a newer snapshot is finished), or there is no such fleet.
        """

    @abstractmethod
    def is_whole(self, fleet: str) -> bool:
        """Whether the log still has every reward that counts, so that a fleet can be learned from it alone."""

    @abstractmethod
    def decision(self, decision_id: str) -> LoggedDecision | None:
        """Return one decision."""

    @abstractmethod
    def reward_events(self, decision_id: str) -> list[RewardEvent]:
        """Return what a decision's reward was made of, in order; empty if one reward came, without a name."""

    @abstractmethod
    def decisions(
        self, fleet: str, *, after: int = 0, before: int | None = None, task: str | None = None,
        state: int | None = None, limit: int = 1000, newest_first: bool = False,
    ) -> list[LoggedDecision]:  # fmt: skip
        """Return rows of the log by their numbers, which are greater than ``after`` and less than ``before``."""

    @abstractmethod
    def tasks(self, fleet: str, *, search: str = "", after: str = "", limit: int = 100) -> list[TaskRow]:
        """Return tasks whose names contain ``search`` (case does not matter) and come after a name, by name."""

    @abstractmethod
    def task(self, fleet: str, task: str) -> TaskRow | None:
        """Return one task, or None."""

    @abstractmethod
    def activity(self, fleet: str, since: float, stretch: float) -> list[Activity]:
        """Return what happened in every stretch of so many seconds (a multiple of 60) that is not empty, in order.

        Stretches begin at multiples of their length; the one that ``since`` falls into is the first, and whole.
        """

    @abstractmethod
    def erase(self, fleet: str, task: str) -> int | None:
        """Delete a task's rows from the log and note the change; return its number, or None if there is no such task.

        Rows that are too many for a short transaction are not shown any more, and go with :meth:`sweep`; until then
        their idempotency keys cannot be used again. Snapshots that hold the task stay until :meth:`finish_snapshot`
        replaces them. Whoever reads one meanwhile applies this change after it, like all changes since: rows that were
        pruned are nowhere else.
        """

    @abstractmethod
    def erasure(self, fleet: str) -> int:
        """Return the number of the last erasure, 0 if there was none: snapshots before it are to be replaced soon."""

    @abstractmethod
    def sweep(self, limit: int = 100) -> bool:
        """Remove the next rows of what was deleted, at most ``limit``, in one short transaction; False if none is left.

        Deleted are fleets, erased tasks, and snapshots that were replaced. Any process may sweep, and several at once.
        """

    @abstractmethod
    def expire(self, fleet: str, before: float, limit: int = 1000) -> int:
        """Let pending decisions made before a time go without a reward; return how many, at most ``limit``."""

    @abstractmethod
    def prune(self, fleet: str, before: float, limit: int = 1000) -> int:
        """Delete rows of the log made before a time that are not pending and whose rewards are in the newest snapshot.

        Return how many, at most ``limit``. Counts stay.
        """

    @abstractmethod
    def waiting(self, fleet: str, before: float, limit: int = 1000) -> list[str]:
        """Return the ids of decisions made before a time that are pending, or whose rewards are held, oldest first."""

    # Populations and snapshots.

    @abstractmethod
    def add_population(self, fleet: str, data: bytes) -> int:
        """Note an estimated population; return the number of this change, 0 if the fleet is gone.

        Only the newest is kept.
        """

    @abstractmethod
    def add_drift(self, fleet: str, data: bytes) -> int:
        """Note what was noticed about changes of the world; return the number of this, 0 if the fleet is gone."""

    @abstractmethod
    def know_tasks(self, fleet: str, about: Sequence[tuple[str, bytes]], time: float) -> int:
        """Note what is known about tasks, a change each; return the number of the last, 0 if the fleet is gone.

        Tasks that there were not are there from then on. An erasure takes what is known about the task with it.
        """

    @abstractmethod
    def population(self, fleet: str) -> Change | None:
        """Return the newest population, or None if there is none."""

    @abstractmethod
    def start_snapshot(self, fleet: str, number: int, time: float) -> int | None:
        """Begin a snapshot of the state after change ``number``; return its id, or None if the fleet is gone."""

    @abstractmethod
    def add_snapshot_part(self, snapshot: int, part: int, data: bytes) -> None:
        """Write one part of a snapshot, counted from 0; each is a short transaction of its own.

        Nothing happens if a newer snapshot was finished since, or the fleet is gone.
        """

    @abstractmethod
    def finish_snapshot(self, snapshot: int) -> None:
        """Make a snapshot valid; older ones of the fleet (by number), unfinished ones too, go with :meth:`sweep`.

        One that is older than a finished one goes itself.
        """

    @abstractmethod
    def snapshot(self, fleet: str) -> tuple[int, Iterator[bytes]] | None:
        """Return number and parts of the newest finished snapshot, or None."""

    # Keys.

    @abstractmethod
    def add_key(self, key: KeyRow) -> None:
        """Store an API key."""

    @abstractmethod
    def keys(self, *, revoked: bool = False) -> list[KeyRow]:
        """Return all keys in force, the oldest first; with ``revoked`` also those that were, without their digests."""

    @abstractmethod
    def revoke_key(self, key_id: str) -> bool:
        """Let a key be good for nothing, for ever; False if there is none in force.

        That there was one stays: a service that once had keys must not be open to all after the last is revoked.
        """

    @abstractmethod
    def expire_key(self, key_id: str, time: float) -> bool:
        """Let a key be good for nothing from a time on; False if there is none in force until then."""

    @abstractmethod
    def note_key_use(self, times: Mapping[str, float]) -> None:
        """Note when keys were last used, by id; times before those that are known change nothing."""

    # Who asked for what.

    @abstractmethod
    def add_audit(self, row: AuditRow) -> int:
        """Note that somebody asked for something; return the number of the row."""

    @abstractmethod
    def finish_audit(self, number: int, status: int) -> None:
        """Note what was answered."""

    @abstractmethod
    def audit(self, *, fleets: Sequence[str] = (), before: int | None = None, limit: int = 100) -> list[AuditRow]:
        """Return rows of the audit log, the newest first: of some fleets, or of all; with numbers before one."""

    # Time.

    @abstractmethod
    def now(self) -> float | None:
        """Return the time of the database, which all who share it go by; None if it has no clock of its own."""

    @abstractmethod
    def clock(self) -> ClockRow | None:
        """Return what was kept about time, or None if nothing was."""

    @abstractmethod
    def keep_clock(self, row: ClockRow) -> None:
        """Keep what is known about time, for the next start."""

    # Who learns, and whether it is there.

    @abstractmethod
    def lead(self) -> bool:
        """Try to be the one that learns, or find out whether this process still is; at most one process is.

        A process that dies or loses its database is followed by another within seconds. An embedded storage has one
        process only, which leads.
        """

    @abstractmethod
    def size(self) -> int:
        """Return how many bytes the database has."""

    @abstractmethod
    def ping(self) -> None:
        """Return if the database answers, else raise."""

    @abstractmethod
    def try_write(self) -> None:
        """Write something and take it back; return if that is on disk, else raise."""

    @abstractmethod
    def schema_version(self) -> int:
        """Return the number of the last migration."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections; whoever leads stops."""
