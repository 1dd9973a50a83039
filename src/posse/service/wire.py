"""HTTP as it comes over the wire, with a limit where the server has none."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from posse.service.errors import error_body

LARGEST_HEAD = 1 << 16  # bytes of a request before its body
REQUEST_SECONDS = 60.0  # from its first byte, or from connecting, to its last


class LimitedProtocol(HttpToolsProtocol):
    """Ends connections whose request has no end of headers, or does not come to its end: neither needs a key."""

    _in_head, _head, _heads, _begun = True, 0, 0, False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(REQUEST_SECONDS, transport.close)

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
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._in_head, self._head, self._begun = True, 0, False
        self._in_time()
        super().on_message_complete()

    def send_400_response(self, *_: Any) -> None:
        """Answer what is not HTTP in the one shape."""
        self._end(b"400 Bad Request", error_body("bad_request", "this is not an HTTP request", None))

    def _refuse(self) -> None:
        message = f"the line and headers of a request must have at most {LARGEST_HEAD} bytes; send fewer"
        self._end(b"431 Request Header Fields Too Large", error_body("head_too_large", message, None))

    def _end(self, status: bytes, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
            b"connection: close\r\ncontent-length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        )
        self.transport.close()
