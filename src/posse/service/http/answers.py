"""From rows of the storage and values of the library to JSON."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from posse.fleet.decision import Decision
from posse.logs.writer import moment
from posse.service.definition import active_arms, shown
from posse.service.export import context_of
from posse.service.live_fleet import LiveFleet
from posse.storage import EXPIRED, PENDING, REWARDED, FleetRow, LoggedDecision, RewardEvent, TaskRow

INSIDE = ("arms", "retired", "first_arms", "first_prices", "features")  # what answers have elsewhere, or not
STATES = {PENDING: "pending", REWARDED: "rewarded", EXPIRED: "expired"}

EMPTY: dict[str, Any] = {
    "arms": [], "retired": [], "features": {"features": [], "intercept": True}, "policy": "unknown",
    "absent_reward": None, "count_pending": True, "rewards": "number",
}  # fmt: skip
"""What is told of a definition that cannot be read."""


def answer(value: Any, status: int = 200) -> Response:
    """Return a JSON answer; numbers that are none become null."""
    return Response(to_json(value, inf_nan_mode="null"), status, media_type="application/json")


def fleet_answer(row: FleetRow, live: LiveFleet | None, state: str, reason: str | None) -> dict[str, Any]:
    """Return a fleet with its counts; one that is not in memory has no columns."""
    stored = EMPTY | row.definition
    definition = {name: value for name, value in stored.items() if name not in INSIDE} | shown(stored)
    features = stored["features"]
    return {
        **{name: getattr(row, name) for name in ("name", "tasks", "decisions", "rewards", "pending")},
        "state": state,
        "reason": reason,
        "created": moment(row.created),
        "definition": {"features": features["features"], "intercept": features["intercept"], **definition},
        "arms": active_arms(stored),
        "retired_arms": stored["retired"],
        "columns": [] if live is None else list(live.replica.features.columns),
        "pending_reward": stored["absent_reward"] if stored["count_pending"] else None,
    }


def decision_answer(fleet: str, decision: Decision) -> dict[str, Any]:
    """Return a decision that was just made."""
    return {
        "id": decision.id,
        "fleet": fleet,
        "task": decision.task,
        "arm": decision.arm,
        "propensity": decision.propensity,
        "probabilities": decision.probabilities,
        "mean": decision.mean,
        "sd": decision.sd,
        **({} if decision.worth is None else {"worth": decision.worth}),
    }


def decision_body(
    decision: Decision,
    context: dict[str, Any],
    place: tuple[str, int] | None = None,
    about: dict[str, Any] | None = None,
    arms: dict[str, list[Any]] | None = None,
) -> str:
    """Return what the log keeps of a decision beside its columns.

    ``place`` is a ranking's id and the place in it, ``about`` what is known about the task, and
    ``arms`` about the eligible arms of a catalogue, in their order.
    """
    return to_json(
        {
            "context": context,
            "eligible": list(decision.probabilities),
            "probabilities": list(decision.probabilities.values()),
            "mean": list(decision.mean.values()),
            "sd": list(decision.sd.values()),
            **({} if place is None else {"ranking": place}),
            **({} if about is None else {"task_features": about}),
            **({} if decision.values is None else {"values": list(decision.values.values())}),
            **({} if decision.costs is None else {"costs": list(decision.costs.values())}),
            **({} if arms is None else {"arm_features": arms}),
        }
    ).decode()


def decision_again(row: LoggedDecision) -> dict[str, Any]:
    """Return a decision that was made when this was asked before."""
    body = json.loads(row.body)
    # Of a decision that was made elsewhere some are not known.
    named = {name: dict(zip(body["eligible"], body[name], strict=False)) for name in ("probabilities", "mean", "sd")}
    if "values" in body and "costs" in body and body["mean"]:
        prices = zip(body["eligible"], body["values"], body["mean"], body["costs"], strict=True)
        named["worth"] = {arm: value * mean - cost for arm, value, mean, cost in prices}
    return {name: getattr(row, name) for name in ("id", "fleet", "task", "arm", "propensity")} | named


def log_row(row: LoggedDecision) -> dict[str, Any]:
    """Return a row of the log for people to look at."""
    found = decision_again(row)
    del found["fleet"]
    body = json.loads(row.body)
    return (
        found
        | ({"arm_features": body["arm_features"]} if "arm_features" in body else {})
        | {
            "number": row.number,
            "time": moment(row.time),
            "context": context_of(body),
            "state": STATES[row.state],
            "reward": row.reward,
            "reward_time": None if row.reward_time is None else moment(row.reward_time),
        }
    )


def trace(row: LoggedDecision, events: list[RewardEvent]) -> list[dict[str, Any]]:
    """Return how a decision came to its reward."""
    found: list[dict[str, Any]] = [
        {"kind": one.kind, "time": moment(one.time), "event": one.event, "value": one.value, "before": one.old,
         "reward": one.reward}
        for one in events
    ]  # fmt: skip
    if row.reward_time is not None and (not events or events[0].old is not None):
        # One that came alone is part of its decision's row, whose time corrections leave as it was.
        first, time = (events[0].old if events else row.reward), moment(row.reward_time)
        one = {"kind": "reward", "time": time, "event": None, "value": first, "before": None, "reward": first}
        found.insert(0, one)
    return found


def task_counts(row: TaskRow) -> dict[str, Any]:
    """Return a task in a list."""
    return row._asdict() | {"first_time": moment(row.first_time)}
