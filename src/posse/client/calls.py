"""What can be asked of a service: a function a route, from arguments to a request and how its answer is read.

Both clients have these functions as methods; what is said here is what their help says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

from posse import api
from posse.client.plain import to_json
from posse.client.values import Decision, Health, IngestCounts, RewardCounts, decisions_of, health_of, reader
from posse.errors import InvalidValue, MissingFile

T = TypeVar("T")
Context = Mapping[str, Any] | Sequence[Any]
Arms = Sequence[str] | Mapping[str, Any]
Rewards = Mapping[str, float] | Iterable[tuple[Decision | str, float] | tuple[Decision | str, float, str | None]]
Question: TypeAlias = tuple[str, Context, Sequence[str] | None]

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
    tries : int or None
        How often to ask at most; None: as often as the client does.
    known : tuple
        The value, where it is known without asking.
    done_by : str
        The code of an error which says, after a try whose answer was lost, that this try had done it.
    then : Call or None
        What gives the value in that case.
    fleet : str
    asked : list of tuple
        Task, context and eligible arms of every decision that a fallback may take the place of.
    of_fallbacks : callable
        From these decisions to the value.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    save_to: Path | None = None
    accept: tuple[int, ...] = ()
    tries: int | None = None
    known: tuple[T, ...] = ()
    done_by: str = ""
    then: Call[T] | None = None
    fleet: str = ""
    asked: Sequence[Question] = ()
    of_fallbacks: Callable[[list[Decision]], T] | None = None


def create_fleet(fleet: str, arms: Arms, features: Any, **settings: Any) -> Call[api.Fleet]:
    """Create a fleet; the same definition again changes nothing, another is refused.

    Parameters
    ----------
    fleet : str
        Its name.
    arms : sequence of str, or mapping
        With ``arm_features``, a mapping from arms to what is known about them, None where that is nothing.
    features : FeatureSpec, or sequence of names, features or their JSON
        What a context is made of.
    **settings
        ``policy``, ``prior``, ``evaluation_budget``, ``rewards``, ``task_features``, ``time_to_live`` and all else
        that a definition has, with the defaults of :class:`posse.Posse` (``posse docs service``).

    Returns
    -------
    Fleet
        The definition in force, with counts and state.

    Raises
    ------
    InvalidValue
        If a name or value cannot be sent, before anything is.
    ServiceError
        With code "fleet_exists" if there is one with another definition, "invalid" if the definition is refused.
    ServiceUnavailable
        If no answer came within ``retries`` and ``deadline``.
    """
    known = {key: value for key, value in settings.items() if key in SPECS and value is not None}
    specs = {key: declared(value)["features"] for key, value in known.items()}
    named = dict(arms) if isinstance(arms, Mapping) else list(_listed(arms))
    body = to_json({"arms": named, **declared(features), **settings, **specs}, "definition")
    return Call(method="PUT", path=_fleet(fleet), read=reader(api.Fleet), body=body)


def fleet(fleet: str) -> Call[api.Fleet]:
    """Return a fleet with its definition, counts and state.

    Parameters
    ----------
    fleet : str

    Returns
    -------
    Fleet

    Raises
    ------
    ServiceError
        With code "unknown_fleet" if there is none.
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path=_fleet(fleet), read=reader(api.Fleet))


def fleets() -> Call[list[api.Fleet]]:
    """Return all fleets that the key may see.

    Returns
    -------
    list of Fleet

    Raises
    ------
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path="/v1/fleets", read=lambda data: list(reader(api.Fleets)(data).fleets))


def delete_fleet(fleet: str) -> Call[None]:
    """Delete a fleet with its log, for good.

    Parameters
    ----------
    fleet : str

    Raises
    ------
    ServiceError
        With code "unknown_fleet" if there is none, also if it was deleted before.
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="DELETE", path=_fleet(fleet), read=_nothing, done_by="unknown_fleet")


def repair(fleet: str) -> Call[api.Fleet]:
    """Build a fleet again from its log: one that is set aside is served again.

    Parameters
    ----------
    fleet : str
        One that serves goes on meanwhile.

    Returns
    -------
    Fleet

    Raises
    ------
    ServiceError
        With code "unknown_fleet" if there is none.
    ServiceUnavailable
        If no answer came within ``timeout`` and ``deadline``: a long log may take longer, and is built all the
        same.
    """
    return Call(method="POST", path=f"{_fleet(fleet)}/repair", read=reader(api.Fleet))


