"""The log of a fleet as a file, and decisions that were made elsewhere."""

from __future__ import annotations

import asyncio
import math
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from posse import api
from posse._version import __version__
from posse.errors import InvalidValue, PosseError
from posse.families import family_of
from posse.logs.schema import PRICES
from posse.service.definition import CATALOGUE, complete, require_label, task_names
from posse.service.export import is_long, json_lines, rows_of, write_parquet
from posse.service.http import requests
from posse.service.http.answers import answer
from posse.service.http.errors import ApiError, api_error
from posse.service.http.requests import json_body
from posse.service.http.routes.common import (
    Live,
    Ready,
    Stored,
    Working,
    ask_fleet,
    new_router,
    require_batch,
    route,
)
from posse.service.http.routes.rewarding import REFUSED, rewarded
from posse.service.jobs import BLOCK, JSON_LINES, run_job
from posse.service.live_fleet import LiveFleet
from posse.service.runtime import Runtime
from posse.storage import ACCEPTED, NewDecision, NewReward

router = new_router("log")

PARQUET_MEDIA = "application/vnd.apache.parquet"
LINES_MEDIA = "application/x-ndjson"
FILES = {
    LINES_MEDIA: {"example": '{"decision_id": "3f1c0a9b2d4e-17", "task": "store-17", "arm": "coffee"}\n'},
    PARQUET_MEDIA: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
}
LOOK_SECONDS = 0.25  # between two looks whether somebody still waits for a file
AHEAD = 60.0  # seconds by which a time may be ahead of the clock
EVENT = "ingested"  # the name of a reward, where a fleet takes several
POLICY = "ingested"  # of decisions that do not say who made them

Rows = Annotated[requests.LogEntries, Depends(json_body(requests.LogEntries))]


@router.get(
    "/fleets/{fleet}/log", summary="All decisions with their rewards, as a file", response_class=Response,
    **route("read", FILES, 404),
)  # fmt: skip
async def log(
    request: Request,
    runtime: Ready,
    fleet: Stored,
    working: Working,
    format: Annotated[Literal["jsonl", "parquet"], Query(description="jsonl or parquet")] = "jsonl",  # noqa: A002
) -> Response:
    """Stream the log."""
    headers = {"content-disposition": f'attachment; filename="{fleet}.{format}"'}

    def look() -> tuple[bool, dict[str, str]]:
        row = runtime.storage.fleet(fleet)
        rewards = "number" if row is None else str(complete(row.definition)["rewards"])
        work = {"job": format, "database": runtime.settings.database, "fleet": fleet, "rewards": rewards}
        return is_long(runtime.storage, fleet), work

    is_apart, work = await run_in_threadpool(look)
    if format == JSON_LINES:
        if not is_apart:
            lines = json_lines(rows_of(runtime.storage, fleet), work["rewards"])
            return StreamingResponse(lines, media_type=LINES_MEDIA, headers=headers)
        return StreamingResponse(working.stream(work), media_type=LINES_MEDIA, headers=headers)
    folder = tempfile.TemporaryDirectory(prefix="posse-")
    path = Path(folder.name) / "log.parquet"
    gone = threading.Event()

    def write() -> None:
        if is_apart:
            # Who has asked in vain asks again: without this, exports would queue for nobody, and keep a stop waiting.
            run_job(work | {"path": str(path)}, lambda: gone.is_set() or runtime.stopping)
        else:
            write_parquet(rows_of(runtime.storage, fleet), path, work["rewards"])

    watching = asyncio.create_task(_note_leaving(request, gone))
    try:
        await working.run(write)
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
    "/fleets/{fleet}/log", summary="Take in decisions that were made elsewhere, with their rewards",
    description="All or none; rows are those of an export. A row that was taken in before changes nothing.",
    **route("admin", api.IngestAnswer, 404, 409, 410, body=requests.LogEntries),
)  # fmt: skip
async def ingest(runtime: Ready, body: Rows, live: Live) -> Response:
    """Write rows to the log, and learn them."""
    require_batch(runtime, body.rows, "rows")
    if not body.rows:
        return answer({"decisions": 0, "rewards": 0, "same": 0})

    def make() -> list[list[NewDecision | NewReward]]:
        return [entries_of(runtime, live, row, f"rows.{i}") for i, row in enumerate(body.rows)]

    groups = await ask_fleet(live, make, at_once=False)
    entries = [entry for group in groups for entry in group]
    outcomes = await runtime.writer.write(entries)
    for place, (entry, outcome) in enumerate(zip(entries, outcomes, strict=True)):
        if outcome.kind in REFUSED:
            field = f"rows.{_row_of(groups, place)}"
            if isinstance(entry, NewReward):
                rewarded(runtime, entry, outcome, field)
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


