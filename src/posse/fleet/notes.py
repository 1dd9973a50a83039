"""What a fleet writes to its log before it counts: decisions, rewards, and what is known about tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from posse._version import __version__
from posse.logs.writer import moment

if TYPE_CHECKING:
    from posse.fleet.decision import Decision, Decisions
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.logs.writer import Record
    from posse.types import Array


class Notes:
    """Writes changes of a fleet to its log, before they count; if that raises, there is no change.

    Parameters
    ----------
    write : callable
        Takes a list of records.
    """

    def __init__(self, write: Callable[[list[Record]], None]) -> None:
        self.write = write

    def decisions(
        self, fleet: Fleet, decisions: Sequence[Decision] | Decisions, contexts: Any, X: Array, now: float, *,
        ranking: bool = False,
    ) -> None:  # fmt: skip
        """Write decisions, or the places of one ranking; ``X`` are their encoded contexts."""
        del X
        features, side, tasks = fleet.features, fleet.known.tasks, fleet.names.tasks
        rows = contexts if isinstance(decisions, list) else features.raw_rows(contexts)
        raw = [dict(zip(features.names, features.raw(context), strict=True)) for context in rows]
        decisions = list(decisions)
        if side.spec is not None:
            about = {task: side.about(tasks.get(task)) for task in {decision.task for decision in decisions}}
            raw = [one | about[decision.task] for one, decision in zip(raw, decisions, strict=True)]
        self.write(decision_records(decisions, raw, now, fleet.policy, rewards=fleet.rewards, ranking=ranking))

    def rewards(self, fleet: Fleet, ids: list[str], values: list[float], now: float) -> None:
        """Write rewards of decisions."""
        del fleet
        self.write(reward_records(ids, values, now))

    def task_features(self, fleet: Fleet, tasks: Sequence[Label], raw: Sequence[Sequence[Any]]) -> None:
        """Write what is known about tasks from now on; ``raw`` has the features of each."""
        self.write(task_feature_records(tasks, fleet.known.tasks.names, raw, fleet.clock()))


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
    rewards : {"number", "binary", "count", "revenue"}
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
            **({} if decision.values is None else {"values": list(decision.values.values())}),
            **({} if decision.costs is None else {"costs": list(decision.costs.values())}),
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
