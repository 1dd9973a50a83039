"""HTTP as it comes over the wire, with a limit where the server has none."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from posse.service.errors import error_body

LARGEST_HEAD = 1 << 16  # bytes of a request before its body


class LimitedProtocol(HttpToolsProtocol):
    """Ends connections whose request has no end of headers: they would be taken into memory without any key."""

    _in_head, _head, _heads = True, 0, 0

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        before, heads = self._in_head, self._heads
        super().data_received(data)
        # Bodies have a limit of their own: only what is nothing but a head counts.
        if before and self._in_head and heads == self._heads and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse()

    def on_headers_complete(self) -> None:
        """Go on with the body."""
        self._in_head, self._head, self._heads = False, 0, self._heads + 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._in_head, self._head = True, 0
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
