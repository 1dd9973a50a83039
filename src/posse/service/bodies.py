"""Reading JSON bodies: limited in size, checked as they are parsed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from posse.service.errors import ApiError, invalid_field
from posse.service.heads import Scope, header_of

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """Return the body, or raise before more of it is taken in than is allowed."""
    most = request.app.state.engine.settings.limits.body
    length = header_of(request.scope, b"content-length") or ""
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > most:
        raise _too_large(most)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_large(most)
            chunks.append(chunk)
    except ClientDisconnect:
        raise ApiError("bad_request", "the connection ended before the body did; send it again") from None
    return b"".join(chunks)


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """Return a dependency that reads a body of this shape."""

    async def read(request: Request) -> Model:
        require_json(request.scope)
        return parse(model, await read_body(request))

    return read


def require_json(scope: Scope) -> None:
    """Raise unless a request says that its body is JSON."""
    kind = header_of(scope, b"content-type") or ""
    if kind != "application/json":
        kind = kind.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError("media_type", f"expected content-type application/json, got {kind or 'none'}; send JSON")


def parse(model: type[Model], body: bytes) -> Model:
    """Return a checked body, or raise the one error that says where it is wrong."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        # A field that is misspelt is missing, too; its name says more.
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        if first["type"] == "json_invalid":
            raise ApiError("invalid_json", f"the body is not JSON: {first['msg']}") from None
        field = invalid_field(_place(first["loc"]))
        raise ApiError("invalid", f"{field or 'the body'}: {_words(first)}", field) from None


def json_request(model: type[BaseModel]) -> dict[str, Any]:
    """Return the part of OpenAPI that describes a body."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}},
        }
    }


def _place(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a place without the names that pydantic gives to the members of unions."""
    kinds = ("float", "int", "str", "bool", "dict[", "list[", "none")
    return tuple(part for part in location if not (isinstance(part, str) and _is_kind(part, kinds))) or location[:1]


def _is_kind(part: str, kinds: tuple[str, ...]) -> bool:
    return part in kinds or part.startswith(("dict[", "list["))


def _words(error: Any) -> str:
    message: str = error["msg"]
    if error["type"] == "extra_forbidden":
        return "there is no such field; take it out"
    if error["type"] == "missing":
        return "is missing; give it"
    return message[0].lower() + message[1:]


def _too_large(most: int) -> ApiError:
    return ApiError(
        "body_too_large", f"the body must have at most {most} bytes; send smaller batches, or raise limits.body"
    )
