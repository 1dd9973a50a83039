"""Decisions: one, which is asked for thousands of times a second, many, a ranking, and one of a catalogue."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse import api
from posse._version import __version__
from posse.errors import PosseError
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.fleet.decision import Decision
from posse.logs.schema import PRICES
from posse.service.contexts import Contexts
from posse.service.definition import CATALOGUE, active_arms, require_label
from posse.service.http import requests
from posse.service.http.access import fleets_of
from posse.service.http.answers import answer, decision_again, decision_answer, decision_body, log_row
from posse.service.http.errors import ApiError, api_error
from posse.service.http.heads import Receive, Scope, header_of
from posse.service.http.hot import hot_route
from posse.service.http.requests import json_body, read_json
from posse.service.http.routes.common import (
    DecisionId,
    Live,
    Ready,
    ask_fleet,
    live_of,
    new_router,
    require_batch,
    require_storable,
    route,
    unknown_decision,
)
from posse.service.keys import FLEET_NAME
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet
from posse.service.runtime import Runtime
from posse.service.settings import Limits
from posse.storage import ACCEPTED, CONFLICT, SAME, UNKNOWN, NewDecision, Outcome

router = new_router("decisions")

Made = tuple[dict[str, Any], NewDecision]
"""The answer to a question, and what is written before it is given."""

SEVERAL = 16  # decisions from which on a batch is made on another thread, so that others need not wait
FEW = 100  # eligible arms of a catalogue that are decided among on the loop

SAME_KEY = "The same key and request again get the decision that was made then."
Key = Annotated[str | None, Header(alias="Idempotency-Key", description=SAME_KEY, examples=["a3b1f0c2-order-991"])]
FLEET = {
    "name": "fleet", "in": "path", "required": True, "schema": {"type": "string", "pattern": FLEET_NAME},
    "example": "stores",
}  # fmt: skip
KEY = {
    "name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"},
    "description": SAME_KEY,
}  # fmt: skip

AskMany = Annotated[requests.AskMany, Depends(json_body(requests.AskMany))]
AskRanking = Annotated[requests.AskRanking, Depends(json_body(requests.AskRanking))]
AskChoice = Annotated[requests.AskChoice, Depends(json_body(requests.AskChoice))]


@hot_route(
    router, "/fleets/{fleet}/decisions", "decide", summary="Ask for a decision",
    **route(None, api.DecisionAnswer, 404, 409, body=requests.Ask, parameters=[FLEET, KEY]),
)  # fmt: skip
async def decide(runtime: Runtime, scope: Scope, receive: Receive) -> dict[str, Any]:
    """Choose an arm for one context."""
    ask = await read_json(scope, receive, requests.Ask, runtime.settings.limits.body)
    live = await live_of(runtime, scope["path_params"]["fleet"])
    key = header_of(scope, b"idempotency-key")
    ((made, entry),) = await ask_fleet(live, partial(new_decisions, runtime, live, ask, key))
    (outcome,) = await runtime.writer.write([entry])
    return _answered(runtime, live, made, entry, outcome)


@router.post(
    "/fleets/{fleet}/decisions/batch", summary="Ask for many decisions",
    description="With an Idempotency-Key, the key of item i is `key/i`, unless it has one of its own.",
    **route("decide", api.DecisionsAnswer, 404, 409, body=requests.AskMany),
)  # fmt: skip
async def decide_many(runtime: Ready, body: AskMany, live: Live, key: Key = None) -> Response:
    """Choose arms for many contexts, all or none."""
    require_batch(runtime, body.decisions, "decisions")

    def make() -> list[Made]:
        keys = [ask.key or (None if key is None else f"{key}/{i}") for i, ask in enumerate(body.decisions)]
        asked = enumerate(zip(body.decisions, keys, strict=True))
        return [made for i, (ask, own) in asked for made in new_decisions(runtime, live, ask, own, f"decisions.{i}")]

    few = len(body.decisions) < SEVERAL
    return answer({"decisions": await _decided(runtime, live, make, "decisions", at_once=few)})


@router.post(
    "/fleets/{fleet}/rankings", summary="Ask for a ranking",
    description=(
        "Distinct arms for one request, best place first. Each place is a decision among the arms that the places "
        "above have left, with an id, a propensity and a reward of its own. The reward of an arm is taken not to "
        "depend on its place, nor on the other places. With an Idempotency-Key, the key of place i is `key/i`, from 0."
    ),
    **route("decide", api.RankingAnswer, 404, 409, body=requests.AskRanking),
)  # fmt: skip
async def rank(runtime: Ready, body: AskRanking, live: Live, key: Key = None) -> Response:
    """Choose arms for all places of one request, all or none."""
    return answer({"places": await _decided(runtime, live, partial(new_decisions, runtime, live, body, key))})


@router.post(
    "/fleets/{fleet}/choices", summary="Ask a catalogue for a decision, or a ranking",
    description=(
        "For a fleet of kind catalogue. Each place is a decision with an id, a propensity and a reward of its own; the "
        "log has the features of all eligible arms. With an Idempotency-Key, the key of place i is `key/i`, from 0."
    ),
    **route("decide", api.RankingAnswer, 404, 409, body=requests.AskChoice),
)  # fmt: skip
async def choose(runtime: Ready, body: AskChoice, live: Live, key: Key = None) -> Response:
    """Choose among the arms of a request, all places or none."""
    make = partial(new_decisions, runtime, live, body, key)
    return answer({"places": await _decided(runtime, live, make, at_once=len(body.eligible) <= FEW)})


@router.get("/decisions/{id}", summary="A decision of the log", **route("read", api.LogRow, 404))
async def get_decision(request: Request, id: DecisionId, runtime: Ready) -> Response:  # noqa: A002
    """Return one decision."""
    require_storable(id)
    row = await run_in_threadpool(runtime.storage.decision, id)
    allowed = fleets_of(request)
    if row is None or (allowed and row.fleet not in allowed):
        raise unknown_decision(id)
    return answer(log_row(row))


async def _decided(
    runtime: Runtime, live: LiveFleet, make: Callable[[], list[Made]], field: str | None = None, *, at_once: bool = True
) -> list[dict[str, Any]]:
    """Make decisions, write them together and return their answers; raise if one is refused."""
    made = await ask_fleet(live, make, at_once=at_once)
    outcomes = await runtime.writer.write([entry for _, entry in made]) if made else []
    return [
        _answered(runtime, live, value, entry, outcome, None if field is None else f"{field}.{i}")
        for i, ((value, entry), outcome) in enumerate(zip(made, outcomes, strict=True))
    ]


def _answered(
    runtime: Runtime, live: LiveFleet, made: dict[str, Any], entry: NewDecision, outcome: Outcome,
    field: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the answer to a question, given what became of its decision; count a new one."""
    if outcome.kind == ACCEPTED:
        runtime.measures.decided(live.name, entry.arm)
    elif outcome.kind == SAME and outcome.decision is not None:
        return decision_again(outcome.decision)
    elif outcome.kind == CONFLICT:
        raise ApiError(
            "key_reused", "this idempotency key was used for another request; take a new one for every request", field
        )
    elif outcome.kind == UNKNOWN:
        raise unknown_fleet(live.name)
    return made


