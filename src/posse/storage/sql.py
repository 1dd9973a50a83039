"""What both databases do alike: the same tables and the same statements, with ``?`` where a value goes.

Reads are single statements, so that each sees one state of the database. What writes takes the lock of the fleet's row
first; numbers are therefore given in the order in which transactions become visible.
"""

# ruff: noqa: D102 (posse.storage.base says what the methods do)

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from posse.errors import InvalidValue, StorageUnavailable
from posse.storage.base import (
    EXPIRED,
    PENDING,
    REWARDED,
    Activity,
    Change,
    ClockRow,
    FleetRow,
    LoggedDecision,
    Progress,
    RewardEvent,
    RewardRun,
    TaskRow,
)
from posse.storage.naming import DIGEST, digest_of
from posse.storage.outcomes import ONCE
from posse.storage.sql_keys import SqlKeys

Row = tuple[Any, ...]

AT_ONCE = 500
"""Rows of a task that are deleted in the transaction that erases it; others go in slices."""

# Rows of an erased task that are still on their way out; nearly always there are none.
NOT_ERASED = """NOT EXISTS (
  SELECT 1 FROM erasures e WHERE e.fleet = d.fleet AND e.task = d.task AND e.number >= d.number)"""

DECISION = """
SELECT f.name, d.number, d.id, d.time, d.task, d.arm, d.propensity, d.body, d.policy, d.version, d.state, d.reward,
  d.reward_time, d.change, d.counted, d.corrected
FROM decisions d JOIN fleets f ON f.id = d.fleet
"""

STANDING = DECISION + f"WHERE {NOT_ERASED} AND f.name IS NOT NULL AND "

FLEET = """
SELECT name, definition, created, tasks, decisions, rewards, pending, changes,
  coalesce((SELECT max(number) FROM snapshots WHERE fleet = fleets.id AND finished = 1), 0)
FROM fleets
"""

PROGRESS = """
SELECT f.name, f.created, f.tasks, f.pending, f.changes, coalesce(s.number, 0), f.erasure
FROM fleets f LEFT JOIN (
  SELECT fleet, max(number) AS number FROM snapshots WHERE finished = 1 GROUP BY fleet) AS s ON s.fleet = f.id
WHERE f.name IS NOT NULL ORDER BY f.name
"""

FLEET_TIMES = """
SELECT name,
  (SELECT time FROM decisions WHERE fleet = fleets.id AND state = 0 ORDER BY time LIMIT 1),
  (SELECT max(time) FROM snapshots WHERE fleet = fleets.id AND finished = 1)
FROM fleets WHERE name IS NOT NULL
"""

CHANGES = """
SELECT * FROM (
  SELECT d.change, 'reward', d.task, d.arm, d.body, CASE WHEN d.corrected IS NULL OR d.corrected <= ? THEN d.reward
      ELSE (SELECT e.old FROM reward_events e WHERE e.decision = d.id AND e.number > ? ORDER BY e.number LIMIT 1) END,
    CAST(NULL AS {binary}),
    CASE WHEN d.counted IS NULL THEN NULL ELSE f.absent_reward END, d.reward_time
  FROM decisions d JOIN fleets f ON f.id = d.fleet
  WHERE d.fleet = (SELECT id FROM fleets WHERE name = ?) AND d.change > ? ORDER BY d.change LIMIT ?) AS rewarded
UNION ALL
SELECT * FROM (
  SELECT d.counted, 'decision', d.task, d.arm, d.body, f.absent_reward, CAST(NULL AS {binary}),
    CAST(NULL AS double precision), CAST(0 AS double precision)
  FROM decisions d JOIN fleets f ON f.id = d.fleet
  WHERE d.fleet = (SELECT id FROM fleets WHERE name = ?) AND d.counted > ? ORDER BY d.counted LIMIT ?) AS waiting
UNION ALL
SELECT * FROM (
  SELECT e.number, 'reward', d.task, d.arm, d.body, e.reward, CAST(NULL AS {binary}), e.old, e.time
  FROM reward_events e JOIN decisions d ON d.id = e.decision
  WHERE e.fleet = (SELECT id FROM fleets WHERE name = ?) AND e.number > ? ORDER BY e.number LIMIT ?) AS corrected
UNION ALL
SELECT * FROM (
  SELECT number, kind, '', '', '', 0.0, data, CAST(NULL AS double precision), CAST(0 AS double precision) FROM changes
  WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND number > ? ORDER BY number LIMIT ?) AS others
ORDER BY 1 LIMIT ?
"""

