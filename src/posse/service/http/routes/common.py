"""What routes share: how they are described, which fleet they are for, and where their work is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from posse import api
from posse.service.definition import require_label
from posse.service.http.access import require
from posse.service.http.errors import ApiError
from posse.service.http.openapi import READING, WRITING, failures, with_example
from posse.service.http.requests import json_request
from posse.service.jobs import Jobs
from posse.service.keys import FLEET_NAME
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet
from posse.service.runtime import Runtime

Result = TypeVar("Result")

FLEET_THREADS = 4  # requests for one fleet that are worked on, or wait for it, side by side
LONGEST_ID = 100  # characters of the id of a decision

FleetName = Annotated[
    str,
    Path(
        description="Letters, digits, dots, dashes and underscores; 64 at most.",
        pattern=FLEET_NAME,
        examples=["stores"],
    ),
]
TaskName = Annotated[str, Path(description="Percent-encoded; a/b is a%2Fb.", min_length=1, examples=["store-17"])]
DecisionId = Annotated[str, Path(max_length=LONGEST_ID, examples=["3f1c0a9b2d4e-17"])]
ArmName = Annotated[str, Path(description="Percent-encoded.", min_length=1, examples=["newspaper"])]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Before = Annotated[int | None, Query(ge=1, le=2**62, description="`next` of the answer before.")]


def new_router(tag: str) -> APIRouter:
    """Return a router for routes of the API."""
    return APIRouter(prefix="/v1", tags=[tag])


def route(
    scope: str | None, answer: type[api.Answer] | dict[str, Any] | None, *statuses: int,
    body: type[BaseModel] | None = None, also: int | None = None, **extra: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return what a route asks for and how OpenAPI describes it: scope, body, answer and failures.

    Parameters
    ----------
    scope : str or None
        None for a hot route, which checks it itself.
    answer : type, dict or None
        A dict is the content of another kind.
    *statuses : int
        Of failures beside those of all routes that read, or that take a body.
    body : type, optional
    also : int, optional
        Another status of the same answer.
    **extra
        Further parts of the description.
    """
    extra |= {} if body is None else json_request(body)
    responses: dict[int | str, Any] = failures(*(READING if body is None else WRITING), *statuses)
    if answer is not None:
        told = {"content": answer} if isinstance(answer, dict) else with_example(answer)
        responses |= {status: dict(told) for status in (200, also) if status}
    found: dict[str, Any] = {"responses": responses} | ({"openapi_extra": extra} if extra else {})
    return found if scope is None else found | {"dependencies": [Depends(require(scope))]}


async def live_of(runtime: Runtime, fleet: str) -> LiveFleet:
    """Return a fleet that serves; one that another process has just made is loaded."""
    live = runtime.roster.serving(fleet) if runtime.opened else None
    if live is not None:
        return live
    if re.fullmatch(FLEET_NAME, fleet) is None:
        raise unknown_fleet(fleet)
    return await run_in_threadpool(runtime.look_for, fleet)


@contextmanager
def suppress_set_aside() -> Iterator[None]:
    """Go on where a fleet is set aside."""
    try:
        yield
    except ApiError as error:
        if error.code != "fleet_set_aside":
            raise


async def _fleet(request: Request, fleet: FleetName) -> LiveFleet:
    return await live_of(request.app.state.runtime, fleet)


async def _stored(request: Request, fleet: FleetName) -> str:
    runtime = request.app.state.runtime
    if not runtime.knows(fleet):
        with suppress_set_aside():
            await live_of(runtime, fleet)
    return fleet


async def _ready(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    runtime.require_ready()
    return runtime


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


Ready = Annotated[Runtime, Depends(_ready)]
Live = Annotated[LiveFleet, Depends(_fleet)]
"""The fleet of the path, which serves. After a body among a route's parameters it is looked up when that has come."""
Stored = Annotated[str, Depends(_stored)]
"""The name of a fleet that is there, also if it is set aside: its log can be read all the same."""
Working = Annotated[Jobs, Depends(_jobs)]


async def ask_fleet(live: LiveFleet | None, function: Callable[[], Result], *, at_once: bool = True) -> Result:
    """Return what a function of a fleet returns, without making anybody wait who asks for another fleet.

    What is done in a moment is done here, on the loop, unless somebody works on the fleet (a task is erased, say).
    Then, or if it is long (not ``at_once``), it is done on threads that only requests for this fleet use. A fleet that
    is set aside may not be in memory (None): it has no threads of its own.
    """
    if live is None:
        return await run_in_threadpool(function)
    if at_once:
        with live.replica.reserved(live.patience) as reserved:
            if reserved:
                return function()
    if live.threads is None:
        live.threads = anyio.CapacityLimiter(FLEET_THREADS)
    return await anyio.to_thread.run_sync(function, limiter=live.threads)


def checked_task(runtime: Runtime, task: str) -> str:
    """Return a task's name that came in a path."""
    require_label(task, "a task", runtime.settings.limits)
    return task


def require_batch(runtime: Runtime, items: Sequence[Any], field: str) -> None:
    """Raise if a batch is too long."""
    most = runtime.settings.limits.batch
    if len(items) > most:
        raise ApiError("batch_too_large", f"expected at most {most} {field} in a request, got {len(items)}", field)


def require_storable(decision_id: str, field: str | None = "id") -> None:
    """Raise if a text cannot be the id of a decision."""
    if len(decision_id) > LONGEST_ID or not decision_id.isascii() or not decision_id.isprintable():
        raise unknown_decision(decision_id, field)


def unknown_decision(decision_id: str, field: str | None = "id") -> ApiError:
    """Return the error about a decision that is not there."""
    return ApiError(
        "unknown_decision", f"no decision {decision_id[:LONGEST_ID]!r}; pass the id that the service gave", field
    )
