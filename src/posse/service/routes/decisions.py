"""Decisions and their rewards: the routes that are asked thousands of times a second."""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from posse._version import __version__
from posse.errors import PosseError
from posse.families import family_of
from posse.fleet.knowing import about_task
from posse.service import schemas
from posse.service.access import fleets_of
from posse.service.answers import answer, decision_again, decision_answer, decision_body, log_row, trace
from posse.service.bodies import json_body, json_request, parse, require_json
from posse.service.definition import complete, require_label
from posse.service.describing import READING, WRITING, failures, with_example
from posse.service.engine import Engine
from posse.service.errors import ApiError, api_error
from posse.service.heads import head_of
from posse.service.keys import FLEET_NAME
from posse.service.live import LiveFleet
from posse.service.roster import unknown_fleet
from posse.service.routes.common import (
    Live,
    Ready,
    ask_fleet,
    by_hand,
    engine_of,
    live_of,
    new_router,
    scope,
)
from posse.service.short_way import Begin, Begun, LongWay
from posse.storage import (
    ACCEPTED,
    CONFLICT,
    GONE,
    NAMELESS,
    SAME,
    UNFIT,
    UNKNOWN,
    UNREWARDED,
    WITHHELD,
    NewDecision,
    NewReward,
    Outcome,
)

router = new_router(tags=["decisions"])

LONGEST_ID = 100
SEVERAL = 16  # decisions from which on a batch is made on another thread, so that others need not wait

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key and request again get the decision that was made then.",
        examples=["a3b1f0c2-order-991"],
    ),
]
FLEET = {
    "name": "fleet",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": FLEET_NAME},
    "example": "stores",
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The same key and request again get the decision that was made then.",
}
ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "maxLength": LONGEST_ID},
    "example": "3f1c0a9b2d4e-17",
}
DecisionId = Annotated[str, Path(max_length=LONGEST_ID, examples=["3f1c0a9b2d4e-17"])]


@router.post(
    "/fleets/{fleet}/decisions",
    summary="Ask for a decision",
    openapi_extra={**json_request(schemas.Ask), "parameters": [FLEET, KEY]},
    responses={200: with_example(schemas.DecisionAnswer), **failures(*WRITING, 404, 409)},
)
@by_hand("decide")
async def decide(request: Request) -> Response:
    """Choose an arm for one context."""
    engine = engine_of(request)
    name = request.path_params["fleet"]
    await live_of(engine, name)
    body = await read_ask(request)
    live = await live_of(engine, name)  # a body may take its time, and the fleet be another by now
    key = head_of(request.scope, b"idempotency-key")
    made, entry = await ask_fleet(live, partial(new_decision, engine, live, body, key, None))
    (outcome,) = await engine.writer.write([entry])
    return answer(_told_decision(engine, live, made, entry, outcome))


def _begin_decision(engine: Engine, scope: MutableMapping[str, Any], body: bytes) -> Begun:
    """Choose an arm as :func:`decide` does, if that can be done at once."""
    name = scope["path_params"]["fleet"]
    if not engine.knows(name):
        raise LongWay
    live = engine.live(name)
    require_json(scope)
    ask, key = parse(schemas.Ask, body), head_of(scope, b"idempotency-key")
    with live.replica.reserved(live.patience) as reserved:
        if not reserved:
            raise LongWay
        made, entry = new_decision(engine, live, ask, key, None)
    return entry, partial(_told_decision, engine, live, made, entry)


def _told_decision(
    engine: Engine, live: LiveFleet, made: dict[str, Any], entry: NewDecision, outcome: Outcome
) -> dict[str, Any]:
    if outcome.kind == ACCEPTED:
        engine.measures.decided(live.name, entry.arm)
    return decided(live, made, outcome, None)


@router.post(
    "/fleets/{fleet}/decisions/batch",
    dependencies=scope("decide"),
    summary="Ask for many decisions",
    description="With an Idempotency-Key, the key of item i is `key/i`, unless it has one of its own.",
    openapi_extra=json_request(schemas.AskMany),
    responses={200: with_example(schemas.DecisionsAnswer), **failures(*WRITING, 404, 409)},
)
async def decide_many(
    engine: Ready,
    live: Live,
    body: Annotated[schemas.AskMany, Depends(json_body(schemas.AskMany))],
    key: Key = None,
) -> Response:
    """Choose arms for many contexts, all or none."""
    require_batch(engine, body.decisions, "decisions")
    live = await live_of(engine, live.name)  # as above

    def make() -> list[tuple[dict[str, Any], NewDecision]]:
        keys = [ask.key or (None if key is None else f"{key}/{i}") for i, ask in enumerate(body.decisions)]
        return [new_decision(engine, live, ask, keys[i], f"decisions.{i}") for i, ask in enumerate(body.decisions)]

    made = await ask_fleet(live, make, at_once=len(body.decisions) < SEVERAL)
    if not made:
        return answer({"decisions": []})
    outcomes = await engine.writer.write([entry for _, entry in made])
    refused = next((i for i, outcome in enumerate(outcomes) if outcome.kind in (CONFLICT, UNKNOWN)), None)
    if refused is not None:
        decided(live, made[refused][0], outcomes[refused], f"decisions.{refused}")
    for (_, entry), outcome in zip(made, outcomes, strict=True):
        if outcome.kind == ACCEPTED:
            engine.measures.decided(live.name, entry.arm)
    return answer(
        {"decisions": [decided(live, value, outcome, None) for (value, _), outcome in zip(made, outcomes, strict=True)]}
    )


