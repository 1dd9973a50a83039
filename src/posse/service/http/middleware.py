"""What happens to every answer: an id, headers for safety, counting, and no stack trace ever."""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import Response

from posse.service.audit import ENTRY, note_answer
from posse.service.http.errors import INTERNAL, error_body
from posse.service.http.heads import HEADER, Receive, Scope, Send, current, request_id
from posse.service.http.hot import HotRoutes
from posse.service.log_lines import FIELDS
from posse.service.measures import Measures

SAFE_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
SAFE_HEADERS = (
    *SAFE_ALWAYS,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Headers of answers that do not say themselves how they may be kept."""

logger, access_logger = logging.getLogger("posse.service"), logging.getLogger("posse.access")


class ResponseMiddleware:
    """Gives every answer its id and headers, counts it, and answers for what failed.

    Parameters
    ----------
    app : ASGI application
    measures : Measures
    hot : HotRoutes
        Which it answers itself.
    access_log : bool
        Whether every request is a line of the log ``posse.access``. Paths are not in it, since they hold names of
        tasks, but routes are.
    """

    def __init__(self, app: Any, measures: Measures, hot: HotRoutes, *, access_log: bool = False) -> None:
        self._app, self._measures, self._hot, self._access_log = app, measures, hot, access_log

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

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if ENTRY in scope:
                    await note_answer(scope, status)
                headers = message["headers"]
                headers.append(header)
                says = any(name == b"cache-control" for name, _ in headers)
                headers.extend(SAFE_ALWAYS if says else SAFE_HEADERS)
            await send(message)

        try:
            answer = self._hot.answer if self._hot.finds(scope) else self._app
            await answer(scope, receive, send_with_headers)
        except Exception:
            scope["posse.error"] = "internal"
            logger.exception("%s %s failed", method, _route(scope))
            if status:
                raise  # half an answer is out: the connection must end
            response = Response(error_body("internal", INTERNAL, None), 500, media_type="application/json")
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
    """Write a line of the log ``posse.access``."""
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
