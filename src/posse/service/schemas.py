"""What requests and answers look like. Requests are checked by these; answers are described by them in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from posse.families import Rewards

Value = float | int | str | bool | None
"""A raw value of a context."""

FINITE = {"allow_inf_nan": False}


class Request(BaseModel):
    """What is sent: no fields but these, and every value of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Definition(Request):
    """What makes a fleet."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "arms": ["coffee", "cake", "newspaper"],
                    "features": ["hour", {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]}],
                    "evaluation_budget": 0.01,
                }
            ]
        }
    )
    kind: Literal["fleet", "catalogue"] = Field(
        "fleet",
        description=(
            "A fleet has arms; a catalogue has thousands that come and go, which come with their features in every "
            "request to `/fleets/{fleet}/choices`."
        ),
    )
    arms: list[str] | dict[str, dict[str, Value] | None] | None = Field(
        None,
        min_length=1,
        description=(
            "What every task chooses among; with arm_features, names with what is known about each arm, or null where "
            "that is nothing."
        ),
    )
    features: list[str | dict[str, Any]] = Field(
        description=(
            "What a context is made of: a name is a number as it is; else an object with kind (numeric, one_hot or "
            "hashed), name, and what `posse docs features` says about it."
        )
    )
    intercept: bool = Field(True, description="Whether a constant 1 is the first column.")
    policy: str = Field("ebm-rand-ucb", description="ebm-rand-ucb, ebm-ts, ebm-ucb, lin-ucb or random.")
    prior: str | None = Field(None, description="How the population is estimated; left out: evidence.")
    exploration: float | None = Field(None, ge=0, le=1e6, description="Left out: the policy's own.")
    floor: float = Field(0.0, ge=0, le=1, description="The least probability of every eligible arm.")
    evaluation_budget: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "What a log that can be evaluated may cost, as a share of what deciding gains over playing at random; "
            "0.01 is 1 %."
        ),
    )
    refresh_growth: float | None = Field(
        None, ge=0, le=1e6, description="The population is refreshed when rewards have grown by this fraction."
    )
    robust: bool = Field(False, description="A population with heavy tails.")
    rewards: Rewards = Field(
        "number",
        description=(
            "What rewards are: any numbers; binary, 0 or 1 (or false and true), such as clicks and purchases; or "
            "count, 0, 1, 2, ... The latter two have a model of their own: mean and sd of a decision are those of "
            "probabilities or rates, and coefficients are those of the logit or logarithm."
        ),
    )
    drift: Annotated[float, Field(gt=0, le=1e5)] | Literal["learn"] | None = Field(
        None,
        description=(
            "Half-life, in days, with which old rewards count less, or learn; left out: they count the same for ever."
        ),
    )
    task_features: list[str | dict[str, Any]] | None = Field(
        None,
        description=(
            "What may be known about a task (region, size), declared as features are; set it with "
            "`/fleets/{fleet}/task-features`."
        ),
    )
    arm_features: list[str | dict[str, Any]] | None = Field(
        None, description="What may be known about an arm (price, category), declared as features are."
    )
    interactions: bool = Field(
        True, description="Of a catalogue: whether a context changes what features of arms are worth."
    )
    max_arms: int = Field(
        100_000, ge=1, le=10_000_000, description="Of a catalogue: how many arms are remembered, those used last."
    )
    time_to_live: float | None = Field(
        30 * 24 * 3600.0,
        gt=0,
        le=1e10,
        description="Seconds for which a decision may get its reward; null is for ever.",
    )
    absent_reward: float | None = Field(None, description="What it means if none came; left out: nothing.")
    count_pending: bool = Field(
        True,
        description=(
            "With absent_reward: a decision counts as it from the moment it is made, and its reward replaces it. "
            "False: nothing of a decision is learned before its time_to_live is over."
        ),
    )
    reward_events: Literal["once", "sum", "last"] = Field(
        "once",
        description=(
            "What several rewards of one decision make: once refuses others than the first; sum adds up events, which "
            "need names; last goes by the newest."
        ),
    )
    reward_window: float | None = Field(
        None, gt=0, le=1e10, description="With sum and last: seconds after the decision in which they may come."
    )
    retention: float | None = Field(
        None, gt=0, le=1e10, description="Seconds after which decisions leave the log; what they taught stays."
    )


class Ask(Request):
    """A request for one decision."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}, "eligible": ["coffee", "cake"]}
            ]
        }
    )
    task: str = Field(description="One never seen starts from what the others have in common.")
    context: dict[str, Value] | list[Value] = Field(description="Raw values by feature name, or all in their order.")
    eligible: list[str] | None = Field(None, description="Left out: all arms that are not retired.")
    explore: bool = Field(True, description="False takes the arm with the best mean, with propensity 1.")


