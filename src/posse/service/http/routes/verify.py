"""Whether what a fleet has learned is what its log says."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from posse import api
from posse.service.engine import Engine
from posse.service.http.answers import answer
from posse.service.http.openapi import READING, failures, with_example
from posse.service.http.routes.common import Live, Ready, Serial, new_router, scope
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet
from posse.service.verify import Verification

router = new_router(tags=["fleets"])

SHARE = 2.0  # times as long as a piece of work took others have before the next


@router.get(
    "/fleets/{fleet}/verify",
    dependencies=scope("admin"),
    summary="Compare what was learned with the log",
    description="Some tasks at a time, by name: `next` is the `after` of the next request, null if there are no more.",
    responses={200: with_example(api.Verified), **failures(*READING, 404)},
)
async def verify(
    engine: Ready,
    live: Live,
    alone: Serial,
    after: Annotated[str, Query(max_length=1000, description="Only tasks with names after this one.")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many tasks.")] = 1000,
) -> Response:
    """Compare sums of tasks with those of the log."""
    return answer(await alone.run(_verify, engine, live, after, limit))


def _verify(engine: Engine, live: LiveFleet, after: str, limit: int) -> dict[str, Any]:
    row = engine.storage.fleet(live.name)
    if row is None:
        raise unknown_fleet(live.name)
    verification = Verification(engine.storage, row, live.replica, live.contexts)
    begin = time.monotonic()
    for _ in verification.steps(after, limit):
        took = time.monotonic() - begin
        time.sleep(min(SHARE * took, 0.1))
        begin = time.monotonic()
    return dataclasses.asdict(verification.found)
