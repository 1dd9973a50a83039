"""What is known about tasks: said before their first decision, or later when it changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import Response

from posse import api
from posse.errors import PosseError
from posse.service.contexts import Contexts
from posse.service.definition import require_label
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.answers import answer
from posse.service.http.errors import ApiError, api_error
from posse.service.http.openapi import WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request
from posse.service.http.routes.common import Live, Ready, TaskName, ask_fleet, live_of, new_router, require_batch, scope
from posse.service.known import known_settings, task_line
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet

router = new_router(tags=["tasks"])


@router.post(
    "/fleets/{fleet}/task-features",
    dependencies=scope("decide"),
    summary="Say what is known about tasks",
    description=(
        "For a fleet with task_features: before the first decision of a task, or later when something changes. Tasks "
        "that there were not are there from then on. All of them, or none if one is refused."
    ),
    openapi_extra=json_request(requests.TaskFeaturesMany),
    responses={200: with_example(api.TaskFeaturesAnswer), **failures(*WRITING, 404)},
)
async def know_tasks(
    engine: Ready,
    live: Live,
    body: Annotated[requests.TaskFeaturesMany, Depends(json_body(requests.TaskFeaturesMany))],
) -> Response:
    """Note what is known about many tasks."""
    live = await live_of(engine, live.name)  # a body may take its time, and the fleet be another by now
    require_batch(engine, list(body.tasks), "tasks")
    await ask_fleet(live, partial(_know, engine, live, body.tasks, "tasks."), at_once=False)
    return answer({"tasks": len(body.tasks)})


@router.put(
    "/fleets/{fleet}/task-features/{task:path}",
    dependencies=scope("decide"),
    summary="Say what is known about a task",
    openapi_extra=json_request(requests.TaskFeaturesBody),
    responses={200: with_example(api.TaskFeaturesAnswer), **failures(*WRITING, 404)},
)
async def know_task(
    engine: Ready,
    live: Live,
    task: TaskName,
    body: Annotated[requests.TaskFeaturesBody, Depends(json_body(requests.TaskFeaturesBody))],
) -> Response:
    """Note what is known about one task."""
    live = await live_of(engine, live.name)  # as above
    await ask_fleet(live, partial(_know, engine, live, {task: body.features}, ""), at_once=False)
    return answer({"tasks": 1})


def _know(engine: Engine, live: LiveFleet, tasks: Mapping[str, dict[str, Any]], field: str) -> None:
    """Write features to the log, and let the fleet know them; on a thread that may wait."""
    spec = known_settings(live.definition).get("task_features")
    if spec is None:
        raise ApiError(
            "invalid", "expected a fleet with task_features, got one without; make a fleet that declares them", "fleet"
        )
    plain, lines = Contexts(spec, engine.settings.limits.number), []
    for task, values in tasks.items():
        try:
            require_label(task, "a task", engine.settings.limits)
            spec.encode(values)
            lines.append((task, task_line(task, plain.plain(values))))
        except PosseError as error:
            raise api_error(error, f"{field}{task[:100]}" if field else "features") from None
    if not engine.know_tasks(live, lines):
        raise unknown_fleet(live.name)
