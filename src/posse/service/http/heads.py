"""Headers of a request, and its id, by which its lines in the log and its answer can be found together."""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any

HEADER = b"x-request-id"
GIVEN = re.compile(rb"[A-Za-z0-9._:=+/-]{1,128}")
"""What is taken over from whoever asks: anything else could forge lines of a log."""

current: ContextVar[str | None] = ContextVar("posse_request_id", default=None)
"""The id of the request that is being served here."""

_numbers = itertools.count(1)
_prefix = secrets.token_hex(6)


def _new_prefix() -> None:
    global _prefix
    _prefix = secrets.token_hex(6)


os.register_at_fork(after_in_child=_new_prefix)


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id that a request came with (``X-Request-ID``), or a new one if it has none that can be taken over.

    Examples
    --------
    >>> request_id([(b"x-request-id", b"order-991")])
    'order-991'
    """
    for name, value in headers:
        if name == HEADER:
            if GIVEN.fullmatch(value):
                return value.decode()
            break
    return f"{_prefix}-{next(_numbers):x}"


HEADS = "posse.headers"
Scope = MutableMapping[str, Any]
"""A request as ASGI describes it."""
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name in lower case; of several of one name the first, as Starlette does."""
    found: dict[bytes, bytes] | None = scope.get(HEADS)
    if found is None:
        found = scope[HEADS] = dict(reversed(scope["headers"]))
    return found


def header_of(scope: Scope, name: bytes) -> str | None:
    """Return one header, or None."""
    value = headers_of(scope).get(name)
    return None if value is None else value.decode("latin-1")
