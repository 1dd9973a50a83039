"""What both clients do with httpx in the same way: settings, requests, errors and bodies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from posse._version import __version__
from posse.client.answers import Lost
from posse.client.calls import Call
from posse.client.circuit import Circuit
from posse.client.conversation import Conversation, Fallback, Patience, Send
from posse.errors import InvalidValue, SavedFileError

FAILURES = (httpx.TransportError, httpx.DecodingError)
# Seconds for which a file may not begin or go on: the service makes a whole table before it sends any of it.
SAVING = 600.0
# A service drops connections that were idle for 75 s; a client that drops them first never sends into a closed one.
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)


def conversation_of(
    base_url: str, *, retries: int, backoff: float, deadline: float | None, fallback: Fallback | None, pause: float
) -> Conversation:
    """Check settings and return what a client talks by."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InvalidValue(f"expected retries to be a whole number of at least 0, got {retries!r}")
    if not (fallback is None or isinstance(fallback, str) or callable(fallback)):
        raise InvalidValue(f"expected fallback to be an arm, a callable that returns one, or None, got {fallback!r}")
    if deadline is not None:
        _seconds(deadline, "deadline", above=True)
    _seconds(backoff, "backoff")
    _seconds(pause, "pause")
    patience = Patience(retries=retries, backoff=backoff, deadline=deadline)
    return Conversation(address=base_url, patience=patience, fallback=fallback, circuit=Circuit(pause, time.monotonic))


def checked_url(base_url: str) -> str:
    """Return the address of a service without what is not part of it."""
    parts = urlsplit(base_url) if isinstance(base_url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidValue(f'expected base_url to be an address such as "http://127.0.0.1:8080", got {base_url!r}')
    return base_url.rstrip("/")


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers of every request; the key is that of the environment variable POSSE_KEY if none is given."""
    key = os.environ.get("POSSE_KEY") or None if key is None else key
    headers = {"User-Agent": f"posse/{__version__}", "Accept": "*/*"}
    if key is not None:
        if not (isinstance(key, str) and key and key.isascii() and key.isprintable() and " " not in key):
            raise InvalidValue(
                "key must be a key that posse service keys has made: printable ASCII text without spaces"
            )
        headers["Authorization"] = f"Bearer {key}"
    return headers


def timeout_of(timeout: float | httpx.Timeout) -> httpx.Timeout:
    """Return the time-outs of one try."""
    if isinstance(timeout, httpx.Timeout):
        return timeout
    _seconds(timeout, "timeout", above=True)
    return httpx.Timeout(timeout)


def request_of(http: httpx.Client | httpx.AsyncClient, step: Send, timeout: httpx.Timeout) -> httpx.Request:
    """Return a request whose time-outs end no later than all patience does."""
    call = step.call
    headers = dict(call.headers)
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    limits: dict[str, float | None] = timeout.as_dict()
    if step.until is not None:
        left = max(0.001, step.until - time.monotonic())
        limits = {name: left if value is None else min(value, left) for name, value in limits.items()}
    if call.save_to is not None:
        limits["read"] = max(timeout.read or 0.0, SAVING)
    return http.build_request(
        call.method,
        call.path,
        params=call.params or None,
        content=call.body,
        headers=headers,
        timeout=httpx.Timeout(**limits),
    )


def lost(error: Exception) -> Lost:
    """Return why no answer came, and whether the request may have arrived."""
    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol))
    words = str(error) or "time-out"
    return Lost(f"{type(error).__name__}: {words}", sent=not unsent)


class Body:
    """Takes the body of an answer as it comes: into memory, or into a file that gets its name when it is whole.

    Parameters
    ----------
    call : Call
    status : int
        Only the body of a success goes to a file.
    until : float or None
        When patience ends; what goes to a file may take longer.
    """

    def __init__(self, call: Call[Any], status: int, until: float | None) -> None:
        self.target = call.save_to if status == 200 else None
        self._until = until
        self._chunks: list[bytes] = []
        if self.target is not None:
            self._part = self.target.with_name(f".{self.target.name}.{uuid4().hex}.part")
            with _written(self.target):
                self._file = self._part.open("xb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.target is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)

    def add(self, chunk: bytes) -> None:
        """Take a piece."""
        if self.target is not None:
            with _written(self.target):
                self._file.write(chunk)
            return
        self._chunks.append(chunk)
        # Time-outs of a socket start anew with each piece; a service that sends its answer in drops would hold us.
        if self._until is not None and time.monotonic() > self._until:
            raise httpx.ReadTimeout("the answer was not whole when the deadline came")

    def whole(self) -> bytes:
        """Return the body; a file gets its name."""
        if self.target is not None:
            with _written(self.target):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                self._part.replace(self.target)
        return b"".join(self._chunks)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SavedFileError(f"cannot write {path}: {error.strerror or error}; free space or choose another") from error


def _seconds(value: float, name: str, *, above: bool = False) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not (0 < value < float("inf") if above else 0 <= value < float("inf")):
        raise InvalidValue(f"expected {name} to be seconds{' above 0' if above else ', 0 or more'}, got {value!r}")
