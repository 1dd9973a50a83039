"""Whether the service is alive and ready, what it measures, who asked for what, and whether it learned its log."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from posse import api
from posse.errors import PosseError
from posse.service.audit import audit_row
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer
from posse.service.http.errors import ApiError
from posse.service.http.openapi import with_example
from posse.service.http.routes.common import Before, Limit, Live, Ready, Working, new_router, route
from posse.service.keys import FLEET_NAME
from posse.service.live_fleet import LiveFleet
from posse.service.roster import DEGRADED, SET_ASIDE, unknown_fleet
from posse.service.runtime import Runtime
from posse.service.verify import Verification

router, audit_router, fleets_router = APIRouter(tags=["health"]), new_router("audit"), new_router("fleets")

SHARE = 2.0  # times as long as a piece of comparing took others have before the next
METRICS = route("read", {"text/plain": {"example": "posse_ready 1.0\n"}})
METRICS["responses"][200]["description"] = "Prometheus text format"


class Check(NamedTuple):
    """What one check found."""

    ok: bool
    detail: str


def checks_of(runtime: Runtime) -> dict[str, Check]:
    """Return all checks by name; asks the database, so it is for a thread that may wait."""
    warming = runtime.warming
    opened = runtime.opened
    count = runtime.n_fleets
    loaded = ("1 fleet" if count == 1 else f"{count} fleets") if runtime.ready else runtime.problem
    return {
        "compiled": Check(warming.done, str(warming)),
        "database": _database(runtime) if opened else Check(False, runtime.problem),
        "loaded": Check(runtime.ready, loaded),
        "disk": _disk(runtime) if opened else Check(False, "not open yet"),
        "leader": _leader(runtime),
    }


def failed_check(checks: dict[str, Check]) -> tuple[str, str] | None:
    """Return the name and the words of what is not as it should be, the first cause first; None if all is."""
    return next(((name, check.detail) for name, check in checks.items() if not check.ok), None)


def _database(runtime: Runtime) -> Check:
    try:
        runtime.storage.ping()
    except PosseError as error:
        return Check(False, runtime.public(error))
    return Check(True, "answers")


def _disk(runtime: Runtime) -> Check:
    disk = runtime.writer.disk
    if disk.problem is not None:
        return Check(False, runtime.public(disk.problem))
    return Check(disk.tried, "writable" if disk.tried else "nothing was written yet")


def _leader(runtime: Runtime) -> Check:
    if runtime.leader_known:
        return Check(True, "this process learns" if runtime.leading else "another process learns")
    return Check(False, "it is not known yet which process learns")


@router.get("/healthz", summary="Whether the process is alive", responses={200: with_example(api.Health)})
async def healthz() -> Response:
    """Return that the process is alive; nothing else is asked."""
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether requests are answered",
    responses={200: with_example(api.Ready), 503: with_example(api.NotReady)},
)
async def readyz(request: Request) -> Response:
    """Return whether requests are answered, and what every check found."""
    runtime = request.app.state.runtime
    checks = await run_in_threadpool(checks_of, runtime)
    found = {name: check._asdict() for name, check in checks.items()}
    failed = failed_check(checks)
    if failed is not None:
        error = ApiError("not_ready", f"{failed[1]}; try again in a second", failed[0], retry_after=1)
        return Response(to_json({**json.loads(error.body), "checks": found}), 503, error.headers, "application/json")
    states = list(runtime.roster.troubled().values())
    return answer(
        {
            "status": "degraded" if states else "ready",
            "fleets": runtime.n_fleets,
            **{state: states.count(state) for state in (DEGRADED, SET_ASIDE)},
            "leading": runtime.leading,
            "clock": runtime.steady.problem,
            "checks": found,
        }
    )


@router.get("/metrics", summary="Measurements for Prometheus", response_class=PlainTextResponse, **METRICS)
async def metrics(request: Request) -> Response:
    """Return measurements."""
    text = await run_in_threadpool(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@audit_router.get(
    "/audit", summary="Calls that need an admin, the newest first",
    description="Each is noted before it is done. Tasks are named by a digest, so that one that was erased stays so.",
    **route("admin", api.Audit),
)  # fmt: skip
async def audit(
    request: Request,
    runtime: Ready,
    fleet: Annotated[
        str | None, Query(pattern=FLEET_NAME, description="Of this fleet only.", examples=["stores"])
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> Response:
    """Return rows of the audit log; a key that is for some fleets sees theirs."""
    allowed = fleets_of(request)
    fleets = allowed if fleet is None else (fleet,)
    if allowed and not set(fleets) <= set(allowed):
        return answer({"audit": [], "next": None})
    rows = await run_in_threadpool(lambda: runtime.storage.audit(fleets=fleets, before=before, limit=limit))
    following = rows[-1].id if len(rows) == limit else None
    return answer({"audit": [audit_row(row) for row in rows], "next": following})


@fleets_router.get(
    "/fleets/{fleet}/verify", summary="Compare what was learned with the log",
    description="Some tasks at a time, by name: `next` is the `after` of the next request, null if there are no more.",
    **route("admin", api.Verified, 404),
)  # fmt: skip
async def verify(
    runtime: Ready,
    live: Live,
    working: Working,
    after: Annotated[str, Query(max_length=1000, description="Only tasks with names after this one.")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many tasks.")] = 1000,
) -> Response:
    """Compare sums of tasks with those of the log."""
    return answer(await working.run(_verify, runtime, live, after, limit))


def _verify(runtime: Runtime, live: LiveFleet, after: str, limit: int) -> dict[str, Any]:
    row = runtime.storage.fleet(live.name)
    if row is None:
        raise unknown_fleet(live.name)
    verification = Verification(runtime.storage, row, live.replica, live.contexts)
    begin = time.monotonic()
    for _ in verification.steps(after, limit):
        took = time.monotonic() - begin
        time.sleep(min(SHARE * took, 0.1))
        begin = time.monotonic()
    return dataclasses.asdict(verification.found)
