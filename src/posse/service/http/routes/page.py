"""The page and its files: read once, served from memory."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from posse.service.http.errors import ApiError

router = APIRouter(include_in_schema=False)

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Page(NamedTuple):
    """A file of the page."""

    data: bytes
    media_type: str
    tag: str


def read_pages() -> dict[str, Page]:
    """Return all files of the page by their name."""
    folder: Any = files("posse.service") / "page"
    found = {"index.html": folder / "index.html"}
    found |= {entry.name: entry for entry in (folder / "static").iterdir() if entry.is_file()}
    found["report-page.js"] = files("posse.report") / "template" / "page.js"  # the one that a saved report has
    pages = {}
    for name, entry in found.items():
        kind = TYPES.get(name.rpartition(".")[2])
        if kind is not None:
            data = entry.read_bytes()
            pages[name] = Page(data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
    return pages


@router.get("/")
async def index(request: Request) -> Response:
    """Return the page."""
    return _serve(request, "index.html")


@router.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """Return a file of the page."""
    if name == "index.html":
        raise _missing()
    return _serve(request, name)


def _serve(request: Request, name: str) -> Response:
    request.app.state.gate.check_open_host(request)
    page = request.app.state.pages.get(name)
    if page is None:
        raise _missing()
    headers = {"etag": page.tag, "cache-control": "no-cache", "content-security-policy": POLICY}
    if request.headers.get("if-none-match") == page.tag:
        return Response(status_code=304, headers=headers)
    return Response(page.data, media_type=page.media_type, headers=headers)


def _missing() -> ApiError:
    return ApiError("not_found", "there is no such page; the one that there is is at /")
