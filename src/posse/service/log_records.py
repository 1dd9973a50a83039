"""Rows of the storage as :mod:`posse.logs` reads them."""

from __future__ import annotations

import json
from typing import Any

from posse.logs.writer import moment
from posse.storage import LoggedDecision


def log_record(row: LoggedDecision, rewards: str = "number") -> dict[str, Any]:
    """Return a row as :mod:`posse.logs` reads it; ``rewards`` is what the fleet's definition says that they are."""
    body = json.loads(row.body)
    ranking = body.get("ranking")
    return {
        "decision_id": row.id,
        "time": moment(row.time),
        "task": row.task,
        "arm": row.arm,
        "eligible": body["eligible"],
        "probabilities": body["probabilities"] or None,
        "expected_rewards": body["mean"] or None,
        "propensity": row.propensity,
        "context": context_of(body),
        **({"arm_features": body["arm_features"]} if "arm_features" in body else {}),
        "policy": row.policy,
        "version": row.version,
        **({} if ranking is None else {"ranking_id": ranking[0], "ranking_place": ranking[1]}),
        "reward": row.reward,
        **({} if rewards == "number" else {"reward_family": rewards}),
        "reward_time": None if row.reward_time is None else moment(row.reward_time),
    }


def context_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return what was known before the decision: a catalogue's row has the features of the arm taken beside it."""
    of_arms = body.get("arm_features", {})
    known = {name: value for name, value in body["context"].items() if name not in of_arms}
    return {**known, **body.get("task_features", {})}