class AskRanking(Ask):
    """A request for a ranking."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}, "k": 2}]}
    )
    k: int = Field(ge=1, description="How many places: at most as many as there are eligible arms.")


class AskChoice(Request):
    """A request for a decision of a catalogue."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task": "store-17",
                    "context": {"hour": 9.5},
                    "eligible": {"tea": {"price": 2.5}, "cocoa": {"price": 3.0}},
                }
            ]
        }
    )
    task: str = Field(description="One never seen starts from what the others have in common.")
    context: dict[str, Value] | list[Value] = Field(description="Raw values by feature name, or all in their order.")
    eligible: dict[str, dict[str, Value]] = Field(
        min_length=1, description="The arms, each with what is known about it; one never seen starts from that."
    )
    explore: bool = Field(True, description="False takes the arm with the best mean, with propensity 1.")
    k: int = Field(1, ge=1, description="How many places: each is a decision among the arms that those above left.")


class AskWithKey(Ask):
    """One decision of a batch."""

    key: str | None = Field(None, min_length=1, description="Its idempotency key.")


class AskMany(Request):
    """A request for many decisions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "decisions": [
                        {"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}},
                        {"task": "store-18", "context": {"hour": 17, "weather": "sun"}, "eligible": ["cake"]},
                    ]
                }
            ]
        }
    )
    decisions: list[AskWithKey]


Reward = bool | Annotated[float, Field(allow_inf_nan=False)]
"""A number; where rewards are binary or counts, false and true are 0 and 1."""
Number = Annotated[float, Field(allow_inf_nan=False)]
EVENT = "What it is called, where a fleet takes several rewards of one decision (reward_events): it counts once."


class RewardBody(Request):
    """The reward of a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reward": 3.2}]})
    reward: Reward = Field(description="A number; false and true where rewards are binary or counts.")
    event: str | None = Field(None, min_length=1, description=EVENT, examples=["purchase-991"])


class CorrectionBody(Request):
    """What the reward of a decision should have been."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reward": 2.4, "instead_of": 3.2}]})
    reward: Number
    instead_of: Number | None = Field(None, description="Refuse (409) if the decision has another reward than this.")


class RewardOf(Request):
    """The reward of a decision that is named."""

    id: str
    reward: Reward
    event: str | None = Field(None, min_length=1, description=EVENT)


class RewardMany(Request):
    """Many rewards."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rewards": [{"id": "3f1c0a9b2d4e-17", "reward": 3.2}]}]})
    rewards: list[RewardOf]


class LogEntry(Request):
    """A decision that was made elsewhere, with its reward if it has one; the shape of an exported row."""

    decision_id: str = Field(min_length=1, description="It counts once, whatever is sent again.")
    time: str = Field(description="When it was made: 2026-01-31T09:30:00Z.")
    task: str
    arm: str
    context: dict[str, Value]
    propensity: float | None = Field(None, description="How probable the arm was; left out: by probabilities.")
    eligible: list[str] | None = Field(None, description="Left out: the arm alone.")
    probabilities: list[Number] | None = Field(None, description="Of the eligible arms, in their order.")
    expected_rewards: list[Number] | None = Field(None, description="Of the eligible arms, in their order.")
    reward: Reward | None = None
    reward_family: Rewards | None = Field(None, description="What rewards are: that of the fleet.")
    reward_time: str | None = Field(None, description="Left out: that of the decision.")
    policy: str | None = Field(None, description="Who decided.")
    version: str | None = None


