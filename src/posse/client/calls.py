"""What can be asked of the service: one function per route, from arguments to a request and how to read its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

from posse.client import values
from posse.client.plain import to_json
from posse.client.values import Decision
from posse.errors import InvalidValue, MissingFile

T = TypeVar("T")
Context = Mapping[str, Any] | Sequence[Any]
Arms = Sequence[str] | Mapping[str, Any]
Rewards = Mapping[str, float] | Iterable[tuple[Decision | str, float] | tuple[Decision | str, float, str | None]]

SPECS = ("task_features", "arm_features")
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how its answer is read.

    Parameters
    ----------
    method, path : str
        The path is percent-encoded.
    read : callable
        From the JSON of the answer to its value.
    params, headers : dict
    body : bytes or None
        JSON.
    save_to : Path or None
        The file that takes the answer's body as it comes, in place of memory.
    accept : tuple of int
        Statuses above 299 that are answers too.
    done_by : str
        The code of an error which says, after a try whose answer was lost, that this try had done it.
    then : Call or None
        What gives the value in that case.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    save_to: Path | None = None
    accept: tuple[int, ...] = ()
    done_by: str = ""
    then: Call[T] | None = None


def create_fleet(name: str, arms: Arms, features: Any, settings: Mapping[str, Any]) -> Call[values.Fleet]:
    """Create a fleet; the same definition again changes nothing."""
    known = {key: value for key, value in settings.items() if key in SPECS and value is not None}
    specs = {key: declared(value)["features"] for key, value in known.items()}
    named = dict(arms) if isinstance(arms, Mapping) else list(_listed(arms))
    body = to_json({"arms": named, **declared(features), **settings, **specs}, "definition")
    return Call(method="PUT", path=_fleet(name), read=values.fleet_of, body=body)


def fleet(name: str) -> Call[values.Fleet]:
    """Return a fleet."""
    return Call(method="GET", path=_fleet(name), read=values.fleet_of)


def fleets() -> Call[list[values.Fleet]]:
    """Return all fleets."""
    return Call(method="GET", path="/v1/fleets", read=values.fleets_of)


def delete_fleet(name: str) -> Call[None]:
    """Delete a fleet."""
    return Call(method="DELETE", path=_fleet(name), read=values.nothing_of, done_by="unknown_fleet")


def repair(name: str) -> Call[values.Fleet]:
    """Build a fleet again from its log."""
    return Call(method="POST", path=f"{_fleet(name)}/repair", read=values.fleet_of)


def add_arm(name: str, arm: str, features: Mapping[str, Any] | None = None) -> Call[values.Fleet]:
    """Add an arm, or take one back."""
    about = {} if features is None else {"features": dict(features)}
    body = to_json({"arm": _name(arm, "arm"), **about}, "arm")
    path = f"{_fleet(name)}/arms"
    return Call(method="POST", path=path, read=values.fleet_of, body=body, done_by="arm_exists", then=fleet(name))


def retire_arm(name: str, arm: str) -> Call[values.Fleet]:
    """Retire an arm."""
    return Call(method="DELETE", path=f"{_fleet(name)}/arms/{_part(arm, 'arm')}", read=values.fleet_of)


def choose(
    name: str, task: str, context: Context, eligible: Mapping[str, Any], *, k: int, explore: bool, key: str | None
) -> Call[list[Decision]]:
    """Ask a catalogue for a decision or a ranking, under a key that makes a second try the same request."""
    arms = {_name(arm, "arm"): dict(features) for arm, features in eligible.items()}
    body = to_json({**question(task, context, None, explore), "eligible": arms, "k": k}, "the decision")
    path = f"{_fleet(name)}/choices"
    return Call(method="POST", path=path, read=values.places_of, body=body, headers=_once(key))


def create_catalogue(name: str, features: Any, arm_features: Any, settings: Mapping[str, Any]) -> Call[values.Fleet]:
    """Create a catalogue; the same definition again changes nothing."""
    of_arms = declared(arm_features)["features"]
    whole = {"kind": "catalogue", **declared(features), "arm_features": of_arms, **settings}
    return Call(method="PUT", path=_fleet(name), read=values.fleet_of, body=to_json(whole, "definition"))


def set_task_features(name: str, tasks: Mapping[str, Mapping[str, Any]]) -> Call[int]:
    """Say what is known about tasks."""
    about = {_name(task, "task"): dict(features) for task, features in tasks.items()}
    body = to_json({"tasks": about}, "what is known about tasks")
    return Call(method="POST", path=f"{_fleet(name)}/task-features", read=values.task_count_of, body=body)


def decide(
    name: str, task: str, context: Context, *, eligible: Sequence[str] | None, explore: bool, key: str | None
) -> Call[list[Decision]]:
    """Decide, under a key that makes a second try the same request; a list of one, as a batch gives a list."""
    body = to_json(question(task, context, eligible, explore), "the decision")
    path = f"{_fleet(name)}/decisions"
    headers = _once(key)
    return Call(method="POST", path=path, read=lambda data: [values.decision_of(data)], body=body, headers=headers)


def decide_many(name: str, questions: Sequence[Mapping[str, Any]], key: str | None) -> Call[list[Decision]]:
    """Decide many."""
    body = to_json({"decisions": questions}, "the batch")
    path = f"{_fleet(name)}/decisions/batch"
    return Call(method="POST", path=path, read=values.decisions_of, body=body, headers=_once(key))


def rank(
    name: str, task: str, context: Context, k: int, *, eligible: Sequence[str] | None, explore: bool, key: str | None
) -> Call[list[Decision]]:
    """Ask for a ranking, under a key that makes a second try the same request."""
    body = to_json({**question(task, context, eligible, explore), "k": k}, "the ranking")
    path = f"{_fleet(name)}/rankings"
    return Call(method="POST", path=path, read=values.places_of, body=body, headers=_once(key))


def question(task: str, context: Context, eligible: Sequence[str] | None, explore: bool) -> dict[str, Any]:
    """Return what a decision is asked with."""
    if not isinstance(context, (Mapping, list, tuple)) and not hasattr(context, "tolist"):
        raise InvalidValue(
            f"expected context to be values by feature, or all of them in their order, got {type(context).__name__}; "
            'send e.g. {"hour": 9.5}'
        )
    arms = None if eligible is None else [_name(arm, "eligible arm") for arm in _listed(eligible)]
    return {"task": _name(task, "task"), "context": context, "eligible": arms, "explore": bool(explore)}


def questions(asked: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of a batch, each checked, from mappings with the arguments of one decision."""
    known = {"task", "context", "eligible", "explore", "key"}
    result = []
    for position, one in enumerate(asked):
        if not isinstance(one, Mapping) or not {"task", "context"} <= set(one) <= known:
            raise InvalidValue(
                f"expected decision {position} to be a mapping with task and context, and maybe eligible, explore "
                f"and key, got {sorted(map(str, one)) if isinstance(one, Mapping) else type(one).__name__}"
            )
        entry = question(one["task"], one["context"], one.get("eligible"), one.get("explore", True))
        result.append(entry | ({"key": one["key"]} if one.get("key") is not None else {}))
    return result