# The number of the change at which a run of rewards ends: that of the next one of another kind, or of the next to come.
# Rewards up to there are all visible, whatever is written meanwhile.
RUN_END = """
SELECT f.changes + 1,
  (SELECT min(d.counted) FROM decisions d WHERE d.fleet = f.id AND d.counted > ?),
  (SELECT min(e.number) FROM reward_events e WHERE e.fleet = f.id AND e.number > ?),
  (SELECT min(c.number) FROM changes c WHERE c.fleet = f.id AND c.number > ?)
FROM fleets f WHERE f.name = ?
"""

RUN = """
SELECT d.change, d.task, d.arm, d.body, CASE WHEN d.corrected IS NULL OR d.corrected <= ? THEN d.reward
    ELSE (SELECT e.old FROM reward_events e WHERE e.decision = d.id AND e.number > ? ORDER BY e.number LIMIT 1) END,
  CASE WHEN d.counted IS NULL THEN NULL ELSE f.absent_reward END, d.reward_time
FROM decisions d JOIN fleets f ON f.id = d.fleet
WHERE d.fleet = (SELECT id FROM fleets WHERE name = ?) AND d.change > ? AND d.change < ? ORDER BY d.change LIMIT ?
"""

ACTIVITY = """
SELECT (minute / CAST(? AS bigint)) * 60 * CAST(? AS bigint), CAST(sum(decisions) AS bigint),
  CAST(sum(rewards) AS bigint), sum(reward_sum)
FROM activity WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND minute >= ? GROUP BY 1 ORDER BY 1
"""

SNAPSHOT = """
SELECT s.id, s.number, (SELECT count(*) FROM snapshot_parts WHERE snapshot = s.id)
FROM snapshots s JOIN fleets f ON f.id = s.fleet
WHERE f.name = ? AND s.finished = 1 ORDER BY s.number DESC, s.id DESC LIMIT 1
"""

# A row is learned when it begins to count as the absent reward, or else with its reward once that is no longer held. So
# rewards that are held are taken off, and decisions that count while they wait are put on top. The sign keeps SQLite
# from reading all decisions that ever counted: those that wait are few.
REWARDS_UP_TO = """
SELECT rewards
  - (SELECT count(*) FROM decisions d WHERE d.fleet = fleets.id AND d.reward IS NOT NULL AND d.change IS NULL)
  + CASE WHEN absent_reward IS NULL OR count_pending = 0 THEN 0 ELSE
    (SELECT count(*) FROM decisions d WHERE d.fleet = fleets.id AND d.state IN (0, 2) AND +d.counted IS NOT NULL) END
  - (SELECT count(*) FROM decisions d WHERE d.fleet = fleets.id AND d.counted > ?)
  - (SELECT count(*) FROM decisions d WHERE d.fleet = fleets.id AND d.change > ? AND d.counted IS NULL)
FROM fleets WHERE name = ? AND erasure <= ? AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.fleet = fleets.id)
  AND NOT EXISTS (SELECT 1 FROM snapshots s WHERE s.fleet = fleets.id AND s.finished = 1 AND s.number > ?)
"""

WHOLE = """
SELECT rewards = (SELECT count(*) FROM decisions d WHERE d.fleet = fleets.id AND d.state = 1)
FROM fleets WHERE name = ?
"""

# Held rewards are asked for without their state, whose index has all rewards that there ever were.
WAITING = f"""
SELECT id FROM (
  SELECT * FROM (
    SELECT id, time, number FROM decisions d
    WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND state = 0 AND time < ? AND {NOT_ERASED}
    ORDER BY time, number LIMIT ?) AS pending
  UNION ALL
  SELECT * FROM (
    SELECT id, time, number FROM decisions d
    WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND reward IS NOT NULL AND change IS NULL AND time < ?
      AND {NOT_ERASED}
    ORDER BY time, number LIMIT ?) AS held) AS late
ORDER BY time, number LIMIT ?
"""

