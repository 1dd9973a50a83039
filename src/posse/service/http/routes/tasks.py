"""Tasks: found, inspected, exported and erased, and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.errors import PosseError
from posse.fleet.expecting import expected_rates
from posse.service.contexts import Contexts
from posse.service.definition import complete, known_settings, require_label, task_line
from posse.service.http import requests
from posse.service.http.answers import answer, log_row, task_counts
from posse.service.http.errors import ApiError, api_error
from posse.service.http.requests import json_body
from posse.service.http.routes.common import (
    Before,
    Limit,
    Live,
    Ready,
    Stored,
    TaskName,
    ask_fleet,
    checked_task,
    new_router,
    require_batch,
    route,
)
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet
from posse.service.runtime import Runtime
from posse.storage import TaskRow

router = new_router("tasks")

AboutTasks = Annotated[requests.TaskFeaturesMany, Depends(json_body(requests.TaskFeaturesMany))]
AboutTask = Annotated[requests.TaskFeaturesBody, Depends(json_body(requests.TaskFeaturesBody))]

AT_ONCE = 1000  # rows of the log that are read at a time


@router.get("/fleets/{fleet}/tasks", summary="Tasks by name", **route("read", api.TaskList, 404))
async def list_tasks(
    runtime: Ready,
    fleet: Stored,
    search: Annotated[str, Query(max_length=1000, description="Part of the name; case does not matter.")] = "",
    after: Annotated[str, Query(max_length=1000, description="`next` of the answer before.")] = "",
    limit: Limit = 100,
) -> Response:
    """Return some tasks."""
    if "\0" in search + after:
        return answer({"tasks": [], "next": None})
    rows = await run_in_threadpool(runtime.storage.tasks, fleet, search=search, after=after, limit=limit)
    following = rows[-1].task if len(rows) == limit else None
    return answer({"tasks": [task_counts(row) for row in rows], "next": following})


@router.get(
    "/fleets/{fleet}/tasks/{task:path}", summary="What is believed about a task, and what that stands on",
    **route("read", api.Task, 404),
)  # fmt: skip
async def get_task(runtime: Ready, live: Live, task: TaskName) -> Response:
    """Return the posterior of a task."""
    row = await run_in_threadpool(runtime.storage.task, live.name, checked_task(runtime, task))
    if row is None:
        raise unknown_task(task)
    return answer(await ask_fleet(live, partial(_posterior, live, row), at_once=False))


def _posterior(live: LiveFleet, row: TaskRow) -> dict[str, Any]:
    fleet = live.replica
    known = fleet.knows(row.task)
    coefficients = fleet.coefficients(row.task)
    borrowing = fleet.borrowing(row.task) if known else None
    population, rates = fleet.populations(), expected_rates(fleet, row.task)
    arms = []
    for place, (arm, mean) in enumerate(coefficients.mean.items()):
        shared = population[arm]
        arms.append(
            {
                "arm": arm,
                "retired": shared.retired,
                "rewards": 0.0 if borrowing is None else float(borrowing.rewards[place]),
                "rate": rates[arm]._asdict() if arm in rates else None,
                "mean": mean.tolist(),
                "sd": np.sqrt(np.diagonal(coefficients.covariance[arm])).tolist(),
                "population_mean": shared.mean.tolist(),
                "own_share": 0.0 if borrowing is None else float(borrowing.own_share[place]),
                "borrowed": None if borrowing is None else float(borrowing.borrowed[place]),
            }
        )
    return {
        **task_counts(row),
        "reward_family": fleet.rewards,
        "columns": list(coefficients.columns),
        "features": fleet.about_task(row.task),
        "arms": arms,
    }


@router.delete(
    "/fleets/{fleet}/tasks/{task:path}", summary="Erase a task from the log, from snapshots and from what was learned",
    status_code=204, response_class=Response, **route("admin", None, 404),
)  # fmt: skip
async def erase_task(runtime: Ready, fleet: Stored, task: TaskName) -> Response:
    """Erase a task."""
    erase = partial(runtime.erase, fleet, checked_task(runtime, task))
    if not await ask_fleet(runtime.roster.find(fleet), erase, at_once=False):
        raise unknown_task(task)
    return Response(status_code=204)


@router.get(
    "/fleets/{fleet}/history/{task:path}", summary="Decisions of a task, the newest first",
    **route("read", api.History, 404),
)  # fmt: skip
async def history(
    runtime: Ready,
    fleet: Stored,
    task: TaskName,
    limit: Limit = 100,
    before: Before = None,
) -> Response:
    """Return what was decided for a task."""
    checked_task(runtime, task)

    def read() -> dict[str, Any]:
        rows = runtime.storage.decisions(fleet, before=before, task=task, limit=limit, newest_first=True)
        if not rows and runtime.storage.task(fleet, task) is None:
            raise unknown_task(task)
        following = rows[-1].number if len(rows) == limit else None
        found = runtime.storage.fleet(fleet)
        family = "number" if found is None else complete(found.definition)["rewards"]
        return {"decisions": [log_row(row) for row in rows], "next": following, "reward_family": family}

    return answer(await run_in_threadpool(read))


@router.get(
    "/fleets/{fleet}/export/{task:path}", summary="All that is kept about a task",
    **route("admin", {"application/json": {"example": {"task": "store-17"}}}, 404),
)  # fmt: skip
async def export(runtime: Ready, fleet: Stored, task: TaskName) -> Response:
    """Return everything about a task: its rows of the log, its sums and what is believed."""
    checked_task(runtime, task)
    live = runtime.roster.find(fleet)

    def read() -> dict[str, Any]:
        row = runtime.storage.task(fleet, task)
        if row is None:
            raise unknown_task(task)
        decisions: list[dict[str, Any]] = []
        last = 0
        while rows := runtime.storage.decisions(fleet, after=last, task=task, limit=AT_ONCE):
            decisions += [log_row(found) for found in rows]
            last = rows[-1].number
        learned = live.replica.export(task) if live is not None and live.replica.knows(task) else None
        return {"fleet": fleet, **task_counts(row), "learned": learned, "log": decisions}

    response = answer(await ask_fleet(live, read, at_once=False))
    response.headers["content-disposition"] = 'attachment; filename="task.json"'
    return response


def unknown_task(task: str) -> ApiError:
    """Return the error about a task that is not there."""
    return ApiError("unknown_task", f"no task {task[:200]!r} in this fleet: no decision was made for it", "task")


@router.post(
    "/fleets/{fleet}/task-features", summary="Say what is known about tasks",
    description=(
        "For a fleet with task_features: before the first decision of a task, or later when something changes. Tasks "
        "that there were not are there from then on. All of them, or none if one is refused."
    ),
    **route("decide", api.TaskFeaturesAnswer, 404, body=requests.TaskFeaturesMany),
)  # fmt: skip
async def know_tasks(runtime: Ready, body: AboutTasks, live: Live) -> Response:
    """Note what is known about many tasks."""
    require_batch(runtime, list(body.tasks), "tasks")
    await ask_fleet(live, partial(_know, runtime, live, body.tasks, "tasks."), at_once=False)
    return answer({"tasks": len(body.tasks)})


@router.put(
    "/fleets/{fleet}/task-features/{task:path}", summary="Say what is known about a task",
    **route("decide", api.TaskFeaturesAnswer, 404, body=requests.TaskFeaturesBody),
)  # fmt: skip
async def know_task(runtime: Ready, task: TaskName, body: AboutTask, live: Live) -> Response:
    """Note what is known about one task."""
    await ask_fleet(live, partial(_know, runtime, live, {task: body.features}, ""), at_once=False)
    return answer({"tasks": 1})


def _know(runtime: Runtime, live: LiveFleet, tasks: Mapping[str, dict[str, Any]], field: str) -> None:
    """Write features to the log, and let the fleet know them; on a thread that may wait."""
    spec = known_settings(live.definition).get("task_features")
    if spec is None:
        raise ApiError(
            "invalid", "expected a fleet with task_features, got one without; make a fleet that declares them", "fleet"
        )
    plain, lines = Contexts(spec, runtime.settings.limits.number), []
    for task, values in tasks.items():
        try:
            require_label(task, "a task", runtime.settings.limits)
            spec.encode(values)
            lines.append((task, task_line(task, plain.plain(values))))
        except PosseError as error:
            raise api_error(error, f"{field}{task[:100]}" if field else "features") from None
    if not runtime.know_tasks(live, lines):
        raise unknown_fleet(live.name)
