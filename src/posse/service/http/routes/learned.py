"""What a fleet has learned and how it does: for the page, and for whoever watches."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse.fleet.rates import expected_rates
from posse.logs.writer import moment
from posse.service.http.answers import answer
from posse.service.http.openapi import READING, failures, with_example
from posse.service.http.routes.common import Live, Ready, Serial, Stored, ask_fleet, new_router, scope
from posse.service.http.routes.tasks import Limit
from posse.service.live_fleet import LiveFleet
from posse.service.value import MOST_ROWS, value_of
from posse.storage import PENDING

router = new_router(tags=["looking"])

BARS = 120  # stretches of time that a picture can show
STRETCHES = (60, 300, 900, 3600, 4 * 3600, 24 * 3600)


@router.get(
    "/fleets/{fleet}/population",
    dependencies=scope("read"),
    summary="What all tasks have in common",
    responses={200: with_example(api.Population), **failures(*READING, 404)},
)
async def population(engine: Ready, live: Live) -> Response:
    """Return every arm's population."""
    found = await ask_fleet(live, partial(_population, live), at_once=False)
    clock = engine.steady.problem
    own = [*([] if clock is None else [clock]), *engine.checker.findings(live.name)]
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
    "/fleets/{fleet}/pending",
    dependencies=scope("read"),
    summary="Decisions that wait for their reward, the oldest first",
    responses={200: with_example(api.Pending), **failures(*READING, 404)},
)
async def pending(engine: Ready, fleet: Stored, limit: Limit = 100) -> Response:
    """Return pending decisions."""

    def read() -> dict[str, Any]:
        rows = engine.storage.decisions(fleet, state=PENDING, limit=limit)
        there = engine.storage.fleet(fleet)
        now = engine.clock()
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


@router.get(
    "/fleets/{fleet}/activity",
    dependencies=scope("read"),
    summary="Decisions and rewards over time",
    responses={200: with_example(api.Activity), **failures(*READING, 404)},
)
async def activity(
    engine: Ready,
    fleet: Stored,
    minutes: Annotated[int, Query(ge=1, le=60 * 24 * 366, description="How far back.")] = 60,
) -> Response:
    """Return what happened, in stretches that a picture can show; those without anything are left out."""
    stretch = next((one for one in STRETCHES if minutes * 60 / one <= BARS), STRETCHES[-1])

    def read() -> dict[str, Any]:
        rows = engine.storage.activity(fleet, engine.clock() - 60 * minutes, stretch)
        return {
            "stretch": stretch,
            "activity": [
                {
                    "time": moment(row.time),
                    "decisions": row.decisions,
                    "rewards": row.rewards,
                    "mean_reward": row.reward_sum / row.rewards if row.rewards else None,
                }
                for row in rows
            ],
        }

    return answer(await run_in_threadpool(read))


@router.get(
    "/fleets/{fleet}/value",
    dependencies=scope("read"),
    summary="Mean reward of the policy against a baseline, by the log",
    responses={200: with_example(api.Value), **failures(*READING, 404)},
)
async def value(
    engine: Ready,
    live: Live,
    alone: Serial,
    baseline: Annotated[
        str, Query(max_length=1010, description="uniform, or arm:NAME", examples=["uniform"])
    ] = "uniform",
    rows: Annotated[int, Query(ge=10, le=MOST_ROWS, description="How many of the newest decisions.")] = 20_000,
) -> Response:
    """Return what the policy earned, and what the baseline would have."""
    return answer(await alone.run(value_of, engine, live, baseline, rows))
