"""A short way to the two routes that are asked thousands of times a second: from the connection to the disk and back.

They are routes of the application like all others, and answer the same either way. But FastAPI, Starlette and a task of
asyncio take several times as long as deciding does, so a request that comes whole and has nothing unusual about it is
answered without them: checked and decided as soon as its last byte is there, told as soon as it is on disk. Whatever is
unusual (a fleet that somebody works on, a body in chunks, requests that do not wait for answers) takes the long way.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from posse.errors import PosseError
from posse.service.errors import ApiError, api_error, error_body
from posse.service.heads import current, headers_of, request_id
from posse.service.responses import INTERNAL, SAFE_HEADERS, note_access
from posse.storage import NewDecision, NewReward, Outcome

if TYPE_CHECKING:
    from posse.service.access import Gate
    from posse.service.connections import LimitedProtocol
    from posse.service.engine import Engine

LARGEST_BODY = 1 << 16  # bytes that are held of a request before it is known whose it is

Scope = MutableMapping[str, Any]
Begun = tuple[NewDecision | NewReward, Callable[[Outcome], dict[str, Any]]]
Begin = Callable[["Engine", Scope, bytes], Begun]

HEADS = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n".encode()
    + b"".join(name + b": " + value + b"\r\n" for name, value in SAFE_HEADERS)
    for status in HTTPStatus
    if status.value >= 200
}

logger = logging.getLogger("posse.service")


class NotFastPath(Exception):
    """A request must take the long way; nothing has been done for it."""


class FastPath:
    """Recognises requests that may take the short way.

    Parameters
    ----------
    engine : Engine
    gate : Gate
    routes : list
        Pairs of a route that there is and how its requests begin: that takes the body and returns what is to be
        written, and what says what is told given what became of it. Routes must have one method, POST, and parameters
        that hold no slash.
    """

    def __init__(self, engine: Engine, gate: Gate, routes: list[tuple[Any, Begin]]) -> None:
        self.engine, self.gate = engine, gate
        self._largest_body = min(LARGEST_BODY, engine.settings.limits.body)
        self._routes = [
            (re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/?#%]+)", route.path).encode()), route, begin)
            for route, begin in routes
        ]

    def find(self, protocol: LimitedProtocol) -> Exchange | None:
        """Return how a request whose headers have come is answered on the short way, None if it must take the long."""
        parser, scope = protocol.parser, cast("Scope", protocol.scope)
        if parser.get_method() != b"POST" or protocol.expect_100_continue or parser.get_http_version() != "1.1":
            return None
        for pattern, route, begin in self._routes:
            match = pattern.fullmatch(protocol.url)
            if match is not None:
                length = headers_of(scope).get(b"content-length", b"")
                if (
                    not length.isdigit()
                    or len(length) > 6
                    or int(length) > self._largest_body
                    or parser.should_upgrade()
                ):
                    return None
                scope["path_params"] = {name: value.decode("ascii") for name, value in match.groupdict().items()}
                scope["route"] = route
                return Exchange(self, protocol, begin)
        return None


class _NobodyWaits:
    def set(self) -> None:
        """Wake nobody."""


class Exchange:
    """A request and its answer; for the protocol, what uvicorn calls a cycle."""

    __slots__ = (
        "_began", "_begin", "_id", "_protocol", "_tell", "_way", "body", "disconnected", "keep_alive",
        "response_complete", "scope",
    )  # fmt: skip
    message_event = _NobodyWaits()

    def __init__(self, way: FastPath, protocol: LimitedProtocol, begin: Begin) -> None:
        self._way, self._protocol, self._begin = way, protocol, begin
        self._began = time.perf_counter()
        self.scope = cast("Scope", protocol.scope)
        self.body = b""
        self.keep_alive = bool(protocol.parser.should_keep_alive())
        self.disconnected = self.response_complete = False

    def begin(self) -> None:
        """Do what is asked, now that all of it has come; raise NotFastPath if that must be done elsewhere."""
        engine, scope = self._way.engine, self.scope
        self._id = request_id(scope["headers"])
        token = current.set(self._id)
        try:
            self._way.gate.check(scope, scope["route"].endpoint.scope)
            entry, self._tell = self._begin(engine, scope, self.body)
            engine.writer.submit([entry], asyncio.get_running_loop(), self._written)
        except NotFastPath:
            raise
        except Exception as error:
            self._fail(error)
        finally:
            current.reset(token)

    def _written(self, outcomes: list[Outcome] | BaseException) -> None:
        """Tell what became of it."""
        if isinstance(outcomes, BaseException):
            self._fail(outcomes)
            return
        token = current.set(self._id)
        try:
            body = to_json(self._tell(outcomes[0]), inf_nan_mode="null")
        except Exception as error:
            self._fail(error)
        else:
            self._send(200, body)
        finally:
            current.reset(token)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, ApiError | PosseError):
            found = error if isinstance(error, ApiError) else api_error(error)
            self.scope["posse.error"] = found.code
            self._send(found.status, found.body, "".join(f"{k}: {v}\r\n" for k, v in found.headers.items()).encode())
        else:
            self.scope["posse.error"] = "internal"
            logger.error("POST %s failed", self.scope["route"].path_format, exc_info=error)
            self._send(500, error_body("internal", INTERNAL, None))

    def _send(self, status: int, body: bytes, headers: bytes = b"") -> None:
        protocol = self._protocol
        self.response_complete = True
        seconds = time.perf_counter() - self._began
        measures, settings = self._way.engine.measures, self._way.engine.settings
        measures.requested(self.scope["route"].path_format, "POST", status, seconds, self.scope.get("posse.error"))
        if settings.access_log:
            token = current.set(self._id)
            note_access(self.scope, "POST", status, seconds)
            current.reset(token)
        if self.disconnected:
            return
        for name, value in protocol.server_state.default_headers:
            headers += name + b": " + value + b"\r\n"
        if not self.keep_alive:
            headers += b"connection: close\r\n"
        protocol.transport.write(
            b"%bx-request-id: %b\r\n%bcontent-length: %d\r\n\r\n%b"
            % (HEADS[status], self._id.encode(), headers, len(body), body)
        )
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()
