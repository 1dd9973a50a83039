"""What a fleet writes to its log before it counts: decisions, rewards, and what is known about tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from posse._version import __version__
from posse.logs.writer import moment

if TYPE_CHECKING:
    from posse.fleet.decision import Decision
    from posse.fleet.names import Label
    from posse.logs.writer import Record


def decision_records(
    decisions: Sequence[Decision],
    contexts: Sequence[dict[str, Any]],
    now: float,
    policy: str,
    *,
    rewards: str = "number",
    ranking: bool = False,
    arm_features: Sequence[dict[str, list[Any]]] | None = None,
) -> list[Record]:
    """Return decisions, or the places of one ranking, as rows of a log.

    Parameters
    ----------
    decisions : sequence of Decision
    contexts : sequence of dict
        Raw features of each by name, those of its task among them.
    now : float
    policy : str
    rewards : {"number", "binary", "count"}
        What rewards are; a reader needs to be told of clicks and counts.
    ranking : bool, default False
    arm_features : sequence of dict, optional
        Of each, what a catalogue knows about the eligible arms: a list per feature, in their order.
    """
    when = moment(now)
    of_arms = [{}] * len(decisions) if arm_features is None else [{"arm_features": one} for one in arm_features]
    family = {} if rewards == "number" else {"reward_family": rewards}
    return [
        {
            "decision_id": decision.id,
            "time": when,
            "task": decision.task,
            "arm": decision.arm,
            "eligible": list(decision.probabilities),
            "probabilities": list(decision.probabilities.values()),
            "expected_rewards": list(decision.mean.values()),
            "propensity": decision.propensity,
            "context": context,
            **of_arms[place],
            **family,
            "policy": policy,
            "version": __version__,
            **({"ranking_id": decisions[0].id, "ranking_place": place + 1} if ranking else {}),
        }
        for place, (decision, context) in enumerate(zip(decisions, contexts, strict=True))
    ]


def reward_records(ids: Sequence[str], values: Sequence[float], now: float) -> list[Record]:
    """Return rewards as rows of a log."""
    when = moment(now)
    return [
        {"decision_id": decision_id, "reward": value, "reward_time": when}
        for decision_id, value in zip(ids, values, strict=True)
    ]


def task_feature_records(
    tasks: Sequence[Label], names: Sequence[str], raw: Sequence[Sequence[Any]], now: float
) -> list[Record]:
    """Return what is known about tasks from now on as rows of a log; ``raw`` has the features of each by ``names``."""
    when = moment(now)
    return [
        {"task_features": dict(zip(names, values, strict=True)), "task": task, "time": when}
        for task, values in zip(tasks, raw, strict=True)
    ]
