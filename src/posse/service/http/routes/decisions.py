"""Decisions: one, which is asked for thousands of times a second, and many; and what the log has of one."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.service.deciding import all_decided, decided, new_decision
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer, log_row
from posse.service.http.heads import Receive, Scope, header_of
from posse.service.http.hot import hot_route
from posse.service.http.openapi import READING, WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request, read_json
from posse.service.http.routes.common import (
    DecisionId,
    Live,
    Ready,
    ask_fleet,
    live_of,
    new_router,
    require_batch,
    scope,
)
from posse.service.keys import FLEET_NAME
from posse.service.rewarding import require_storable, unknown_decision
from posse.storage import ACCEPTED, NewDecision

router = new_router(tags=["decisions"])

SEVERAL = 16  # decisions from which on a batch is made on another thread, so that others need not wait

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key and request again get the decision that was made then.",
        examples=["a3b1f0c2-order-991"],
    ),
]
FLEET = {
    "name": "fleet",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": FLEET_NAME},
    "example": "stores",
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The same key and request again get the decision that was made then.",
}


@hot_route(
    router,
    "/fleets/{fleet}/decisions",
    "decide",
    summary="Ask for a decision",
    openapi_extra={**json_request(requests.Ask), "parameters": [FLEET, KEY]},
    responses={200: with_example(api.DecisionAnswer), **failures(*WRITING, 404, 409)},
)
async def decide(engine: Engine, scope: Scope, receive: Receive) -> dict[str, Any]:
    """Choose an arm for one context."""
    name = scope["path_params"]["fleet"]
    await live_of(engine, name)
    body = await read_json(scope, receive, requests.Ask, engine.settings.limits.body)
    live = await live_of(engine, name)  # a body may take its time, and the fleet be another by now
    key = header_of(scope, b"idempotency-key")
    made, entry = await ask_fleet(live, partial(new_decision, engine, live, body, key, None))
    (outcome,) = await engine.writer.write([entry])
    if outcome.kind == ACCEPTED:
        engine.measures.decided(live.name, entry.arm)
    return decided(live, made, outcome, None)


@router.post(
    "/fleets/{fleet}/decisions/batch",
    dependencies=scope("decide"),
    summary="Ask for many decisions",
    description="With an Idempotency-Key, the key of item i is `key/i`, unless it has one of its own.",
    openapi_extra=json_request(requests.AskMany),
    responses={200: with_example(api.DecisionsAnswer), **failures(*WRITING, 404, 409)},
)
async def decide_many(
    engine: Ready,
    live: Live,
    body: Annotated[requests.AskMany, Depends(json_body(requests.AskMany))],
    key: Key = None,
) -> Response:
    """Choose arms for many contexts, all or none."""
    require_batch(engine, body.decisions, "decisions")
    live = await live_of(engine, live.name)  # as above

    def make() -> list[tuple[dict[str, Any], NewDecision]]:
        keys = [ask.key or (None if key is None else f"{key}/{i}") for i, ask in enumerate(body.decisions)]
        return [new_decision(engine, live, ask, keys[i], f"decisions.{i}") for i, ask in enumerate(body.decisions)]

    made = await ask_fleet(live, make, at_once=len(body.decisions) < SEVERAL)
    if not made:
        return answer({"decisions": []})
    outcomes = await engine.writer.write([entry for _, entry in made])
    return answer({"decisions": all_decided(engine, live, made, outcomes, "decisions")})


@router.get(
    "/decisions/{id}",
    dependencies=scope("read"),
    summary="A decision of the log",
    responses={200: with_example(api.LogRow), **failures(*READING, 404)},
)
async def get_decision(request: Request, id: DecisionId, engine: Ready) -> Response:  # noqa: A002
    """Return one decision."""
    require_storable(id)
    row = await run_in_threadpool(engine.storage.decision, id)
    allowed = fleets_of(request)
    if row is None or (allowed and row.fleet not in allowed):
        raise unknown_decision(id)
    return answer(log_row(row))
