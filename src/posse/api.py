"""What a service answers: the server describes its answers with these, the clients read theirs into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, dataclass_transform

Family = Literal["number", "binary", "count", "revenue"]
"""What the rewards of a fleet are."""
State = Literal["making", "ready", "empty", "failed"]


def says(description: str) -> Any:
    """Return a field that says what it is."""
    return field(metadata={"description": description})


def example(value: Any, description: str | None = None) -> Any:
    """Return a field with an example, and what it is where its name does not say that."""
    return field(metadata={"examples": [value]} | ({} if description is None else {"description": description}))


def where_priced(value: Any) -> Any:
    """Return a field that answers have only where rewards have values or arms have costs."""
    words = "Value x mean - cost, which arms were compared by; only where rewards have values or arms have costs."
    return field(default=None, metadata={"examples": [value], "description": words})


@dataclass_transform(frozen_default=True, field_specifiers=(says, example, where_priced))
class Answer:
    """A part of an answer; every class below it is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class ErrorDetail(Answer):
    """What went wrong."""

    code: str = example("invalid", "One word for programs.")
    message: str = says("What was expected, what came and what to do.")
    field: str | None = says("Where in the request.")


class Failure(Answer):
    """Every failure has this shape."""

    error: ErrorDetail


class Fleet(Answer):
    """A fleet with its counts."""

    name: str = example("stores")
    state: Literal["serving", "degraded", "set_aside"] = example(
        "serving",
        "A degraded fleet decides, but something that is done for it fails. One that is set aside decides "
        "nothing until it is repaired, which is tried again and again; its rewards are logged.",
    )
    reason: str | None = example("no memory", "Why it is not serving as it should, else null.")
    created: datetime = example("2026-01-31T09:30:00.000000Z")
    definition: dict[str, Any] = says("Features, policy and settings, with what was left open filled in.")
    arms: tuple[str, ...] = example(["coffee", "cake", "newspaper"])
    retired_arms: tuple[str, ...] = example([])
    columns: tuple[str, ...] = example(["intercept", "hour"], "Encoded columns that coefficients belong to.")
    tasks: int = example(120)
    decisions: int = example(45210)
    rewards: int = example(40003)
    pending: int = example(5207, "Decisions that wait for their reward.")
    pending_reward: float | None = example(0.0, "What each of them counts as meanwhile; null if it does not count.")


class Fleets(Answer):
    """All fleets."""

    fleets: tuple[Fleet, ...]


class DecisionAnswer(Answer):
    """A decision."""

    id: str = example("3f1c0a9b2d4e-17", "What its reward names it by.")
    fleet: str = example("stores")
    task: str = example("store-17")
    arm: str = example("coffee", "The arm to pull.")
    propensity: float = example(0.81, "The probability that this arm had.")
    probabilities: dict[str, float] = example({"coffee": 0.81, "cake": 0.19})
    mean: dict[str, float] = example({"coffee": 3.1, "cake": 2.4})
    sd: dict[str, float] = example({"coffee": 0.5, "cake": 0.6})
    worth: dict[str, float] | None = where_priced({"coffee": 4.9, "cake": 1.9})


class DecisionsAnswer(Answer):
    """Many decisions, in the order of the request."""

    decisions: tuple[DecisionAnswer, ...]


class RankingAnswer(Answer):
    """A ranking: the decision of every place, the best first."""

    places: tuple[DecisionAnswer, ...]


class RewardAnswer(Answer):
    """A reward that is on disk."""

    id: str = example("3f1c0a9b2d4e-17")
    reward: float = example(3.2)
    new: bool = says("False if the same had come before.")


class IngestAnswer(Answer):
    """Rows that are on disk."""

    decisions: int = example(1, "Decisions that were new.")
    rewards: int = example(1, "Rewards that were new.")
    same: int = example(0, "Rows of which nothing was new.")


class RewardEvent(Answer):
    """Something that a reward was made of."""

    kind: Literal["reward", "correction"]
    time: datetime = example("2026-01-31T10:02:11.000000Z")
    event: str | None = example("purchase-991", "Its name.")
    value: float = example(3.2, "What came.")
    before: float | None = example(None, "The decision's reward before.")
    reward: float = example(3.2, "And after.")


class RewardTrace(Answer):
    """How a decision came to its reward."""

    id: str = example("3f1c0a9b2d4e-17")
    reward: float | None = example(3.2, "What counts now.")
    events: tuple[RewardEvent, ...]


class RewardsAnswer(Answer):
    """Rewards that are on disk."""

    new: int = example(17)
    same: int = example(3, "How many had come before.")


