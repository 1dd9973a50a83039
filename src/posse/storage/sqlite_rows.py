"""Looking up and writing many rows of SQLite with few statements.

Python lets go of the interpreter for every step of a statement and then waits until another thread lets go of it, so a
row by itself costs more in waiting than in work. Statements for 1, 2, 4, ... rows are prepared once each.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from posse.storage.outcomes import Counters, LookupKeys, LookupResult, WritePlan
from posse.storage.rows import LoggedDecision
from posse.storage.statements import STANDING

MOST_ROWS = 32  # of one statement
Item = TypeVar("Item")

BY_ID = STANDING + "d.id IN ({})"
BY_KEY = STANDING.replace("SELECT f.name", "SELECT d.key, d.digest, f.name") + "f.name = ? AND d.key IN ({})"
KNOWN_TASKS = "FROM tasks WHERE fleet = (SELECT id FROM fleets WHERE name = ?) AND task IN ({})"

INSERT = """
INSERT INTO decisions (fleet, number, id, time, task, arm, propensity, body, policy, version, key, digest, counted)
VALUES {}
"""

REWARD = """
UPDATE decisions SET state = 1, change = v.column1, reward = v.column2, reward_time = v.column3, corrected = v.column4
FROM (VALUES {}) AS v WHERE decisions.id = v.column5
"""

INSERT_EVENT = """
INSERT INTO reward_events (fleet, decision, number, event, kind, value, reward, old, time) VALUES {}
"""

COUNT_TASK = """
INSERT INTO tasks (fleet, task, folded, first_time, decisions, rewards) VALUES {}
ON CONFLICT (fleet, task) DO UPDATE SET decisions = decisions + excluded.decisions, rewards = rewards + excluded.rewards
"""

COUNT_MINUTE = """
INSERT INTO activity (fleet, minute, decisions, rewards, reward_sum) VALUES {}
ON CONFLICT (fleet, minute) DO UPDATE SET decisions = decisions + excluded.decisions,
  rewards = rewards + excluded.rewards, reward_sum = reward_sum + excluded.reward_sum
"""

COUNT_FLEET = """
UPDATE fleets SET number = number + ?, tasks = tasks + ?, decisions = decisions + ?, rewards = rewards + ?,
  pending = pending + ?, changes = changes + ? WHERE id = ?
"""


def look_up(connection: sqlite3.Connection, wanted: LookupKeys) -> LookupResult:
    """Read what has to be known before entries can be judged."""
    decisions = {row[2]: LoggedDecision._make(row) for row in _found(connection, BY_ID, (), wanted.ids)}
    keyed = {
        (fleet, row[0]): (row[1], LoggedDecision._make(row[2:]))
        for fleet, keys in _by_fleet(wanted.keys)
        for row in _found(connection, BY_KEY, (fleet,), keys)
    }
    tasks = {
        (fleet, task)
        for fleet, asked in _by_fleet(wanted.tasks)
        for task in _known_tasks(connection, fleet, asked)
    }  # fmt: skip
    fleets = {}
    for name in {*wanted.fleets, *(row.fleet for row in decisions.values())}:
        row = connection.execute(
            "SELECT id, name, time_to_live, number, changes, created, absent_reward, count_pending, "
            "reward_events, reward_window, definition FROM fleets WHERE name = ?",
            (name,),
        ).fetchone()
        if row is not None:
            fleets[name] = Counters(*row)
    events = {}
    for pair in wanted.events:
        row = connection.execute("SELECT value FROM reward_events WHERE decision = ? AND event = ?", pair).fetchone()
        if row is not None:
            events[pair] = row[0]
    return LookupResult(fleets, decisions, keyed, tasks, events)


def apply(connection: sqlite3.Connection, verdict: WritePlan) -> None:
    """Write what was accepted."""
    _write(connection, INSERT, [
        (fleet, number, new.id, new.time, new.task, new.arm, new.propensity, new.body, new.policy, new.version,
         new.key, new.digest, counted)
        for fleet, number, counted, new in verdict.decisions
    ])  # fmt: skip
    _write(connection, REWARD, [
        (row.change, row.reward, row.reward_time, row.corrected, row.id) for row in verdict.rewarded
    ])  # fmt: skip
    _write(connection, INSERT_EVENT, [(fleet, decision, *event) for fleet, decision, event in verdict.events])
    _write(connection, COUNT_TASK, [
        (fleet, task, task.casefold(), tally.first_time, tally.decisions, tally.rewards)
        for (fleet, task), tally in verdict.tasks.items()
    ])  # fmt: skip
    _write(connection, COUNT_MINUTE, [
        (fleet, minute, tally.decisions, tally.rewards, tally.reward_sum)
        for (fleet, minute), tally in verdict.minutes.items()
    ])  # fmt: skip
    for fleet, tally in verdict.fleets.items():
        pending = tally.decisions - tally.rewards
        values = (tally.decisions, tally.tasks, tally.decisions, tally.rewards, pending, tally.changes, fleet)
        connection.execute(COUNT_FLEET, values)


def _write(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    for some in _in_sizes(rows):
        connection.execute(
            _spelled(statement, len(some), len(some[0])), [value for row in some for value in row]
        )  # fmt: skip


def _found(
    connection: sqlite3.Connection, statement: str, before: tuple[str, ...], values: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that have one of these values."""
    for begin in range(0, len(values), MOST_ROWS):
        some = values[begin : begin + MOST_ROWS]
        size = 1 << (len(some) - 1).bit_length()
        padded = [*before, *some, *[some[-1]] * (size - len(some))]  # what is asked for twice is found once
        yield from connection.execute(_listed(statement, size), padded).fetchall()


def _known_tasks(connection: sqlite3.Connection, fleet: str, tasks: Sequence[str]) -> Sequence[str]:
    """Return which tasks there are; nearly always it is all of them, and counting them takes one step."""
    if len(tasks) == sum(row[0] for row in _found(connection, "SELECT count(*) " + KNOWN_TASKS, (fleet,), tasks)):
        return tasks
    return [row[0] for row in _found(connection, "SELECT task " + KNOWN_TASKS, (fleet,), tasks)]


def _by_fleet(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    found: dict[str, list[str]] = defaultdict(list)
    for fleet, value in pairs:
        found[fleet].append(value)
    yield from found.items()


def _in_sizes(rows: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield rows in parts whose sizes are powers of two.

    Examples
    --------
    >>> [len(part) for part in _in_sizes(range(75))]
    [32, 32, 8, 2, 1]
    """
    begin = 0
    while begin < len(rows):
        size = min(1 << (len(rows) - begin).bit_length() - 1, MOST_ROWS)
        yield rows[begin : begin + size]
        begin += size


@lru_cache(256)
def _spelled(statement: str, n_rows: int, n_columns: int) -> str:
    row = f"({', '.join('?' * n_columns)})"
    return statement.format(", ".join([row] * n_rows))


@lru_cache(256)
def _listed(statement: str, n_values: int) -> str:
    return statement.format(", ".join("?" * n_values))