def reward(decision_id: str, value: float, event: str | None = None) -> Call[bool]:
    """Reward a decision."""
    path = f"/v1/decisions/{_part(decision_id, 'decision id')}/reward"
    body = {"reward": value} if event is None else {"reward": value, "event": _name(event, "event")}
    return Call(method="POST", path=path, read=values.news_of, body=to_json(body, "reward"))


def correct(decision_id: str, value: float, instead_of: float | None = None) -> Call[bool]:
    """Give a decision another reward than it has."""
    path = f"/v1/decisions/{_part(decision_id, 'decision id')}/reward"
    body = {"reward": value} if instead_of is None else {"reward": value, "instead_of": instead_of}
    return Call(method="PUT", path=path, read=values.news_of, body=to_json(body, "reward"))


def reward_many(rewards: Sequence[dict[str, Any]]) -> Call[values.RewardCounts]:
    """Reward many decisions: all or none."""
    body = to_json({"rewards": rewards}, "the batch")
    return Call(method="POST", path="/v1/rewards", read=values.counts_of, body=body)


def ingest(name: str, rows: Sequence[Mapping[str, Any]]) -> Call[values.IngestCounts]:
    """Take in rows of a log: all or none."""
    body = to_json({"rows": rows}, "the rows")
    return Call(method="POST", path=f"{_fleet(name)}/log", read=values.ingested_of, body=body)


def rewarded_id(decision: Decision | str) -> str | None:
    """Return the id that a reward names, or None for a fallback, which takes none."""
    if isinstance(decision, Decision):
        return decision.id
    return _name(decision, "decision id")


def rewards_of(rewards: Rewards) -> list[dict[str, Any]]:
    """Return rewards as they are sent, fallbacks left out."""
    found = []
    for one in rewards.items() if isinstance(rewards, Mapping) else rewards:
        if len(one) not in (2, 3):
            raise InvalidValue(f"expected (decision, reward) or (decision, reward, event), got {len(one)} values")
        decision_id, value, event = rewarded_id(one[0]), one[1], one[2] if len(one) == 3 else None
        if decision_id is not None:
            found.append({"id": decision_id, "reward": value} | ({} if event is None else {"event": event}))
    return found


def decision(decision_id: str) -> Call[values.LogRow]:
    """Return a decision as it is logged."""
    return Call(method="GET", path=f"/v1/decisions/{_part(decision_id, 'decision id')}", read=values.log_row_of)


def tasks(name: str, search: str, after: str, limit: int) -> Call[tuple[list[values.TaskRow], str | None]]:
    """Return a page of tasks."""
    params = {"search": search, "after": after, "limit": str(limit)}
    params = {key: value for key, value in params.items() if value}
    return Call(method="GET", path=f"{_fleet(name)}/tasks", read=values.tasks_of, params=params)


