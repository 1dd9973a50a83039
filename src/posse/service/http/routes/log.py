"""The log as a file."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from posse import api
from posse.service.definition import complete
from posse.service.export import is_long, json_lines, rows_of, write_parquet
from posse.service.http import requests
from posse.service.http.answers import answer
from posse.service.http.errors import ApiError
from posse.service.http.openapi import READING, WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request
from posse.service.http.routes.common import (
    Live,
    Ready,
    Serial,
    Stored,
    ask_fleet,
    live_of,
    new_router,
    require_batch,
    scope,
)
from posse.service.ingesting import entries_of
from posse.service.log_process import JSON_LINES, LOG_PROCESS
from posse.service.rewarding import REFUSED, rewarded
from posse.service.worker_process import BLOCK, run_in_process
from posse.storage import ACCEPTED, NewDecision, NewReward

router = new_router(tags=["log"])

PARQUET_MEDIA = "application/vnd.apache.parquet"
LINES_MEDIA = "application/x-ndjson"
LOOK_SECONDS = 0.25  # between two looks whether somebody still waits for a file


@router.get(
    "/fleets/{fleet}/log",
    dependencies=scope("read"),
    summary="All decisions with their rewards, as a file",
    response_class=Response,
    responses={
        200: {
            "content": {
                LINES_MEDIA: {"example": '{"decision_id": "3f1c0a9b2d4e-17", "task": "store-17", "arm": "coffee"}\n'},
                PARQUET_MEDIA: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
            }
        },
        **failures(*READING, 404),
    },
)
async def log(
    request: Request,
    engine: Ready,
    fleet: Stored,
    alone: Serial,
    format: Annotated[Literal["jsonl", "parquet"], Query(description="jsonl or parquet")] = "jsonl",  # noqa: A002
) -> Response:
    """Stream the log."""
    headers = {"content-disposition": f'attachment; filename="{fleet}.{format}"'}

    def look() -> tuple[bool, dict[str, str]]:
        row = engine.storage.fleet(fleet)
        rewards = "number" if row is None else str(complete(row.definition)["rewards"])
        work = {"job": format, "database": engine.settings.database, "fleet": fleet, "rewards": rewards}
        return is_long(engine.storage, fleet), work

    is_apart, work = await run_in_threadpool(look)
    if format == JSON_LINES:
        if not is_apart:
            lines = json_lines(rows_of(engine.storage, fleet), work["rewards"])
            return StreamingResponse(lines, media_type=LINES_MEDIA, headers=headers)
        return StreamingResponse(alone.stream(LOG_PROCESS, work), media_type=LINES_MEDIA, headers=headers)
    folder = tempfile.TemporaryDirectory(prefix="posse-")
    path = Path(folder.name) / "log.parquet"
    gone = threading.Event()

    def write() -> None:
        if is_apart:
            # Who has asked in vain asks again: without this, exports would queue for nobody, and keep a stop waiting.
            run_in_process(LOG_PROCESS, work | {"path": str(path)}, lambda: gone.is_set() or engine.stopping)
        else:
            write_parquet(rows_of(engine.storage, fleet), path, work["rewards"])

    watching = asyncio.create_task(_note_leaving(request, gone))
    try:
        await alone.run(write)
    except BaseException:
        folder.cleanup()
        raise
    finally:
        watching.cancel()

    def blocks() -> Iterator[bytes]:
        with folder, path.open("rb") as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")

    return StreamingResponse(blocks(), media_type=PARQUET_MEDIA, headers=headers)


async def _note_leaving(request: Request, gone: threading.Event) -> None:
    """Note that whoever asked has closed the connection."""
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK_SECONDS)
    gone.set()


@router.post(
    "/fleets/{fleet}/log",
    dependencies=scope("admin"),
    summary="Take in decisions that were made elsewhere, with their rewards",
    description="All or none; rows are those of an export. A row that was taken in before changes nothing.",
    openapi_extra=json_request(requests.LogEntries),
    responses={200: with_example(api.IngestAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def ingest(
    engine: Ready, live: Live, body: Annotated[requests.LogEntries, Depends(json_body(requests.LogEntries))]
) -> Response:
    """Write rows to the log, and learn them."""
    require_batch(engine, body.rows, "rows")
    live = await live_of(engine, live.name)  # a body may take its time, and the fleet be another by now
    if not body.rows:
        return answer({"decisions": 0, "rewards": 0, "same": 0})

    def make() -> list[list[NewDecision | NewReward]]:
        return [entries_of(engine, live, row, f"rows.{i}") for i, row in enumerate(body.rows)]

    groups = await ask_fleet(live, make, at_once=False)
    entries = [entry for group in groups for entry in group]
    outcomes = await engine.writer.write(entries)
    for place, (entry, outcome) in enumerate(zip(entries, outcomes, strict=True)):
        if outcome.kind in REFUSED:
            field = f"rows.{_row_of(groups, place)}"
            if isinstance(entry, NewReward):
                rewarded(entry, outcome, field)
            raise ApiError(
                "reward_conflict",
                f"there is another decision {entry.id!r} in the log; an id names one decision of all fleets",
                f"{field}.decision_id",
            )
    new = [outcome.kind == ACCEPTED for outcome in outcomes]
    decisions = sum(one for one, entry in zip(new, entries, strict=True) if isinstance(entry, NewDecision))
    position, same = 0, 0
    for group in groups:
        same += not any(new[position : position + len(group)])
        position += len(group)
    return answer({"decisions": decisions, "rewards": sum(new) - decisions, "same": same})


def _row_of(groups: list[list[NewDecision | NewReward]], place: int) -> int:
    for number, group in enumerate(groups):
        place -= len(group)
        if place < 0:
            return number
    return len(groups) - 1
