"""What the page leads with: insights and the report, which are made beside requests; and a look at one situation."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.responses import Response

from posse import api
from posse.fleet.expecting import CONFIDENCE
from posse.logs.writer import moment
from posse.service.http import requests
from posse.service.http.answers import answer
from posse.service.http.openapi import READING, WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request
from posse.service.http.routes.common import Live, Ready, ask_fleet, checked_task, live_of, new_router, scope
from posse.service.insights import Insight
from posse.service.live_fleet import LiveFleet

router = new_router(tags=["looking"])

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


def _latest(request: Request, live: LiveFleet) -> tuple[Insight | None, dict[str, Any]]:
    found: Insight | None = request.app.state.insights.latest(live)
    if found is None:
        return None, NOTHING
    made = found.answer.get("made")
    return found, {**NOTHING, **found.answer, "made": None if made is None else moment(made)}


@router.get(
    "/fleets/{fleet}/insights",
    dependencies=scope("read"),
    summary="Uplift of the logged policy, which arm is best where, and what is unusual",
    description=(
        "Made beside requests from an even sample of the log, kept, and made again after a while when there is news; "
        "the first answer may be `making`."
    ),
    responses={200: with_example(api.InsightsAnswer), **failures(*READING, 404)},
)
async def insights(request: Request, engine: Ready, live: Live) -> Response:
    """Return what was found out last, and what is wrong now."""
    told = _latest(request, live)[1]
    clock = engine.steady.problem
    own = [*([] if clock is None else [clock]), *engine.checker.findings(live.name)]
    now = [{"about": "learning", "severity": "warning", "text": text, "what_to_do": ""} for text in own]
    return answer({**told, "findings": [*now, *told["findings"]]})


@router.get(
    "/fleets/{fleet}/report",
    dependencies=scope("read"),
    summary="The report of the fleet and its log, as a page",
    description="The page of `posse report`; 202 while the first one is made, or if there is nothing to report.",
    response_class=Response,
    responses={
        200: {"content": {"text/html": {"example": "<!doctype html>"}}, "description": "The page."},
        202: with_example(api.InsightState),
        **failures(*READING, 404),
    },
)
async def report(request: Request, engine: Ready, live: Live) -> Response:  # noqa: ARG001
    """Return the report that was made last."""
    found, told = _latest(request, live)
    if found is None or not found.report:
        return answer({name: told[name] for name in ("state", "problem", "made")}, 202)
    return Response(found.report, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


@router.post(
    "/fleets/{fleet}/expected",
    dependencies=scope("read"),
    summary="What every arm is expected to earn in a situation; nothing is decided",
    openapi_extra=json_request(requests.Expect),
    responses={200: with_example(api.Expected), **failures(*WRITING, 404)},
)
async def expected(
    engine: Ready, live: Live, body: Annotated[requests.Expect, Depends(json_body(requests.Expect))]
) -> Response:
    """Return what is believed about every arm; nothing is kept."""
    live = await live_of(engine, live.name)  # a body may take its time, and the fleet be another by now
    return answer(
        await ask_fleet(live, partial(_expected, live, checked_task(engine, body.task), body.context), at_once=False)
    )


def _expected(live: LiveFleet, task: str, given: Any) -> dict[str, Any]:
    fleet = live.replica
    context = live.contexts.plain(given)
    table = fleet.expected_many([task], [context], confidence=CONFIDENCE)
    chances = fleet.probabilities([task], [context])[0].tolist()
    names = ("arm", "mean", "low", "high", "probability_best")
    arms = [
        {**{name: row[name] for name in names}, "probability": chance}
        for row, chance in zip(table.iter_rows(named=True), chances, strict=True)
    ]
    return {"task": task, "known": fleet.knows(task), "confidence": CONFIDENCE, "arms": arms}


@router.get(
    "/access",
    dependencies=scope("read"),
    summary="What this key may do",
    responses={200: with_example(api.Access), **failures(*READING)},
)
async def access(request: Request) -> Response:
    """Return the scopes of whoever asks."""
    return answer({"scopes": request.app.state.gate.scopes_of(request)})