class LogRow(Answer):
    """A decision in the log."""

    id: str = example("3f1c0a9b2d4e-17")
    number: int = example(17)
    time: datetime = example("2026-01-31T09:30:00.000000Z")
    task: str = example("store-17")
    arm: str = example("coffee")
    propensity: float = example(0.81)
    probabilities: dict[str, float] = example({"coffee": 0.81, "cake": 0.19})
    mean: dict[str, float] = example({"coffee": 3.1, "cake": 2.4})
    sd: dict[str, float] = example({"coffee": 0.5, "cake": 0.6})
    context: dict[str, Any] = example({"hour": 9.5, "weather": "rain"})
    state: Literal["pending", "rewarded", "expired"]
    reward: float | None = example(3.2)
    reward_time: datetime | None = example("2026-01-31T10:02:11.000000Z")
    worth: dict[str, float] | None = where_priced({"coffee": 4.9, "cake": 1.9})


class TaskRow(Answer):
    """A task in a list."""

    task: str = example("store-17")
    decisions: int = example(310)
    rewards: int = example(295)
    first_time: datetime = example("2026-01-31T09:30:00.000000Z")


class TaskList(Answer):
    """Some tasks."""

    tasks: tuple[TaskRow, ...]
    next: str | None = example("store-18", "Pass it as `after` for the rest.")


class Rate(Answer):
    """A probability, or a rate of counts, with its 90 % interval, inside their range."""

    mean: float = example(0.041)
    low: float = example(0.028)
    high: float = example(0.057)


class ArmBelief(Answer):
    """What is believed about one arm in one task."""

    arm: str = example("coffee")
    retired: bool
    rewards: float = example(101, "Learned from this arm in this task.")
    rate: Rate | None = says("Expected reward of the task, averaged over contexts; null where rewards are any numbers.")
    mean: tuple[float, ...] = example([1.2, -0.1], "Of coefficients of the reward, its logit or logarithm.")
    sd: tuple[float, ...] = example([0.2, 0.05])
    population_mean: tuple[float, ...] = example([1.0, 0.0])
    own_share: float = example(0.7, "0 if all is borrowed, 1 if nothing is.")
    borrowed: float | None = example(
        12.5, "How many rewards of its own would say as much as the others; null before its first."
    )


class Task(TaskRow):
    """One task: what is believed, and what that stands on."""

    reward_family: Family = example("number", "What rewards are.")
    columns: tuple[str, ...] = example(["intercept", "hour"])
    features: dict[str, Any] | None = example(
        {"region": "north", "size": 120.0}, "What is known about the task; null if nothing is."
    )
    arms: tuple[ArmBelief, ...]


class TaskFeaturesAnswer(Answer):
    """About how many tasks something is known now."""

    tasks: int = example(2)


class History(Answer):
    """Decisions of a task, the newest first."""

    decisions: tuple[LogRow, ...]
    next: int | None = example(17, "Pass it as `before` for older ones.")
    reward_family: Family = example(
        "number", "What rewards are; mean and sd of a decision are those of a number, a probability or a rate."
    )


class PendingDecision(Answer):
    """A decision that waits for its reward."""

    id: str = example("3f1c0a9b2d4e-17")
    task: str = example("store-17")
    arm: str = example("coffee")
    time: datetime = example("2026-01-31T09:30:00.000000Z")
    age: float = example(73.5, "Seconds.")


class Pending(Answer):
    """Decisions that wait, the oldest first."""

    pending: tuple[PendingDecision, ...]
    total: int = example(5207)


class ArmPopulation(Answer):
    """What all tasks have in common about one arm."""

    arm: str = example("coffee")
    retired: bool
    tasks: int = example(120)
    rewards: float = example(13000)
    rate: Rate | None = says(
        "Expected reward of a new task, averaged over contexts; null where rewards are any numbers."
    )
    noise_sd: float = example(1.1)
    mean: tuple[float, ...] = example([1.0, 0.0])
    mean_sd: tuple[float, ...] = example([0.02, 0.01])
    covariance: tuple[tuple[float, ...], ...] = example([[0.3, 0.0], [0.0, 0.01]])


class Population(Answer):
    """What all tasks have in common."""

    policy: str = example("ebm-rand-ucb")
    prior: str = example("evidence")
    reward_family: Family = example(
        "number", "What rewards are: means and covariances are of the reward, its logit or its logarithm."
    )
    columns: tuple[str, ...] = example(["intercept", "hour"])
    refreshed_rewards: float = example(38000, "Rewards that it was estimated from.")
    findings: tuple[str, ...] = example(
        ["arm 'ice cream' has no rewards yet"], "What could not be learned and what looks unusual, in sentences."
    )
    effects: dict[str, dict[str, float]] = example(
        {"task": {"region": 0.4, "size": 0.0}, "arm": {}},
        "How much every feature of tasks and of arms says: the standard deviation of its effects.",
    )
    arms: tuple[ArmPopulation, ...]