def add_arm(
    fleet: str, arm: str, features: Mapping[str, Any] | None = None, *, value: float | None = None,
    cost: float | None = None,
) -> Call[api.Fleet]:  # fmt: skip
    """Add an arm to a fleet, take a retired one back with what it taught, or change what its rewards are worth.

    Parameters
    ----------
    fleet, arm : str
    features : mapping, default None
        What is known about the arm, in a fleet with ``arm_features``. None: nothing.
    value : float, default None
        What one unit of its reward is worth from now on, in a fleet with ``values``; also of an arm that there is.
        None: what it was.
    cost : float, default None
        What playing it costs from now on; also of an arm that there is. None: what it was, or 0.

    Returns
    -------
    Fleet

    Raises
    ------
    ServiceError
        With code "arm_exists" if there is one that is not retired, "unknown_fleet", or "invalid".
    ServiceUnavailable
        If no answer came.
    """
    about: dict[str, Any] = {} if features is None else {"features": dict(features)}
    about |= {name: price for name, price in (("value", value), ("cost", cost)) if price is not None}
    body = to_json({"arm": _name(arm, "arm"), **about}, "arm")
    there = Call(method="GET", path=_fleet(fleet), read=reader(api.Fleet))
    path = f"{_fleet(fleet)}/arms"
    return Call(method="POST", path=path, read=reader(api.Fleet), body=body, done_by="arm_exists", then=there)