@router.post(
    "/decisions/{id}/reward",
    summary="Report the reward of a decision",
    description="Late, once; the same again changes nothing, another value is refused.",
    openapi_extra={**json_request(schemas.RewardBody), "parameters": [ID]},
    responses={200: with_example(schemas.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
@by_hand("reward")
async def reward(request: Request) -> Response:
    """Write a reward to disk and learn it."""
    engine = engine_of(request)
    engine.require_ready()
    decision_id = request.path_params["id"]
    require_storable(decision_id)
    body = await read_reward(request)
    entry = new_reward(engine, request.scope, decision_id, body, "")
    (outcome,) = await engine.writer.write([entry])
    return answer(_told_reward(engine, entry, outcome))


def _begin_reward(engine: Engine, scope: MutableMapping[str, Any], body: bytes) -> Begun:
    """Take a reward as :func:`reward` does."""
    engine.require_ready()
    decision_id = scope["path_params"]["id"]
    require_storable(decision_id)
    require_json(scope)
    entry = new_reward(engine, scope, decision_id, parse(schemas.RewardBody, body), "")
    return entry, partial(_told_reward, engine, entry)


def _told_reward(engine: Engine, entry: NewReward, outcome: Outcome) -> dict[str, Any]:
    if outcome.kind == UNFIT:
        raise unfit(engine, entry, outcome, "reward")
    return {"id": entry.id, "reward": entry.value, "new": rewarded(entry, outcome, None)}


@router.post(
    "/rewards",
    dependencies=scope("reward"),
    summary="Report many rewards",
    description="If any is refused, none is taken, and the field of the error says which.",
    openapi_extra=json_request(schemas.RewardMany),
    responses={200: with_example(schemas.RewardsAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def reward_many(
    request: Request, engine: Ready, body: Annotated[schemas.RewardMany, Depends(json_body(schemas.RewardMany))]
) -> Response:
    """Write rewards to disk and learn them, all or none."""
    require_batch(engine, body.rewards, "rewards")
    if not body.rewards:
        return answer({"new": 0, "same": 0})
    entries = []
    for i, item in enumerate(body.rewards):
        require_storable(item.id, f"rewards.{i}.id")
        entries.append(new_reward(engine, request.scope, item.id, item, f"rewards.{i}."))
    outcomes = await engine.writer.write(entries)
    refused = next((i for i, outcome in enumerate(outcomes) if outcome.kind in REFUSED), None)
    if refused is not None:
        if outcomes[refused].kind == UNFIT:
            raise unfit(engine, entries[refused], outcomes[refused], f"rewards.{refused}.reward")
        rewarded(entries[refused], outcomes[refused], f"rewards.{refused}")
    same = sum(outcome.kind == SAME for outcome in outcomes)
    return answer({"new": len(outcomes) - same, "same": same})


@router.put(
    "/decisions/{id}/reward",
    dependencies=scope("reward"),
    summary="Correct the reward of a decision",
    description="What was learned from the one before is taken back. Both stay in the trace, see `/rewards`.",
    openapi_extra=json_request(schemas.CorrectionBody),
    responses={200: with_example(schemas.RewardAnswer), **failures(*WRITING, 404, 409, 410)},
)
async def correct(
    request: Request,
    id: DecisionId,  # noqa: A002
    engine: Ready,
    body: Annotated[schemas.CorrectionBody, Depends(json_body(schemas.CorrectionBody))],
) -> Response:
    """Give a decision another reward than it has, and learn that in its place."""
    require_storable(id)
    entry = NewReward(
        id, checked(engine, body.reward, "reward"), engine.clock(), fleets=fleets_of(request), corrects=True,
        instead_of=body.instead_of,
    )  # fmt: skip
    (outcome,) = await engine.writer.write([entry])
    if outcome.kind == UNFIT:
        raise unfit(engine, entry, outcome, "reward")
    return answer({"id": id, "reward": body.reward, "new": rewarded(entry, outcome, None)})


@router.get(
    "/decisions/{id}/rewards",
    dependencies=scope("read"),
    summary="How a decision came to its reward",
    responses={200: with_example(schemas.RewardTrace), **failures(*READING, 404)},
)
async def reward_trace(request: Request, id: DecisionId, engine: Ready) -> Response:  # noqa: A002
    """Return all rewards that came for a decision, and corrections."""
    require_storable(id)

    def read() -> dict[str, Any]:
        row, allowed = engine.storage.decision(id), fleets_of(request)
        if row is None or (allowed and row.fleet not in allowed):
            raise unknown_decision(id)
        return {"id": id, "reward": row.reward, "events": trace(row, engine.storage.reward_events(id))}

    return answer(await run_in_threadpool(read))


@router.get(
    "/decisions/{id}",
    dependencies=scope("read"),
    summary="A decision of the log",
    responses={200: with_example(schemas.LogRow), **failures(*READING, 404)},
)
async def get_decision(request: Request, id: DecisionId, engine: Ready) -> Response:  # noqa: A002
    """Return one decision."""
    require_storable(id)
    row = await run_in_threadpool(engine.storage.decision, id)
    allowed = fleets_of(request)
    if row is None or (allowed and row.fleet not in allowed):
        raise unknown_decision(id)
    return answer(log_row(row))


def short_routes() -> list[tuple[Any, Begin]]:
    """Return the routes that are asked most, and how they begin on the short way."""
    begin = {"decide": _begin_decision, "reward": _begin_reward}
    return [(route, begin[name]) for route in router.routes if (name := getattr(route, "name", "")) in begin]


REFUSED = (CONFLICT, UNKNOWN, GONE, UNFIT, NAMELESS, UNREWARDED)
read_ask, read_reward = json_body(schemas.Ask), json_body(schemas.RewardBody)


def new_decision(
    engine: Engine, live: LiveFleet, ask: schemas.Ask, key: str | None, field: str | None
) -> tuple[dict[str, Any], NewDecision]:
    """Return the answer to a request, and what is to be written before it is given."""
    try:
        require_label(ask.task, "a task", engine.settings.limits)
        if key is not None:
            require_label(key, "an idempotency key", engine.settings.limits)
        fleet = live.replica
        decision = fleet.propose(ask.task, ask.context, ask.eligible, ask.explore)
        context = live.contexts.plain(ask.context)
    except PosseError as error:
        place = wrong_part(engine, live, ask, key)
        raise api_error(error, place if field is None else f"{field}.{place}") from None
    entry = NewDecision(
        fleet=live.name,
        id=decision.id,
        time=engine.clock(),
        task=ask.task,
        arm=str(decision.arm),
        propensity=decision.propensity,
        body=decision_body(decision, context, about=about_task(fleet, ask.task)),
        policy=fleet.policy,
        version=__version__,
        key=key,
        digest="" if key is None else _digest(ask, context),
        created=live.created,
    )
    return decision_answer(live.name, decision), entry


def wrong_part(engine: Engine, live: LiveFleet, ask: schemas.Ask, key: str | None) -> str:
    """Return which part of a request was refused."""
    limits = engine.settings.limits
    part = "task"
    try:
        require_label(ask.task, "a task", limits)
        part = "key"
        require_label("no key" if key is None else key, "a key", limits)
        part = "context"
        live.replica.features.encode(ask.context)
        live.contexts.plain(ask.context)
    except PosseError:
        return part
    return "eligible"


def decided(live: LiveFleet, made: dict[str, Any], outcome: Outcome, field: str | None) -> dict[str, Any]:
    """Return the answer to a request for a decision, given what became of it."""
    if outcome.kind == SAME and outcome.decision is not None:
        return decision_again(outcome.decision)
    if outcome.kind == CONFLICT:
        raise ApiError(
            "key_reused", "this idempotency key was used for another request; take a new one for every request", field
        )
    if outcome.kind == UNKNOWN:
        raise unknown_fleet(live.name)
    return made


def rewarded(entry: NewReward, outcome: Outcome, field: str | None) -> bool:
    """Return whether a reward is news, or raise what is wrong with it."""
    if outcome.kind == UNKNOWN:
        raise unknown_decision(entry.id, field)
    if outcome.kind == GONE:
        raise ApiError(
            "decision_expired",
            f"decision {entry.id!r} is older than its time to live; make the fleet with a longer time_to_live if "
            "rewards come this late",
            field,
        )
    if outcome.kind == NAMELESS:
        raise ApiError(
            "event_required",
            f"the fleet of decision {entry.id!r} adds rewards up, so each needs a name by which it counts once; send "
            'it as "event"',
            "event" if field is None else f"{field}.event",
        )
    if outcome.kind == UNREWARDED:
        raise ApiError(
            "not_rewarded", f"decision {entry.id!r} has no reward that could be corrected; report one with POST", field
        )
    if outcome.kind == CONFLICT:
        raise _conflict(entry, outcome, field)
    assert outcome.kind != WITHHELD
    return outcome.kind != SAME


def unfit(engine: Engine, entry: NewReward, outcome: Outcome, field: str) -> ApiError:
    """Return the error about a number that is no reward of its fleet."""
    assert outcome.decision is not None
    if entry.corrects:
        return ApiError(
            "invalid",
            f"{field}: expected a correction in a fleet of numbers without drift, got another one: what clicks and "
            "counts say depends on those before them, and what is old has faded; erase the task instead",
            field,
        )
    live = engine.roster.find(outcome.decision.fleet)
    try:
        if live is not None:
            family_of(complete(live.definition)["rewards"]).check(entry.value)
    except PosseError as error:
        return ApiError("invalid", str(error), field)
    value = str(bool(entry.value)).lower() if entry.truth else f"{entry.value:g}"
    return ApiError(
        "invalid",
        f"{field}: {value} is no reward of this decision's fleet; send what its definition says (rewards)",
        field,
    )


def new_reward(
    engine: Engine, scope: MutableMapping[str, Any], decision_id: str, body: schemas.RewardBody | schemas.RewardOf,
    field: str,
) -> NewReward:  # fmt: skip
    """Return what is to be written for a reward; true and false are 1 and 0. ``field`` comes before names of fields."""
    return NewReward(
        decision_id, checked(engine, float(body.reward), f"{field}reward"), engine.clock(),
        truth=isinstance(body.reward, bool), leeway=engine.steady.leeway, fleets=scope.get("posse.fleets", ()),
        event=checked_event(engine, body.event, f"{field}event"),
    )  # fmt: skip


def _conflict(entry: NewReward, outcome: Outcome, field: str | None) -> ApiError:
    has = outcome.decision.reward if outcome.decision is not None else None
    if entry.corrects:
        message = f"decision {entry.id!r} has the reward {has}, not {entry.instead_of}; look at it and send it again"
    elif entry.event is not None and outcome.decision is not None:
        message = (
            f"event {entry.event!r} of decision {entry.id!r} came with another value than {entry.value}, or the "
            "decision has its one reward (reward_events of the fleet); correct it with PUT"
        )
    else:
        message = (
            f"decision {entry.id!r} has the reward {has} already, but {entry.value} came; it is rewarded once "
            "(correct it with PUT)"
        )
    return ApiError("reward_conflict", message, field)


def checked_event(engine: Engine, event: str | None, field: str) -> str | None:
    """Return the name of an event that can be stored."""
    if event is not None:
        try:
            require_label(event, "an event", engine.settings.limits)
        except PosseError as error:
            raise api_error(error, field) from None
    return event


def checked(engine: Engine, reward: float, field: str) -> float:
    """Return a reward that is not too large."""
    most = engine.settings.limits.number
    if not abs(reward) <= most:
        raise ApiError(
            "invalid",
            f"reward must be a number from {-most:g} to {most:g} (limits.number), but {reward:g} came; choose another "
            "unit",
            field,
        )
    return reward


def require_batch(engine: Engine, items: Sequence[Any], field: str) -> None:
    """Raise if a batch is too long."""
    most = engine.settings.limits.batch
    if len(items) > most:
        raise ApiError("batch_too_large", f"at most {most} {field} fit in a request, but {len(items)} came", field)


def require_storable(decision_id: str, field: str | None = "id") -> None:
    """Raise if a text cannot be the id of a decision."""
    if len(decision_id) > LONGEST_ID or not decision_id.isascii() or not decision_id.isprintable():
        raise unknown_decision(decision_id, field)


def unknown_decision(decision_id: str, field: str | None = "id") -> ApiError:
    """Return the error about a decision that is not there."""
    return ApiError(
        "unknown_decision", f"no decision {decision_id[:LONGEST_ID]!r}; pass the id that the service gave", field
    )


def _digest(ask: schemas.Ask, context: dict[str, Any]) -> str:
    """Return what two requests under one key must have in common: what they mean, however it was written.

    The context is the one that is logged, so a list is the mapping that it stands for and 1 is 1.0; the order of
    eligible arms means nothing. A client that builds its request again may write any of these otherwise.
    """
    eligible = None if ask.eligible is None else sorted(ask.eligible)
    plain = {"task": ask.task, "context": context, "eligible": eligible, "explore": ask.explore}
    return hashlib.blake2b(to_json(plain), digest_size=16).hexdigest()
