"""Tasks: found, inspected, exported and erased."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.fleet.knowing import about_task
from posse.fleet.rates import expected_rates
from posse.service.definition import complete
from posse.service.http.answers import answer, log_row, task_counts
from posse.service.http.errors import ApiError
from posse.service.http.openapi import READING, failures, with_example
from posse.service.http.routes.common import Live, Ready, Stored, TaskName, ask_fleet, checked_task, new_router, scope
from posse.service.live_fleet import LiveFleet
from posse.storage import TaskRow

router = new_router(tags=["tasks"])

AT_ONCE = 1000  # rows of the log that are read at a time

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]


@router.get(
    "/fleets/{fleet}/tasks",
    dependencies=scope("read"),
    summary="Tasks by name",
    responses={200: with_example(api.TaskList), **failures(*READING, 404)},
)
async def list_tasks(
    engine: Ready,
    fleet: Stored,
    search: Annotated[str, Query(max_length=1000, description="Part of the name; case does not matter.")] = "",
    after: Annotated[str, Query(max_length=1000, description="`next` of the answer before.")] = "",
    limit: Limit = 100,
) -> Response:
    """Return some tasks."""
    if "\0" in search + after:
        return answer({"tasks": [], "next": None})
    rows = await run_in_threadpool(engine.storage.tasks, fleet, search=search, after=after, limit=limit)
    following = rows[-1].task if len(rows) == limit else None
    return answer({"tasks": [task_counts(row) for row in rows], "next": following})


@router.get(
    "/fleets/{fleet}/tasks/{task:path}",
    dependencies=scope("read"),
    summary="What is believed about a task, and what that stands on",
    responses={200: with_example(api.Task), **failures(*READING, 404)},
)
async def get_task(engine: Ready, live: Live, task: TaskName) -> Response:
    """Return the posterior of a task."""
    row = await run_in_threadpool(engine.storage.task, live.name, checked_task(engine, task))
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
        "features": about_task(fleet, row.task),
        "arms": arms,
    }


@router.delete(
    "/fleets/{fleet}/tasks/{task:path}",
    dependencies=scope("admin"),
    summary="Erase a task from the log, from snapshots and from what was learned",
    status_code=204,
    response_class=Response,
    responses=failures(*READING, 404),
)
async def erase_task(engine: Ready, fleet: Stored, task: TaskName) -> Response:
    """Erase a task."""
    erase = partial(engine.erase, fleet, checked_task(engine, task))
    if not await ask_fleet(engine.roster.find(fleet), erase, at_once=False):
        raise unknown_task(task)
    return Response(status_code=204)


@router.get(
    "/fleets/{fleet}/history/{task:path}",
    dependencies=scope("read"),
    summary="Decisions of a task, the newest first",
    responses={200: with_example(api.History), **failures(*READING, 404)},
)
async def history(
    engine: Ready,
    fleet: Stored,
    task: TaskName,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="`next` of the answer before.")] = None,
) -> Response:
    """Return what was decided for a task."""
    checked_task(engine, task)

    def read() -> dict[str, Any]:
        rows = engine.storage.decisions(fleet, before=before, task=task, limit=limit, newest_first=True)
        if not rows and engine.storage.task(fleet, task) is None:
            raise unknown_task(task)
        following = rows[-1].number if len(rows) == limit else None
        found = engine.storage.fleet(fleet)
        family = "number" if found is None else complete(found.definition)["rewards"]
        return {"decisions": [log_row(row) for row in rows], "next": following, "reward_family": family}

    return answer(await run_in_threadpool(read))


@router.get(
    "/fleets/{fleet}/export/{task:path}",
    dependencies=scope("admin"),
    summary="All that is kept about a task",
    responses={200: {"content": {"application/json": {"example": {"task": "store-17"}}}}, **failures(*READING, 404)},
)
async def export(engine: Ready, fleet: Stored, task: TaskName) -> Response:
    """Return everything about a task: its rows of the log, its sums and what is believed."""
    checked_task(engine, task)
    live = engine.roster.find(fleet)

    def read() -> dict[str, Any]:
        row = engine.storage.task(fleet, task)
        if row is None:
            raise unknown_task(task)
        decisions: list[dict[str, Any]] = []
        last = 0
        while rows := engine.storage.decisions(fleet, after=last, task=task, limit=AT_ONCE):
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