def entries_of(runtime: Runtime, live: LiveFleet, row: requests.LogEntry, field: str) -> list[NewDecision | NewReward]:
    """Return what is written for a row: the decision, and its reward if it has one; raise what is wrong with it."""
    try:
        return _entries(runtime, live, row)
    except PosseError as error:
        raise api_error(error, field) from None


def _entries(runtime: Runtime, live: LiveFleet, row: requests.LogEntry) -> list[NewDecision | NewReward]:
    limits, now = runtime.settings.limits, runtime.clock()
    require_label(row.decision_id, "a decision id", limits)
    if not row.decision_id.isascii() or len(row.decision_id) > 100:
        raise InvalidValue(f"expected a decision id of at most 100 ASCII characters, got {row.decision_id[:100]!r}")
    require_label(row.task, "a task", limits)
    if live.definition.get("kind") == CATALOGUE:
        raise InvalidValue("expected a fleet of fixed arms, got a catalogue, which takes in nothing decided elsewhere")
    arms = live.definition["arms"]
    if row.arm not in arms:
        raise InvalidValue(f"expected an arm of {', '.join(arms)}, got {row.arm!r}; add it to the fleet first")
    eligible = [row.arm] if row.eligible is None else row.eligible
    if row.arm not in eligible:
        raise InvalidValue(f"expected the chosen arm {row.arm!r} among the eligible ones, got {', '.join(eligible)}")
    lists = ("probabilities", "expected_rewards", *PRICES)
    for name, values in ((name, getattr(row, name)) for name in lists):
        if values is not None and len(values) != len(eligible):
            raise InvalidValue(f"expected {len(eligible)} {name}, one per eligible arm, got {len(values)}")
    propensity = row.propensity
    if propensity is None and row.probabilities is not None:
        propensity = row.probabilities[eligible.index(row.arm)]
    if propensity is None or not 0 < propensity <= 1:
        raise InvalidValue(
            f"expected a propensity above 0 and at most 1 (how probable the arm was), got {propensity}; a rule without "
            "chance has 1"
        )
    # An exported context has what was known about the task, too.
    about = {name: row.context[name] for name in task_names(live.definition) if name in row.context}
    context = {name: value for name, value in row.context.items() if name not in about}
    live.replica.features.encode(context)
    body = {
        "context": live.contexts.plain(context),
        "eligible": eligible,
        "probabilities": row.probabilities or [],
        "mean": row.expected_rewards or [],
        "sd": [],
        **({"task_features": about} if about else {}),
        **{name: values for name in PRICES if (values := getattr(row, name)) is not None},
    }
    time = _seconds(row.time, now, "time")
    entries: list[NewDecision | NewReward] = [
        NewDecision(
            fleet=live.name, id=row.decision_id, time=time, task=row.task, arm=row.arm, propensity=propensity,
            body=to_json(body).decode(), policy=(row.policy or POLICY)[:100],
            version=(row.version or __version__)[:100], created=live.created,
        )
    ]  # fmt: skip
    if row.reward_family not in (None, family := complete(live.definition)["rewards"]):
        raise InvalidValue(f"expected a row of rewards that are {family!r}, as the fleet's, got {row.reward_family!r}")
    if row.reward is not None:
        if family == "number" and isinstance(row.reward, bool):
            raise InvalidValue("expected a number as the reward, got true or false, which are rewards of clicks")
        family_of(family).check(row.reward)
        if not abs(row.reward) <= limits.number:
            raise InvalidValue(
                f"expected a reward of at most {limits.number:g} in size (limits.number), got {row.reward:g}"
            )
        came = time if row.reward_time is None else _seconds(row.reward_time, now, "reward_time")
        truth, moment = isinstance(row.reward, bool), max(came, time)
        entries.append(NewReward(row.decision_id, float(row.reward), moment, truth=truth, event=EVENT))
    return entries


def _seconds(text: str, now: float, what: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"expected {what} as 2026-01-31T09:30:00Z, got {text[:50]!r}") from None
    seconds = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds) or seconds > now + AHEAD:
        raise InvalidValue(f"expected {what} to be over, got {text[:50]!r}, which is to come")
    return seconds