class LogEntries(Request):
    """Rows of a log."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "rows": [
                        {
                            "decision_id": "shop-2025-17",
                            "time": "2025-11-02T09:30:00Z",
                            "task": "store-17",
                            "arm": "coffee",
                            "context": {"hour": 9.5, "weather": "rain"},
                            "propensity": 1.0,
                            "reward": 3.2,
                        }
                    ]
                }
            ]
        }
    )
    rows: list[LogEntry]


class ArmBody(Request):
    """An arm."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"arm": "ice cream"}]})
    arm: str
    features: dict[str, Value] | None = Field(
        None, description="What is known about a new arm, in a fleet with arm_features; left out: nothing."
    )


class TaskFeaturesBody(Request):
    """What is known about one task."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"features": {"region": "north", "size": 120}}]})
    features: dict[str, Value] = Field(
        description="By name; null where a value is missing and its feature allows for that."
    )


class TaskFeaturesMany(Request):
    """What is known about many tasks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"tasks": {"store-17": {"region": "north", "size": 120}, "store-18": {"region": "south", "size": 80}}}
            ]
        }
    )
    tasks: dict[str, dict[str, Value]] = Field(min_length=1, description="Features by task.")


class Answer(BaseModel):
    """What is answered."""


class ErrorDetail(Answer):
    """What went wrong."""

    code: str = Field(description="One word for programs.", examples=["invalid"])
    message: str = Field(description="What was expected, what came and what to do.")
    field: str | None = Field(None, description="Where in the request.")


class Failure(Answer):
    """Every failure has this shape."""

    error: ErrorDetail


class Fleet(Answer):
    """A fleet with its counts."""

    name: str = Field(examples=["stores"])
    state: Literal["serving", "degraded", "set_aside"] = Field(
        description="A degraded fleet decides, but something that is done for it fails. One that is set aside decides "
        "nothing until it is repaired, which is tried again and again; its rewards are logged.",
        examples=["serving"],
    )
    reason: str | None = Field(description="Why it is not serving as it should, else null.", examples=["no memory"])
    created: str = Field(examples=["2026-01-31T09:30:00.000000Z"])
    definition: dict[str, Any] = Field(description="Features, policy and settings, with what was left open filled in.")
    arms: list[str] = Field(examples=[["coffee", "cake", "newspaper"]])
    retired_arms: list[str] = Field(examples=[[]])
    columns: list[str] = Field(
        description="Encoded columns that coefficients belong to.", examples=[["intercept", "hour"]]
    )
    tasks: int = Field(examples=[120])
    decisions: int = Field(examples=[45_210])
    rewards: int = Field(examples=[40_003])
    pending: int = Field(description="Decisions that wait for their reward.", examples=[5_207])
    pending_reward: float | None = Field(
        description="What each of them counts as meanwhile; null if it does not count.", examples=[0.0]
    )


class Fleets(Answer):
    """All fleets."""

    fleets: list[Fleet]


class DecisionAnswer(Answer):
    """A decision."""

    id: str = Field(description="What its reward names it by.", examples=["3f1c0a9b2d4e-17"])
    fleet: str = Field(examples=["stores"])
    task: str = Field(examples=["store-17"])
    arm: str = Field(description="The arm to pull.", examples=["coffee"])
    propensity: float = Field(description="The probability that this arm had.", examples=[0.81])
    probabilities: dict[str, float] = Field(examples=[{"coffee": 0.81, "cake": 0.19}])
    mean: dict[str, float] = Field(examples=[{"coffee": 3.1, "cake": 2.4}])
    sd: dict[str, float] = Field(examples=[{"coffee": 0.5, "cake": 0.6}])