def retire_arm(fleet: str, arm: str) -> Call[api.Fleet]:
    """Retire an arm: it is not chosen any more; what it taught is kept, and its late rewards count.

    Parameters
    ----------
    fleet, arm : str
        One that is retired stays so.

    Returns
    -------
    Fleet

    Raises
    ------
    ServiceError
        With code "unknown_arm" or "unknown_fleet", or "invalid" if it is the last one.
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="DELETE", path=f"{_fleet(fleet)}/arms/{_part(arm, 'arm')}", read=reader(api.Fleet))


def create_catalogue(fleet: str, features: Any, arm_features: Any, **settings: Any) -> Call[api.Fleet]:
    """Create a catalogue, whose arms come with every request; see :meth:`choose`.

    The same definition again changes nothing, another is refused.

    Parameters
    ----------
    fleet : str
    features : FeatureSpec, or sequence of names, features or their JSON
        What a context is made of.
    arm_features : FeatureSpec, or sequence of names, features or their JSON
        What is known about an arm.
    **settings
        All else that a definition has, with the defaults of :class:`posse.Catalogue`.

    Returns
    -------
    Fleet

    Raises
    ------
    InvalidValue, ServiceError, ServiceUnavailable
        As in :meth:`create_fleet`.
    """
    of_arms = declared(arm_features)["features"]
    whole = {"kind": "catalogue", **declared(features), "arm_features": of_arms, **settings}
    return Call(method="PUT", path=_fleet(fleet), read=reader(api.Fleet), body=to_json(whole, "definition"))


def choose(
    fleet: str,
    task: str,
    context: Context,
    eligible: Mapping[str, Mapping[str, Any]],
    *,
    k: int = 1,
    explore: bool = True,
    key: str | None = None,
) -> Call[list[Decision]]:
    """Ask a catalogue to choose among arms with their features.

    There is no fallback: without the service it raises.

    Parameters
    ----------
    fleet, task : str
    context : mapping, or sequence
        Values by feature, or those of all features in their order.
    eligible : mapping
        The features of every arm that may be chosen, by arm.
    k : int, default 1
        How many distinct arms.
    explore : bool, default True
        False takes the arms with the highest expected rewards.
    key : str, default None
        What makes this request the same as an earlier one: it gets that one's decisions. None: a new one.

    Returns
    -------
    list of Decision
        ``k`` of them, best place first, each with an id and a reward of its own.

    Raises
    ------
    InvalidValue
        If a name or value cannot be sent, before anything is.
    ServiceError
        With code "unknown_fleet", "invalid", or "key_reused" if the key came with another request.
    ServiceUnavailable
        If no answer came.
    """
    arms = {_name(arm, "arm"): dict(features) for arm, features in eligible.items()}
    body = to_json({**_question(task, context, None, explore), "eligible": arms, "k": k}, "the decision")
    return Call(method="POST", path=f"{_fleet(fleet)}/choices", read=decisions_of, body=body, headers=_once(key))


def set_task_features(fleet: str, tasks: Mapping[str, Mapping[str, Any]]) -> Call[int]:
    """Say what is known about tasks, in a fleet with task features.

    Parameters
    ----------
    fleet : str
    tasks : mapping
        Features by task. Tasks that the fleet has not seen yet are there afterwards.

    Returns
    -------
    int
        About how many tasks something was said.

    Raises
    ------
    InvalidValue
        If a name or value cannot be sent, before anything is.
    ServiceError
        With code "unknown_fleet" or "invalid".
    ServiceUnavailable
        If no answer came.
    """
    about = {_name(task, "task"): dict(features) for task, features in tasks.items()}
    body = to_json({"tasks": about}, "what is known about tasks")
    return Call(method="POST", path=f"{_fleet(fleet)}/task-features", read=lambda data: int(data["tasks"]), body=body)


def decide(
    fleet: str,
    task: str,
    context: Context,
    *,
    eligible: Sequence[str] | None = None,
    explore: bool = True,
    key: str | None = None,
    values: Mapping[str, float] | None = None,
    costs: Mapping[str, float] | None = None,
) -> Call[Decision]:
    """Decide which arm to pull.

    The service logs the decision before it answers. Tries of one call are one decision; another call is another
    decision, unless it has the ``key`` of an earlier one.

    Parameters
    ----------
    fleet, task : str
        A task that is new starts from the population.
    context : mapping, or sequence
        Values by feature, or those of all features in their order.
    eligible : sequence of str, default None
        The arms that can be taken. None: all that are not retired.
    explore : bool, default True
        False takes the arm with the highest expected reward and says propensity 1.
    key : str, default None
        What makes this request the same as an earlier one, printable ASCII: it gets that one's decision. None: a
        new one.
    values, costs : mapping from arms to numbers, default None
        What one unit of reward is worth in this decision and what playing an arm costs, in place of the fleet's, for
        the arms that are named. None: the fleet's.

    Returns
    -------
    Decision
        ``id``, ``arm``, ``propensity``, and ``probabilities``, ``mean`` and ``sd`` by eligible arm, where there are
        values or costs also ``worth``. With ``fallback=True`` if the service could not be asked and the client has a
        fallback: no id, and nothing is learned from it.

    Raises
    ------
    InvalidValue
        If a name or value cannot be sent (NaN, a task that is not text), before anything is.
    ServiceError
        With code "unknown_fleet", "invalid" if the context or an arm is refused, or "key_reused" if the key came
        with another request.
    ServiceUnavailable
        If no answer came within ``retries`` and ``deadline`` and there is no fallback, or its arm is not eligible.
    """
    body = to_json(_question(task, context, eligible, explore, values, costs), "the decision")
    return Call(
        method="POST", path=f"{_fleet(fleet)}/decisions", read=lambda data: decisions_of([data])[0], body=body,
        headers=_once(key), fleet=fleet, asked=[(task, context, eligible)],
        of_fallbacks=lambda decisions: decisions[0],
    )  # fmt: skip


def rank(
    fleet: str,
    task: str,
    context: Context,
    k: int,
    *,
    eligible: Sequence[str] | None = None,
    explore: bool = True,
    key: str | None = None,
    values: Mapping[str, float] | None = None,
    costs: Mapping[str, float] | None = None,
) -> Call[list[Decision]]:
    """Choose ``k`` distinct arms, best place first: a decision per place, each with a reward of its own.

    There is no fallback: without the service it raises.

    Parameters
    ----------
    fleet, task : str
    context : mapping, or sequence
    k : int
        How many places, at most the number of eligible arms.
    eligible : sequence of str, default None
    explore : bool, default True
    key : str, default None
    values, costs : mapping from arms to numbers, default None
        As in :meth:`decide`.

    Returns
    -------
    list of Decision
        The propensity of a place is that of its arm among those that the places above have left.

    Raises
    ------
    InvalidValue, ServiceError, ServiceUnavailable
        As in :meth:`decide`.
    """
    body = to_json({**_question(task, context, eligible, explore, values, costs), "k": k}, "the ranking")
    return Call(method="POST", path=f"{_fleet(fleet)}/rankings", read=decisions_of, body=body, headers=_once(key))


def decide_many(fleet: str, asked: Iterable[Mapping[str, Any]], *, key: str | None = None) -> Call[list[Decision]]:
    """Decide many at once, all or none.

    Parameters
    ----------
    fleet : str
    asked : iterable of mappings
        Each with ``task`` and ``context``, and maybe ``eligible``, ``explore``, ``key``, ``values`` and ``costs``, as
        in :meth:`decide`.
    key : str, default None
        For the batch as a whole. None: a new one.

    Returns
    -------
    list of Decision
        In the order in which they were asked for; all of them fallbacks if the service could not be asked.

    Raises
    ------
    InvalidValue, ServiceError, ServiceUnavailable
        As in :meth:`decide`; ServiceError with code "batch_too_large" if the service does not take so many at once.
    """
    batch = [_item(one, position) for position, one in enumerate(asked)]
    return Call(
        method="POST", path=f"{_fleet(fleet)}/decisions/batch", read=decisions_of, headers=_once(key),
        body=to_json({"decisions": batch}, "the batch"), known=() if batch else ([],), fleet=fleet,
        asked=[(one["task"], one["context"], one["eligible"]) for one in batch], of_fallbacks=list,
    )  # fmt: skip


def reward(decision: Decision | str, value: float, *, event: str | None = None) -> Call[bool]:
    """Give a decision, or the one of this id, its reward.

    It counts once: the same reward again changes nothing, so a call that failed may be made again, now or later.

    Parameters
    ----------
    decision : Decision or str
        A decision or its id.
    value : float
        What the arm earned, in the unit of all rewards.
    event : str, default None
        What it is called, where the fleet takes several rewards of one decision (``reward_events``); each event
        counts once.

    Returns
    -------
    bool
        True if it was news; False if the same had come before, or the decision is a fallback.

    Raises
    ------
    InvalidValue
        If the value cannot be sent, such as NaN, before anything is.
    ServiceError
        With code "unknown_decision", "decision_expired" if it is older than the fleet's ``time_to_live``,
        "reward_conflict" if it has another reward (see :meth:`correct`), "event_required", or "invalid".
    ServiceUnavailable
        If no answer came: keep the id and try again later.
    """
    body = {"reward": value} if event is None else {"reward": value, "event": _name(event, "event")}
    return _reward("POST", decision, body)


def correct(decision: Decision | str, value: float, *, instead_of: float | None = None) -> Call[bool]:
    """Give a decision another reward than it has; what was learned from that is taken back.

    Parameters
    ----------
    decision : Decision or str
        A decision or its id.
    value : float
        The right reward.
    instead_of : float, default None
        The reward that it is to have now: a conflict if it has another. None: whatever it has.

    Returns
    -------
    bool
        True if it was news; False if it has this reward, or the decision is a fallback.

    Raises
    ------
    InvalidValue
        If a value cannot be sent, before anything is.
    ServiceError
        With code "not_rewarded" if it has no reward yet, "reward_conflict" if it has another than ``instead_of``,
        "unknown_decision", "decision_expired" or "invalid".
    ServiceUnavailable
        If no answer came.
    """
    return _reward("PUT", decision, {"reward": value} | ({} if instead_of is None else {"instead_of": instead_of}))


def _reward(method: str, decision: Decision | str, body: dict[str, Any]) -> Call[bool]:
    decision_id = _rewarded(decision)
    path = "" if decision_id is None else f"/v1/decisions/{quote(decision_id, safe='')}/reward"
    known = (False,) if decision_id is None else ()
    sent = to_json(body, "reward")
    return Call(method=method, path=path, read=lambda data: bool(data["new"]), body=sent, known=known)


def reward_many(rewards: Rewards) -> Call[RewardCounts]:
    """Give many decisions their rewards, all or none.

    Parameters
    ----------
    rewards : iterable of pairs, or mapping
        Pairs of a decision or its id and its reward, or rewards by id; a third value names the event, where several
        make a reward. Fallbacks are left out.

    Returns
    -------
    RewardCounts
        How many were ``new``, and how many the ``same`` as had come before.

    Raises
    ------
    InvalidValue, ServiceError, ServiceUnavailable
        As in :meth:`reward`, for any of them; ServiceError with code "batch_too_large" if the service does not take
        so many at once.
    """
    found = []
    for one in rewards.items() if isinstance(rewards, Mapping) else rewards:
        if len(one) not in (2, 3):
            raise InvalidValue(f"expected (decision, reward) or (decision, reward, event), got {len(one)} values")
        decision_id, value, event = _rewarded(one[0]), one[1], one[2] if len(one) == 3 else None
        if decision_id is not None:
            found.append({"id": decision_id, "reward": value} | ({} if event is None else {"event": event}))
    known = () if found else (RewardCounts(0, 0),)
    body = to_json({"rewards": found}, "the batch")
    return Call(method="POST", path="/v1/rewards", read=_counts(RewardCounts), body=body, known=known)


def ingest(fleet: str, rows: Sequence[Mapping[str, Any]]) -> Call[IngestCounts]:
    """Take decisions that were made elsewhere into a fleet's log, with their rewards.

    All or none; a row that was taken in before changes nothing.

    Parameters
    ----------
    fleet : str
    rows : sequence of mappings
        Rows as an export of the log has them.

    Returns
    -------
    IngestCounts
        New ``decisions``, new ``rewards``, and rows of which nothing was new (``same``).

    Raises
    ------
    InvalidValue
        If a value cannot be sent, before anything is.
    ServiceError
        With code "unknown_fleet", "invalid", "reward_conflict" or "batch_too_large".
    ServiceUnavailable
        If no answer came.
    """
    body = to_json({"rows": rows}, "the rows")
    return Call(method="POST", path=f"{_fleet(fleet)}/log", read=_counts(IngestCounts), body=body)


def decision(decision_id: str) -> Call[api.LogRow]:
    """Return a decision as it is logged.

    Parameters
    ----------
    decision_id : str

    Returns
    -------
    LogRow
        With its context, probabilities, state ("pending", "rewarded" or "expired") and reward.

    Raises
    ------
    ServiceError
        With code "unknown_decision" if there is none.
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path=f"/v1/decisions/{_part(decision_id, 'decision id')}", read=reader(api.LogRow))


