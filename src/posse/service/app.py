"""The service as an ASGI application."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from posse._version import __version__
from posse.errors import PosseError
from posse.service.access import Gate
from posse.service.audit import ENTRY, note_answer
from posse.service.clock import SteadyClock
from posse.service.describing import describe
from posse.service.engine import Engine
from posse.service.errors import ApiError, api_error, error_body, invalid_field
from posse.service.insights import Insights
from posse.service.lane import Handler, Lane
from posse.service.log_lines import FIELDS
from posse.service.measures import Measures
from posse.service.metrics import Metrics
from posse.service.request_ids import HEADER, current, request_id
from posse.service.routes import (
    audit,
    choices,
    decisions,
    fleets,
    health,
    insights,
    known,
    log,
    looking,
    page,
    rankings,
    tasks,
    verify,
)
from posse.service.routes.common import Alone
from posse.service.settings import Settings
from posse.service.tracing import is_traced

PATIENCE = 60.0  # seconds for which a process among others waits to be ready; then it says why it is not
THREADS = 8  # requests that wait for the database side by side
SWITCH_SECONDS = 0.0005  # the thread that writes must not make the loop wait for the interpreter's default of 5 ms

HANDLER = "posse.handler"  # who answers a request that goes the short way

ROUTES: tuple[Any, ...] = (
    decisions,
    rankings,
    choices,
    fleets,
    known,
    tasks,
    looking,
    insights,
    log,
    verify,
    audit,
    health,
    page,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

logger, access_logger = logging.getLogger("posse.service"), logging.getLogger("posse.access")


def create_app(settings: Settings | None = None, clock: SteadyClock | None = None) -> FastAPI:
    """Return the service; it opens its storage when it is started.

    Parameters
    ----------
    settings : Settings, optional
    clock : SteadyClock, optional
    """
    settings = Settings() if settings is None else settings
    engine = Engine(settings, clock)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.traced = is_traced()
        app.state.alone = Alone()
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        engine.start()
        if settings.workers > 1:
            # Others answer on the same port: a process that is not ready yet would refuse what they could take.
            await run_in_threadpool(engine.wait_until_ready, PATIENCE)
        try:
            yield
        finally:
            await run_in_threadpool(app.state.insights.stop)
            await run_in_threadpool(engine.stop)
            sys.setswitchinterval(before)

    app = Service(
        title="posse", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.engine, app.state.gate, app.state.metrics = engine, Gate(engine), Metrics(engine)
    app.state.pages = page.read_pages()
    app.state.insights = Insights(engine)
    for part in ROUTES:
        app.include_router(part.router)
    app.add_exception_handler(ApiError, _told)
    app.add_exception_handler(PosseError, _told)
    app.add_exception_handler(RequestValidationError, _told)
    app.add_exception_handler(HTTPException, _told)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # as FastAPI's manual says
    app.add_middleware(Outside, measures=engine.measures, access_log=settings.access_log)
    app.lane = Lane(decisions.hot_routes())
    app.quick = Outside(None, measures=engine.measures, access_log=settings.access_log)
    return app


class Service(FastAPI):
    """The application, with a way around all of FastAPI for the routes that are asked most."""

    lane: Lane
    quick: Outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # FastAPI makes the spans: whoever traces gets all requests, and waits a little longer for each.
        quick = scope["type"] == "http" and not getattr(self.state, "traced", False)
        handler = self.lane.find(scope) if quick else None
        if handler is None:
            await super().__call__(scope, receive, send)
        else:
            scope["app"], scope[HANDLER] = self, handler
            await self.quick(scope, receive, send)


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app)
    return app.openapi_schema


async def _told(request: Request, error: Exception) -> Response:
    """Return a failure in the one shape."""
    found = _as_api_error(error)
    request.scope["posse.error"] = found.code
    headers = found.headers
    if found.code == "method_not_allowed":
        headers["allow"] = ", ".join(sorted(_methods(request)))
    return Response(found.body, found.status, headers, "application/json")


async def _answer(handler: Handler, request: Request, send: Send) -> None:
    try:
        response = await handler(request)
    except (ApiError, PosseError) as error:
        response = await _told(request, error)
    await response(request.scope, request.receive, send)


def _methods(request: Request) -> set[str]:
    """Return which methods a path knows."""
    path = request.scope["path"]
    routes = [route for part in ROUTES for route in part.router.routes]
    found = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
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


class Outside:
    """What happens to every answer: an id, headers for safety, counting, and no stack trace ever.

    Parameters
    ----------
    app : ASGI application
    measures : Measures
    access_log : bool
        Whether every request is a line of the log ``posse.access``. Paths are not in it, since they hold names of
        tasks, but routes are.
    """

    def __init__(self, app: Any, measures: Measures, *, access_log: bool = False) -> None:
        self._app, self._measures, self._access_log = app, measures, access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status, method = time.perf_counter(), 0, scope["method"]
        if method == "HEAD":
            # As GET; the server knows what was asked and sends the headers alone.
            scope = {**scope, "method": "GET"}
        name = request_id(scope["headers"])
        current.set(name)
        header = (HEADER, name.encode())

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if ENTRY in scope:
                    await note_answer(scope, status)
                headers = message["headers"]
                headers.append(header)
                headers.append((b"x-content-type-options", b"nosniff"))
                headers.append((b"referrer-policy", b"no-referrer"))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                    headers.append((b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"))
            await send(message)

        try:
            handler = scope.get(HANDLER)
            if handler is None:
                await self._app(scope, receive, send_with_headers)
            else:
                await _answer(handler, Request(scope, receive), send_with_headers)
        except Exception:
            scope["posse.error"] = "internal"
            logger.exception("%s %s failed", method, _route(scope))
            if status:
                raise  # half an answer is out: the connection must end
            body = error_body("internal", "something went wrong here; the log of the service says what", None)
            response = Response(body, 500, media_type="application/json")
            await response(scope, receive, send_with_headers)
        finally:
            seconds, code = time.perf_counter() - begin, scope.get("posse.error")
            self._measures.requested(_route(scope), method, status, seconds, code)
            if self._access_log:
                _note_access(scope, method, status, seconds)


def _route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path_format", "other")
    return route


def _note_access(scope: Scope, method: str, status: int, seconds: float) -> None:
    client = scope.get("client")
    fields = {
        "method": method,
        "route": _route(scope),
        "fleet": scope.get("path_params", {}).get("fleet"),
        "status": status,
        "code": scope.get("posse.error"),
        "ms": round(seconds * 1000, 3),
        "client": None if client is None else client[0],
        "key": scope.get("posse.key"),
    }
    access_logger.info("request", extra={FIELDS: fields})
