"""Headers of a request, looked up in one table: a request of Starlette looks through all of them for every name."""

from __future__ import annotations

from starlette.requests import Request

HEADS = "posse.headers"


def heads_of(request: Request) -> dict[bytes, bytes]:
    """Return the headers by name in lower case; of several of one name the first, as Starlette does."""
    found: dict[bytes, bytes] | None = request.scope.get(HEADS)
    if found is None:
        found = request.scope[HEADS] = dict(reversed(request.scope["headers"]))
    return found


def head_of(request: Request, name: bytes) -> str | None:
    """Return one header, or None."""
    value = heads_of(request).get(name)
    return None if value is None else value.decode("latin-1")