class Period(Answer):
    """One stretch of time."""

    time: datetime = example("2026-01-31T09:30:00.000000Z")
    decisions: int = example(210)
    rewards: int = example(195)
    mean_reward: float | None = example(2.9)


class Activity(Answer):
    """Decisions and rewards over time."""

    stretch: int = example(60, "Seconds of an entry.")
    activity: tuple[Period, ...]


class Estimate(Answer):
    """A number with an interval."""

    value: float = example(2.9)
    low: float | None = example(2.8)
    high: float | None = example(3.0)


class NamedEstimate(Estimate):
    """What another policy would have earned."""

    name: str = example("uniform")


class Value(Answer):
    """Mean reward of the policy, and of a baseline by the same log."""

    rows: int = example(20000)
    rewards: int = example(19200)
    confidence: float = example(0.9)
    policy: Estimate | None
    baseline: NamedEstimate | None
    difference: Estimate | None
    refusal: str | None = example(None, "Why there is no answer, and what to do.")


class VerifiedDifference(Answer):
    """A task and an arm whose sums are not those of the log."""

    task: str = example("store-17")
    arm: str = example("cake", "Empty where rows have left the log and only their number is known.")
    learned: float = example(12, "Rewards that were learned.")
    logged: float = example(11, "Rewards of the log.")
    off: float | None = example(0.083, "The largest difference, as a part of the size of a sum.")


class Verified(Answer):
    """What was learned, compared with the log."""

    fleet: str = example("stores")
    applied: int = example(38000, "The change up to which it was compared.")
    tasks: int = example(1000, "Tasks that were compared.")
    rewards: int = example(38000, "Rewards of the log that were added up.")
    partial: int = example(0, "Tasks of which rows have left the log by retention.")
    left_out: int = example(0, "Rows that cannot be learned.")
    different: int = example(0, "Tasks that differ.")
    differences: tuple[VerifiedDifference, ...] = example([], "At most 100.")
    next: str | None = example("store-17", "`after` of the next request; null if there are no more.")


class AuditEntry(Answer):
    """Somebody asked for something that needs an admin."""

    id: int = example(12)
    time: datetime = example("2026-01-31T09:30:00.000000+00:00")
    actor: str = example("3f1c0a9b2d4e", "Id of the key; local without keys; command line.")
    client: str | None = example("10.0.0.7", "Address.")
    action: str = example("retire_arm")
    fleet: str | None = example("stores")
    target: str | None = example("cake", "An arm, a key, or the digest of a task's name.")
    request: str | None = example("9f2c-1a", "X-Request-ID.")
    status: int | None = example(200, "Of the answer; null if there was none yet.")


class Audit(Answer):
    """Calls that need an admin, the newest first."""

    audit: tuple[AuditEntry, ...]
    next: int | None = example(11, "`before` of the next request; null if there are no more.")


class Health(Answer):
    """Whether the process is alive."""

    status: str = example("ok")


class ReadyCheck(Answer):
    """What one check found."""

    ok: bool
    detail: str = example("writable")


class ReadyChecks(Answer):
    """All that must be so before requests are answered."""

    compiled: ReadyCheck
    database: ReadyCheck
    loaded: ReadyCheck
    disk: ReadyCheck
    leader: ReadyCheck


class Ready(Answer):
    """Whether it answers requests."""

    status: Literal["ready", "degraded"] = example(
        "ready", "Degraded: requests are answered, but some fleets are not as they should be."
    )
    fleets: int = example(1, "Fleets in memory.")
    degraded: int = example(0, "Fleets for which something fails, but which decide.")
    set_aside: int = example(0, "Fleets that are not served until they are repaired.")
    leading: bool = says("Whether this process is the one that learns.")
    clock: str | None = example(
        "the clock jumped to 2026-03-12 09:30:00Z when 2026-01-31 09:30:00Z was expected",
        "What is wrong with the clock, and what is held meanwhile; null if nothing is.",
    )
    checks: ReadyChecks


class NotReady(Failure):
    """Why it does not answer requests: the field of the failure names the first check that failed."""

    checks: ReadyChecks


class ExpectedArm(Answer):
    """What is believed about one arm in a situation."""

    arm: str = example("coffee")
    mean: float = example(3.1, "Expected reward.")
    low: float = example(2.9)
    high: float = example(3.3)
    probability_best: float = example(0.93, "The probability that this arm is the best one.")
    probability: float = example(0.9, "The probability that it would be chosen.")
    worth: float | None = where_priced(4.9)


