"""Rankings: several arms for one request, each place a decision of the log."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import Response

from posse import api
from posse._version import __version__
from posse.errors import PosseError
from posse.fleet.decision import Decision
from posse.fleet.knowing import about_task
from posse.service.deciding import all_decided, wrong_part
from posse.service.definition import require_label
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.answers import answer, decision_answer, decision_body
from posse.service.http.errors import ApiError, api_error
from posse.service.http.openapi import WRITING, failures, with_example
from posse.service.http.requests import json_body, json_request
from posse.service.http.routes.common import Live, Ready, ask_fleet, live_of, new_router, scope
from posse.service.http.routes.decisions import Key
from posse.service.live_fleet import LiveFleet
from posse.storage import NewDecision

router = new_router(tags=["decisions"])


@router.post(
    "/fleets/{fleet}/rankings",
    dependencies=scope("decide"),
    summary="Ask for a ranking",
    description=(
        "Distinct arms for one request, best place first. Each place is a decision among the arms that the places "
        "above have left, with an id, a propensity and a reward of its own. The reward of an arm is taken not to "
        "depend on its place, nor on the other places. With an Idempotency-Key, the key of place i is `key/i`, from 0."
    ),
    openapi_extra=json_request(requests.AskRanking),
    responses={200: with_example(api.RankingAnswer), **failures(*WRITING, 404, 409)},
)
async def rank(
    engine: Ready,
    live: Live,
    body: Annotated[requests.AskRanking, Depends(json_body(requests.AskRanking))],
    key: Key = None,
) -> Response:
    """Choose arms for all places of one request, all or none."""
    live = await live_of(engine, live.name)  # a body may take its time, and the fleet be another by now
    most = engine.settings.limits.batch
    if body.k > most:
        raise ApiError("batch_too_large", f"expected at most {most} places in a request, got {body.k}", "k")
    made = await ask_fleet(live, lambda: new_ranking(engine, live, body, key))
    outcomes = await engine.writer.write([entry for _, entry in made])
    return answer({"places": all_decided(engine, live, made, outcomes)})


def new_ranking(
    engine: Engine, live: LiveFleet, ask: requests.AskRanking, key: str | None
) -> list[tuple[dict[str, Any], NewDecision]]:
    """Return the answer of every place, and what is to be written before they are given."""
    fleet = live.replica
    try:
        require_label(ask.task, "a task", engine.settings.limits)
        if key is not None:
            require_label(f"{key}/{ask.k}", "an idempotency key", engine.settings.limits)
        places: list[Decision] = []
        left = ask.eligible
        for _ in range(ask.k):
            decision = fleet.propose(ask.task, ask.context, left, ask.explore)
            if not places and ask.k > len(decision.probabilities):
                raise ApiError(
                    "invalid",
                    f"expected k to be at most the {len(decision.probabilities)} eligible arms, got {ask.k}; ask for "
                    "fewer",
                    "k",
                )
            places.append(decision)
            left = [str(arm) for arm in decision.probabilities if arm != decision.arm]
        context = live.contexts.plain(ask.context)
    except PosseError as error:
        raise api_error(error, wrong_part(engine, live, ask, key)) from None
    about = about_task(fleet, ask.task)
    now, digest = engine.clock(), "" if key is None else _digest(ask, context)
    return [
        (
            decision_answer(live.name, decision),
            NewDecision(
                fleet=live.name,
                id=decision.id,
                time=now,
                task=ask.task,
                arm=str(decision.arm),
                propensity=decision.propensity,
                body=decision_body(decision, context, (places[0].id, place + 1), about),
                policy=fleet.policy,
                version=__version__,
                key=None if key is None else f"{key}/{place}",
                digest=digest,
                created=live.created,
            ),
        )
        for place, decision in enumerate(places)
    ]


def _digest(ask: requests.AskRanking, context: dict[str, Any]) -> str:
    """Return what two requests under one key must have in common, as for decisions; the draws are not part of it."""
    eligible = None if ask.eligible is None else sorted(ask.eligible)
    plain = requests.AskRanking.model_construct(
        task=ask.task, context=context, eligible=eligible, explore=ask.explore, k=ask.k
    )
    return hashlib.blake2b(plain.model_dump_json().encode(), digest_size=16).hexdigest()