class DecisionsAnswer(Answer):
    """Many decisions, in the order of the request."""

    decisions: list[DecisionAnswer]


class RankingAnswer(Answer):
    """A ranking: the decision of every place, the best first."""

    places: list[DecisionAnswer]


class RewardAnswer(Answer):
    """A reward that is on disk."""

    id: str = Field(examples=["3f1c0a9b2d4e-17"])
    reward: float = Field(examples=[3.2])
    new: bool = Field(description="False if the same had come before.")


class IngestAnswer(Answer):
    """Rows that are on disk."""

    decisions: int = Field(description="Decisions that were new.", examples=[1])
    rewards: int = Field(description="Rewards that were new.", examples=[1])
    same: int = Field(description="Rows of which nothing was new.", examples=[0])


class RewardEvent(Answer):
    """Something that a reward was made of."""

    kind: Literal["reward", "correction"]
    time: str = Field(examples=["2026-01-31T10:02:11.000000Z"])
    event: str | None = Field(description="Its name.", examples=["purchase-991"])
    value: float = Field(description="What came.", examples=[3.2])
    before: float | None = Field(description="The decision's reward before.", examples=[None])
    reward: float = Field(description="And after.", examples=[3.2])


class RewardTrace(Answer):
    """How a decision came to its reward."""

    id: str = Field(examples=["3f1c0a9b2d4e-17"])
    reward: float | None = Field(description="What counts now.", examples=[3.2])
    events: list[RewardEvent]


class RewardsAnswer(Answer):
    """Rewards that are on disk."""

    new: int = Field(examples=[17])
    same: int = Field(description="How many had come before.", examples=[3])


class LogRow(Answer):
    """A decision in the log."""

    id: str = Field(examples=["3f1c0a9b2d4e-17"])
    number: int = Field(examples=[17])
    time: str = Field(examples=["2026-01-31T09:30:00.000000Z"])
    task: str = Field(examples=["store-17"])
    arm: str = Field(examples=["coffee"])
    propensity: float = Field(examples=[0.81])
    probabilities: dict[str, float] = Field(examples=[{"coffee": 0.81, "cake": 0.19}])
    mean: dict[str, float] = Field(examples=[{"coffee": 3.1, "cake": 2.4}])
    sd: dict[str, float] = Field(examples=[{"coffee": 0.5, "cake": 0.6}])
    context: dict[str, Any] = Field(examples=[{"hour": 9.5, "weather": "rain"}])
    state: Literal["pending", "rewarded", "expired"]
    reward: float | None = Field(examples=[3.2])
    reward_time: str | None = Field(examples=["2026-01-31T10:02:11.000000Z"])


class TaskCounts(Answer):
    """A task in a list."""

    task: str = Field(examples=["store-17"])
    decisions: int = Field(examples=[310])
    rewards: int = Field(examples=[295])
    first_time: str = Field(examples=["2026-01-31T09:30:00.000000Z"])


class TaskList(Answer):
    """Some tasks."""

    tasks: list[TaskCounts]
    next: str | None = Field(description="Pass it as `after` for the rest.", examples=["store-18"])


class Rate(Answer):
    """A probability, or a rate of counts, with its 90 % interval, inside their range."""

    mean: float = Field(examples=[0.041])
    low: float = Field(examples=[0.028])
    high: float = Field(examples=[0.057])


class TaskArm(Answer):
    """What is believed about one arm in one task."""

    arm: str = Field(examples=["coffee"])
    retired: bool
    rewards: float = Field(description="Learned from this arm in this task.", examples=[101])
    rate: Rate | None = Field(
        description="Expected reward of the task, averaged over contexts; null unless rewards are binary or counts."
    )
    mean: list[float] = Field(
        description="Of coefficients of the reward, its logit or logarithm.", examples=[[1.2, -0.1]]
    )
    sd: list[float] = Field(examples=[[0.2, 0.05]])
    population_mean: list[float] = Field(examples=[[1.0, 0.0]])
    own_share: float = Field(description="0 if all is borrowed, 1 if nothing is.", examples=[0.7])
    borrowed: float | None = Field(
        description="How many rewards of its own would say as much as the others; null before its first.",
        examples=[12.5],
    )


