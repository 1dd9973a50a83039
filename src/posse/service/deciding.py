"""From what was asked to a decision that is to be written, and from what became of it to what is told."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from posse._version import __version__
from posse.errors import PosseError
from posse.fleet.knowing import about_task
from posse.service.definition import require_label
from posse.service.engine import Engine
from posse.service.http import requests
from posse.service.http.answers import decision_again, decision_answer, decision_body
from posse.service.http.errors import ApiError, api_error
from posse.service.live_fleet import LiveFleet
from posse.service.roster import unknown_fleet
from posse.storage import ACCEPTED, CONFLICT, SAME, UNKNOWN, NewDecision, Outcome


def new_decision(
    engine: Engine, live: LiveFleet, ask: requests.Ask, key: str | None, field: str | None
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
        digest="" if key is None else digest_of_request(ask, context),
        created=live.created,
    )
    return decision_answer(live.name, decision), entry


def wrong_part(engine: Engine, live: LiveFleet, ask: requests.Ask, key: str | None) -> str:
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


def all_decided(
    engine: Engine,
    live: LiveFleet,
    made: Sequence[tuple[dict[str, Any], NewDecision]],
    outcomes: Sequence[Outcome],
    field: str | None = None,
) -> list[dict[str, Any]]:
    """Return the answers to decisions that were written together, and count the new ones; raise if one is refused."""
    answers = [
        decided(live, value, outcome, None if field is None else f"{field}.{i}")
        for i, ((value, _), outcome) in enumerate(zip(made, outcomes, strict=True))
    ]
    for (_, entry), outcome in zip(made, outcomes, strict=True):
        if outcome.kind == ACCEPTED:
            engine.measures.decided(live.name, entry.arm)
    return answers


def digest_of_request(ask: requests.Ask, context: dict[str, Any]) -> str:
    """Return what two requests under one key must have in common: what they mean, however it was written.

    The context is the one that is logged, so a list is the mapping that it stands for and 1 is 1.0; the order of
    eligible arms means nothing. A client that builds its request again may write any of these otherwise.
    """
    eligible = None if ask.eligible is None else sorted(ask.eligible)
    plain = {"task": ask.task, "context": context, "eligible": eligible, "explore": ask.explore}
    return hashlib.blake2b(to_json(plain), digest_size=16).hexdigest()
