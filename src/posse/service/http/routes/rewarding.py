"""Rewards of decisions: one, which is reported thousands of times a second, many, and corrected ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.errors import PosseError
from posse.families import family_of
from posse.service.definition import complete, require_label
from posse.service.http import requests
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer, trace
from posse.service.http.errors import ApiError, api_error
from posse.service.http.heads import Receive, Scope
from posse.service.http.hot import hot_route
from posse.service.http.requests import json_body, read_json
from posse.service.http.routes.common import (
    LONGEST_ID,
    DecisionId,
    Ready,
    new_router,
    require_batch,
    require_storable,
    route,
    unknown_decision,
)
from posse.service.runtime import Runtime
from posse.storage import CONFLICT, GONE, NAMELESS, SAME, UNFIT, UNKNOWN, UNREWARDED, NewReward, Outcome

router = new_router("decisions")

REFUSED = (CONFLICT, UNKNOWN, GONE, UNFIT, NAMELESS, UNREWARDED)

ID = {
    "name": "id", "in": "path", "required": True, "schema": {"type": "string", "maxLength": LONGEST_ID},
    "example": "3f1c0a9b2d4e-17",
}  # fmt: skip
RewardMany = Annotated[requests.RewardMany, Depends(json_body(requests.RewardMany))]
Correction = Annotated[requests.CorrectionBody, Depends(json_body(requests.CorrectionBody))]


@hot_route(
    router, "/decisions/{id}/reward", "reward", summary="Report the reward of a decision",
    description="Late, once; the same again changes nothing, another value is refused.",
    **route(None, api.RewardAnswer, 404, 409, 410, body=requests.RewardBody, parameters=[ID]),
)  # fmt: skip
async def reward(runtime: Runtime, scope: Scope, receive: Receive) -> dict[str, Any]:
    """Write a reward to disk and learn it."""
    runtime.require_ready()
    body = await read_json(scope, receive, requests.RewardBody, runtime.settings.limits.body)
    entry = new_reward(runtime, scope, scope["path_params"]["id"], body)
    (outcome,) = await runtime.writer.write([entry])
    return {"id": entry.id, "reward": entry.value, "new": rewarded(runtime, entry, outcome)}


@router.post(
    "/rewards", summary="Report many rewards",
    description="If any is refused, none is taken, and the field of the error says which.",
    **route("reward", api.RewardsAnswer, 404, 409, 410, body=requests.RewardMany),
)  # fmt: skip
async def reward_many(request: Request, runtime: Ready, body: RewardMany) -> Response:
    """Write rewards to disk and learn them, all or none."""
    require_batch(runtime, body.rewards, "rewards")
    fields = [f"rewards.{i}" for i in range(len(body.rewards))]
    entries = [
        new_reward(runtime, request.scope, one.id, one, field) for one, field in zip(body.rewards, fields, strict=True)
    ]
    outcomes = await runtime.writer.write(entries) if entries else []
    for entry, outcome, field in zip(entries, outcomes, fields, strict=True):
        if outcome.kind in REFUSED:
            rewarded(runtime, entry, outcome, field)
    same = sum(outcome.kind == SAME for outcome in outcomes)
    return answer({"new": len(outcomes) - same, "same": same})


@router.put(
    "/decisions/{id}/reward", summary="Correct the reward of a decision",
    description="What was learned from the one before is taken back. Both stay in the trace, see `/rewards`.",
    **route("reward", api.RewardAnswer, 404, 409, 410, body=requests.CorrectionBody),
)  # fmt: skip
async def correct(request: Request, id: DecisionId, runtime: Ready, body: Correction) -> Response:  # noqa: A002
    """Give a decision another reward than it has, and learn that in its place."""
    require_storable(id)
    value = _checked(runtime, body.reward, "reward")
    entry = NewReward(
        id, value, runtime.clock(), fleets=fleets_of(request), corrects=True, instead_of=body.instead_of
    )  # fmt: skip
    (outcome,) = await runtime.writer.write([entry])
    return answer({"id": id, "reward": value, "new": rewarded(runtime, entry, outcome)})


@router.get(
    "/decisions/{id}/rewards", summary="How a decision came to its reward", **route("read", api.RewardTrace, 404)
)
async def reward_trace(request: Request, id: DecisionId, runtime: Ready) -> Response:  # noqa: A002
    """Return all rewards that came for a decision, and corrections."""
    require_storable(id)

    def read() -> dict[str, Any]:
        row, allowed = runtime.storage.decision(id), fleets_of(request)
        if row is None or (allowed and row.fleet not in allowed):
            raise unknown_decision(id)
        return {"id": id, "reward": row.reward, "events": trace(row, runtime.storage.reward_events(id))}

    return answer(await run_in_threadpool(read))


def new_reward(
    runtime: Runtime, scope: Scope, decision_id: str, body: requests.RewardBody | requests.RewardOf,
    field: str | None = None,
) -> NewReward:  # fmt: skip
    """Return what is to be written for a reward; true and false are 1 and 0. ``field`` is where it is in a batch."""
    within = "" if field is None else f"{field}."
    require_storable(decision_id, f"{within}id")
    value, event = _checked(runtime, float(body.reward), f"{within}reward"), body.event
    if event is not None:
        try:
            require_label(event, "an event", runtime.settings.limits)
        except PosseError as error:
            raise api_error(error, f"{within}event") from None
    return NewReward(
        decision_id, value, runtime.clock(), truth=isinstance(body.reward, bool), leeway=runtime.steady.leeway,
        fleets=scope.get("posse.fleets", ()), event=event,
    )  # fmt: skip


def _checked(runtime: Runtime, reward: float, field: str) -> float:
    """Return a reward that is not too large."""
    most = runtime.settings.limits.number
    if not abs(reward) <= most:
        raise ApiError(
            "invalid",
            f"expected reward to be a number from {-most:g} to {most:g} (limits.number), got {reward:g}; choose "
            "another unit",
            field,
        )
    return reward


def rewarded(runtime: Runtime, entry: NewReward, outcome: Outcome, field: str | None = None) -> bool:
    """Return whether a reward is news, or raise what is wrong with it; ``field`` is where it is in a batch."""
    kind, which = outcome.kind, f"decision {entry.id!r}"
    if kind == UNKNOWN:
        raise unknown_decision(entry.id, field)
    if kind == GONE:
        raise ApiError(
            "decision_expired",
            f"{which} is older than its time to live; make the fleet with a longer time_to_live if rewards come this "
            "late",
            field,
        )
    if kind == NAMELESS:
        raise ApiError(
            "event_required",
            f'the fleet of {which} adds rewards up, so each needs a name by which it counts once; send it as "event"',
            "event" if field is None else f"{field}.event",
        )
    if kind == UNREWARDED:
        raise ApiError("not_rewarded", f"{which} has no reward that could be corrected; report one with POST", field)
    if kind == UNFIT:
        place = "reward" if field is None else f"{field}.reward"
        raise ApiError("invalid", _unfit(runtime, entry, outcome, place), place)
    if kind == CONFLICT:
        has = None if outcome.decision is None else outcome.decision.reward
        if entry.corrects:
            message = f"{which} has the reward {has}, not {entry.instead_of}; look at it and send it again"
        elif entry.event is not None and outcome.decision is not None:
            message = (
                f"event {entry.event!r} of {which} came with another value than {entry.value}, or the decision has its "
                "one reward (reward_events of the fleet); correct it with PUT"
            )
        else:
            message = (
                f"expected the reward {has} that {which} has already, got {entry.value}; it is rewarded once "
                "(correct it with PUT)"
            )
        raise ApiError("reward_conflict", message, field)
    return kind != SAME


def _unfit(runtime: Runtime, entry: NewReward, outcome: Outcome, field: str) -> str:
    """Return why a number is no reward of its fleet."""
    assert outcome.decision is not None
    live = runtime.roster.find(outcome.decision.fleet)
    try:
        if live is not None:
            family_of(complete(live.definition)["rewards"]).check(entry.value)
    except PosseError as error:
        return str(error)
    value = str(bool(entry.value)).lower() if entry.truth else f"{entry.value:g}"
    return f"{field}: {value} is no reward of this decision's fleet; send what its definition says (rewards)"
