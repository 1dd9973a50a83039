"""Statements that both databases understand, with ``?`` where a value goes."""

from __future__ import annotations

from posse.storage.rows import DIGEST

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

# When the reward came with which a row was learned; later ones have their own time.
FIRST_TIME = """CASE WHEN d.corrected IS NULL THEN d.reward_time ELSE coalesce((SELECT max(e.time) FROM reward_events e
    WHERE e.decision = d.id AND e.number IS NULL AND e.kind = 'reward'), d.reward_time) END"""

CHANGES = f"""
SELECT * FROM (
  SELECT d.change, 'reward', d.task, d.arm, d.body, CASE WHEN d.corrected IS NULL OR d.corrected <= ? THEN d.reward
      ELSE (SELECT e.old FROM reward_events e WHERE e.decision = d.id AND e.number > ? ORDER BY e.number LIMIT 1) END,
    CAST(NULL AS {{binary}}),
    CASE WHEN d.counted IS NULL THEN NULL ELSE f.absent_reward END, {FIRST_TIME}, d.counted
  FROM decisions d JOIN fleets f ON f.id = d.fleet
  WHERE d.fleet = (SELECT id FROM fleets WHERE name = ?) AND d.change > ? ORDER BY d.change LIMIT ?) AS rewarded
UNION ALL
SELECT * FROM (
  SELECT d.counted, 'decision', d.task, d.arm, d.body, f.absent_reward, CAST(NULL AS {{binary}}),
    CAST(NULL AS double precision), d.time, CAST(NULL AS bigint)
  FROM decisions d JOIN fleets f ON f.id = d.fleet
  WHERE d.fleet = (SELECT id FROM fleets WHERE name = ?) AND d.counted > ? ORDER BY d.counted LIMIT ?) AS waiting
UNION ALL
SELECT * FROM (
  SELECT e.number, 'reward', d.task, d.arm, d.body, e.reward, CAST(NULL AS {{binary}}), e.old, e.time,
    coalesce(d.counted, d.change)
  FROM reward_events e JOIN decisions d ON d.id = e.decision
  WHERE e.fleet = (SELECT id FROM fleets WHERE name = ?) AND e.number > ? ORDER BY e.number LIMIT ?) AS corrected
UNION ALL
SELECT * FROM (
  SELECT number, kind, '', '', '', 0.0, data, CAST(NULL AS double precision), CAST(0 AS double precision),
    CAST(NULL AS bigint)
  FROM changes
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

RUN = f"""
SELECT d.change, d.task, d.arm, d.body, CASE WHEN d.corrected IS NULL OR d.corrected <= ? THEN d.reward
    ELSE (SELECT e.old FROM reward_events e WHERE e.decision = d.id AND e.number > ? ORDER BY e.number LIMIT 1) END,
  CASE WHEN d.counted IS NULL THEN NULL ELSE f.absent_reward END, {FIRST_TIME}, d.counted
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
