"""Decisions that were made elsewhere, as entries of the log: rows as an export has them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from pydantic_core import to_json

from posse._version import __version__
from posse.errors import InvalidValue, PosseError
from posse.families import family_of
from posse.service.catalogues import CATALOGUE
from posse.service.definition import complete, require_label
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.errors import api_error
from posse.service.known import task_names
from posse.service.live_fleet import LiveFleet
from posse.storage import NewDecision, NewReward

AHEAD = 60.0  # seconds by which a time may be ahead of the clock
EVENT = "ingested"  # the name of a reward, where a fleet takes several
POLICY = "ingested"  # of decisions that do not say who made them


def entries_of(engine: Engine, live: LiveFleet, row: requests.LogEntry, field: str) -> list[NewDecision | NewReward]:
    """Return what is written for a row: the decision, and its reward if it has one; raise what is wrong with it."""
    try:
        return _entries(engine, live, row)
    except PosseError as error:
        raise api_error(error, field) from None


def _entries(engine: Engine, live: LiveFleet, row: requests.LogEntry) -> list[NewDecision | NewReward]:
    limits, now = engine.settings.limits, engine.clock()
    require_label(row.decision_id, "a decision id", limits)
    if not row.decision_id.isascii() or len(row.decision_id) > 100:
        raise InvalidValue(f"expected a decision id of at most 100 ASCII characters, got {row.decision_id[:100]!r}")
    require_label(row.task, "a task", limits)
    if live.definition.get("kind") == CATALOGUE:
        raise InvalidValue("expected a fleet of fixed arms, got a catalogue, which takes in nothing decided elsewhere")
    arms = live.definition["arms"]
    if row.arm not in arms:
        raise InvalidValue(f"expected an arm of {', '.join(arms)}, got {row.arm!r}; add it to the fleet first")
    eligible = [row.arm] if row.eligible is None else row.eligible
    if row.arm not in eligible:
        raise InvalidValue(f"expected the chosen arm {row.arm!r} among the eligible ones, got {', '.join(eligible)}")
    for name, values in (("probabilities", row.probabilities), ("expected_rewards", row.expected_rewards)):
        if values is not None and len(values) != len(eligible):
            raise InvalidValue(f"expected {len(eligible)} {name}, one per eligible arm, got {len(values)}")
    propensity = row.propensity
    if propensity is None and row.probabilities is not None:
        propensity = row.probabilities[eligible.index(row.arm)]
    if propensity is None or not 0 < propensity <= 1:
        raise InvalidValue(
            f"expected a propensity above 0 and at most 1 (how probable the arm was), got {propensity}; a rule without "
            "chance has 1"
        )
    # An exported context has what was known about the task, too.
    about = {name: row.context[name] for name in task_names(live.definition) if name in row.context}
    context = {name: value for name, value in row.context.items() if name not in about}
    live.replica.features.encode(context)
    body = {
        "context": live.contexts.plain(context),
        "eligible": eligible,
        "probabilities": row.probabilities or [],
        "mean": row.expected_rewards or [],
        "sd": [],
        **({"task_features": about} if about else {}),
    }
    time = _seconds(row.time, now, "time")
    entries: list[NewDecision | NewReward] = [
        NewDecision(
            fleet=live.name, id=row.decision_id, time=time, task=row.task, arm=row.arm, propensity=propensity,
            body=to_json(body).decode(), policy=(row.policy or POLICY)[:100],
            version=(row.version or __version__)[:100], created=live.created,
        )
    ]  # fmt: skip
    if row.reward_family not in (None, family := complete(live.definition)["rewards"]):
        raise InvalidValue(f"expected a row of rewards that are {family!r}, as the fleet's, got {row.reward_family!r}")
    if row.reward is not None:
        if family == "number" and isinstance(row.reward, bool):
            raise InvalidValue("expected a number as the reward, got true or false, which are rewards of clicks")
        family_of(family).check(row.reward)
        if not abs(row.reward) <= limits.number:
            raise InvalidValue(
                f"expected a reward of at most {limits.number:g} in size (limits.number), got {row.reward:g}"
            )
        came = time if row.reward_time is None else _seconds(row.reward_time, now, "reward_time")
        truth, moment = isinstance(row.reward, bool), max(came, time)
        entries.append(NewReward(row.decision_id, float(row.reward), moment, truth=truth, event=EVENT))
    return entries


def _seconds(text: str, now: float, what: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"expected {what} as 2026-01-31T09:30:00Z, got {text[:50]!r}") from None
    seconds = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds) or seconds > now + AHEAD:
        raise InvalidValue(f"expected {what} to be over, got {text[:50]!r}, which is to come")
    return seconds
