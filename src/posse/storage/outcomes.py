"""What becomes of entries: judged against what is stored, without touching a database.

A storage looks up what :class:`Wanted` names, judges with :func:`judge`, and writes what the :class:`Verdict` holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from posse.errors import InvalidValue
from posse.storage.base import (
    ACCEPTED,
    CONFLICT,
    EXPIRED,
    GONE,
    PENDING,
    REWARDED,
    SAME,
    UNKNOWN,
    WITHHELD,
    Change,
    LoggedDecision,
    NewDecision,
    NewReward,
    Outcome,
    Written,
)

Entry = NewDecision | NewReward

TAKEN = (ACCEPTED, SAME)


class Wanted:
    """What has to be looked up before groups can be judged.

    Parameters
    ----------
    groups : sequence of sequence of NewDecision or NewReward

    Attributes
    ----------
    ids : list of str
        Of all decisions that are named.
    fleets : list of str
    keys, tasks : list of tuple
        Names of fleets, and the key or the task.
    """

    def __init__(self, groups: Sequence[Sequence[Entry]]) -> None:
        ids: dict[str, None] = {}
        fleets: dict[str, None] = {}
        keys: dict[tuple[str, str], None] = {}
        tasks: dict[tuple[str, str], None] = {}
        for group in groups:
            for entry in group:
                ids[entry.id] = None
                if isinstance(entry, NewDecision):
                    if not (math.isfinite(entry.time) and math.isfinite(entry.propensity)):
                        raise InvalidValue(
                            f"decision {entry.id!r} has time {entry.time!r} and propensity {entry.propensity!r}; "
                            "give finite numbers"
                        )
                    fleets[entry.fleet] = None
                    tasks[entry.fleet, entry.task] = None
                    if entry.key is not None:
                        keys[entry.fleet, entry.key] = None
                elif not (math.isfinite(entry.value) and math.isfinite(entry.time)):
                    raise InvalidValue(
                        f"the reward of decision {entry.id!r} is {entry.value!r} at {entry.time!r}; give finite numbers"
                    )
        self.ids = list(ids)
        self.fleets = list(fleets)
        self.keys = list(keys)
        self.tasks = list(tasks)


@dataclass(slots=True)
class Counters:
    """What a write has to know about a fleet; ``number`` and ``changes`` are of the last decision and change."""

    id: int
    name: str
    time_to_live: float | None
    number: int
    changes: int
    created: float
    absent_reward: float | None = None
    count_pending: int = 1

    @property
    def counts(self) -> bool:
        """Whether a decision counts as the absent reward from the moment it is made."""
        return self.absent_reward is not None and bool(self.count_pending)

    @property
    def holds(self) -> bool:
        """Whether rewards are held until the time to live is over."""
        return self.absent_reward is not None and not self.count_pending


@dataclass(slots=True)
class Found:
    """What was looked up: fleets by name, decisions by id, those of keys with their digests, and tasks there are."""

    fleets: dict[str, Counters]
    decisions: dict[str, LoggedDecision]
    keyed: dict[tuple[str, str], tuple[str, LoggedDecision]]
    tasks: set[tuple[str, str]]


@dataclass(slots=True)
class Tally:
    """How much a fleet, a task or a minute grows; ``tasks``, ``changes`` are of fleets, ``reward_sum`` of minutes."""

    decisions: int = 0
    rewards: int = 0
    tasks: int = 0
    first_time: float = 0.0
    reward_sum: float = 0.0
    changes: int = 0


class AcceptedDecision(NamedTuple):
    """A decision to be written: the number of the fleet's row, its own, and the change from which on it counts."""

    fleet: int
    number: int
    counted: int | None
    entry: NewDecision


class AcceptedReward(NamedTuple):
    """A reward to be written: the number of the fleet's row, and the decision with it and as it was before."""

    fleet: int
    row: LoggedDecision
    before: LoggedDecision


