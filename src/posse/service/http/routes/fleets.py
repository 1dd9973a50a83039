"""Fleets: made, looked at, changed and deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.logs.schema import PRICES
from posse.service.definition import (
    ABOUT,
    CATALOGUE,
    active_arms,
    complete,
    new_definition,
    require_cells,
    require_label,
    with_arm,
    with_prices,
)
from posse.service.http import requests
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer, fleet_answer
from posse.service.http.errors import ApiError
from posse.service.http.requests import json_body
from posse.service.http.routes.common import (
    ArmName,
    FleetName,
    Live,
    Ready,
    Stored,
    live_of,
    new_router,
    route,
    suppress_set_aside,
)
from posse.service.roster import unknown_fleet
from posse.service.runtime import Runtime
from posse.storage import FleetRow

router = new_router("fleets")

Definition = Annotated[requests.Definition, Depends(json_body(requests.Definition))]
NewArm = Annotated[requests.ArmBody, Depends(json_body(requests.ArmBody))]


@router.get("/fleets", summary="All fleets with their counts", **route("read", api.Fleets))
async def list_fleets(request: Request, runtime: Ready) -> Response:
    """Return all fleets that the key is for."""
    rows, allowed = await run_in_threadpool(runtime.storage.fleets), fleets_of(request)
    found = []
    for row in rows:
        if allowed and row.name not in allowed:
            continue
        with suppress(ApiError):  # it was deleted just now
            found.append(await _described(runtime, row))
    return answer({"fleets": found})


@router.put(
    "/fleets/{fleet}", summary="Make a fleet", status_code=201,
    description="The same definition again is answered with 200 and the fleet that is there.",
    **route("admin", api.Fleet, 409, body=requests.Definition, also=201),
)  # fmt: skip
async def put_fleet(fleet: FleetName, runtime: Ready, body: Definition) -> Response:
    """Make a fleet."""

    def make() -> int:
        definition = new_definition(body.model_dump(), runtime.settings.limits)
        most = runtime.settings.limits.fleets
        if runtime.storage.fleet(fleet) is None and len(runtime.storage.progress()) >= most:
            raise ApiError("invalid", f"this service allows {most} fleets (limits.fleets); delete one first")
        if runtime.writer.run(lambda: runtime.storage.create_fleet(fleet, definition, runtime.clock())):
            return 201
        there = runtime.storage.fleet(fleet)
        if there is not None and _same(there.definition, definition):
            return 200
        raise ApiError(
            "fleet_exists",
            f"there is a fleet {fleet!r} with another definition; look at it with GET, take another name, or delete it",
            "fleet",
        )

    status = await run_in_threadpool(make)
    return await _answer(runtime, fleet, status)


def _same(there: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Whether a fleet is what was asked for; arms that came or went since do not matter, nor prices that changed."""
    first = there["arms"][: there["first_arms"]]
    known = {ABOUT: {arm: about for arm, about in there[ABOUT].items() if arm in first}} if ABOUT in asked else {}
    there = {name: value for name, value in there.items() if name != ABOUT or ABOUT in asked}
    there = {name: value for name, value in there.items() if name not in PRICES} | there.get("first_prices", {})
    return {**complete(there), **known, "arms": first, "retired": []} == asked


@router.get("/fleets/{fleet}", summary="A fleet with its counts", **route("read", api.Fleet, 404))
async def get_fleet(fleet: FleetName, runtime: Ready) -> Response:
    """Return a fleet."""
    return await _answer(runtime, fleet)


@router.delete(
    "/fleets/{fleet}", summary="Delete a fleet with its log", status_code=204, response_class=Response,
    **route("admin", None, 404),
)  # fmt: skip
async def delete_fleet(fleet: FleetName, runtime: Ready) -> Response:
    """Delete a fleet."""

    def delete() -> bool:
        gone: bool = runtime.writer.run(lambda: runtime.storage.delete_fleet(fleet))
        runtime.roster.drop(fleet)
        return gone

    if not await run_in_threadpool(delete):
        raise unknown_fleet(fleet)
    return Response(status_code=204)


@router.post(
    "/fleets/{fleet}/arms", summary="Add an arm, bring a retired one back, or change what its rewards are worth",
    **route("admin", api.Fleet, 404, 409, body=requests.ArmBody),
)  # fmt: skip
async def add_arm(runtime: Ready, body: NewArm, live: Live) -> Response:
    """Add an arm."""
    limits, arm = runtime.settings.limits, body.arm
    require_label(arm, "an arm", limits)

    def change(definition: dict[str, Any]) -> dict[str, Any]:
        if definition.get("kind") == CATALOGUE:
            raise ApiError("invalid", "arms of a catalogue come with every request; there is nothing to add", "fleet")
        if arm in active_arms(definition) and body.value is None and body.cost is None:
            raise ApiError("arm_exists", f"there is an arm {arm!r} already", "arm")
        arms = definition["arms"] if arm in definition["arms"] else [*definition["arms"], arm]
        if len(arms) > limits.arms:
            raise ApiError("invalid", f"this service allows {limits.arms} arms (limits.arms)", "arm")
        require_cells(len(arms), live.replica.features.n_features, limits)
        if body.features is not None:
            definition = with_arm(definition, arm, body.features, limits)
        definition = with_prices(definition, arm, body.value, body.cost)
        return {**definition, "arms": arms, "retired": [name for name in definition["retired"] if name != arm]}

    await run_in_threadpool(runtime.change_arms, live, change)
    return await _answer(runtime, live.name)


@router.delete(
    "/fleets/{fleet}/arms/{arm:path}", summary="Retire an arm: it is chosen no more, its rewards still count",
    **route("admin", api.Fleet, 404),
)  # fmt: skip
async def retire_arm(runtime: Ready, live: Live, arm: ArmName) -> Response:
    """Retire an arm."""

    def change(definition: dict[str, Any]) -> dict[str, Any]:
        if arm not in definition["arms"]:
            arms = ", ".join(definition["arms"])
            raise ApiError("unknown_arm", f"no arm {arm!r}; the arms are {arms}", "arm")
        active = active_arms(definition)
        if active == [arm]:
            raise ApiError("invalid", f"arm {arm!r} is the last one; add another before it is retired", "arm")
        return {**definition, "retired": [*definition["retired"], arm]} if arm in active else definition

    await run_in_threadpool(runtime.change_arms, live, change)
    return await _answer(runtime, live.name)


@router.post(
    "/fleets/{fleet}/repair", summary="Build a fleet again from its log",
    description="For one that is set aside; one that serves goes on meanwhile, and is replaced by what its log says.",
    **route("admin", api.Fleet, 404),
)  # fmt: skip
async def repair_fleet(runtime: Ready, fleet: Stored) -> Response:
    """Build a fleet again."""
    await run_in_threadpool(runtime.repair, fleet)
    return await _answer(runtime, fleet)


async def _answer(runtime: Runtime, name: str, status: int = 200) -> Response:
    row = await run_in_threadpool(runtime.storage.fleet, name)
    if row is None:
        raise unknown_fleet(name)
    return answer(await _described(runtime, row), status)


async def _described(runtime: Runtime, row: FleetRow) -> dict[str, Any]:
    with suppress_set_aside():
        await live_of(runtime, row.name)
    return fleet_answer(row, runtime.roster.find(row.name), *runtime.roster.state_of(row.name))