PRUNE = """
DELETE FROM decisions WHERE id IN (
  SELECT id FROM decisions WHERE fleet = ? AND state = ? AND time < ?
    AND ((change <= ? AND coalesce(corrected, 0) <= ?) OR (state = 2 AND change IS NULL AND counted IS NULL))
  ORDER BY time LIMIT ?)
"""


ADD_CHANGE = "INSERT INTO changes (fleet, number, kind, data) VALUES (?, ?, ?, ?)"

NEW_TASK = """
INSERT INTO tasks (fleet, task, folded, first_time, decisions, rewards) VALUES (?, ?, ?, ?, 0, 0)
ON CONFLICT (fleet, task) DO NOTHING
"""

FORGET_KNOWN = f"DELETE FROM changes WHERE fleet = ? AND kind = 'task' AND substr(data, 1, {DIGEST}) = ?"


# A snapshot that has been replaced, or whose fleet is deleted, and one of its parts, if any is left.
REPLACED = """
SELECT s.id, (SELECT max(part) FROM snapshot_parts WHERE snapshot = s.id) FROM snapshots s
WHERE EXISTS (SELECT 1 FROM fleets f WHERE f.id = s.fleet AND f.name IS NULL) OR EXISTS (
  SELECT 1 FROM snapshots n WHERE n.fleet = s.fleet AND n.finished = 1
    AND (n.number > s.number OR (n.number = s.number AND n.id > s.id)))
LIMIT 1
"""

# A range of the fleet's rows, in the order in which they were written or that of their names: SQLite would look through
# all rows of the fleet for a list of keys.
DELETE_OF_FLEET = """
DELETE FROM {table} WHERE fleet = ? AND {key} <= (
  SELECT max({key}) FROM (SELECT {key} FROM {table} WHERE fleet = ? ORDER BY {key} LIMIT ?) AS slice)
"""

OF_A_FLEET = (
    ("decisions", "number"),
    ("tasks", "task"),
    ("activity", "minute"),
    ("changes", "number"),
    ("erasures", "task"),
)