@dataclass(slots=True)
class Verdict:
    """What became of all groups, and what is to be written.

    Parameters
    ----------
    written : Written
    decisions : list of AcceptedDecision
    rewards : list of AcceptedReward
    fleets, tasks, minutes : dict
        By number of the fleet's row (and the task, or the minute since the epoch).
    """

    written: Written
    decisions: list[AcceptedDecision]
    rewards: list[AcceptedReward]
    fleets: dict[int, Tally] = field(default_factory=dict)
    tasks: dict[tuple[int, str], Tally] = field(default_factory=dict)
    minutes: dict[tuple[int, int], Tally] = field(default_factory=dict)


def judge(groups: Sequence[Sequence[Entry]], found: Found) -> Verdict:
    """Decide what becomes of every entry. ``found`` is used up: it follows what the groups would write."""
    before = {name: fleet.changes for name, fleet in found.fleets.items()}
    decisions: list[AcceptedDecision] = []
    rewards: list[AcceptedReward] = []
    outcomes: list[list[Outcome]] = []
    for group in groups:
        n_decisions, n_rewards = len(decisions), len(rewards)
        judged = [
            _decide(entry, found, decisions) if isinstance(entry, NewDecision) else _reward(entry, found, rewards)
            for entry in group
        ]
        if len(judged) > 1 and not all(outcome.kind in TAKEN for outcome in judged):
            _take_back(found, decisions, n_decisions, rewards, n_rewards)
            judged = [
                Outcome(WITHHELD, found.decisions.get(entry.id)) if outcome.kind in TAKEN else outcome
                for entry, outcome in zip(group, judged, strict=True)
            ]
        outcomes.append(judged)
    changes = _changes(found, decisions, rewards)
    verdict = Verdict(Written(outcomes, {name: before[name] for name in changes}, changes), decisions, rewards)
    _count(verdict, found.tasks)
    return verdict


def _changes(found: Found, decisions: list[AcceptedDecision], rewards: list[AcceptedReward]) -> dict[str, list[Change]]:
    """Return what changes what a fleet believes, by fleet, in the order of the numbers."""
    changes: dict[str, list[Change]] = {}
    for _, _, counted, entry in decisions:
        absent = found.fleets[entry.fleet].absent_reward
        if counted is not None and absent is not None:
            change = Change(counted, "decision", entry.task, entry.arm, entry.body, absent)
            changes.setdefault(entry.fleet, []).append(change)
    for _, row, _ in rewards:
        if row.change is not None:
            assert row.reward is not None
            assert row.reward_time is not None
            old = None if row.counted is None else found.fleets[row.fleet].absent_reward
            change = Change(
                row.change, "reward", row.task, row.arm, row.body, row.reward, old=old, time=row.reward_time
            )
            changes.setdefault(row.fleet, []).append(change)
    for some in changes.values():
        some.sort(key=lambda change: change.number)
    return changes


def _decide(entry: NewDecision, found: Found, accepted: list[AcceptedDecision]) -> Outcome:
    fleet = found.fleets.get(entry.fleet)
    if fleet is None or (entry.created is not None and entry.created != fleet.created):
        return Outcome(UNKNOWN)
    if entry.key is not None:
        earlier = found.keyed.get((entry.fleet, entry.key))
        if earlier is not None:
            return Outcome(SAME, earlier[1]) if earlier[0] == entry.digest else Outcome(CONFLICT)
    row = found.decisions.get(entry.id)
    if row is not None:
        # Written before by a call that did not hear of it, or an id that was drawn twice.
        asked = (entry.fleet, entry.time, entry.task, entry.arm, entry.body)
        same = entry.key is None and asked == (row.fleet, row.time, row.task, row.arm, row.body)
        return Outcome(SAME, row) if same else Outcome(CONFLICT)
    fleet.number += 1
    counted = None
    if fleet.counts:
        fleet.changes += 1
        counted = fleet.changes
    row = LoggedDecision(
        entry.fleet, fleet.number, entry.id, entry.time, entry.task, entry.arm, entry.propensity, entry.body,
        entry.policy, entry.version, PENDING, None, None, None, counted,
    )  # fmt: skip
    found.decisions[entry.id] = row
    if entry.key is not None:
        found.keyed[entry.fleet, entry.key] = (entry.digest, row)
    accepted.append(AcceptedDecision(fleet.id, fleet.number, counted, entry))
    return Outcome(ACCEPTED)


