"""Rewards of decisions: one, which is reported thousands of times a second, many, and corrected ones."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse.service import schemas
from posse.service.access import fleets_of
from posse.service.answers import answer, trace
from posse.service.bodies import json_body, json_request, parse, require_json
from posse.service.describing import READING, WRITING, failures, with_example
from posse.service.engine import Engine
from posse.service.fast_path import Begun
from posse.service.heads import Scope
from posse.service.rewarding import (
    REFUSED,
    checked,
    new_reward,
    require_storable,
    rewarded,
    unfit,
    unknown_decision,
)
from posse.service.routes.common import (
    ID,
    DecisionId,
    Ready,
    engine_of,
    new_router,
    raw_route,
    require_batch,
    scope,
)
from posse.storage import SAME, UNFIT, NewReward, Outcome

router = new_router(tags=["decisions"])

read_reward = json_body(schemas.RewardBody)


@router.post(
    "/decisions/{id}/reward",
    summary="Report the reward of a decision",
    description="Late, once; the same again changes nothing, another value is refused.",
    openapi_extra={**json_request(schemas.RewardBody), "parameters": [ID]},
    responses={200: with_example(schemas.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
@raw_route("reward")
async def reward(request: Request) -> Response:
    """Write a reward to disk and learn it."""
    engine = engine_of(request)
    engine.require_ready()
    decision_id = request.path_params["id"]
    require_storable(decision_id)
    body = await read_reward(request)
    entry = new_reward(engine, request.scope, decision_id, body, "")
    (outcome,) = await engine.writer.write([entry])
    return answer(_told_reward(engine, entry, outcome))


def begin_reward(engine: Engine, scope: Scope, body: bytes) -> Begun:
    """Take a reward as :func:`reward` does."""
    engine.require_ready()
    decision_id = scope["path_params"]["id"]
    require_storable(decision_id)
    require_json(scope)
    entry = new_reward(engine, scope, decision_id, parse(schemas.RewardBody, body), "")
    return entry, partial(_told_reward, engine, entry)


def _told_reward(engine: Engine, entry: NewReward, outcome: Outcome) -> dict[str, Any]:
    if outcome.kind == UNFIT:
        raise unfit(engine, entry, outcome, "reward")
    return {"id": entry.id, "reward": entry.value, "new": rewarded(entry, outcome, None)}


@router.post(
    "/rewards",
    dependencies=scope("reward"),
    summary="Report many rewards",
    description="If any is refused, none is taken, and the field of the error says which.",
    openapi_extra=json_request(schemas.RewardMany),
    responses={200: with_example(schemas.RewardsAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def reward_many(
    request: Request, engine: Ready, body: Annotated[schemas.RewardMany, Depends(json_body(schemas.RewardMany))]
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
    openapi_extra=json_request(schemas.CorrectionBody),
    responses={200: with_example(schemas.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def correct(
    request: Request,
    id: DecisionId,  # noqa: A002
    engine: Ready,
    body: Annotated[schemas.CorrectionBody, Depends(json_body(schemas.CorrectionBody))],
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
    responses={200: with_example(schemas.RewardTrace), **failures(*READING, 404)},
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
