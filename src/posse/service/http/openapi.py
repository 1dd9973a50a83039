"""How routes describe themselves in OpenAPI: their failures, bodies and examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, TypeAdapter

from posse import api
from posse._version import __version__
from posse.service.http import requests

BODIES: tuple[type[BaseModel], ...] = (
    requests.Definition, requests.Ask, requests.AskMany, requests.AskRanking, requests.RewardBody, requests.RewardMany,
    requests.CorrectionBody, requests.LogEntries, requests.ArmBody, requests.TaskFeaturesMany,
    requests.TaskFeaturesBody, requests.AskChoice, requests.Expect,
)  # fmt: skip
"""What routes read and tell by hand, so that FastAPI does not see it."""

WORDS = {
    400: "The body is not JSON.",
    401: "A key is needed, or the one that came is not valid.",
    403: "The key lacks the scope, or the service is for another host.",
    404: "There is no such thing.",
    409: "It contradicts what is there.",
    410: "The decision is older than its time to live.",
    413: "Too large.",
    415: "Not JSON.",
    422: "A value is missing, wrong or out of range.",
    429: "Too many requests.",
    503: "The storage is away for now; ask again.",
}

READING = (401, 403, 422, 429, 503)
WRITING = (400, *READING, 413, 415)

DESCRIPTION = """Many related contextual bandits that learn from each other: ask for a decision, report its reward
whenever it comes.

Send the API key as `Authorization: Bearer posse_...`; without keys the service answers this machine only.
Every failure has the shape `{"error": {"code", "message", "field"}}`."""


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the failures of a route, all of one shape."""
    shape = {"schema": {"$ref": "#/components/schemas/Failure"}}
    return {
        status: {"description": WORDS[status], "content": {"application/json": shape}}
        for status in sorted(set(statuses))
    }


def with_example(model: type[api.Answer]) -> dict[str, Any]:
    """Return the answer of a route with the example that its fields make."""
    schema = TypeAdapter(model).json_schema(mode="serialization")
    return {"model": model, "content": {"application/json": {"example": example_of(schema)}}}


def example_of(schema: dict[str, Any], definitions: dict[str, Any] | None = None) -> Any:
    """Return an example of a JSON schema, from the examples of its parts."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return example_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], definitions)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        # What only some answers have is left out.
        parts = {name: part for name, part in schema.get("properties", {}).items() if "default" not in part}
        return {name: example_of(part, definitions) for name, part in parts.items()}
    if kind == "array":
        return [example_of(schema["items"], definitions)]
    return {"boolean": False, "number": 1.0, "integer": 1, "string": "text"}.get(str(kind))


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description: routes, bodies that are read by hand, keys, and one shape of failure."""
    found = get_openapi(title="posse", version=__version__, description=DESCRIPTION, routes=app.routes)
    parts = found.setdefault("components", {}).setdefault("schemas", {})
    for model in BODIES:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        parts |= schema.pop("$defs", {})
        parts[model.__name__] = schema
    failure = TypeAdapter(api.Failure).json_schema(ref_template="#/components/schemas/{model}")
    parts |= failure.pop("$defs")
    parts["Failure"] = failure
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own shape, which is never sent
        parts.pop(name, None)
    value = found["paths"]["/v1/fleets/{fleet}/value"]["get"]["responses"]["200"]["content"]["application/json"]
    value["example"]["refusal"] = None  # which is left out above
    found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"key": []}, {}]
    return found