def task(name: str, task: str) -> Call[values.Task]:
    """Return a task with what is believed about it."""
    return Call(method="GET", path=f"{_fleet(name)}/tasks/{_part(task, 'task')}", read=values.task_of)


def erase(name: str, task: str) -> Call[None]:
    """Erase a task."""
    path = f"{_fleet(name)}/tasks/{_part(task, 'task')}"
    return Call(method="DELETE", path=path, read=values.nothing_of, done_by="unknown_task")


def export(name: str, task: str) -> Call[dict[str, Any]]:
    """Return all that is kept about a task."""
    return Call(method="GET", path=f"{_fleet(name)}/export/{_part(task, 'task')}", read=values.export_of)


def history(name: str, task: str, before: int | None, limit: int) -> Call[tuple[list[values.LogRow], int | None]]:
    """Return a page of a task's decisions, the newest first."""
    params = {"limit": str(limit)} | ({} if before is None else {"before": str(before)})
    path = f"{_fleet(name)}/history/{_part(task, 'task')}"
    return Call(method="GET", path=path, read=values.history_of, params=params)


def pending(name: str, limit: int) -> Call[values.Pending]:
    """Return decisions that wait for their rewards, the oldest first."""
    return Call(method="GET", path=f"{_fleet(name)}/pending", read=values.pending_of, params={"limit": str(limit)})


def population(name: str) -> Call[values.Population]:
    """Return what the tasks have in common."""
    return Call(method="GET", path=f"{_fleet(name)}/population", read=values.population_of)


def activity(name: str, minutes: int) -> Call[values.Activity]:
    """Return what happened lately."""
    return Call(
        method="GET", path=f"{_fleet(name)}/activity", read=values.activity_of, params={"minutes": str(minutes)}
    )


def value(name: str, baseline: str, rows: int) -> Call[values.Value]:
    """Return the value of the policy against a baseline."""
    params = {"baseline": baseline, "rows": str(rows)}
    return Call(method="GET", path=f"{_fleet(name)}/value", read=values.value_of, params=params)


def expected(name: str, task: str, context: Context) -> Call[tuple[values.ExpectedArm, ...]]:
    """Return what every arm is expected to earn in a situation; nothing is decided."""
    asked = question(task, context, None, True)
    body = to_json({"task": asked["task"], "context": asked["context"]}, "context")
    return Call(method="POST", path=f"{_fleet(name)}/expected", read=values.expected_of, body=body)


def insights(name: str) -> Call[dict[str, Any]]:
    """Return what was found out about a fleet and its log."""
    return Call(method="GET", path=f"{_fleet(name)}/insights", read=values.export_of)


def log(name: str, path: str | Path) -> Call[None]:
    """Save the log to a file."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InvalidValue(f"expected a .jsonl or .parquet file for the log, got {target.name!r}; rename it")
    if not target.parent.is_dir():
        raise MissingFile(f"there is no folder {target.parent}; make it first")
    params = {"format": FORMATS[target.suffix]}
    return Call(method="GET", path=f"{_fleet(name)}/log", read=values.nothing_of, params=params, save_to=target)


def health() -> Call[values.Health]:
    """Return whether the service takes requests."""
    return Call(method="GET", path="/readyz", read=values.health_of, accept=(503,))


def declared(features: Any) -> dict[str, Any]:
    """Return features as a definition has them; a FeatureSpec and its features say themselves what they are."""
    if callable(getattr(features, "to_json", None)):
        whole = features.to_json()
        return {"features": whole["features"], "intercept": whole["intercept"]}
    if isinstance(features, str):
        raise InvalidValue(f"expected features to be a list, got the text {features!r}; use [{features!r}]")
    return {"features": [one.to_json() if callable(getattr(one, "to_json", None)) else one for one in features]}


def _once(key: str | None) -> dict[str, str]:
    if key is None:
        return {"Idempotency-Key": str(uuid4())}
    if not (isinstance(key, str) and key and key.isascii() and key.isprintable()):
        raise InvalidValue(f"expected key to be printable ASCII text, since it travels in a header, got {key!r}")
    return {"Idempotency-Key": key}


def _fleet(name: str) -> str:
    return f"/v1/fleets/{_part(name, 'fleet')}"


def _part(name: str, what: str) -> str:
    return quote(_name(name, what), safe="")


def _name(name: str, what: str) -> str:
    # Empty names and dots would make the path of another route.
    if not isinstance(name, str):
        raise InvalidValue(f"expected {what} to be text, got {name!r}; use str({name!r})")
    if name in ("", ".", ".."):
        raise InvalidValue(f"expected {what} to be a name, got {name!r}")
    return name


def _listed(arms: Sequence[str]) -> Sequence[str]:
    if isinstance(arms, str):
        raise InvalidValue(f"expected arms in a list, got the text {arms!r}; use [{arms!r}]")
    return arms
