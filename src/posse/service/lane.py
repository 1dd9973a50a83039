"""A short way to the two routes that are asked thousands of times a second.

They are routes of the application like all others, with the same handlers and answers. But between a request and its
handler FastAPI does more work than the handler itself, so these requests are recognised first and go straight there.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

Scope = MutableMapping[str, Any]
Handler = Callable[[Request], Awaitable[Response]]


class Lane:
    """Recognises requests by method and path.

    Parameters
    ----------
    routes : list of FastAPI routes
        Those that there are; each must have one method, and parameters that hold no slash.
    """

    def __init__(self, routes: list[Any]) -> None:
        self._routes = [
            (next(iter(route.methods)), re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path)), route)
            for route in routes
        ]

    def find(self, scope: Scope) -> Handler | None:
        """Return the handler of a request that may take the short way, and note its parameters; else None."""
        method, path = scope["method"], scope["path"]
        for known, pattern, route in self._routes:
            if method == known and (match := pattern.fullmatch(path)) is not None:
                scope["path_params"], scope["route"] = match.groupdict(), route
                handler: Handler = route.endpoint
                return handler
        return None
