"""Looking up and writing many rows of PostgreSQL with few statements, sent without waiting for each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from posse.storage.outcomes import Counters, LookupKeys, LookupResult, WritePlan
from posse.storage.rows import LoggedDecision
from posse.storage.statements import DECISION, NOT_ERASED, STANDING

Connection = psycopg.Connection[tuple[Any, ...]]

# Rewards name only their decisions, so this finds their fleets too. Always in one order, against deadlocks.
LOCK_FLEETS = """
SELECT id, name, time_to_live, number, changes, created, absent_reward, count_pending, reward_events,
  reward_window, definition
FROM fleets WHERE name = ANY(%s) OR (name IS NOT NULL AND id IN (SELECT fleet FROM decisions WHERE id = ANY(%s)))
ORDER BY id FOR NO KEY UPDATE
"""

BY_ID = STANDING + "d.id = ANY(%s)"

# Row by row (LATERAL with a limit, or a subquery): in a free join, all tasks of a fleet may be read for each one asked.
BY_KEY = (
    DECISION[: DECISION.index("FROM")].replace("f.name", "d.key, d.digest, asked.fleet")
    + """
FROM unnest(%s::text[], %s::text[]) AS asked (fleet, key) CROSS JOIN LATERAL (
  SELECT * FROM decisions d WHERE fleet = (SELECT id FROM fleets WHERE name = asked.fleet) AND key = asked.key
  LIMIT 1) AS d
WHERE """
    + NOT_ERASED
)

KNOWN_TASKS = """
SELECT asked.fleet, asked.task FROM unnest(%s::text[], %s::text[]) AS asked (fleet, task) WHERE (
  SELECT true FROM tasks WHERE fleet = (SELECT id FROM fleets WHERE name = asked.fleet) AND task = asked.task)
"""

INSERT = """
INSERT INTO decisions (fleet, number, id, time, task, arm, propensity, body, policy, version, key, digest, counted)
SELECT * FROM json_to_recordset(%s::json) AS new (
  a bigint, b bigint, c text, d double precision, e text, f text, g double precision, h text, i text, j text, k text,
  l text, m bigint)
"""

REWARD = """
UPDATE decisions SET state = 1, change = new.b, reward = new.c, reward_time = new.d, corrected = new.e
FROM json_to_recordset(%s::json) AS new (a text, b bigint, c double precision, d double precision, e bigint)
WHERE decisions.id = new.a
"""

INSERT_EVENTS = """
INSERT INTO reward_events (fleet, decision, number, event, kind, value, reward, old, time)
SELECT * FROM json_to_recordset(%s::json) AS new (
  a bigint, b text, c bigint, d text, e text, f double precision, g double precision, h double precision,
  i double precision)
"""

KNOWN_EVENTS = """
SELECT e.decision, e.event, e.value FROM unnest(%s::text[], %s::text[]) AS asked (decision, event)
JOIN reward_events e ON e.decision = asked.decision AND e.event = asked.event
"""

COUNT_TASKS = """
INSERT INTO tasks (fleet, task, folded, first_time, decisions, rewards)
SELECT * FROM json_to_recordset(%s::json) AS new (
  a bigint, b text, c text, d double precision, e bigint, f bigint)
ON CONFLICT (fleet, task) DO UPDATE SET decisions = tasks.decisions + excluded.decisions,
  rewards = tasks.rewards + excluded.rewards
"""

COUNT_MINUTES = """
INSERT INTO activity (fleet, minute, decisions, rewards, reward_sum)
SELECT * FROM json_to_recordset(%s::json) AS new (a bigint, b bigint, c bigint, d bigint, e double precision)
ON CONFLICT (fleet, minute) DO UPDATE SET decisions = activity.decisions + excluded.decisions,
  rewards = activity.rewards + excluded.rewards, reward_sum = activity.reward_sum + excluded.reward_sum
"""

COUNT_FLEETS = """
UPDATE fleets SET number = number + new.c, tasks = tasks + new.b, decisions = decisions + new.c,
  rewards = rewards + new.d, pending = pending + new.c - new.d, changes = changes + new.e
FROM json_to_recordset(%s::json) AS new (a bigint, b bigint, c bigint, d bigint, e bigint) WHERE fleets.id = new.a
"""


def look_up(connection: Connection, wanted: LookupKeys) -> LookupResult | None:
    """Begin a transaction, lock all fleets and read what has to be known before entries can be judged.

    None if a decision came into a fleet that was not locked.
    """
    key_fleets, keys = [list(column) for column in zip(*wanted.keys, strict=True)] or [[], []]
    task_fleets, tasks = [list(column) for column in zip(*wanted.tasks, strict=True)] or [[], []]
    named, events = [list(column) for column in zip(*wanted.events, strict=True)] or [[], []]
    with connection.pipeline():
        connection.execute("BEGIN")
        locked = connection.execute(LOCK_FLEETS, (wanted.fleets, wanted.ids))
        by_id = connection.execute(BY_ID, (wanted.ids,))
        by_key = connection.execute(BY_KEY, (key_fleets, keys)) if keys else None
        known = connection.execute(KNOWN_TASKS, (task_fleets, tasks)) if tasks else None
        came = connection.execute(KNOWN_EVENTS, (named, events)) if events else None
    fleets = {row[1]: Counters(*row) for row in locked.fetchall()}
    decisions = {row[2]: LoggedDecision._make(row) for row in by_id.fetchall()}
    if any(row.fleet not in fleets for row in decisions.values()):
        return None
    keyed = {(row[2], row[0]): (row[1], LoggedDecision._make(row[2:])) for row in (by_key.fetchall() if by_key else ())}
    values = {(row[0], row[1]): row[2] for row in (came.fetchall() if came else ())}
    return LookupResult(fleets, decisions, keyed, set(known.fetchall()) if known else set(), values)


def apply(connection: Connection, verdict: WritePlan) -> None:
    """Write what was accepted, and commit."""
    with connection.pipeline():
        for statement, rows in (
            (INSERT, [
                (fleet, number, new.id, new.time, new.task, new.arm, new.propensity, new.body, new.policy,
                 new.version, new.key, new.digest, counted)
                for fleet, number, counted, new in verdict.decisions
            ]),
            (REWARD, [
                (row.id, row.change, row.reward, row.reward_time, row.corrected) for row in verdict.rewarded
            ]),
            (INSERT_EVENTS, [(fleet, decision, *event) for fleet, decision, event in verdict.events]),
            (COUNT_TASKS, [
                (fleet, task, task.casefold(), tally.first_time, tally.decisions, tally.rewards)
                for (fleet, task), tally in verdict.tasks.items()
            ]),
            (COUNT_MINUTES, [
                (fleet, minute, tally.decisions, tally.rewards, tally.reward_sum)
                for (fleet, minute), tally in verdict.minutes.items()
            ]),
            (COUNT_FLEETS, [
                (fleet, tally.tasks, tally.decisions, tally.rewards, tally.changes)
                for fleet, tally in verdict.fleets.items()
            ]),
        ):  # fmt: skip
            if rows:
                connection.execute(statement, (_records(rows),))
        connection.execute("COMMIT")


def _records(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as JSON objects whose keys are a, b, c, ...: one value to send and one to parse."""
    return json.dumps([dict(zip("abcdefghijklm", row, strict=False)) for row in rows], ensure_ascii=False)