class Task(TaskCounts):
    """One task: what is believed, and what that stands on."""

    reward_family: Rewards = Field(description="What rewards are.", examples=["number"])
    columns: list[str] = Field(examples=[["intercept", "hour"]])
    features: dict[str, Any] | None = Field(
        description="What is known about the task; null if nothing is.", examples=[{"region": "north", "size": 120.0}]
    )
    arms: list[TaskArm]


class TaskFeaturesAnswer(Answer):
    """About how many tasks something is known now."""

    tasks: int = Field(examples=[2])


class History(Answer):
    """Decisions of a task, the newest first."""

    decisions: list[LogRow]
    next: int | None = Field(description="Pass it as `before` for older ones.", examples=[17])
    reward_family: Rewards = Field(
        description="What rewards are; mean and sd of a decision are those of a number, a probability or a rate.",
        examples=["number"],
    )


class PendingDecision(Answer):
    """A decision that waits for its reward."""

    id: str = Field(examples=["3f1c0a9b2d4e-17"])
    task: str = Field(examples=["store-17"])
    arm: str = Field(examples=["coffee"])
    time: str = Field(examples=["2026-01-31T09:30:00.000000Z"])
    age: float = Field(description="Seconds.", examples=[73.5])


class PendingList(Answer):
    """Decisions that wait, the oldest first."""

    pending: list[PendingDecision]
    total: int = Field(examples=[5_207])


class PopulationArm(Answer):
    """What all tasks have in common about one arm."""

    arm: str = Field(examples=["coffee"])
    retired: bool
    tasks: int = Field(examples=[120])
    rewards: float = Field(examples=[13_000])
    rate: Rate | None = Field(
        description="Expected reward of a new task, averaged over contexts; null unless rewards are binary or counts."
    )
    noise_sd: float = Field(examples=[1.1])
    mean: list[float] = Field(examples=[[1.0, 0.0]])
    mean_sd: list[float] = Field(examples=[[0.02, 0.01]])
    covariance: list[list[float]] = Field(examples=[[[0.3, 0.0], [0.0, 0.01]]])


class Population(Answer):
    """What all tasks have in common."""

    policy: str = Field(examples=["ebm-rand-ucb"])
    prior: str = Field(examples=["evidence"])
    reward_family: Rewards = Field(
        description="What rewards are: means and covariances are of the reward, its logit or its logarithm.",
        examples=["number"],
    )
    columns: list[str] = Field(examples=[["intercept", "hour"]])
    refreshed_rewards: float = Field(description="Rewards that it was estimated from.", examples=[38_000])
    findings: list[str] = Field(
        description="What could not be learned and what looks unusual, in sentences.",
        examples=[["arm 'ice cream' has no rewards yet"]],
    )
    effects: dict[str, dict[str, float]] = Field(
        description="How much every feature of tasks and of arms says: the standard deviation of its effects.",
        examples=[{"task": {"region": 0.4, "size": 0.0}, "arm": {}}],
    )
    arms: list[PopulationArm]


class ActivityEntry(Answer):
    """One stretch of time."""

    time: str = Field(examples=["2026-01-31T09:30:00.000000Z"])
    decisions: int = Field(examples=[210])
    rewards: int = Field(examples=[195])
    mean_reward: float | None = Field(examples=[2.9])


class ActivityAnswer(Answer):
    """Decisions and rewards over time."""

    stretch: int = Field(description="Seconds of an entry.", examples=[60])
    activity: list[ActivityEntry]


class Estimate(Answer):
    """A number with an interval."""

    value: float = Field(examples=[2.9])
    low: float | None = Field(examples=[2.8])
    high: float | None = Field(examples=[3.0])


class NamedEstimate(Estimate):
    """What another policy would have earned."""

    name: str = Field(examples=["uniform"])


