"""The two routes that are asked thousands of times a second, answered by the middleware that every request passes.

FastAPI describes them and knows their methods, but its own way takes several times as long as deciding does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from opentelemetry.trace import get_current_span
from pydantic_core import to_json
from starlette.responses import Response

from posse.errors import PosseError
from posse.service.http.errors import INTERNAL, ApiError, api_error
from posse.service.http.heads import Receive, Scope, Send

if TYPE_CHECKING:
    from posse.service.http.access import Gate
    from posse.service.runtime import Runtime

Endpoint = Callable[["Runtime", Scope, Receive], Awaitable[dict[str, Any]]]
"""Does what a request asks and returns the answer; raises what is wrong with it."""

JSON = (b"content-type", b"application/json")

logger = logging.getLogger("posse.service")


def hot_route(router: APIRouter, path: str, scope: str, **described: Any) -> Callable[[Endpoint], Endpoint]:
    """Make an endpoint the POST route of a path; ``described`` is what OpenAPI says about it."""

    def declare(endpoint: Endpoint) -> Endpoint:
        async def route() -> Response:
            raise AssertionError(path)  # the middleware answers before

        route.__name__, route.__doc__ = endpoint.__name__, endpoint.__doc__
        route.scope, route.hot = scope, endpoint  # type: ignore[attr-defined]
        router.add_api_route(path, route, methods=["POST"], **described)
        return endpoint

    return declare


class HotRoutes:
    """Answers requests for hot routes.

    Parameters
    ----------
    runtime : Runtime
    gate : Gate
    routes : list
        All routes; those that :func:`hot_route` declared are answered here.
    """

    def __init__(self, runtime: Runtime, gate: Gate, routes: list[Any]) -> None:
        self._runtime, self._gate = runtime, gate
        self._routes: list[tuple[re.Pattern[str], Any]] = [
            (route.path_regex, route) for route in routes if hasattr(getattr(route, "endpoint", None), "hot")
        ]

    def finds(self, scope: Scope) -> bool:
        """Whether a request is for one of them; its parameters are in its scope from then on."""
        if scope["method"] == "POST":
            for pattern, route in self._routes:
                match = pattern.match(scope["path"])
                if match is not None:
                    scope["path_params"], scope["route"] = match.groupdict(), route
                    return True
        return False

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        route, headers = scope["route"], {}
        get_current_span().update_name(f"POST {route.path_format}")
        try:
            self._gate.check(scope, route.endpoint.scope)
            status, body = 200, to_json(await route.endpoint.hot(self._runtime, scope, receive), inf_nan_mode="null")
        except Exception as error:
            if isinstance(error, PosseError):
                error = api_error(error)
            elif not isinstance(error, ApiError):
                logger.exception("POST %s failed", route.path_format)
                error = ApiError("internal", INTERNAL)
            scope["posse.error"] = error.code
            status, body, headers = error.status, error.body, error.headers
        more = [(name.encode(), value.encode()) for name, value in headers.items()]
        start = [JSON, (b"content-length", b"%d" % len(body)), *more]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": body})
