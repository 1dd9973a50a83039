"""Decisions of catalogues: the arms come with the request, each with what is known about it."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import Response

from posse import api
from posse._version import __version__
from posse.errors import PosseError
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.service.catalogues import CATALOGUE
from posse.service.contexts import Contexts
from posse.service.deciding import all_decided
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

FEW = 100  # eligible arms that are decided among on the loop


@router.post(
    "/fleets/{fleet}/choices",
    dependencies=scope("decide"),
    summary="Ask a catalogue for a decision, or a ranking",
    description=(
        "For a fleet of kind catalogue. Each place is a decision with an id, a propensity and a reward of its own; the "
        "log has the features of all eligible arms. With an Idempotency-Key, the key of place i is `key/i`, from 0."
    ),
    openapi_extra=json_request(requests.AskChoice),
    responses={200: with_example(api.RankingAnswer), **failures(*WRITING, 404, 409)},
)
async def choose(
    engine: Ready,
    live: Live,
    body: Annotated[requests.AskChoice, Depends(json_body(requests.AskChoice))],
    key: Key = None,
) -> Response:
    """Choose among the arms of a request, all places or none."""
    live = await live_of(engine, live.name)  # a body may take its time, and the fleet be another by now
    most = engine.settings.limits.batch
    if body.k > most:
        raise ApiError("batch_too_large", f"expected at most {most} places in a request, got {body.k}", "k")
    made = await ask_fleet(live, lambda: new_choice(engine, live, body, key), at_once=len(body.eligible) <= FEW)
    outcomes = await engine.writer.write([entry for _, entry in made])
    return answer({"places": all_decided(engine, live, made, outcomes)})


def new_choice(
    engine: Engine, live: LiveFleet, ask: requests.AskChoice, key: str | None
) -> list[tuple[dict[str, Any], NewDecision]]:
    """Return the answer of every place, and what is to be written before they are given."""
    fleet, limits, part = live.replica, engine.settings.limits, "fleet"
    if not isinstance(fleet, CatalogueReplica):
        raise ApiError(
            "invalid", "expected a fleet of kind catalogue, got one of fixed arms; ask for a decision", "fleet"
        )
    catalogue = fleet.catalogue
    try:
        part = "task"
        require_label(ask.task, "a task", limits)
        part = "key"
        if key is not None:
            require_label(f"{key}/{ask.k}", "an idempotency key", limits)
        part = "context"
        catalogue.features.encode(ask.context)
        context = Contexts(catalogue.features, limits.number).plain(ask.context)
        part = "eligible"
        for arm in ask.eligible:
            require_label(arm, "an arm", limits)
        plain = Contexts(catalogue.arm_features, limits.number)
        eligible = {arm: plain.plain(values) for arm, values in ask.eligible.items()}
        menu = catalogue.menu(eligible)
        part = "k"
        decisions = fleet.choose(ask.task, context, menu, ask.explore, ask.k)
    except PosseError as error:
        raise api_error(error, part) from None
    now, digest = engine.clock(), "" if key is None else _digest(ask, context, eligible)
    made = []
    for i, decision in enumerate(decisions):
        arm = str(decision.arm)
        body = decision_body(
            decision, context | eligible[arm], (decisions[0].id, i + 1) if ask.k > 1 else None,
            arms=_columns([eligible[str(one)] for one in decision.probabilities], catalogue.arm_features.names),
        )  # fmt: skip
        entry = NewDecision(
            fleet=live.name, id=decision.id, time=now, task=ask.task, arm=arm, propensity=decision.propensity,
            body=body, policy=CATALOGUE, version=__version__, key=None if key is None else f"{key}/{i}", digest=digest,
            created=live.created,
        )  # fmt: skip
        made.append((decision_answer(live.name, decision), entry))
    return made


def _columns(rows: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in names}


def _digest(ask: requests.AskChoice, context: dict[str, Any], eligible: dict[str, Any]) -> str:
    """Return what two requests under one key must have in common, as for decisions."""
    plain = requests.AskChoice.model_construct(
        task=ask.task, context=context, eligible=dict(sorted(eligible.items())), explore=ask.explore, k=ask.k
    )
    return hashlib.blake2b(plain.model_dump_json().encode(), digest_size=16).hexdigest()
