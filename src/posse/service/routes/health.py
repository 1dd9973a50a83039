"""Whether the service is alive and ready, and what it measures."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from posse.service import schemas
from posse.service.answers import answer
from posse.service.describing import READING, failures, with_example
from posse.service.roster import DEGRADED, SET_ASIDE
from posse.service.routes.common import engine_of, scope

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process is alive", responses={200: with_example(schemas.Health)})
async def healthz() -> Response:
    """Return that the process is alive; nothing else is asked."""
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether requests are answered",
    responses={200: with_example(schemas.Ready), **failures(503)},
)
async def readyz(request: Request) -> Response:
    """Return whether fleets are in memory and the database answers."""
    engine = engine_of(request)
    engine.require_ready()
    fleets = await run_in_threadpool(engine.check)
    states = list(engine.roster.troubled().values())
    counts = {state: states.count(state) for state in (DEGRADED, SET_ASIDE)}
    status = "degraded" if states else "ready"
    found = {"status": status, "fleets": fleets, **counts, "leading": engine.leading, "clock": engine.steady.problem}
    return answer(found)


@router.get(
    "/metrics",
    dependencies=scope("read"),
    summary="Measurements for Prometheus",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": {"example": "posse_ready 1.0\n"}}, "description": "Prometheus text format"},
        **failures(*READING),
    },
)
async def metrics(request: Request) -> Response:
    """Return measurements."""
    text = await run_in_threadpool(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
