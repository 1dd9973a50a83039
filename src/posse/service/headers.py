"""Headers of a request, looked up in one table: a request of Starlette looks through all of them for every name."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

HEADS = "posse.headers"
Scope = MutableMapping[str, Any]


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
