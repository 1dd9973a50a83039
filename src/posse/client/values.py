"""What the service answers, as values with types.

Keys that a newer service adds are left out; one that is missing is a TypeError or KeyError here, and an error that
names the service where it is caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision.

    Parameters
    ----------
    id : str or None
        What a reward names it by; None for a fallback.
    fleet, task : str
    arm : str
        The arm to pull.
    propensity : float or None
        The probability that this arm had; None for a fallback.
    probabilities, mean, sd : dict
        By eligible arm: its probability, and what is believed about its expected reward. Empty for a fallback.
    fallback : bool, default False
        Whether the service could not be asked and the arm is the fallback: not logged, and nothing to learn from.
    reason : str, default ""
        Why it is a fallback.
    """

    id: str | None
    fleet: str
    task: str
    arm: str
    propensity: float | None
    probabilities: dict[str, float]
    mean: dict[str, float]
    sd: dict[str, float]
    fallback: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet with its counts; ``arms`` are the active ones, ``columns`` those of encoded contexts.

    ``state`` is "serving", "degraded" (it decides, but something that is done for it fails) or "set_aside" (it decides
    nothing until it is repaired; rewards are logged), and ``reason`` says why.
    """

    name: str
    created: datetime
    definition: dict[str, Any]
    arms: tuple[str, ...]
    retired_arms: tuple[str, ...]
    columns: tuple[str, ...]
    tasks: int
    decisions: int
    rewards: int
    pending: int
    state: str = "serving"
    reason: str | None = None


class RewardCounts(NamedTuple):
    """How many rewards were news, and how many had come before."""

    new: int
    same: int


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in a list."""

    task: str
    decisions: int
    rewards: int
    first_time: datetime


@dataclass(frozen=True, slots=True)
class Rate:
    """A probability, or a rate of counts, with its 90 % interval, inside their range."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ArmBelief:
    """What is believed about one arm of a task: coefficients by column, and how much of it comes from other tasks.

    ``rate`` is expected of the task, averaged over contexts; None unless rewards are binary or counts.
    """

    arm: str
    retired: bool
    rewards: int
    mean: Numbers
    sd: Numbers
    population_mean: Numbers
    own_share: float
    borrowed: float
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task and what is believed about it."""

    task: str
    decisions: int
    rewards: int
    first_time: datetime
    columns: tuple[str, ...]
    arms: tuple[ArmBelief, ...]
    reward_family: str = "number"
    features: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the log; ``state`` is pending, rewarded or expired."""

    id: str
    number: int
    time: datetime
    task: str
    arm: str
    propensity: float
    probabilities: dict[str, float]
    mean: dict[str, float]
    sd: dict[str, float]
    context: dict[str, Any]
    state: str
    reward: float | None
    reward_time: datetime | None


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A decision that waits for its reward; ``age`` in seconds."""

    id: str
    task: str
    arm: str
    time: datetime
    age: float


