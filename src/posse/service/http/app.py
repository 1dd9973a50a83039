"""The service as an ASGI application."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from posse._version import __version__
from posse.errors import PosseError, StorageMismatch
from posse.service.clock import SteadyClock
from posse.service.http.access import Gate
from posse.service.http.errors import ApiError, api_error, invalid_field
from posse.service.http.hot import HotRoutes
from posse.service.http.middleware import ResponseMiddleware
from posse.service.http.openapi import describe
from posse.service.http.routes import asking, fleets, log, looking, operations, page, rewarding, tasks
from posse.service.insights import Insights
from posse.service.jobs import Jobs
from posse.service.measures import Metrics
from posse.service.runtime import Runtime
from posse.service.settings import Settings

PATIENCE = 60.0  # seconds for which a process among others waits to be ready; then it says why it is not
THREADS = 8  # requests that wait for the database side by side
UNTRACED: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}  # which else is asked every time
SWITCH_SECONDS = 0.0005  # the thread that writes must not make the loop wait for the interpreter's default of 5 ms

ROUTERS = (
    asking.router, rewarding.router, fleets.router, tasks.router, looking.router, log.router,
    operations.fleets_router, operations.audit_router, operations.router, page.router,
)  # fmt: skip


def create_app(settings: Settings | None = None, clock: SteadyClock | None = None) -> FastAPI:
    """Return the service; it opens its storage when it is started.

    Parameters
    ----------
    settings : Settings, optional
    clock : SteadyClock, optional
    """
    settings = Settings() if settings is None else settings
    runtime = Runtime(settings, clock)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.jobs = Jobs()
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        runtime.start()
        if settings.workers > 1:
            # Others answer on the same port: a process that is not ready yet would refuse what they could take.
            await run_in_threadpool(runtime.wait_until_ready, PATIENCE)
        try:
            yield
        finally:
            await run_in_threadpool(app.state.insights.stop)
            await run_in_threadpool(runtime.stop)
            sys.setswitchinterval(before)

    app = FastAPI(
        title="posse", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False,
        telemetry=None if _is_traced() else UNTRACED,
    )  # fmt: skip
    gate = Gate(runtime)
    app.state.runtime, app.state.gate, app.state.metrics = runtime, gate, Metrics(runtime)
    app.state.pages = page.read_pages()
    app.state.insights = Insights(runtime)
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(ApiError, _error_response)
    app.add_exception_handler(PosseError, _error_response)
    app.add_exception_handler(RequestValidationError, _error_response)
    app.add_exception_handler(HTTPException, _error_response)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # as FastAPI's manual says
    hot = HotRoutes(runtime, gate, _routes())
    app.add_middleware(ResponseMiddleware, measures=runtime.measures, hot=hot, access_log=settings.access_log)
    return app


def _is_traced() -> bool:
    """Return whether a provider of traces was set up, as ``opentelemetry-instrument posse serve`` does."""
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app)
    return app.openapi_schema


async def _error_response(request: Request, error: Exception) -> Response:
    """Return a failure in the one shape."""
    if isinstance(error, StorageMismatch):  # met by a read; what is written is noted by whoever writes
        request.app.state.runtime.writer.disk.failed(error)
    found = _as_api_error(error)
    request.scope["posse.error"] = found.code
    headers = found.headers
    if found.code == "method_not_allowed":
        headers["allow"] = ", ".join(sorted(_methods(request)))
    return Response(found.body, found.status, headers, "application/json")


def _routes() -> list[Any]:
    return [route for router in ROUTERS for route in router.routes]


def _methods(request: Request) -> set[str]:
    """Return which methods a path knows."""
    path = request.scope["path"]
    found = {method for route in _routes() if route.path_regex.match(path) for method in route.methods or ()}
    return found | {"HEAD"} if "GET" in found else found


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, PosseError):
        return api_error(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        place = invalid_field(first["loc"][1:])
        return ApiError("invalid", f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}", place)
    if isinstance(error, HTTPException) and error.status_code == 405:
        return ApiError("method_not_allowed", "this path does not know this method; /openapi.json lists what there is")
    if isinstance(error, HTTPException) and error.status_code == 404:
        return ApiError("not_found", "there is nothing at this path; /openapi.json lists what there is")
    return ApiError("bad_request", "this request cannot be understood; /openapi.json says what is expected")