class Expected(Answer):
    """Every arm in a situation; nothing was decided."""

    task: str = example("store-17")
    known: bool = says("Whether the task has rewards of its own.")
    confidence: float = example(0.9)
    arms: tuple[ExpectedArm, ...]


class Access(Answer):
    """What whoever asks may do."""

    scopes: tuple[str, ...] = example(["read"])


class GainOver(Answer):
    """What deciding gained per decision over another way to decide, with a 95 % interval."""

    over: Literal["random", "one-arm"] = example("random")
    name: str = example("uniform", "The arm, where it is one arm for all.")
    gain: Estimate | None = says("null if the log cannot tell.")
    probability: float | None = example(0.99, "The probability that deciding earns more.")
    refusals: tuple[str, ...] = example([], "Why the log cannot tell, and what helps.")


class TimeEntry(Answer):
    """One stretch of time."""

    time: datetime = example("2026-01-31T00:00:00.000000Z")
    decisions: int = example(450)
    shares: tuple[float, ...] = example([0.7, 0.3], "How often each arm was taken.")
    means: tuple[float | None, ...] = example([3.0, 2.1], "Mean reward of each arm.")
    earned: float | None = example(2.8, "Mean reward.")
    low: float | None = example(2.7)
    high: float | None = example(2.9)


class OverTime(Answer):
    """How it went."""

    stretch: int = example(86400, "Seconds of an entry.")
    arms: tuple[str, ...] = example(["coffee", "cake"])
    entries: tuple[TimeEntry, ...]


class ArmInsight(Answer):
    """One arm."""

    arm: str = example("coffee")
    retired: bool
    share: float = example(0.7, "How often it was taken.")
    mean_reward: float | None = example(3.0)
    best_in: int = example(80, "Tasks in which it looks best.")
    sure_in: int = example(60, "Those in which that is at least 90 % sure.")


class Segment(Answer):
    """Decisions that have something in common, and the arm that is best for them."""

    feature: str = example("weather")
    value: Any = example("rain", "A category, or a number of few; null for a range.")
    low: float | None = example(None, "Of a range.")
    high: float | None = example(None)
    share: float = example(0.3, "Of all decisions.")
    arm: str = example("coffee")
    second: str | None = example("cake")
    mean: float = example(3.2, "Expected reward of the best arm.")
    ahead: float = example(0.4, "By how much that is more than the next best.")
    probability: float = example(0.8, "The probability that it is the best one, on average.")


class TaskInsight(Answer):
    """One task."""

    task: str = example("store-17")
    decisions: int = example(310)
    rewards: int = example(295)
    mean_reward: float | None = example(2.9)
    arm: str = example("coffee", "The arm that looks best at its average context.")
    expected: float = example(3.1, "What that arm is expected to earn.")
    probability: float = example(0.97, "The probability that it is the best one.")
    distance: float = example(0.8, "How far the task is from the others, in standard deviations between tasks.")
    unusual: bool = example(False, "Whether that is further than chance would put any.")


class UnusualTask(Answer):
    """A task that is unlike the others."""

    task: str = example("store-3")
    arm: str = example("cake", "In which it differs most.")
    mean: float = example(4.2, "Expected reward of that arm there.")
    typical: float = example(2.0, "And in a typical task.")
    distance: float = example(3.9)
    feature: str | None = example("weather", "In which it differs most; null: in its level.")


class InsightFinding(Answer):
    """Something that looks wrong, or is good to know."""

    about: Literal["learning", "log"]
    severity: str = example("warning")
    text: str = example("arm 'tea' has no rewards yet")
    what_to_do: str = example("offer it, or retire it")


class InsightState(Answer):
    """Whether there is something to tell."""

    state: State = example("ready", "making: ask again in a second; empty: too few rewards; failed: see problem.")
    problem: str | None = example(None)
    made: datetime | None = example("2026-01-31T09:30:00.000000Z", "When.")


class InsightsAnswer(InsightState):
    """Uplift of the logged policy, rewards over time, which arm is best where, and what is unusual or looks wrong."""

    rows: int = example(20000, "Decisions that were looked at, taken evenly from the log.")
    decisions: int = example(45210, "Decisions of the log.")
    rewards: int = example(19200, "Those looked at that have a reward.")
    confidence: float = example(0.9, "Of all intervals.")
    earned: Estimate | None = says("Mean reward per decision.")
    gains: tuple[GainOver, ...]
    over_time: OverTime | None
    arms: tuple[ArmInsight, ...]
    segments: tuple[Segment, ...]
    tasks: tuple[TaskInsight, ...] = says("At most 400: those with most rewards, and unusual ones.")
    unusual: tuple[UnusualTask, ...]
    findings: tuple[InsightFinding, ...]
