"""Whether the service is alive and ready, and what it measures."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from posse.service import schemas
from posse.service.answers import answer
from posse.service.describing import READING, failures, with_example
from posse.service.errors import ApiError
from posse.service.readiness import checks_of, failed_check
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
    responses={200: with_example(schemas.Ready), 503: with_example(schemas.NotReady)},
)
async def readyz(request: Request) -> Response:
    """Return whether requests are answered, and what every check found."""
    engine = engine_of(request)
    checks = await run_in_threadpool(checks_of, engine)
    found = {name: check._asdict() for name, check in checks.items()}
    failed = failed_check(checks)
    if failed is not None:
        error = ApiError("not_ready", f"{failed[1]}; try again in a second", failed[0], retry_after=1)
        return Response(to_json({**json.loads(error.body), "checks": found}), 503, error.headers, "application/json")
    states = list(engine.roster.troubled().values())
    return answer(
        {
            "status": "degraded" if states else "ready",
            "fleets": engine.n_fleets,
            **{state: states.count(state) for state in (DEGRADED, SET_ASIDE)},
            "leading": engine.leading,
            "clock": engine.steady.problem,
            "checks": found,
        }
    )


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
