"""One shape for every failure: ``{"error": {"code", "message", "field"}}``, and one table of codes."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from posse.errors import (
    ExpiredDecision,
    InvalidValue,
    PosseError,
    RewardConflict,
    StorageMismatch,
    StorageUnavailable,
    UnknownArm,
    UnknownDecision,
    UnknownPolicy,
    UnknownTask,
)

STATUS = {
    "invalid_json": 400,
    "bad_request": 400,
    "key_required": 401,
    "key_invalid": 401,
    "key_expired": 401,
    "scope_missing": 403,
    "fleet_forbidden": 403,
    "host_refused": 403,
    "not_found": 404,
    "unknown_fleet": 404,
    "unknown_task": 404,
    "unknown_arm": 404,
    "unknown_decision": 404,
    "method_not_allowed": 405,
    "fleet_exists": 409,
    "arm_exists": 409,
    "reward_conflict": 409,
    "not_rewarded": 409,
    "key_reused": 409,
    "decision_expired": 410,
    "body_too_large": 413,
    "batch_too_large": 413,
    "media_type": 415,
    "invalid": 422,
    "event_required": 422,
    "rate_limited": 429,
    "head_too_large": 431,
    "internal": 500,
    "storage_unavailable": 503,
    "not_ready": 503,
    "fleet_set_aside": 503,
    "too_busy": 503,
}
"""The HTTP status of every code."""

CODES: tuple[tuple[type[PosseError], str], ...] = (
    (ExpiredDecision, "decision_expired"),
    (UnknownDecision, "unknown_decision"),
    (UnknownTask, "unknown_task"),
    (UnknownArm, "invalid"),  # an arm inside a body; one that is named in a path is asked for before
    (UnknownPolicy, "invalid"),
    (RewardConflict, "reward_conflict"),
    (StorageUnavailable, "storage_unavailable"),
    (StorageMismatch, "storage_unavailable"),
    (InvalidValue, "invalid"),
)
"""The code of every error of the library that a request can cause; the first that fits."""

INTERNAL = "something went wrong here; the log of the service says what"
LONGEST = 1000  # characters of a message: it may quote what came


class ApiError(Exception):
    """A failure that is told to whoever asked.

    Parameters
    ----------
    code : str
        A key of :data:`STATUS`.
    message : str
        What was expected, what came and what to do.
    field : str, optional
        Where in the request.
    retry_after : float, optional
        Seconds after which asking again makes sense.
    """

    def __init__(self, code: str, message: str, field: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.retry_after = code, message, field, retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    @property
    def body(self) -> bytes:
        """The one shape."""
        return error_body(self.code, self.message, self.field)

    @property
    def headers(self) -> dict[str, str]:
        """What goes with it."""
        headers = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="posse"'
        return headers


def error_body(code: str, message: str, field: str | None) -> bytes:
    """Return the body of a failure."""
    message = message if len(message) <= LONGEST else message[: LONGEST - 3] + "..."
    # What came may hold half a surrogate pair, which no JSON can.
    message = message.encode(errors="backslashreplace").decode()
    field = None if field is None else field.encode(errors="backslashreplace").decode()
    return to_json({"error": {"code": code, "message": message, "field": field}})


def api_error(error: PosseError, field: str | None = None) -> ApiError:
    """Return what is told about an error of the library."""
    for kind, code in CODES:
        if isinstance(error, kind):
            if kind is StorageMismatch:  # its words name files and tables
                error = StorageMismatch(
                    "the storage is damaged, or not that of this posse; the log of the service says more"
                )
            return ApiError(code, str(error), field, retry_after=1 if code == "storage_unavailable" else None)
    return ApiError("internal", INTERNAL)


def invalid_field(location: tuple[Any, ...]) -> str | None:
    """Return a place in a body as dotted text."""
    return ".".join(str(part) for part in location)[:200] or None