def tasks(fleet: str, search: str = "", *, page: int = 100) -> Call[tuple[Sequence[api.TaskRow], str | None]]:
    """Go over all tasks whose names contain a text, ordered by name.

    Parameters
    ----------
    fleet : str
    search : str, default ""
        Part of the name; case does not matter. "": all.
    page : int, default 100
        How many are asked for at once, at most 1000.

    Returns
    -------
    iterator of TaskRow
        It asks the service as it goes on.

    Raises
    ------
    ServiceError
        With code "unknown_fleet", when the iteration starts.
    ServiceUnavailable
        If no answer came.
    """
    params = {"search": search, "limit": str(page)} if search else {"limit": str(page)}

    def read(data: Any) -> tuple[Sequence[api.TaskRow], str | None]:
        found = reader(api.TaskList)(data)
        return found.tasks, found.next

    return Call(method="GET", path=f"{_fleet(fleet)}/tasks", read=read, params=params)


def task(fleet: str, task: str) -> Call[api.Task]:
    """Return a task with what is believed about it, and how much of that is borrowed from the others.

    Parameters
    ----------
    fleet, task : str

    Returns
    -------
    Task

    Raises
    ------
    ServiceError
        With code "unknown_task" or "unknown_fleet".
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path=f"{_fleet(fleet)}/tasks/{_part(task, 'task')}", read=reader(api.Task))


def erase(fleet: str, task: str) -> Call[None]:
    """Erase a task, from the log, from snapshots and from what was learned; it cannot be taken back.

    Parameters
    ----------
    fleet, task : str

    Raises
    ------
    ServiceError
        With code "unknown_task", also if it was erased before, or "unknown_fleet".
    ServiceUnavailable
        If no answer came.
    """
    path = f"{_fleet(fleet)}/tasks/{_part(task, 'task')}"
    return Call(method="DELETE", path=path, read=_nothing, done_by="unknown_task")


def export(fleet: str, task: str) -> Call[dict[str, Any]]:
    """Return all that is kept about a task, as plain values: for a person who asks what is known about them.

    Parameters
    ----------
    fleet, task : str

    Returns
    -------
    dict

    Raises
    ------
    ServiceError
        With code "unknown_task" or "unknown_fleet".
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path=f"{_fleet(fleet)}/export/{_part(task, 'task')}", read=dict)