class ValueAnswer(Answer):
    """Mean reward of the policy, and of a baseline by the same log."""

    rows: int = Field(examples=[20_000])
    rewards: int = Field(examples=[19_200])
    confidence: float = Field(examples=[0.9])
    policy: Estimate | None
    baseline: NamedEstimate | None
    difference: Estimate | None
    refusal: str | None = Field(description="Why there is no answer, and what to do.", examples=[None])


class VerifiedDifference(Answer):
    """A task and an arm whose sums are not those of the log."""

    task: str = Field(examples=["store-17"])
    arm: str = Field(
        description="Empty where rows have left the log and only their number is known.", examples=["cake"]
    )
    learned: float = Field(description="Rewards that were learned.", examples=[12])
    logged: float = Field(description="Rewards of the log.", examples=[11])
    off: float | None = Field(description="The largest difference, as a part of the size of a sum.", examples=[0.083])


class Verified(Answer):
    """What was learned, compared with the log."""

    fleet: str = Field(examples=["stores"])
    applied: int = Field(description="The change up to which it was compared.", examples=[38_000])
    tasks: int = Field(description="Tasks that were compared.", examples=[1_000])
    rewards: int = Field(description="Rewards of the log that were added up.", examples=[38_000])
    partial: int = Field(description="Tasks of which rows have left the log by retention.", examples=[0])
    left_out: int = Field(description="Rows that cannot be learned.", examples=[0])
    different: int = Field(description="Tasks that differ.", examples=[0])
    differences: list[VerifiedDifference] = Field(description="At most 100.", examples=[[]])
    next: str | None = Field(
        description="`after` of the next request; null if there are no more.", examples=["store-17"]
    )


class AuditEntry(Answer):
    """Somebody asked for something that needs an admin."""

    id: int = Field(examples=[12])
    time: str = Field(examples=["2026-01-31T09:30:00.000000+00:00"])
    actor: str = Field(description="Id of the key; local without keys; command line.", examples=["3f1c0a9b2d4e"])
    client: str | None = Field(description="Address.", examples=["10.0.0.7"])
    action: str = Field(examples=["retire_arm"])
    fleet: str | None = Field(examples=["stores"])
    target: str | None = Field(description="An arm, a key, or the digest of a task's name.", examples=["cake"])
    request: str | None = Field(description="X-Request-ID.", examples=["9f2c-1a"])
    status: int | None = Field(description="Of the answer; null if there was none yet.", examples=[200])


class Audit(Answer):
    """Calls that need an admin, the newest first."""

    audit: list[AuditEntry]
    next: int | None = Field(description="`before` of the next request; null if there are no more.", examples=[11])


class Health(Answer):
    """Whether the process is alive."""

    status: str = Field(examples=["ok"])


class ReadyCheck(Answer):
    """What one check found."""

    ok: bool
    detail: str = Field(examples=["writable"])


class ReadyChecks(Answer):
    """All that must be so before requests are answered."""

    compiled: ReadyCheck
    database: ReadyCheck
    loaded: ReadyCheck
    disk: ReadyCheck
    leader: ReadyCheck


class Ready(Answer):
    """Whether it answers requests."""

    status: Literal["ready", "degraded"] = Field(
        description="Degraded: requests are answered, but some fleets are not as they should be.", examples=["ready"]
    )
    fleets: int = Field(description="Fleets in memory.", examples=[1])
    degraded: int = Field(description="Fleets for which something fails, but which decide.", examples=[0])
    set_aside: int = Field(description="Fleets that are not served until they are repaired.", examples=[0])
    leading: bool = Field(description="Whether this process is the one that learns.")
    clock: str | None = Field(
        description="What is wrong with the clock, and what is held meanwhile; null if nothing is.",
        examples=["the clock jumped to 2026-03-12 09:30:00Z when 2026-01-31 09:30:00Z was expected"],
    )
    checks: ReadyChecks


class NotReady(Failure):
    """Why it does not answer requests: the field of the failure names the first check that failed."""

    checks: ReadyChecks