class Session(Protocol):
    """A transaction that is open."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""


class SqlStorage(SqlKeys):
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
        found = self._read(FLEET + "WHERE name = ?", name)
        return _fleet_row(found[0]) if found else None

    def fleets(self) -> list[FleetRow]:
        return [_fleet_row(row) for row in self._read(FLEET + "WHERE name IS NOT NULL ORDER BY name")]

    def progress(self) -> list[Progress]:
        return [Progress._make(row) for row in self._read(PROGRESS)]

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
            self._erased(task)
        return True

    def _delete_of_task(self, session: Session, fleet: int, task: str, last: int, limit: int) -> tuple[int, int]:
        """Delete rows of a task up to a number; return how many, and how many of them were pending."""
        states = session.rows(
            "DELETE FROM decisions WHERE id IN (SELECT id FROM decisions "
            "WHERE fleet = ? AND task = ? AND number <= ? ORDER BY number LIMIT ?) RETURNING state",
            fleet, task, last, limit,
        )  # fmt: skip
        return len(states), sum(state == PENDING for (state,) in states)

    def _sweep_snapshot(self) -> bool:
        # By number, not by id: a process that was slow may finish after another one that knew more.
        found = self._read(REPLACED)
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
            for table, key in OF_A_FLEET:
                if session.run(DELETE_OF_FLEET.format(table=table, key=key), fleet, fleet, limit):
                    return True
            session.run("DELETE FROM fleets WHERE id = ?", fleet)
        self._forget()
        return True

    def fleet_times(self) -> dict[str, tuple[float | None, float | None]]:
        return {row[0]: (row[1], row[2]) for row in self._read(FLEET_TIMES)}

    # The log.

    def changes(self, fleet: str, after: int, limit: int = 10_000, *, settled: int = 0) -> list[Change]:
        _checked(limit)
        some, others = (fleet, after, limit), (fleet, max(after, settled), limit)
        found = self._read(CHANGES.format(binary=self.BINARY), settled, settled, *some, *some, *others, *some, limit)
        return [Change._make((*row[:6], bytes(row[6] or b""), *row[7:])) for row in found]

    def reward_run(self, fleet: str, after: int, limit: int, *, least: int, settled: int = 0) -> RewardRun | None:
        _checked(limit)
        ends = self._read(RUN_END, after, max(after, settled), after, fleet)
        end = min((number for number in ends[0] if number is not None), default=0) if ends else 0
        if end - after <= least:
            return None
        found = self._read(RUN, settled, settled, fleet, after, end, limit)
        return RewardRun(*zip(*found, strict=True)) if found else None

    def rewards_up_to(self, fleet: str, number: int) -> int | None:
        found = self._read(REWARDS_UP_TO, number, number, fleet, number, number)
        return int(found[0][0]) if found else None

    def is_whole(self, fleet: str) -> bool:
        found = self._read(WHOLE, fleet)
        return bool(found and found[0][0])

    def decision(self, decision_id: str) -> LoggedDecision | None:
        found = self._read(STANDING + "d.id = ?", decision_id)
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
        statement = f"{STANDING} {where} ORDER BY d.number {order} LIMIT ?"
        if task is None and state in (PENDING, EXPIRED):
            # These are few among many: their numbers come out of the index of states, and then their rows.
            inner = f"SELECT d.number FROM decisions d JOIN fleets f ON f.id = d.fleet WHERE {NOT_ERASED} AND {where} "
            # The sign keeps SQLite from walking through the whole log by number.
            inner += f"ORDER BY +d.number {order} LIMIT ?"
            statement = f"{DECISION} WHERE f.name = ? AND d.number IN ({inner}) ORDER BY d.number {order}"
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
        found = self._read(ACTIVITY, int(minutes), int(minutes), fleet, first)
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
                session.run("INSERT INTO erasures (fleet, task, number) VALUES (?, ?, ?)", number, task, last)
            session.run("DELETE FROM tasks WHERE fleet = ? AND task = ?", number, task)
            # The task had its part in them; the process that learns publishes another.
            session.run("DELETE FROM changes WHERE fleet = ? AND kind = 'population'", number)
            session.run(FORGET_KNOWN, number, digest_of(fleet, task))
            session.run(
                "UPDATE fleets SET tasks = tasks - 1, decisions = decisions - ?, rewards = rewards - ?, "
                "pending = pending - ?, erasure = changes + 1 WHERE id = ?",
                *counted[0], pending, number,
            )  # fmt: skip
            change = _note(session, locked, "erase", digest_of(fleet, task))
        if gone < AT_ONCE:
            self._erased(task)
        return change

    def _erased(self, task: str) -> None:  # noqa: ARG002 -- a file may have copies of its name
        """Leave no copy of a task behind whose last row was just deleted."""
        self._forget()

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
                f"WHERE fleet = ? AND state = ? AND time < ? AND {NOT_ERASED} ORDER BY time LIMIT ?)",
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
            gone = session.run(PRUNE, locked[0], EXPIRED, before, 0, 0, _checked(limit))
            if stored.snapshot and gone < limit:
                gone += session.run(PRUNE, locked[0], REWARDED, before, *[stored.snapshot] * 2, limit - gone)
        if 0 < gone < limit:
            self._forget()
        return gone

    def waiting(self, fleet: str, before: float, limit: int = 1000) -> list[str]:
        found = self._read(WAITING, fleet, before, _checked(limit), fleet, before, limit, limit)
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
                new += session.run(NEW_TASK, row, task, task.casefold(), time)
                session.run(ADD_CHANGE, row, last, "task", digest_of(fleet, task) + data)
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
        found = self._read(SNAPSHOT, fleet)
        return (int(found[0][1]), self._parts(found[0][0], found[0][2])) if found else None

    def _parts(self, snapshot: int, n_parts: int) -> Iterator[bytes]:
        for part in range(n_parts):
            found = self._read("SELECT data FROM snapshot_parts WHERE snapshot = ? AND part = ?", snapshot, part)
            if not found:
                raise StorageUnavailable("the snapshot was replaced by a newer one while it was read; ask for that one")
            yield bytes(found[0][0])

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
    session.run(ADD_CHANGE, fleet[0], number, kind, data)
    return number


def _checked(limit: int) -> int:
    """Return a limit that both databases take in one meaning: SQLite reads a negative one as no limit."""
    if limit < 0:
        raise InvalidValue(f"limit is {limit}; give 0 or more")
    return limit
