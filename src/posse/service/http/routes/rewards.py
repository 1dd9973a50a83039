"""Rewards of decisions: one, which is reported thousands of times a second, many, and corrected ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer, trace
from posse.service.http.heads import Receive, Scope
from posse.service.http.hot import hot_route
from posse.service.http.openapi import READING, WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request, read_json
from posse.service.http.routes.common import (
    ID,
    DecisionId,
    Ready,
    new_router,
    require_batch,
    scope,
)
from posse.service.rewarding import (
    REFUSED,
    checked,
    new_reward,
    require_storable,
    rewarded,
    unfit,
    unknown_decision,
)
from posse.storage import SAME, UNFIT, NewReward

router = new_router(tags=["decisions"])


@hot_route(
    router,
    "/decisions/{id}/reward",
    "reward",
    summary="Report the reward of a decision",
    description="Late, once; the same again changes nothing, another value is refused.",
    openapi_extra={**json_request(requests.RewardBody), "parameters": [ID]},
    responses={200: with_example(api.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def reward(engine: Engine, scope: Scope, receive: Receive) -> dict[str, Any]:
    """Write a reward to disk and learn it."""
    engine.require_ready()
    decision_id = scope["path_params"]["id"]
    require_storable(decision_id)
    body = await read_json(scope, receive, requests.RewardBody, engine.settings.limits.body)
    entry = new_reward(engine, scope, decision_id, body, "")
    (outcome,) = await engine.writer.write([entry])
    if outcome.kind == UNFIT:
        raise unfit(engine, entry, outcome, "reward")
    return {"id": entry.id, "reward": entry.value, "new": rewarded(entry, outcome, None)}


@router.post(
    "/rewards",
    dependencies=scope("reward"),
    summary="Report many rewards",
    description="If any is refused, none is taken, and the field of the error says which.",
    openapi_extra=json_request(requests.RewardMany),
    responses={200: with_example(api.RewardsAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def reward_many(
    request: Request, engine: Ready, body: Annotated[requests.RewardMany, Depends(json_body(requests.RewardMany))]
) -> Response:
    """Write rewards to disk and learn them, all or none."""
    require_batch(engine, body.rewards, "rewards")
    if not body.rewards:
        return answer({"new": 0, "same": 0})
    entries = []
    for i, item in enumerate(body.rewards):
        require_storable(item.id, f"rewards.{i}.id")
        entries.append(new_reward(engine, request.scope, item.id, item, f"rewards.{i}."))
    outcomes = await engine.writer.write(entries)
    refused = next((i for i, outcome in enumerate(outcomes) if outcome.kind in REFUSED), None)
    if refused is not None:
        if outcomes[refused].kind == UNFIT:
            raise unfit(engine, entries[refused], outcomes[refused], f"rewards.{refused}.reward")
        rewarded(entries[refused], outcomes[refused], f"rewards.{refused}")
    same = sum(outcome.kind == SAME for outcome in outcomes)
    return answer({"new": len(outcomes) - same, "same": same})


@router.put(
    "/decisions/{id}/reward",
    dependencies=scope("reward"),
    summary="Correct the reward of a decision",
    description="What was learned from the one before is taken back. Both stay in the trace, see `/rewards`.",
    openapi_extra=json_request(requests.CorrectionBody),
    responses={200: with_example(api.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def correct(
    request: Request,
    id: DecisionId,  # noqa: A002
    engine: Ready,
    body: Annotated[requests.CorrectionBody, Depends(json_body(requests.CorrectionBody))],
) -> Response:
    """Give a decision another reward than it has, and learn that in its place."""
    require_storable(id)
    entry = NewReward(
        id, checked(engine, body.reward, "reward"), engine.clock(), fleets=fleets_of(request), corrects=True,
        instead_of=body.instead_of,
    )  # fmt: skip
    (outcome,) = await engine.writer.write([entry])
    if outcome.kind == UNFIT:
        raise unfit(engine, entry, outcome, "reward")
    return answer({"id": id, "reward": body.reward, "new": rewarded(entry, outcome, None)})


@router.get(
    "/decisions/{id}/rewards",
    dependencies=scope("read"),
    summary="How a decision came to its reward",
    responses={200: with_example(api.RewardTrace), **failures(*READING, 404)},
)
async def reward_trace(request: Request, id: DecisionId, engine: Ready) -> Response:  # noqa: A002
    """Return all rewards that came for a decision, and corrections."""
    require_storable(id)

    def read() -> dict[str, Any]:
        row, allowed = engine.storage.decision(id), fleets_of(request)
        if row is None or (allowed and row.fleet not in allowed):
            raise unknown_decision(id)
        return {"id": id, "reward": row.reward, "events": trace(row, engine.storage.reward_events(id))}

    return answer(await run_in_threadpool(read))