def history(fleet: str, task: str, *, page: int = 100) -> Call[tuple[Sequence[api.LogRow], int | None]]:
    """Go over the decisions of a task, the newest first.

    Parameters
    ----------
    fleet, task : str
    page : int, default 100
        How many are asked for at once, at most 1000.

    Returns
    -------
    iterator of LogRow
        It asks the service as it goes on.

    Raises
    ------
    ServiceError
        With code "unknown_fleet" or "unknown_task", when the iteration starts.
    ServiceUnavailable
        If no answer came.
    """

    def read(data: Any) -> tuple[Sequence[api.LogRow], int | None]:
        found = reader(api.History)(data)
        return found.decisions, found.next

    path = f"{_fleet(fleet)}/history/{_part(task, 'task')}"
    return Call(method="GET", path=path, read=read, params={"limit": str(page)})


def pending(fleet: str, *, limit: int = 100) -> Call[api.Pending]:
    """Return decisions that wait for their rewards, the oldest first, and how many there are.

    Parameters
    ----------
    fleet : str
    limit : int, default 100
        How many to return at most.

    Returns
    -------
    Pending
        ``pending``, and the ``total`` number of them.

    Raises
    ------
    ServiceError
        With code "unknown_fleet".
    ServiceUnavailable
        If no answer came.
    """
    params = {"limit": str(limit)}
    return Call(method="GET", path=f"{_fleet(fleet)}/pending", read=reader(api.Pending), params=params)


