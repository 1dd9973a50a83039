"""Whether the service is alive and ready, and what it measures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from posse import api
from posse.errors import PosseError
from posse.service.http.answers import answer
from posse.service.http.errors import ApiError
from posse.service.http.openapi import READING, failures, with_example
from posse.service.http.routes.common import engine_of, scope
from posse.service.roster import DEGRADED, SET_ASIDE

if TYPE_CHECKING:
    from posse.service.engine import Engine

router = APIRouter(tags=["health"])


class Check(NamedTuple):
    """What one check found."""

    ok: bool
    detail: str


def checks_of(engine: Engine) -> dict[str, Check]:
    """Return all checks by name; asks the database, so it is for a thread that may wait."""
    warming = engine.warming
    opened = engine.opened
    count = engine.n_fleets
    loaded = ("1 fleet" if count == 1 else f"{count} fleets") if engine.ready else engine.problem
    return {
        "compiled": Check(warming.done, str(warming)),
        "database": _database(engine) if opened else Check(False, engine.problem),
        "loaded": Check(engine.ready, loaded),
        "disk": _disk(engine) if opened else Check(False, "not open yet"),
        "leader": _leader(engine),
    }


def failed_check(checks: dict[str, Check]) -> tuple[str, str] | None:
    """Return the name and the words of what is not as it should be, the first cause first; None if all is."""
    return next(((name, check.detail) for name, check in checks.items() if not check.ok), None)


def _database(engine: Engine) -> Check:
    try:
        engine.storage.ping()
    except PosseError as error:
        return Check(False, engine.public(error))
    return Check(True, "answers")


def _disk(engine: Engine) -> Check:
    disk = engine.writer.disk
    if disk.problem is not None:
        return Check(False, engine.public(disk.problem))
    return Check(disk.tried, "writable" if disk.tried else "nothing was written yet")


def _leader(engine: Engine) -> Check:
    if engine.leader_known:
        return Check(True, "this process learns" if engine.leading else "another process learns")
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
