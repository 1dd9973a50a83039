"""What comes back from the network, and what it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, NamedTuple, TypeVar

from posse.client.calls import Call
from posse.errors import PosseError

T = TypeVar("T")

WORTH_ANOTHER_TRY = frozenset({429, 502, 503, 504})
SET_ASIDE = "fleet_set_aside"
"""The code of a refusal that is about one fleet: waiting does not help soon, and other fleets are served."""
_HINTS = {
    "key_required": "pass key= to the client or set POSSE_KEY",
    "key_invalid": "check key= of the client, or POSSE_KEY",
}


class ServiceError(PosseError, ValueError):
    """A request that the service refused.

    Parameters
    ----------
    message : str
        What was wrong and what to do.
    status : int or None
        Of the answer; None if there was none.
    code : str
        What programs tell errors apart by, e.g. ``"unknown_fleet"``.
    field : str or None
        The part of the request that was wrong.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field

    @property
    def message(self) -> str:
        """What was wrong and what to do."""
        return str(self)


class ServiceUnavailable(ServiceError):
    """The service could not be reached, or could not answer: nothing is wrong with what was asked."""


class Answer(NamedTuple):
    """An answer; ``headers`` finds names in any case, ``body`` is empty if it went to a file."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(NamedTuple):
    """No answer came; ``sent`` says whether the request may have arrived."""

    reason: str
    sent: bool


@dataclass(frozen=True, slots=True)
class Success(Generic[T]):
    """The value that was asked for."""

    value: T


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is none.

    Parameters
    ----------
    error : ServiceError
    again : bool
        Whether another try may help.
    after : float
        Seconds that the service wants to be left alone.
    maybe_done : bool
        Whether the service may have done what was asked all the same.
    """

    error: ServiceError
    again: bool = False
    after: float = 0.0
    maybe_done: bool = False


def judge(call: Call[T], outcome: Answer | Lost) -> Success[T] | Failure:
    """Say what became of one try."""
    if isinstance(outcome, Lost):
        lost = ServiceUnavailable(f"no answer: {outcome.reason}", code="no_answer")
        return Failure(lost, again=True, maybe_done=outcome.sent)
    status = outcome.status
    if 200 <= status < 300 or status in call.accept:
        try:
            return Success(call.read(_parsed(outcome, call)))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as wrong:
            message = f"status {status}, but not what posse serve answers ({type(wrong).__name__}: {wrong})"
            bad = ServiceUnavailable(message, status=status, code="bad_answer")
            return Failure(bad, again=True, maybe_done=True)
    error = error_of(outcome)
    again = status in WORTH_ANOTHER_TRY and error.code != SET_ASIDE
    # 429 is given before anything is done; behind the others the work may have been done and its answer lost.
    return Failure(error, again, retry_after(outcome.headers), maybe_done=again and status != 429)


def error_of(answer: Answer) -> ServiceError:
    """Return the error that an answer tells of, also if a stranger on the way gave it."""
    status = answer.status
    kind = ServiceUnavailable if status >= 500 or status == 429 else ServiceError
    try:
        told: Any = json.loads(answer.body)["error"]
        message, code, field = str(told["message"]), str(told["code"]), told.get("field")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return kind(_stranger(answer), status=status, code=f"http_{status}")
    if hint := _HINTS.get(code):
        message = f"{message} ({hint})"
    return kind(message, status=status, code=code, field=field if isinstance(field, str) else None)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float:
    """Return the seconds of ``Retry-After``, 0 if there is none that can be read.

    Examples
    --------
    >>> retry_after({"Retry-After": "2"})
    2.0
    >>> retry_after({"Retry-After": "Fri, 02 Jan 2026 00:00:09 GMT"}, datetime(2026, 1, 2, tzinfo=UTC))
    9.0
    >>> [retry_after(headers) for headers in ({}, {"Retry-After": "soon"}, {"Retry-After": "-3"})]
    [0.0, 0.0, 0.0]
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        then = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())


def _parsed(answer: Answer, call: Call[Any]) -> Any:
    return None if answer.status == 204 or call.save_to is not None else json.loads(answer.body)


def _stranger(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        place = answer.headers.get("Location", "another place")
        return f"status {answer.status}: the address leads on to {place}; make base_url the address of posse serve"
    return f"status {answer.status} without the error that posse serve would send; is base_url the address of it?"