def population(fleet: str) -> Call[api.Population]:
    """Return what the tasks have in common, and what could not be learned.

    Parameters
    ----------
    fleet : str

    Returns
    -------
    Population

    Raises
    ------
    ServiceError
        With code "unknown_fleet".
    ServiceUnavailable
        If no answer came, or the fleet is set aside.
    """
    return Call(method="GET", path=f"{_fleet(fleet)}/population", read=reader(api.Population))


def activity(fleet: str, *, minutes: int = 60) -> Call[api.Activity]:
    """Return decisions and rewards of the last minutes.

    Parameters
    ----------
    fleet : str
    minutes : int, default 60
        How far back.

    Returns
    -------
    Activity
        Counts in stretches of ``stretch`` seconds; those in which nothing happened may be left out.

    Raises
    ------
    ServiceError
        With code "unknown_fleet", or "invalid" if ``minutes`` is out of its range.
    ServiceUnavailable
        If no answer came.
    """
    params = {"minutes": str(minutes)}
    return Call(method="GET", path=f"{_fleet(fleet)}/activity", read=reader(api.Activity), params=params)


def value(fleet: str, *, baseline: str = "uniform", rows: int = 20_000) -> Call[api.Value]:
    """Return the mean reward of the policy against a baseline, from the newest rows of the log.

    Parameters
    ----------
    fleet : str
    baseline : str, default "uniform"
        "uniform", which takes any eligible arm, or "arm:NAME", which always takes that arm.
    rows : int, default 20000
        How many of the newest rows to look at.

    Returns
    -------
    Value
        Estimates with intervals, or None where ``refusal`` says why there are none.

    Raises
    ------
    ServiceError
        With code "unknown_fleet", or "invalid" if the baseline is none.
    ServiceUnavailable
        If no answer came, or the fleet is set aside.
    """
    params = {"baseline": baseline, "rows": str(rows)}
    return Call(method="GET", path=f"{_fleet(fleet)}/value", read=reader(api.Value), params=params)


def expected(fleet: str, task: str, context: Context) -> Call[tuple[api.ExpectedArm, ...]]:
    """Return what every arm is expected to earn in a context, and its probability of being best; decides nothing.

    Parameters
    ----------
    fleet, task : str
        A task that is new has what the population says.
    context : mapping, or sequence
        As in :meth:`decide`.

    Returns
    -------
    tuple of ExpectedArm
        Expected reward with its 90 % interval, ``probability_best``, and the ``probability`` of being chosen.

    Raises
    ------
    InvalidValue
        If a name or value cannot be sent, before anything is.
    ServiceError
        With code "unknown_fleet" or "invalid".
    ServiceUnavailable
        If no answer came, or the fleet is set aside.
    """
    asked = _question(task, context, None, True)
    body = to_json({"task": asked["task"], "context": asked["context"]}, "context")
    path = f"{_fleet(fleet)}/expected"
    return Call(method="POST", path=path, read=lambda data: reader(api.Expected)(data).arms, body=body)


def insights(fleet: str) -> Call[dict[str, Any]]:
    """Return what was found out about a fleet and its log: uplift of the logged policy, which arm is best where.

    Parameters
    ----------
    fleet : str

    Returns
    -------
    dict
        As JSON. Its ``state`` is "making" until it was made for the first time: ask again.

    Raises
    ------
    ServiceError
        With code "unknown_fleet".
    ServiceUnavailable
        If no answer came, or the fleet is set aside.
    """
    return Call(method="GET", path=f"{_fleet(fleet)}/insights", read=dict)


