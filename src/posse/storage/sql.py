"""What both databases do alike: the same tables and the same statements, with ``?`` where a value goes.

Reads are single statements, so that each sees one state of the database. What writes takes the lock of the fleet's row
first; numbers are therefore given in the order in which transactions become visible.
"""

# ruff: noqa: D102 (posse.storage.base says what the methods do)

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from posse.errors import InvalidValue, StorageUnavailable
from posse.storage import statements
from posse.storage.base import Storage
from posse.storage.outcomes import ONCE
from posse.storage.rows import (
    EXPIRED,
    PENDING,
    REWARDED,
    Activity,
    AuditRow,
    Change,
    ClockRow,
    FleetRow,
    KeyRow,
    LoggedDecision,
    Progress,
    RewardEvent,
    RewardRun,
    TaskRow,
    digest_of,
)

Row = tuple[Any, ...]

AT_ONCE = 500
"""Rows of a task that are deleted in the transaction that erases it; others go in slices."""


KEYS = "SELECT id, label, scopes, digest, created, fleets, expires, used FROM keys ORDER BY created, id"
AUDIT = "SELECT id, time, actor, client, action, fleet, target, request, status FROM audit"
USED = "UPDATE keys SET used = ? WHERE id = ? AND digest <> '' AND (used IS NULL OR used < ?)"


class Closable(Protocol):
    """What a pool keeps."""

    def close(self) -> None:
        """Close it."""


Connection = TypeVar("Connection", bound=Closable)


class Pool(Generic[Connection]):
    """Up to ``size`` connections, made when they are needed and kept for the next who asks.

    Parameters
    ----------
    connect : callable
    size : int
    patience : float
        Seconds to wait for one while all are in use.
    """

    def __init__(self, connect: Callable[[], Connection], size: int, patience: float) -> None:
        self._connect = connect
        self._free = threading.Semaphore(size)
        self._patience = patience
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._era = 0

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection; it is thrown away if the body raises."""
        if not self._free.acquire(timeout=self._patience):
            raise StorageUnavailable(
                f"all connections for reading were in use for {self._patience:g} s; try again, with fewer at once"
            )
        try:
            with self._lock:
                era = self._era
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                kept = era == self._era
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()
        finally:
            self._free.release()

    def clear(self) -> None:
        """Close idle connections now and lent ones when they come back, as after the database went away."""
        with self._lock:
            self._era += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Session(Protocol):
    """A transaction that is open."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""


