"""Who asked for what that needs an admin."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.logs.writer import moment
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer
from posse.service.http.openapi import READING, failures, with_example
from posse.service.http.routes.common import Ready, new_router, scope
from posse.service.http.routes.tasks import Limit
from posse.service.keys import FLEET_NAME
from posse.storage import AuditRow

router = new_router(tags=["audit"])


@router.get(
    "/audit",
    dependencies=scope("admin"),
    summary="Calls that need an admin, the newest first",
    description="Each is noted before it is done. Tasks are named by a digest, so that one that was erased stays so.",
    responses={200: with_example(api.Audit), **failures(*READING)},
)
async def audit(
    request: Request,
    engine: Ready,
    fleet: Annotated[
        str | None, Query(pattern=FLEET_NAME, description="Of this fleet only.", examples=["stores"])
    ] = None,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="`next` of the answer before.")] = None,
) -> Response:
    """Return rows of the audit log; a key that is for some fleets sees theirs."""
    allowed = fleets_of(request)
    fleets = allowed if fleet is None else (fleet,)
    if allowed and not set(fleets) <= set(allowed):
        return answer({"audit": [], "next": None})
    rows = await run_in_threadpool(lambda: engine.storage.audit(fleets=fleets, before=before, limit=limit))
    following = rows[-1].id if len(rows) == limit else None
    return answer({"audit": [audit_row(row) for row in rows], "next": following})


def audit_row(row: AuditRow) -> dict[str, Any]:
    """Return a row for people and programs."""
    return {**row._asdict(), "time": moment(row.time)}