def log(fleet: str, path: str | Path) -> Call[Path]:
    """Save the log of a fleet to a file, which is there when it is whole.

    Parameters
    ----------
    fleet : str
    path : path
        Ends in ``.jsonl``, ``.ndjson`` or ``.parquet``. A file of that name is replaced.

    Returns
    -------
    Path

    Raises
    ------
    InvalidValue
        If the path ends in something else.
    MissingFile
        If there is no such folder.
    SavedFileError
        If the file cannot be written.
    ServiceError
        With code "unknown_fleet".
    ServiceUnavailable
        If no answer came. A whole log may take longer than ``deadline``; it is waited for up to 600 s at a time.
    """
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InvalidValue(f"expected a .jsonl or .parquet file for the log, got {target.name!r}; rename it")
    if not target.parent.is_dir():
        raise MissingFile(f"there is no folder {target.parent}; make it first")
    params = {"format": FORMATS[target.suffix]}
    return Call(method="GET", path=f"{_fleet(fleet)}/log", read=lambda _: target, params=params, save_to=target)


def health() -> Call[Health]:
    """Return whether the service takes requests, in one try.

    Returns
    -------
    Health
        ``ready``, how many ``fleets``, and whether this process is the one that learns (``leading``).

    Raises
    ------
    ServiceUnavailable
        If no answer came.
    """
    return Call(method="GET", path="/readyz", read=health_of, accept=(503,), tries=1)


def declared(features: Any) -> dict[str, Any]:
    """Return features as a definition has them; a FeatureSpec and its features say themselves what they are."""
    if callable(getattr(features, "to_json", None)):
        whole = features.to_json()
        return {"features": whole["features"], "intercept": whole["intercept"]}
    if isinstance(features, str):
        raise InvalidValue(f"expected features to be a list, got the text {features!r}; use [{features!r}]")
    return {"features": [one.to_json() if callable(getattr(one, "to_json", None)) else one for one in features]}


def _question(
    task: str, context: Context, eligible: Sequence[str] | None, explore: bool,
    values: Mapping[str, float] | None = None, costs: Mapping[str, float] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return what a decision is asked with."""
    if not isinstance(context, (Mapping, list, tuple)) and not hasattr(context, "tolist"):
        raise InvalidValue(
            f"expected context to be values by feature, or all of them in their order, got {type(context).__name__}; "
            'send e.g. {"hour": 9.5}'
        )
    arms = None if eligible is None else [_name(arm, "eligible arm") for arm in _listed(eligible)]
    prices = {name: given for name, given in (("values", values), ("costs", costs)) if given is not None}
    for name, given in prices.items():
        if not isinstance(given, Mapping):
            raise InvalidValue(
                f"expected {name} to be numbers by arm, got {type(given).__name__}; send e.g. {{'coffee': 1.6}}"
            )
    return {"task": _name(task, "task"), "context": context, "eligible": arms, "explore": bool(explore), **prices}


def _item(one: Mapping[str, Any], position: int) -> dict[str, Any]:
    """Return an entry of a batch, checked, from a mapping with the arguments of one decision."""
    known = {"task", "context", "eligible", "explore", "key", "values", "costs"}
    if not isinstance(one, Mapping) or not {"task", "context"} <= set(one) <= known:
        raise InvalidValue(
            f"expected decision {position} to be a mapping with task and context, and maybe eligible, explore, "
            f"key, values and costs, got {sorted(map(str, one)) if isinstance(one, Mapping) else type(one).__name__}"
        )
    prices = one.get("values"), one.get("costs")
    entry = _question(one["task"], one["context"], one.get("eligible"), one.get("explore", True), *prices)
    return entry | ({"key": one["key"]} if one.get("key") is not None else {})


def _rewarded(decision: Decision | str) -> str | None:
    """Return the id that a reward names, or None for a fallback, which takes none."""
    return decision.id if isinstance(decision, Decision) else _name(decision, "decision id")


def _counts(kind: Callable[..., T]) -> Callable[[Any], T]:
    return lambda data: kind(**{name: int(data[name]) for name in kind._fields})  # type: ignore[attr-defined]


def _nothing(_: Any) -> None:
    """Read an answer without a body."""


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