def new_decisions(
    runtime: Runtime, live: LiveFleet, ask: requests.Ask | requests.AskChoice, key: str | None, field: str | None = None
) -> list[Made]:
    """Return the decision of every place of a question: its answer, and what is to be written before that is given."""
    limits, ranked = runtime.settings.limits, hasattr(ask, "k")
    k: int = getattr(ask, "k", 1)
    if k > limits.batch:
        raise ApiError("batch_too_large", f"expected at most {limits.batch} places in a request, got {k}", "k")
    place: str | None = "task"
    try:
        require_label(ask.task, "a task", limits)
        place = "key"
        if key is not None:
            require_label(f"{key}/{k}" if ranked else key, "an idempotency key", limits)
        place = None
        if isinstance(ask, requests.AskChoice):
            decisions, bodies, asked, policy = *_choose(live, ask, limits), CATALOGUE
        else:
            decisions, bodies, asked, policy = *_propose(live, ask, k), live.replica.policy
    except PosseError as error:
        place = _wrong_part(live, ask) if place is None else place
        raise api_error(error, place if field is None else f"{field}.{place}") from None
    digest = "" if key is None else digest_of_request(ask.task, asked, ask.explore, k if ranked else None)
    now, first, placed = runtime.clock(), decisions[0].id, ranked and (k > 1 or policy != CATALOGUE)
    return [
        (
            decision_answer(live.name, decision),
            NewDecision(
                fleet=live.name, id=decision.id, time=now, task=ask.task, arm=str(decision.arm),
                propensity=decision.propensity,
                body=decision_body(decision, place=(first, i + 1) if placed else None, **body), policy=policy,
                version=__version__, key=f"{key}/{i}" if ranked and key is not None else key, digest=digest,
                created=live.created,
            ),
        )
        for i, (decision, body) in enumerate(zip(decisions, bodies, strict=True))
    ]  # fmt: skip


