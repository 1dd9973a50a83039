"""What becomes of entries: judged against what is stored, without touching a database.

A storage looks up what :class:`LookupKeys` names, asks :func:`resolve` what becomes of it, and writes what the
:class:`WritePlan` holds.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from posse.errors import InvalidValue
from posse.storage.rows import (
    ACCEPTED,
    CONFLICT,
    EXPIRED,
    GONE,
    NAMELESS,
    PENDING,
    REWARDED,
    SAME,
    UNFIT,
    UNKNOWN,
    UNREWARDED,
    WITHHELD,
    Change,
    LoggedDecision,
    NewDecision,
    NewReward,
    Outcome,
    RewardEvent,
    Written,
)

Entry = NewDecision | NewReward

TAKEN = (ACCEPTED, SAME)
WRITTEN = Outcome(ACCEPTED)
ONCE, SUM, LAST = "once", "sum", "last"
"""What a fleet makes of several rewards of one decision."""


class LookupKeys:
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
    events : list of tuple
        Ids of decisions, and names of events.
    """

    def __init__(self, groups: Sequence[Sequence[Entry]]) -> None:
        ids: dict[str, None] = {}
        fleets: dict[str, None] = {}
        keys: dict[tuple[str, str], None] = {}
        tasks: dict[tuple[str, str], None] = {}
        events: dict[tuple[str, str], None] = {}
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
                elif entry.event is not None:
                    events[entry.id, entry.event] = None
        self.ids = list(ids)
        self.fleets = list(fleets)
        self.keys = list(keys)
        self.tasks = list(tasks)
        self.events = list(events)


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
    reward_events: str = ONCE
    reward_window: float | None = None
    definition: str = "{}"

    def takes(self, value: float, *, truth: bool = False) -> bool:
        """Whether a value is a reward of this fleet; ``truth`` says that it came as true or false."""
        kind = kind_of_rewards(self.definition)
        if truth and kind not in ("binary", "count"):
            return False
        if kind == "number":
            return True
        from posse.families import (
            FAMILIES,  # not with storage: whoever only looks at a database need not wait for Numba
        )

        family = FAMILIES.get(kind)
        return not truth if family is None else bool(family.takes(np.float64(value)))

    @property
    def counts(self) -> bool:
        """Whether a decision counts as the absent reward from the moment it is made."""
        return self.absent_reward is not None and bool(self.count_pending)

    @property
    def holds(self) -> bool:
        """Whether rewards are held until the time to live is over."""
        return self.absent_reward is not None and not self.count_pending


@dataclass(slots=True)
class LookupResult:
    """What was looked up: fleets by name, decisions by id, those of keys with digests, tasks, values of events."""

    fleets: dict[str, Counters]
    decisions: dict[str, LoggedDecision]
    keyed: dict[tuple[str, str], tuple[str, LoggedDecision]]
    tasks: set[tuple[str, str]]
    events: dict[tuple[str, str], float] = field(default_factory=dict)


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
    """A reward to be written: the number of the fleet's row, and the decision with it and as it was before.

    ``number`` is that of the change, None if it is held; ``event`` is what is kept of it beside the decision's row.
    """

    fleet: int
    row: LoggedDecision
    before: LoggedDecision
    number: int | None
    event: RewardEvent | None


@dataclass(slots=True)
class WritePlan:
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

    @property
    def rewarded(self) -> list[LoggedDecision]:
        """Decisions with the rewards that they have in the end: one may have got several."""
        return list({reward.row.id: reward.row for reward in self.rewards}.values())

    @property
    def events(self) -> list[tuple[int, str, RewardEvent]]:
        """What is to be kept of rewards beside rows of decisions: the fleet's row, the decision and the event."""
        return [(reward.fleet, reward.row.id, reward.event) for reward in self.rewards if reward.event is not None]


def resolve(groups: Sequence[Sequence[Entry]], found: LookupResult) -> WritePlan:
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
    verdict = WritePlan(Written(outcomes, {name: before[name] for name in changes}, changes), decisions, rewards)
    _count(verdict, found.tasks)
    return verdict


