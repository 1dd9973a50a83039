"""What routes share."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from posse.service.definition import require_label
from posse.service.engine import Engine
from posse.service.http.access import require
from posse.service.http.errors import ApiError
from posse.service.keys import FLEET_NAME
from posse.service.live_fleet import LiveFleet
from posse.service.rewarding import LONGEST_ID
from posse.service.roster import unknown_fleet
from posse.service.worker_process import stream_from_process

Result = TypeVar("Result")

FLEET_THREADS = 4  # requests for one fleet that are worked on, or wait for it, side by side
MOST_STREAMS = 8  # processes that write what is streamed
MOST_WAITING = 16  # requests that wait for something that is done one at a time

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

ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "maxLength": LONGEST_ID},
    "example": "3f1c0a9b2d4e-17",
}
"""The same for a hot route."""


def new_router(**settings: Any) -> APIRouter:
    """Return a router for routes of the API."""
    return APIRouter(prefix="/v1", route_class=APIRoute, **settings)


def engine_of(request: Request) -> Engine:
    """Return what runs behind the routes."""
    engine: Engine = request.app.state.engine
    return engine


async def live_of(engine: Engine, fleet: str) -> LiveFleet:
    """Return a fleet that serves; one that another process has just made is loaded."""
    if engine.knows(fleet):
        return engine.live(fleet)
    if re.fullmatch(FLEET_NAME, fleet) is None:
        raise unknown_fleet(fleet)
    return await run_in_threadpool(engine.look_for, fleet)


async def _fleet(request: Request, fleet: FleetName) -> LiveFleet:
    return await live_of(engine_of(request), fleet)


async def _stored(request: Request, fleet: FleetName) -> str:
    """Return the name of a fleet that is there, also if it is set aside: its log can be read all the same."""
    engine = engine_of(request)
    if not engine.knows(fleet):
        with suppress_set_aside():
            await live_of(engine, fleet)
    return fleet


@contextmanager
def suppress_set_aside() -> Iterator[None]:
    """Go on where a fleet is set aside."""
    try:
        yield
    except ApiError as error:
        if error.code != "fleet_set_aside":
            raise


def _engine(request: Request) -> Engine:
    engine = engine_of(request)
    engine.require_ready()
    return engine


async def _ready(request: Request) -> Engine:
    return _engine(request)


Live = Annotated[LiveFleet, Depends(_fleet)]
Stored = Annotated[str, Depends(_stored)]
Ready = Annotated[Engine, Depends(_ready)]


class SerialExecutor:
    """Does what takes a core and much memory for a while: one at a time, not on the threads that all others need."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)
        self.asked = self.streams = 0
        self._turns = asyncio.Semaphore(MOST_STREAMS)

    async def run(self, function: Callable[..., Result], *values: Any) -> Result:
        """Return what a function returns when it is its turn, or raise if too many wait."""
        if self.asked > MOST_WAITING:
            raise ApiError("rate_limited", "too many tables and values are asked for at once; try again", retry_after=5)
        self.asked += 1
        try:
            return await anyio.to_thread.run_sync(partial(function, *values), limiter=self._limiter)
        finally:
            self.asked -= 1

    def stream(self, module: str, work: dict[str, Any]) -> AsyncIterator[bytes]:
        """Return what another process writes, or raise if too many write something."""
        if self.streams >= MOST_STREAMS:
            raise ApiError("rate_limited", "too many logs are exported at once; try again", retry_after=5)
        return self._stream(module, work)

    async def _stream(self, module: str, work: dict[str, Any]) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            # Those that came at once have all been let in; they wait for each other.
            async with self._turns, aclosing(stream_from_process(module, work)) as blocks:
                async for block in blocks:
                    yield block
        finally:
            self.streams -= 1


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


async def _alone(request: Request) -> SerialExecutor:
    alone: SerialExecutor = request.app.state.alone
    return alone


Serial = Annotated[SerialExecutor, Depends(_alone)]


def scope(name: str) -> list[Any]:
    """Return the dependencies of a route that needs a scope."""
    return [Depends(require(name))]


def checked_task(engine: Engine, task: str) -> str:
    """Return a task's name that came in a path."""
    require_label(task, "a task", engine.settings.limits)
    return task


def require_batch(engine: Engine, items: Sequence[Any], field: str) -> None:
    """Raise if a batch is too long."""
    most = engine.settings.limits.batch
    if len(items) > most:
        raise ApiError("batch_too_large", f"expected at most {most} {field} in a request, got {len(items)}", field)