def _propose(live: LiveFleet, ask: requests.Ask, k: int) -> tuple[list[Decision], list[dict[str, Any]], dict[str, Any]]:
    """Return decisions of a fleet for every place, what their rows say, and what was asked in plain values."""
    fleet, left = live.replica, ask.eligible
    decisions: list[Decision] = []
    for _ in range(k):
        decision = fleet.propose(ask.task, ask.context, left, ask.explore, values=ask.values, costs=ask.costs)
        if not decisions and k > (count := len(decision.probabilities)):
            raise ApiError(
                "invalid", f"expected k to be at most the {count} eligible arms, got {k}; ask for fewer", "k"
            )
        decisions.append(decision)
        if k > 1:
            left = [str(arm) for arm in decision.probabilities if arm != decision.arm]
    context = live.contexts.plain(ask.context)
    body = {"context": context, "about": fleet.about_task(ask.task)}
    eligible = None if ask.eligible is None else sorted(ask.eligible)
    # In their order, and only where there are some: digests stay as they are.
    prices = {name: dict(sorted(given.items())) for name in PRICES if (given := getattr(ask, name)) is not None}
    return decisions, [body] * k, {"context": context, "eligible": eligible, **prices}


def _choose(
    live: LiveFleet, ask: requests.AskChoice, limits: Limits
) -> tuple[list[Decision], list[dict[str, Any]], dict[str, Any]]:
    """Return decisions of a catalogue, as :func:`_propose` does for a fleet."""
    fleet = live.replica
    if not isinstance(fleet, CatalogueReplica):
        raise ApiError(
            "invalid", "expected a fleet of kind catalogue, got one of fixed arms; ask for a decision", "fleet"
        )
    catalogue, place = fleet.catalogue, "context"
    try:
        catalogue.features.encode(ask.context)
        context = Contexts(catalogue.features, limits.number).plain(ask.context)
        place = "eligible"
        for arm in ask.eligible:
            require_label(arm, "an arm", limits)
        plain = Contexts(catalogue.arm_features, limits.number)
        eligible = {arm: plain.plain(values) for arm, values in ask.eligible.items()}
        menu = catalogue.menu(eligible)
        place = "k"
        decisions = fleet.choose(ask.task, context, menu, ask.explore, ask.k)
    except PosseError as error:
        raise api_error(error, place) from None
    bodies = []
    for decision in decisions:
        rows = [eligible[str(arm)] for arm in decision.probabilities]
        arms = {name: [row[name] for row in rows] for name in catalogue.arm_features.names}
        bodies.append({"context": context | eligible[str(decision.arm)], "arms": arms})
    return decisions, bodies, {"context": context, "eligible": dict(sorted(eligible.items()))}


def _wrong_part(live: LiveFleet, ask: requests.Ask | requests.AskChoice) -> str:
    """Return which part of a request a fleet refused."""
    try:
        live.replica.features.encode(ask.context)
        live.contexts.plain(ask.context)
    except PosseError:
        return "context"
    for name in PRICES:
        if (given := getattr(ask, name, None)) is not None and not set(given) <= set(live.definition["arms"]):
            return name
    named = getattr(ask, "values", None)
    missing = () if named is None else set(ask.eligible or active_arms(live.definition)).difference(named)
    if missing and live.replica.values is None:
        return "values"
    return "eligible"


def digest_of_request(task: str, asked: dict[str, Any], explore: bool, k: int | None = None) -> str:
    """Return what two requests under one key must have in common: what they mean, however it was written.

    The context is the one that is logged, so a list is the mapping that it stands for and 1 is 1.0; the order of
    eligible arms means nothing. A client that builds its request again may write any of these otherwise. Databases hold
    digests: they must stay as they are.
    """
    plain = {"task": task, **asked, "explore": explore} | ({} if k is None else {"k": k})
    return hashlib.blake2b(to_json(plain), digest_size=16).hexdigest()