def _changes(
    found: LookupResult, decisions: list[AcceptedDecision], rewards: list[AcceptedReward]
) -> dict[str, list[Change]]:
    """Return what changes what a fleet believes, by fleet, in the order of the numbers."""
    changes: dict[str, list[Change]] = {}
    for _, _, counted, entry in decisions:
        absent = found.fleets[entry.fleet].absent_reward
        if counted is not None and absent is not None:
            change = Change(counted, "decision", entry.task, entry.arm, entry.body, absent, time=entry.time)
            changes.setdefault(entry.fleet, []).append(change)
    for _, row, before, number, event in rewards:
        if number is not None:
            assert row.reward is not None
            assert row.reward_time is not None
            old, first = None if row.counted is None else found.fleets[row.fleet].absent_reward, row.counted
            time = row.reward_time
            if before.change is not None:
                assert event is not None
                old, first, time = before.reward, before.change if row.counted is None else row.counted, event.time
            change = Change(number, "reward", row.task, row.arm, row.body, row.reward, old=old, time=time, first=first)
            changes.setdefault(row.fleet, []).append(change)
    for some in changes.values():
        some.sort(key=lambda change: change.number)
    return changes


def _decide(entry: NewDecision, found: LookupResult, accepted: list[AcceptedDecision]) -> Outcome:
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
    return WRITTEN


def _reward(entry: NewReward, found: LookupResult, accepted: list[AcceptedReward]) -> Outcome:
    before = found.decisions.get(entry.id)
    if before is None or (entry.fleets and before.fleet not in entry.fleets):
        return Outcome(UNKNOWN)
    fleet = found.fleets[before.fleet]
    if not entry.expiring and not fleet.takes(entry.value, truth=entry.truth):
        return Outcome(UNFIT, before)
    if entry.corrects:
        return _correct(entry, before, fleet, found, accepted)
    if fleet.reward_events == SUM and entry.event is None and not entry.expiring:
        return Outcome(NAMELESS, before)
    if before.state == REWARDED and fleet.reward_events != ONCE and not entry.expiring:
        return _reward_again(entry, before, fleet, found, accepted)
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
        if not entry.expiring and _late(entry, before, fleet):
            return Outcome(GONE, before)
        value, time = float(entry.value), entry.time
    change = None
    if entry.expiring or not fleet.holds:
        fleet.changes += 1
        change = fleet.changes
    # As _replace(state, reward, reward_time, change), which takes several times as long.
    row = LoggedDecision._make((*before[:10], REWARDED, value, time, change, *before[14:]))
    event = None
    if fleet.reward_events != ONCE and before.state != REWARDED:
        value = float(entry.value)
        event = RewardEvent(None, entry.event, "reward", value, value, None, entry.time)
        if entry.event is not None:
            found.events[entry.id, entry.event] = value
    found.decisions[entry.id] = row
    accepted.append(AcceptedReward(fleet.id, row, before, change, event))
    return Outcome(ACCEPTED, row)


@lru_cache
def kind_of_rewards(definition: str) -> str:
    """Return what a definition says that rewards are; one that somebody broke by hand takes any number."""
    try:
        kind = json.loads(definition).get("rewards")
    except (ValueError, AttributeError):
        return "number"
    return kind if isinstance(kind, str) else "number"


def _reward_again(
    entry: NewReward, before: LoggedDecision, fleet: Counters, found: LookupResult, accepted: list[AcceptedReward]
) -> Outcome:
    """Decide about a further reward of a decision, where a fleet takes several."""
    assert before.reward is not None
    known = None if entry.event is None else found.events.get((entry.id, entry.event))
    if known is not None:
        return Outcome(SAME if known == entry.value else CONFLICT, before)
    if _went(before, fleet, entry.leeway) or _late(entry, before, fleet):
        return Outcome(GONE, before)
    if entry.event is None and before.reward == entry.value:
        return Outcome(SAME, before)
    value = float(entry.value)
    reward = before.reward + value if fleet.reward_events == SUM else value
    row = before._replace(reward=reward, reward_time=entry.time)
    return _replace(entry, row, before, fleet, found, accepted)


def _correct(
    entry: NewReward, before: LoggedDecision, fleet: Counters, found: LookupResult, accepted: list[AcceptedReward]
) -> Outcome:
    """Decide about a reward that is to replace the one that a decision has."""
    if before.state == EXPIRED:
        return Outcome(GONE, before)
    if before.state == PENDING:
        return Outcome(UNREWARDED, before)
    if before.reward == entry.value:
        return Outcome(SAME, before)
    if entry.instead_of is not None and before.reward != entry.instead_of:
        return Outcome(CONFLICT, before)
    return _replace(entry, before._replace(reward=float(entry.value)), before, fleet, found, accepted)


