"""HTTP as it comes over the wire, with a limit where the server has none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from posse.service.errors import error_body
from posse.service.fast_path import Exchange, FastPath, NotFastPath

LARGEST_HEAD = 1 << 16  # bytes of a request before its body
OTHER_FILES = 256  # that a process may have open beside connections: databases, snapshots, compiled code, threads
REQUEST_SECONDS = 60.0  # from its first byte, or from connecting, to its last


def allowed_connections(most: int) -> int:
    """Return how many connections this process may hold: at most so many, and some files must be left to open.

    The system's limit of open files is raised as far as it lets us.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + OTHER_FILES
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
            soft = min(wanted, hard)
    return most if soft == resource.RLIM_INFINITY else max(min(most, soft - OTHER_FILES), 1)


class LimitedProtocol(HttpToolsProtocol):
    """Ends connections whose request has no end of headers, or does not come to its end: neither needs a key.

    Where there are as many connections as may be, one that nobody waits at makes room for a new one, so that those who
    only hold connections shut out nobody: first those that never asked, then those that were silent for longest.
    """

    most = 1000
    """Connections of this process; see :func:`allowed_connections`."""

    _in_head, _head, _heads, _begun = True, 0, 0, False
    _exchange: Exchange | None = None  # whose body is coming
    _silent_since = 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        if len(self.connections) > self.most and not self._room():
            message = "too many connections are busy; try again in a second"
            self._end(b"503 Service Unavailable", error_body("too_busy", message, None), b"retry-after: 1\r\n")
            return
        self._late = self.loop.call_later(REQUEST_SECONDS, transport.close)

    def _room(self) -> bool:
        """Make room for this connection; return whether there is."""
        others = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        if len(others) < self.most:
            return True
        silent = [one for one in others if isinstance(one, LimitedProtocol) and one._is_silent()]
        if not silent:
            return False
        min(silent, key=lambda one: (one._heads > 0, one._silent_since)).transport.close()
        return True

    def _is_silent(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        before, heads = self._in_head, self._heads
        super().data_received(data)
        # Bodies have a limit of their own: only what is nothing but a head counts.
        if before and self._in_head and heads == self._heads and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse()
        # Most requests come whole and need no clock.
        if self._begun and self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """Wait for the rest of a request."""
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Go on with the body."""
        self._in_head, self._head, self._heads = False, 0, self._heads + 1
        way: FastPath | None = getattr(self.app, "short_way", None)
        if way is not None and self._is_silent():
            exchange = way.find(self)
            if exchange is not None:
                self.cycle = self._exchange = exchange  # type: ignore[assignment]  # as far as uvicorn asks
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._exchange is None:
            super().on_body(body)
        else:
            self._exchange.body += body

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._in_head, self._head, self._begun = True, 0, False
        self._in_time()
        self._silent_since = self.loop.time()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            try:
                exchange.begin()
                return
            except NotFastPath:
                self.cycle = None  # type: ignore[assignment]  # as before the request
                super().on_headers_complete()
                super().on_body(exchange.body)
        super().on_message_complete()

    def send_400_response(self, *_: Any) -> None:
        """Answer what is not HTTP in the one shape."""
        self._end(b"400 Bad Request", error_body("bad_request", "this is not an HTTP request", None))

    def _refuse(self) -> None:
        message = f"the line and headers of a request must have at most {LARGEST_HEAD} bytes; send fewer"
        self._end(b"431 Request Header Fields Too Large", error_body("head_too_large", message, None))

    def _end(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        head = b"HTTP/1.1 " + status + b"\r\n" + headers
        head += b"content-type: application/json\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        self.transport.close()