@dataclass(frozen=True, slots=True)
class Pending:
    """The oldest decisions that wait for their rewards, and how many there are in all."""

    pending: tuple[PendingDecision, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ArmPopulation:
    """What the tasks have in common for one arm.

    ``rate`` is expected of a new task, averaged over contexts; None unless rewards are binary or counts.
    """

    arm: str
    retired: bool
    tasks: int
    rewards: int
    noise_sd: float
    mean: Numbers
    mean_sd: Numbers
    covariance: tuple[Numbers, ...]
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Population:
    """What the tasks have in common; ``refreshed_rewards`` rewards were known when it was estimated.

    ``findings`` are sentences: what could not be learned, and what looks unusual.
    """

    policy: str
    prior: str
    columns: tuple[str, ...]
    refreshed_rewards: int
    findings: tuple[str, ...]
    arms: tuple[ArmPopulation, ...]
    reward_family: str = "number"
    effects: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Period:
    """What happened in one stretch of time; ``mean_reward`` is None without rewards."""

    time: datetime
    decisions: int
    rewards: int
    mean_reward: float | None


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened lately, in stretches of so many seconds; those in which nothing did may be left out."""

    stretch: float
    activity: tuple[Period, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean reward with its interval."""

    value: float
    low: float
    high: float
    name: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of the policy against a baseline; estimates are None where ``refusal`` says why there are none."""

    rows: int
    rewards: int
    policy: Estimate | None
    baseline: Estimate | None
    difference: Estimate | None
    confidence: float
    refusal: str | None


@dataclass(frozen=True, slots=True)
class ExpectedArm:
    """One arm in a context: its expected reward with an interval, and its probabilities of being best and chosen."""

    arm: str
    mean: float
    low: float
    high: float
    probability_best: float
    probability: float


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service takes requests, how many fleets it has, and whether this process is the one that learns."""

    ready: bool
    fleets: int
    leading: bool


def decision_of(data: Mapping[str, Any]) -> Decision:
    """Read a decision."""
    return _build(Decision, data, id=str, arm=str)


def decisions_of(data: Mapping[str, Any]) -> list[Decision]:
    """Read a batch of decisions."""
    return [decision_of(one) for one in data["decisions"]]


def places_of(data: Mapping[str, Any]) -> list[Decision]:
    """Read a ranking."""
    return [decision_of(one) for one in data["places"]]


def fleet_of(data: Mapping[str, Any]) -> Fleet:
    """Read a fleet."""
    return _build(Fleet, data, created=_time, definition=dict, arms=tuple, retired_arms=tuple, columns=tuple)


def fleets_of(data: Mapping[str, Any]) -> list[Fleet]:
    """Read a list of fleets."""
    return [fleet_of(one) for one in data["fleets"]]


def news_of(data: Mapping[str, Any]) -> bool:
    """Read whether a reward was news."""
    return bool(data["new"])


class IngestCounts(NamedTuple):
    """What became of rows that were taken in: new decisions, new rewards, and rows of which nothing was new."""

    decisions: int
    rewards: int
    same: int


def ingested_of(data: Mapping[str, Any]) -> IngestCounts:
    """Read what became of rows that were taken in."""
    return IngestCounts(int(data["decisions"]), int(data["rewards"]), int(data["same"]))


def counts_of(data: Mapping[str, Any]) -> RewardCounts:
    """Read what became of a batch of rewards."""
    return RewardCounts(int(data["new"]), int(data["same"]))


def tasks_of(data: Mapping[str, Any]) -> tuple[list[TaskRow], str | None]:
    """Read a page of tasks, and where the next one begins."""
    return [_build(TaskRow, one, first_time=_time) for one in data["tasks"]], data["next"]


def task_count_of(data: Mapping[str, Any]) -> int:
    """Read about how many tasks something was said."""
    return int(data["tasks"])


def task_of(data: Mapping[str, Any]) -> Task:
    """Read a task."""
    return _build(Task, data, first_time=_time, columns=tuple, arms=_each(_arm_belief))


def log_row_of(data: Mapping[str, Any]) -> LogRow:
    """Read a row of the log."""
    return _build(LogRow, data, time=_time, reward_time=_maybe(_time))


def history_of(data: Mapping[str, Any]) -> tuple[list[LogRow], int | None]:
    """Read a page of a task's history, and where the next one begins."""
    return [log_row_of(one) for one in data["decisions"]], data["next"]


def pending_of(data: Mapping[str, Any]) -> Pending:
    """Read pending decisions."""
    return _build(Pending, data, pending=_each(lambda one: _build(PendingDecision, one, time=_time)))


def population_of(data: Mapping[str, Any]) -> Population:
    """Read a population."""
    return _build(Population, data, columns=tuple, findings=tuple, arms=_each(_arm_population))


def activity_of(data: Mapping[str, Any]) -> Activity:
    """Read what happened lately."""
    return _build(Activity, data, activity=_each(lambda one: _build(Period, one, time=_time)))


def value_of(data: Mapping[str, Any]) -> Value:
    """Read the value of a policy."""
    estimate = _maybe(lambda one: _build(Estimate, one))
    return _build(Value, data, policy=estimate, baseline=estimate, difference=estimate)


def expected_of(data: Mapping[str, Any]) -> tuple[ExpectedArm, ...]:
    """Read what arms are expected to earn."""
    return tuple(_build(ExpectedArm, one) for one in data["arms"])


def export_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read an export: plain values."""
    return dict(data)


def health_of(data: Mapping[str, Any]) -> Health:
    """Read whether the service is ready: a service that is not says so in the shape of its errors."""
    if "error" in data:
        return Health(ready=False, fleets=0, leading=False)
    return Health(
        ready=data["status"] in ("ready", "degraded"), fleets=int(data["fleets"]), leading=bool(data["leading"])
    )


def nothing_of(_: Any) -> None:
    """Read an answer without a body."""


def _arm_belief(data: Mapping[str, Any]) -> ArmBelief:
    return _build(ArmBelief, data, mean=tuple, sd=tuple, population_mean=tuple, rate=_maybe(_rate))


def _arm_population(data: Mapping[str, Any]) -> ArmPopulation:
    return _build(ArmPopulation, data, mean=tuple, mean_sd=tuple, covariance=_each(tuple), rate=_maybe(_rate))


def _rate(data: Mapping[str, Any]) -> Rate:
    return _build(Rate, data)


def _build(kind: Callable[..., T], data: Mapping[str, Any], **readers: Callable[[Any], Any]) -> T:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # all kinds here are dataclasses
    values = {name: readers[name](value) if name in readers else value for name, value in data.items() if name in known}
    return kind(**values)


def _each(read: Callable[[Any], Any]) -> Callable[[Iterable[Any]], tuple[Any, ...]]:
    return lambda some: tuple(read(one) for one in some)


def _maybe(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