def _replace(
    entry: NewReward, row: LoggedDecision, before: LoggedDecision, fleet: Counters, found: LookupResult,
    accepted: list[AcceptedReward],
) -> Outcome:  # fmt: skip
    """Give a decision another reward than it has: a change of its own, unless rewards are held."""
    reward, number = row.reward, None
    assert reward is not None
    if before.change is not None:
        fleet.changes += 1
        number = fleet.changes
        row = row._replace(corrected=number)
    name = None if entry.corrects else entry.event
    kind = "correction" if entry.corrects else "reward"
    event = RewardEvent(number, name, kind, float(entry.value), reward, before.reward, entry.time)
    if name is not None:
        found.events[entry.id, name] = entry.value
    found.decisions[entry.id] = row
    accepted.append(AcceptedReward(fleet.id, row, before, number, event))
    return Outcome(ACCEPTED, row)


def _late(entry: NewReward, row: LoggedDecision, fleet: Counters) -> bool:
    """Whether a reward comes after the time to live of its decision, or after the window for rewards."""
    age, life, window = entry.time - row.time - entry.leeway, fleet.time_to_live, fleet.reward_window
    return (life is not None and age > life) or (window is not None and age > window)


def _went(row: LoggedDecision, fleet: Counters, leeway: float) -> bool:
    """Whether the reward that a decision has is the one that it was given when its time was over."""
    if fleet.time_to_live is None or row.reward_time is None:
        return False
    # A clock that is in doubt now was not when these times were taken.
    return row.reward_time - row.time - (leeway if math.isfinite(leeway) else 0.0) > fleet.time_to_live


def _take_back(
    found: LookupResult,
    decisions: list[AcceptedDecision],
    n_decisions: int,
    rewards: list[AcceptedReward],
    n_rewards: int,
) -> None:
    """Forget what a refused group would have written."""
    while len(rewards) > n_rewards:
        _, row, before, number, event = rewards.pop()
        found.fleets[row.fleet].changes -= number is not None
        found.decisions[row.id] = before
        if event is not None and event.event is not None:
            del found.events[row.id, event.event]
    while len(decisions) > n_decisions:
        _, _, counted, entry = decisions.pop()
        found.fleets[entry.fleet].number -= 1
        found.fleets[entry.fleet].changes -= counted is not None
        del found.decisions[entry.id]
        if entry.key is not None:
            del found.keyed[entry.fleet, entry.key]


def _count(verdict: WritePlan, known: set[tuple[str, str]]) -> None:
    fleets: defaultdict[int, Tally] = defaultdict(Tally)
    minutes: defaultdict[tuple[int, int], Tally] = defaultdict(Tally)
    tasks = verdict.tasks
    for fleet, _, counted, entry in verdict.decisions:
        whole = fleets[fleet]
        whole.decisions += 1
        whole.changes += counted is not None
        task = tasks.get((fleet, entry.task))
        if task is None:
            task = tasks[fleet, entry.task] = Tally(first_time=entry.time)
            whole.tasks += (entry.fleet, entry.task) not in known
        task.decisions += 1
        task.first_time = min(task.first_time, entry.time)
        minutes[fleet, math.floor(entry.time / 60)].decisions += 1
    for fleet, row, before, number, _ in verdict.rewards:
        assert row.reward is not None
        assert row.reward_time is not None
        whole, minute = fleets[fleet], (fleet, math.floor(row.reward_time / 60))
        whole.changes += number is not None
        if before.state == REWARDED:
            # It was counted when the first came; and one that was held is what it was.
            assert before.reward is not None
            if row.reward != before.reward:
                minutes[minute].reward_sum += row.reward - before.reward
            continue
        whole.rewards += 1
        task = tasks.get((fleet, row.task))
        if task is None:
            task = tasks[fleet, row.task] = Tally(first_time=row.time)
        task.rewards += 1
        tally = minutes[minute]
        tally.rewards += 1
        tally.reward_sum += row.reward
    verdict.fleets, verdict.minutes = fleets, minutes
