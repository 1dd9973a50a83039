"""What a fleet has learned, how it does, and what was found out about it: for the page, and for whoever watches."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.fleet.expecting import CONFIDENCE, expected_rates
from posse.logs.writer import moment
from posse.service.http import requests
from posse.service.http.answers import answer
from posse.service.http.openapi import with_example
from posse.service.http.requests import json_body
from posse.service.http.routes.common import (
    Limit,
    Live,
    Ready,
    Stored,
    Working,
    ask_fleet,
    checked_task,
    new_router,
    route,
)
from posse.service.insights import MOST_VALUED, Insight, value_of
from posse.service.live_fleet import LiveFleet
from posse.storage import PENDING

router = new_router("looking")

Expect = Annotated[requests.Expect, Depends(json_body(requests.Expect))]
BARS = 120  # stretches of time that a picture can show
STRETCHES = (60, 300, 900, 3600, 4 * 3600, 24 * 3600)

NOTHING: dict[str, Any] = {
    "state": "making", "problem": None, "made": None, "rows": 0, "decisions": 0, "rewards": 0,
    "confidence": CONFIDENCE, "earned": None, "gains": [], "over_time": None, "arms": [], "segments": [], "tasks": [],
    "unusual": [], "findings": [],
}  # fmt: skip
"""What is told before anything was made."""

REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The report has its own script, and its own rule that lets no other run; it must not act as this service's page."""
REPORT = route("read", {"text/html": {"example": "<!doctype html>"}}, 404)
REPORT["responses"][200]["description"] = "The page."
REPORT["responses"][202] = with_example(api.InsightState)


@router.get("/fleets/{fleet}/population", summary="What all tasks have in common", **route("read", api.Population, 404))
async def population(runtime: Ready, live: Live) -> Response:
    """Return every arm's population."""
    found = await ask_fleet(live, partial(_population, live), at_once=False)
    clock = runtime.steady.problem
    own = [*([] if clock is None else [clock]), *runtime.checker.findings(live.name)]
    found["findings"] = [*own, *found["findings"]]
    return answer(found)


def _population(live: LiveFleet) -> dict[str, Any]:
    overview, rates = live.replica.overview(0).to_json(), expected_rates(live.replica)
    return {
        "policy": overview["policy"],
        "prior": overview["prior"],
        "reward_family": overview["rewards"],
        "columns": overview["columns"],
        "refreshed_rewards": live.replica.estimated_at,
        "findings": overview["findings"],
        "effects": live.replica.effects(),
        "arms": [
            arm | {"rate": rates[arm["arm"]]._asdict() if arm["arm"] in rates else None} for arm in overview["arms"]
        ],
    }


@router.get(
    "/fleets/{fleet}/pending", summary="Decisions that wait for their reward, the oldest first",
    **route("read", api.Pending, 404),
)  # fmt: skip
async def pending(runtime: Ready, fleet: Stored, limit: Limit = 100) -> Response:
    """Return pending decisions."""

    def read() -> dict[str, Any]:
        rows = runtime.storage.decisions(fleet, state=PENDING, limit=limit)
        there = runtime.storage.fleet(fleet)
        now = runtime.clock()
        return {
            "pending": [
                {
                    "id": row.id,
                    "task": row.task,
                    "arm": row.arm,
                    "time": moment(row.time),
                    "age": max(now - row.time, 0.0),
                }
                for row in rows
            ],
            "total": there.pending if there is not None else 0,
        }

    return answer(await run_in_threadpool(read))


@router.get("/fleets/{fleet}/activity", summary="Decisions and rewards over time", **route("read", api.Activity, 404))
async def activity(
    runtime: Ready,
    fleet: Stored,
    minutes: Annotated[int, Query(ge=1, le=60 * 24 * 366, description="How far back.")] = 60,
) -> Response:
    """Return what happened, in stretches that a picture can show; those without anything are left out."""
    stretch = next((one for one in STRETCHES if minutes * 60 / one <= BARS), STRETCHES[-1])

    def read() -> dict[str, Any]:
        rows = runtime.storage.activity(fleet, runtime.clock() - 60 * minutes, stretch)
        return {
            "stretch": stretch,
            "activity": [
                {"time": moment(row.time), "decisions": row.decisions, "rewards": row.rewards,
                 "mean_reward": row.reward_sum / row.rewards if row.rewards else None}
                for row in rows
            ],
        }  # fmt: skip

    return answer(await run_in_threadpool(read))