class SqlStorage(Storage):
    """A storage in tables. What is abstract here is how a database is reached, and the hot path of writing."""

    LOCK = ""
    """What the end of a SELECT says to lock its rows; nothing where a transaction that writes is alone."""

    BINARY = "blob"
    """The type of bytes."""

    @abstractmethod
    def _read(self, statement: str, *values: Any) -> list[Row]:
        """Run one statement that only reads."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Session]:
        """Open a transaction, which is committed if the body ends and rolled back if it raises."""

    def _lock(self, session: Session, fleet: str) -> tuple[int, int] | None:
        """Lock a fleet; return its row's number and the number of its last change, or None if there is none."""
        found = session.rows("SELECT id, changes FROM fleets WHERE name = ?" + self.LOCK, fleet)
        return (found[0][0], found[0][1]) if found else None

    # Fleets.

    def create_fleet(self, name: str, definition: dict[str, Any], time: float) -> bool:
        with self._writing() as session:
            made = session.run(
                "INSERT INTO fleets (name, definition, time_to_live, absent_reward, count_pending, reward_events, "
                "reward_window, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
                name, _text_of(definition), definition.get("time_to_live"), definition.get("absent_reward"),
                int(definition.get("count_pending", True)), definition.get("reward_events", ONCE),
                definition.get("reward_window"), time,
            )  # fmt: skip
        return made > 0

    def fleet(self, name: str) -> FleetRow | None:
        found = self._read(statements.FLEET + "WHERE name = ?", name)
        return _fleet_row(found[0]) if found else None

    def fleets(self) -> list[FleetRow]:
        return [_fleet_row(row) for row in self._read(statements.FLEET + "WHERE name IS NOT NULL ORDER BY name")]

    def progress(self) -> list[Progress]:
        return [Progress._make(row) for row in self._read(statements.PROGRESS)]

    def change_arms(self, name: str, definition: dict[str, Any], expected: dict[str, Any]) -> int:
        text = _text_of(definition)
        with self._writing() as session:
            fleet = self._lock(session, name)
            if fleet is None:
                return 0
            [(stored,)] = session.rows("SELECT definition FROM fleets WHERE id = ?", fleet[0])
            if json.loads(stored) != json.loads(_text_of(expected)):
                return 0
            session.run(
                "UPDATE fleets SET definition = ?, time_to_live = ? WHERE id = ?",
                text, definition.get("time_to_live"), fleet[0],
            )  # fmt: skip
            return _note(session, fleet, "arms", text.encode())

    def delete_fleet(self, name: str) -> bool:
        with self._writing() as session:
            return session.run("UPDATE fleets SET name = NULL WHERE name = ?", name) > 0

    def sweep(self, limit: int = 100) -> bool:
        if _checked(limit) == 0:
            raise InvalidValue("a slice has at least one row, but limit is 0")
        return self._sweep_task(limit) or self._sweep_snapshot() or self._sweep_fleet(limit)

    def _sweep_task(self, limit: int) -> bool:
        found = self._read("SELECT fleet, task, number FROM erasures LIMIT 1")
        if not found:
            return False
        fleet, task, last = found[0]
        with self._writing() as session:
            session.rows("SELECT id FROM fleets WHERE id = ?" + self.LOCK, fleet)
            gone, pending = self._delete_of_task(session, fleet, task, last, limit)
            session.run("UPDATE fleets SET pending = pending - ? WHERE id = ?", pending, fleet)
            if gone < limit:
                session.run("DELETE FROM erasures WHERE fleet = ? AND task = ? AND number = ?", fleet, task, last)
        if gone < limit:
            self._forget()
        return True

    def _delete_of_task(self, session: Session, fleet: int, task: str, last: int, limit: int) -> tuple[int, int]:
        """Delete rows of a task up to a number; return how many, and how many of them were pending."""
        # Counted by the database: every row that it hands over is a wait for the interpreter, while nobody can write.
        [(count, pending, end)] = session.rows(
            "SELECT count(*), sum(CASE WHEN state = ? THEN 1 ELSE 0 END), max(number) FROM (SELECT state, number "
            "FROM decisions WHERE fleet = ? AND task = ? AND number <= ? ORDER BY number LIMIT ?) AS slice",
            PENDING, fleet, task, last, limit,
        )  # fmt: skip
        if count:
            session.run("DELETE FROM decisions WHERE fleet = ? AND task = ? AND number <= ?", fleet, task, end)
        return int(count), int(pending or 0)

    def _sweep_snapshot(self) -> bool:
        # By number, not by id: a process that was slow may finish after another one that knew more.
        found = self._read(statements.REPLACED)
        if not found:
            return False
        snapshot, part = found[0]
        with self._writing() as session:
            if part is not None:
                # Parts are as long as hundreds of rows: one at a time.
                session.run("DELETE FROM snapshot_parts WHERE snapshot = ? AND part = ?", snapshot, part)
            else:
                session.rows("SELECT id FROM snapshots WHERE id = ?" + self.LOCK, snapshot)
                session.run("DELETE FROM snapshot_parts WHERE snapshot = ?", snapshot)
                session.run("DELETE FROM snapshots WHERE id = ?", snapshot)
        if part is None:
            self._forget()
        return True

    def _sweep_fleet(self, limit: int) -> bool:
        found = self._read("SELECT id FROM fleets WHERE name IS NULL LIMIT 1")
        if not found:
            return False
        (fleet,) = found[0]
        with self._writing() as session:
            for table, key in statements.OF_A_FLEET:
                if session.run(statements.DELETE_OF_FLEET.format(table=table, key=key), fleet, fleet, limit):
                    return True
            session.run("DELETE FROM fleets WHERE id = ?", fleet)
        self._forget()
        return True

    def fleet_times(self) -> dict[str, tuple[float | None, float | None]]:
        return {row[0]: (row[1], row[2]) for row in self._read(statements.FLEET_TIMES)}

    # The log.

    def changes(self, fleet: str, after: int, limit: int = 10_000, *, settled: int = 0) -> list[Change]:
        _checked(limit)
        some, others = (fleet, after, limit), (fleet, max(after, settled), limit)
        found = self._read(
            statements.CHANGES.format(binary=self.BINARY), settled, settled, *some, *some, *others, *some, limit
        )
        return [Change._make((*row[:6], bytes(row[6] or b""), *row[7:])) for row in found]

    def reward_run(self, fleet: str, after: int, limit: int, *, least: int, settled: int = 0) -> RewardRun | None:
        _checked(limit)
        ends = self._read(statements.RUN_END, after, max(after, settled), after, fleet)
        end = min((number for number in ends[0] if number is not None), default=0) if ends else 0
        if end - after <= least:
            return None
        found = self._read(statements.RUN, settled, settled, fleet, after, end, limit)
        return RewardRun(*zip(*found, strict=True)) if found else None

    def rewards_up_to(self, fleet: str, number: int) -> int | None:
        found = self._read(statements.REWARDS_UP_TO, number, number, fleet, number, number)
        return int(found[0][0]) if found else None

    def is_whole(self, fleet: str) -> bool:
        found = self._read(statements.WHOLE, fleet)
        return bool(found and found[0][0])

    def decision(self, decision_id: str) -> LoggedDecision | None:
        found = self._read(statements.STANDING + "d.id = ?", decision_id)
        return LoggedDecision._make(found[0]) if found else None

    def reward_events(self, decision_id: str) -> list[RewardEvent]:
        found = self._read(
            "SELECT number, event, kind, value, reward, old, time FROM reward_events WHERE decision = ? ORDER BY id",
            decision_id,
        )
        return [RewardEvent._make(row) for row in found]

    def decisions(
        self, fleet: str, *, after: int = 0, before: int | None = None, task: str | None = None,
        state: int | None = None, limit: int = 1000, newest_first: bool = False,
    ) -> list[LoggedDecision]:  # fmt: skip
        order = "DESC" if newest_first else "ASC"
        where, values = "f.name = ? AND d.number > ?", [fleet, after]
        if before is not None:
            where, values = where + " AND d.number < ?", [*values, before]
        if task is not None:
            where, values = where + " AND d.task = ?", [*values, task]
        if state is not None:
            where, values = where + " AND d.state = ?", [*values, state]
        statement = f"{statements.STANDING} {where} ORDER BY d.number {order} LIMIT ?"
        if task is None and state in (PENDING, EXPIRED):
            # These are few among many: their numbers come out of the index of states, and then their rows.
            # The sign keeps SQLite from walking through the whole log by number.
            inner = (
                "SELECT d.number FROM decisions d JOIN fleets f ON f.id = d.fleet "
                f"WHERE {statements.NOT_ERASED} AND {where} ORDER BY +d.number {order} LIMIT ?"
            )
            statement = f"{statements.DECISION} WHERE f.name = ? AND d.number IN ({inner}) ORDER BY d.number {order}"
            values = [fleet, *values]
        return [LoggedDecision._make(row) for row in self._read(statement, *values, _checked(limit))]

    def tasks(self, fleet: str, *, search: str = "", after: str = "", limit: int = 100) -> list[TaskRow]:
        statement = (
            "SELECT task, first_time, decisions, rewards FROM tasks "
            "WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND task > ?"
        )
        values: list[Any] = [fleet, after]
        if search:
            # What contains a text is shorter without it; both databases know this spelling.
            statement, values = statement + " AND replace(folded, ?, '') <> folded", [*values, search.casefold()]
        found = self._read(statement + " ORDER BY task LIMIT ?", *values, _checked(limit))
        return [TaskRow._make(row) for row in found]

    def task(self, fleet: str, task: str) -> TaskRow | None:
        found = self._read(
            "SELECT task, first_time, decisions, rewards FROM tasks "
            "WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND task = ?",
            fleet, task,
        )  # fmt: skip
        return TaskRow._make(found[0]) if found else None

    def activity(self, fleet: str, since: float, stretch: float) -> list[Activity]:
        minutes, rest = divmod(stretch, 60)
        if rest or minutes < 1:
            raise InvalidValue(f"stretch is {stretch!r} seconds, but activity is kept by the minute; give 60, 120, ...")
        first = int(since // stretch * minutes)
        found = self._read(statements.ACTIVITY, int(minutes), int(minutes), fleet, first)
        return [Activity(float(row[0]), int(row[1]), int(row[2]), float(row[3])) for row in found]

    def erase(self, fleet: str, task: str) -> int | None:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return None
            number = locked[0]
            counted = session.rows("SELECT decisions, rewards FROM tasks WHERE fleet = ? AND task = ?", number, task)
            if not counted:
                return None
            [(last,)] = session.rows("SELECT number FROM fleets WHERE id = ?", number)
            gone, pending = self._delete_of_task(session, number, task, last, AT_ONCE)
            if gone == AT_ONCE:
                session.run(
                    "INSERT INTO erasures (fleet, task, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    number, task, last,
                )  # fmt: skip
            session.run("DELETE FROM tasks WHERE fleet = ? AND task = ?", number, task)
            # The task had its part in them; the process that learns publishes another.
            session.run("DELETE FROM changes WHERE fleet = ? AND kind = 'population'", number)
            session.run(statements.FORGET_KNOWN, number, digest_of(fleet, task))
            session.run(
                "UPDATE fleets SET tasks = tasks - 1, decisions = decisions - ?, rewards = rewards - ?, "
                "pending = pending - ?, erasure = changes + 1 WHERE id = ?",
                *counted[0], pending, number,
            )  # fmt: skip
            change = _note(session, locked, "erase", digest_of(fleet, task))
        if gone < AT_ONCE:
            self._forget()
        return change

    @abstractmethod
    def _forget(self) -> None:
        """Leave no copy of deleted rows behind, as far as the database lets us."""

    def erasure(self, fleet: str) -> int:
        found = self._read("SELECT erasure FROM fleets WHERE name = ?", fleet)
        return int(found[0][0]) if found else 0

    def expire(self, fleet: str, before: float, limit: int = 1000) -> int:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return 0
            gone = session.run(
                "UPDATE decisions SET state = ? WHERE id IN (SELECT id FROM decisions d "
                f"WHERE fleet = ? AND state = ? AND time < ? AND {statements.NOT_ERASED} ORDER BY time LIMIT ?)",
                EXPIRED, locked[0], PENDING, before, _checked(limit),
            )  # fmt: skip
            session.run("UPDATE fleets SET pending = pending - ? WHERE id = ?", gone, locked[0])
        return gone

    def prune(self, fleet: str, before: float, limit: int = 1000) -> int:
        stored = self.fleet(fleet)
        if stored is None:
            return 0
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return 0
            gone = session.run(statements.PRUNE, locked[0], EXPIRED, before, 0, 0, _checked(limit))
            if stored.snapshot and gone < limit:
                gone += session.run(statements.PRUNE, locked[0], REWARDED, before, *[stored.snapshot] * 2, limit - gone)
        if 0 < gone < limit:
            self._forget()
        return gone

    def waiting(self, fleet: str, before: float, limit: int = 1000) -> list[str]:
        found = self._read(statements.WAITING, fleet, before, _checked(limit), fleet, before, limit, limit)
        return [row[0] for row in found]

    # Populations and snapshots.

    def add_population(self, fleet: str, data: bytes) -> int:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return 0
            session.run("DELETE FROM changes WHERE fleet = ? AND kind = 'population'", locked[0])
            return _note(session, locked, "population", data)

    def add_drift(self, fleet: str, data: bytes) -> int:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            return 0 if locked is None else _note(session, locked, "drift", data)

    def know_tasks(self, fleet: str, about: Sequence[tuple[str, bytes]], time: float) -> int:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return 0
            row, last = locked
            new = 0
            for task, data in about:
                last += 1
                new += session.run(statements.NEW_TASK, row, task, task.casefold(), time)
                session.run(statements.ADD_CHANGE, row, last, "task", digest_of(fleet, task) + data)
            session.run("UPDATE fleets SET changes = ?, tasks = tasks + ? WHERE id = ?", last, new, row)
        return last

    def population(self, fleet: str) -> Change | None:
        found = self._read(
            "SELECT number, data FROM changes WHERE fleet = (SELECT id FROM fleets WHERE name = ?) "
            "AND kind = 'population' ORDER BY number DESC LIMIT 1",
            fleet,
        )
        return Change(found[0][0], "population", data=bytes(found[0][1])) if found else None

    def start_snapshot(self, fleet: str, number: int, time: float) -> int | None:
        with self._writing() as session:
            locked = self._lock(session, fleet)
            if locked is None:
                return None
            [(snapshot,)] = session.rows(
                "INSERT INTO snapshots (fleet, number, time) VALUES (?, ?, ?) RETURNING id", locked[0], number, time
            )
        return int(snapshot)

    def add_snapshot_part(self, snapshot: int, part: int, data: bytes) -> None:
        with self._writing() as session:
            # One that was overtaken by a newer snapshot is gone, and so may be the fleet: nothing to write then.
            if session.rows("SELECT id FROM snapshots WHERE id = ?" + self.LOCK, snapshot):
                session.run("INSERT INTO snapshot_parts (snapshot, part, data) VALUES (?, ?, ?)", snapshot, part, data)

    def finish_snapshot(self, snapshot: int) -> None:
        with self._writing() as session:
            session.run("UPDATE snapshots SET finished = 1 WHERE id = ?", snapshot)

    def snapshot(self, fleet: str) -> tuple[int, Iterator[bytes]] | None:
        found = self._read(statements.SNAPSHOT, fleet)
        return (int(found[0][1]), self._parts(found[0][0], found[0][2])) if found else None

    def _parts(self, snapshot: int, n_parts: int) -> Iterator[bytes]:
        for part in range(n_parts):
            found = self._read("SELECT data FROM snapshot_parts WHERE snapshot = ? AND part = ?", snapshot, part)
            if not found:
                raise StorageUnavailable("the snapshot was replaced by a newer one while it was read; ask for that one")
            yield bytes(found[0][0])

    # Keys, and who asked for what.

    def add_key(self, key: KeyRow) -> None:
        with self._writing() as session:
            session.run(
                "INSERT INTO keys (id, label, scopes, digest, created, fleets, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                key.id, key.label, " ".join(key.scopes), key.digest, key.created, " ".join(key.fleets), key.expires,
            )  # fmt: skip

    def keys(self, *, revoked: bool = False) -> list[KeyRow]:
        rows = [
            KeyRow(row[0], row[1], tuple(row[2].split()), row[3], row[4], tuple(row[5].split()), row[6], row[7])
            for row in self._read(KEYS)
        ]
        return [row for row in rows if revoked or not row.revoked]

    def revoke_key(self, key_id: str) -> bool:
        with self._writing() as session:
            # An older posse, too, finds no key that has this digest.
            statement = (
                "UPDATE keys SET label = '', scopes = '', digest = '', fleets = '' WHERE id = ? AND digest <> ''"
            )
            return session.run(statement, key_id) > 0

    def expire_key(self, key_id: str, time: float) -> bool:
        with self._writing() as session:
            statement = "UPDATE keys SET expires = ? WHERE id = ? AND digest <> '' AND (expires IS NULL OR expires > ?)"
            return session.run(statement, time, key_id, time) > 0

    def note_key_use(self, times: Mapping[str, float]) -> None:
        with self._writing() as session:
            for key_id, time in sorted(times.items()):
                session.run(USED, time, key_id, time)

    def add_audit(self, row: AuditRow) -> int:
        with self._writing() as session:
            [(number,)] = session.rows(
                "INSERT INTO audit (time, actor, client, action, fleet, target, request, status) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                *row[1:],
            )
        return int(number)

    def finish_audit(self, number: int, status: int) -> None:
        with self._writing() as session:
            session.run("UPDATE audit SET status = ? WHERE id = ?", status, number)

    def audit(self, *, fleets: Sequence[str] = (), before: int | None = None, limit: int = 100) -> list[AuditRow]:
        where, values = [], list[Any]()
        if before is not None:
            where, values = ["id < ?"], [before]
        if fleets:
            where.append(f"fleet IN ({', '.join('?' * len(fleets))})")
            values += fleets
        statement = AUDIT + (f" WHERE {' AND '.join(where)}" if where else "") + " ORDER BY id DESC LIMIT ?"
        return [AuditRow._make(row) for row in self._read(statement, *values, _checked(limit))]

    # Time.

    def now(self) -> float | None:
        return None

    def clock(self) -> ClockRow | None:
        found = self._read("SELECT seen, settled, shift FROM clock")
        return ClockRow._make(found[0]) if found else None

    def keep_clock(self, row: ClockRow) -> None:
        with self._writing() as session:
            session.run(
                "INSERT INTO clock (id, seen, settled, shift) VALUES (1, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
                "SET seen = excluded.seen, settled = excluded.settled, shift = excluded.shift",
                *row,
            )

    def ping(self) -> None:
        self._read("SELECT 1")

    def try_write(self) -> None:
        with self._writing() as session:
            # No fleet has the number 0. Both are in one transaction, and the pages that they touched are written.
            session.run("INSERT INTO activity (fleet, minute, decisions, rewards, reward_sum) VALUES (0, 0, 0, 0, 0)")
            session.run("DELETE FROM activity WHERE fleet = 0")


def _text_of(definition: dict[str, Any]) -> str:
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def _fleet_row(row: Row) -> FleetRow:
    try:
        definition = json.loads(row[1])
    except ValueError:
        definition = None
    # What somebody broke by hand concerns this fleet alone: nothing can be made of it, and the others are read.
    return FleetRow(row[0], definition if isinstance(definition, dict) else {}, *row[2:])


def _note(session: Session, fleet: tuple[int, int], kind: str, data: bytes) -> int:
    """Give the next number of a locked fleet to a change that is no reward."""
    number = fleet[1] + 1
    session.run("UPDATE fleets SET changes = ? WHERE id = ?", number, fleet[0])
    session.run(statements.ADD_CHANGE, fleet[0], number, kind, data)
    return number


def _checked(limit: int) -> int:
    """Return a limit that both databases take in one meaning: SQLite reads a negative one as no limit."""
    if limit < 0:
        raise InvalidValue(f"limit is {limit}; give 0 or more")
    return limit
