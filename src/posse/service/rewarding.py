"""From what was reported to a reward that is to be written, and from what became of it to what is told."""

from __future__ import annotations

from posse.errors import PosseError
from posse.families import family_of
from posse.service.definition import complete, require_label
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.errors import ApiError, api_error
from posse.service.http.heads import Scope
from posse.storage import (
    CONFLICT,
    GONE,
    NAMELESS,
    SAME,
    UNFIT,
    UNKNOWN,
    UNREWARDED,
    WITHHELD,
    NewReward,
    Outcome,
)

LONGEST_ID = 100
REFUSED = (CONFLICT, UNKNOWN, GONE, UNFIT, NAMELESS, UNREWARDED)


def new_reward(
    engine: Engine, scope: Scope, decision_id: str, body: requests.RewardBody | requests.RewardOf,
    field: str,
) -> NewReward:  # fmt: skip
    """Return what is to be written for a reward; true and false are 1 and 0. ``field`` comes before names of fields."""
    return NewReward(
        decision_id, checked(engine, float(body.reward), f"{field}reward"), engine.clock(),
        truth=isinstance(body.reward, bool), leeway=engine.steady.leeway, fleets=scope.get("posse.fleets", ()),
        event=checked_event(engine, body.event, f"{field}event"),
    )  # fmt: skip


def rewarded(entry: NewReward, outcome: Outcome, field: str | None) -> bool:
    """Return whether a reward is news, or raise what is wrong with it."""
    if outcome.kind == UNKNOWN:
        raise unknown_decision(entry.id, field)
    if outcome.kind == GONE:
        raise ApiError(
            "decision_expired",
            f"decision {entry.id!r} is older than its time to live; make the fleet with a longer time_to_live if "
            "rewards come this late",
            field,
        )
    if outcome.kind == NAMELESS:
        raise ApiError(
            "event_required",
            f"the fleet of decision {entry.id!r} adds rewards up, so each needs a name by which it counts once; send "
            'it as "event"',
            "event" if field is None else f"{field}.event",
        )
    if outcome.kind == UNREWARDED:
        raise ApiError(
            "not_rewarded", f"decision {entry.id!r} has no reward that could be corrected; report one with POST", field
        )
    if outcome.kind == CONFLICT:
        raise _conflict(entry, outcome, field)
    assert outcome.kind != WITHHELD
    return outcome.kind != SAME


def unfit(engine: Engine, entry: NewReward, outcome: Outcome, field: str) -> ApiError:
    """Return the error about a number that is no reward of its fleet."""
    assert outcome.decision is not None
    if entry.corrects:
        return ApiError(
            "invalid",
            f"{field}: expected a correction in a fleet of numbers without drift, got another one: what clicks and "
            "counts say depends on those before them, and what is old has faded; erase the task instead",
            field,
        )
    live = engine.roster.find(outcome.decision.fleet)
    try:
        if live is not None:
            family_of(complete(live.definition)["rewards"]).check(entry.value)
    except PosseError as error:
        return ApiError("invalid", str(error), field)
    value = str(bool(entry.value)).lower() if entry.truth else f"{entry.value:g}"
    return ApiError(
        "invalid",
        f"{field}: {value} is no reward of this decision's fleet; send what its definition says (rewards)",
        field,
    )


def _conflict(entry: NewReward, outcome: Outcome, field: str | None) -> ApiError:
    has = outcome.decision.reward if outcome.decision is not None else None
    if entry.corrects:
        message = f"decision {entry.id!r} has the reward {has}, not {entry.instead_of}; look at it and send it again"
    elif entry.event is not None and outcome.decision is not None:
        message = (
            f"event {entry.event!r} of decision {entry.id!r} came with another value than {entry.value}, or the "
            "decision has its one reward (reward_events of the fleet); correct it with PUT"
        )
    else:
        message = (
            f"expected the reward {has} that decision {entry.id!r} has already, got {entry.value}; it is rewarded once "
            "(correct it with PUT)"
        )
    return ApiError("reward_conflict", message, field)


def checked_event(engine: Engine, event: str | None, field: str) -> str | None:
    """Return the name of an event that can be stored."""
    if event is not None:
        try:
            require_label(event, "an event", engine.settings.limits)
        except PosseError as error:
            raise api_error(error, field) from None
    return event


def checked(engine: Engine, reward: float, field: str) -> float:
    """Return a reward that is not too large."""
    most = engine.settings.limits.number
    if not abs(reward) <= most:
        raise ApiError(
            "invalid",
            f"expected reward to be a number from {-most:g} to {most:g} (limits.number), got {reward:g}; choose "
            "another "
            "unit",
            field,
        )
    return reward


def require_storable(decision_id: str, field: str | None = "id") -> None:
    """Raise if a text cannot be the id of a decision."""
    if len(decision_id) > LONGEST_ID or not decision_id.isascii() or not decision_id.isprintable():
        raise unknown_decision(decision_id, field)


def unknown_decision(decision_id: str, field: str | None = "id") -> ApiError:
    """Return the error about a decision that is not there."""
    return ApiError(
        "unknown_decision", f"no decision {decision_id[:LONGEST_ID]!r}; pass the id that the service gave", field
    )