@router.get(
    "/fleets/{fleet}/value", summary="Mean reward of the policy against a baseline, by the log",
    **route("read", api.Value, 404),
)  # fmt: skip
async def value(
    runtime: Ready,
    live: Live,
    working: Working,
    baseline: Annotated[
        str, Query(max_length=1010, description="uniform, or arm:NAME", examples=["uniform"])
    ] = "uniform",
    rows: Annotated[int, Query(ge=10, le=MOST_VALUED, description="How many of the newest decisions.")] = 20_000,
) -> Response:
    """Return what the policy earned, and what the baseline would have."""
    return answer(await working.run(value_of, runtime, live, baseline, rows))


def _latest(request: Request, live: LiveFleet) -> tuple[Insight | None, dict[str, Any]]:
    found: Insight | None = request.app.state.insights.latest(live)
    if found is None:
        return None, NOTHING
    made = found.answer.get("made")
    return found, {**NOTHING, **found.answer, "made": None if made is None else moment(made)}


@router.get(
    "/fleets/{fleet}/insights", summary="Uplift of the logged policy, which arm is best where, and what is unusual",
    description=(
        "Made beside requests from an even sample of the log, kept, and made again after a while when there is news; "
        "the first answer may be `making`."
    ),
    **route("read", api.InsightsAnswer, 404),
)  # fmt: skip
async def insights(request: Request, runtime: Ready, live: Live) -> Response:
    """Return what was found out last, and what is wrong now."""
    told = _latest(request, live)[1]
    clock = runtime.steady.problem
    own = [*([] if clock is None else [clock]), *runtime.checker.findings(live.name)]
    now = [{"about": "learning", "severity": "warning", "text": text, "what_to_do": ""} for text in own]
    return answer({**told, "findings": [*now, *told["findings"]]})


@router.get(
    "/fleets/{fleet}/report", summary="The report of the fleet and its log, as a page", response_class=Response,
    description="The page of `posse report`; 202 while the first one is made, or if there is nothing to report.",
    **REPORT,
)  # fmt: skip
async def report(request: Request, runtime: Ready, live: Live) -> Response:  # noqa: ARG001
    """Return the report that was made last."""
    found, told = _latest(request, live)
    if found is None or not found.report:
        return answer({name: told[name] for name in ("state", "problem", "made")}, 202)
    return Response(found.report, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


@router.post(
    "/fleets/{fleet}/expected", summary="What every arm is expected to earn in a situation; nothing is decided",
    **route("read", api.Expected, 404, body=requests.Expect),
)  # fmt: skip
async def expected(runtime: Ready, body: Expect, live: Live) -> Response:
    """Return what is believed about every arm; nothing is kept."""
    look = partial(_expected, live, checked_task(runtime, body.task), body.context)
    return answer(await ask_fleet(live, look, at_once=False))


def _expected(live: LiveFleet, task: str, given: Any) -> dict[str, Any]:
    fleet = live.replica
    context = live.contexts.plain(given)
    table = fleet.expected_many([task], [context], confidence=CONFIDENCE)
    chances = fleet.probabilities([task], [context])[0].tolist()
    names = [name for name in ("arm", "mean", "low", "high", "probability_best", "worth") if name in table.columns]
    arms = [
        {**{name: row[name] for name in names}, "probability": chance}
        for row, chance in zip(table.iter_rows(named=True), chances, strict=True)
    ]
    return {"task": task, "known": fleet.knows(task), "confidence": CONFIDENCE, "arms": arms}


@router.get("/access", summary="What this key may do", **route("read", api.Access))
async def access(request: Request) -> Response:
    """Return the scopes of whoever asks."""
    return answer({"scopes": request.app.state.gate.scopes_of(request)})