def _reward(entry: NewReward, found: Found, accepted: list[AcceptedReward]) -> Outcome:
    before = found.decisions.get(entry.id)
    if before is None:
        return Outcome(UNKNOWN)
    fleet = found.fleets[before.fleet]
    if before.state == REWARDED:
        held = before.change is None
        if entry.expiring and not held:
            return Outcome(SAME, before)
        if not entry.expiring:
            if _went(before, fleet, entry.leeway):
                return Outcome(GONE, before)
            return Outcome(SAME if before.reward == entry.value else CONFLICT, before)
        value, time = before.reward, before.reward_time
    else:
        if before.state == EXPIRED:
            return Outcome(GONE, before)
        age = entry.time - before.time - entry.leeway
        if fleet.time_to_live is not None and not entry.expiring and age > fleet.time_to_live:
            return Outcome(GONE, before)
        value, time = float(entry.value), entry.time
    change = None
    if entry.expiring or not fleet.holds:
        fleet.changes += 1
        change = fleet.changes
    row = before._replace(state=REWARDED, reward=value, reward_time=time, change=change)
    found.decisions[entry.id] = row
    accepted.append(AcceptedReward(fleet.id, row, before))
    return Outcome(ACCEPTED, row)


def _went(row: LoggedDecision, fleet: Counters, leeway: float) -> bool:
    """Whether the reward that a decision has is the one that it was given when its time was over."""
    if fleet.time_to_live is None or row.reward_time is None:
        return False
    # A clock that is in doubt now was not when these times were taken.
    return row.reward_time - row.time - (leeway if math.isfinite(leeway) else 0.0) > fleet.time_to_live


def _take_back(
    found: Found,
    decisions: list[AcceptedDecision],
    n_decisions: int,
    rewards: list[AcceptedReward],
    n_rewards: int,
) -> None:
    """Forget what a refused group would have written."""
    while len(rewards) > n_rewards:
        _, row, before = rewards.pop()
        found.fleets[row.fleet].changes -= row.change is not None
        found.decisions[row.id] = before
    while len(decisions) > n_decisions:
        _, _, counted, entry = decisions.pop()
        found.fleets[entry.fleet].number -= 1
        found.fleets[entry.fleet].changes -= counted is not None
        del found.decisions[entry.id]
        if entry.key is not None:
            del found.keyed[entry.fleet, entry.key]


def _count(verdict: Verdict, known: set[tuple[str, str]]) -> None:
    fleets, tasks, minutes = verdict.fleets, verdict.tasks, verdict.minutes
    for fleet, _, counted, entry in verdict.decisions:
        whole = fleets.setdefault(fleet, Tally())
        whole.decisions += 1
        whole.changes += counted is not None
        task = tasks.get((fleet, entry.task))
        if task is None:
            task = tasks[fleet, entry.task] = Tally(first_time=entry.time)
            whole.tasks += (entry.fleet, entry.task) not in known
        task.decisions += 1
        task.first_time = min(task.first_time, entry.time)
        minutes.setdefault((fleet, math.floor(entry.time / 60)), Tally()).decisions += 1
    for fleet, row, before in verdict.rewards:
        assert row.reward is not None
        assert row.reward_time is not None
        fleets.setdefault(fleet, Tally()).changes += row.change is not None
        if before.state == REWARDED:
            continue  # it was held, and counted when it came
        fleets[fleet].rewards += 1
        tasks.setdefault((fleet, row.task), Tally(first_time=row.time)).rewards += 1
        minute = minutes.setdefault((fleet, math.floor(row.reward_time / 60)), Tally())
        minute.rewards += 1
        minute.reward_sum += row.reward
