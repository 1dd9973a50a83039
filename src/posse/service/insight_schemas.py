"""What the page's own questions and answers look like."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from posse.service.schemas import Answer, Estimate, Request, Value

State = Literal["making", "ready", "empty", "failed"]


class Expect(Request):
    """A situation to look at."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}}]}
    )
    task: str = Field(description="One never seen has what the others have in common.")
    context: dict[str, Value] | list[Value] = Field(description="Raw values by feature name, or all in their order.")


class ExpectedArm(Answer):
    """What is believed about one arm in a situation."""

    arm: str = Field(examples=["coffee"])
    mean: float = Field(description="Expected reward.", examples=[3.1])
    low: float = Field(examples=[2.9])
    high: float = Field(examples=[3.3])
    probability_best: float = Field(description="The probability that this arm is the best one.", examples=[0.93])
    probability: float = Field(description="The probability that it would be chosen.", examples=[0.9])


class Expected(Answer):
    """Every arm in a situation; nothing was decided."""

    task: str = Field(examples=["store-17"])
    known: bool = Field(description="Whether the task has rewards of its own.")
    confidence: float = Field(examples=[0.9])
    arms: list[ExpectedArm]


class Access(Answer):
    """What whoever asks may do."""

    scopes: list[str] = Field(examples=[["read"]])


class GainOver(Answer):
    """What deciding gained per decision over another way to decide, with a 95 % interval."""

    over: Literal["random", "one-arm"] = Field(examples=["random"])
    name: str = Field(description="The arm, where it is one arm for all.", examples=["uniform"])
    gain: Estimate | None = Field(description="null if the log cannot tell.")
    probability: float | None = Field(description="The probability that deciding earns more.", examples=[0.99])
    refusals: list[str] = Field(description="Why the log cannot tell, and what helps.", examples=[[]])


class TimeEntry(Answer):
    """One stretch of time."""

    time: str = Field(examples=["2026-01-31T00:00:00.000000Z"])
    decisions: int = Field(examples=[450])
    shares: list[float] = Field(description="How often each arm was taken.", examples=[[0.7, 0.3]])
    means: list[float | None] = Field(description="Mean reward of each arm.", examples=[[3.0, 2.1]])
    earned: float | None = Field(description="Mean reward.", examples=[2.8])
    low: float | None = Field(examples=[2.7])
    high: float | None = Field(examples=[2.9])


class OverTime(Answer):
    """How it went."""

    stretch: int = Field(description="Seconds of an entry.", examples=[86_400])
    arms: list[str] = Field(examples=[["coffee", "cake"]])
    entries: list[TimeEntry]


class ArmInsight(Answer):
    """One arm."""

    arm: str = Field(examples=["coffee"])
    retired: bool
    share: float = Field(description="How often it was taken.", examples=[0.7])
    mean_reward: float | None = Field(examples=[3.0])
    best_in: int = Field(description="Tasks in which it looks best.", examples=[80])
    sure_in: int = Field(description="Those in which that is at least 90 % sure.", examples=[60])


class Segment(Answer):
    """Decisions that have something in common, and the arm that is best for them."""

    feature: str = Field(examples=["weather"])
    value: Any = Field(description="A category, or a number of few; null for a range.", examples=["rain"])
    low: float | None = Field(description="Of a range.", examples=[None])
    high: float | None = Field(examples=[None])
    share: float = Field(description="Of all decisions.", examples=[0.3])
    arm: str = Field(examples=["coffee"])
    second: str | None = Field(examples=["cake"])
    mean: float = Field(description="Expected reward of the best arm.", examples=[3.2])
    ahead: float = Field(description="By how much that is more than the next best.", examples=[0.4])
    probability: float = Field(description="The probability that it is the best one, on average.", examples=[0.8])


class TaskInsight(Answer):
    """One task."""

    task: str = Field(examples=["store-17"])
    decisions: int = Field(examples=[310])
    rewards: int = Field(examples=[295])
    mean_reward: float | None = Field(examples=[2.9])
    arm: str = Field(description="The arm that looks best at its average context.", examples=["coffee"])
    expected: float = Field(description="What that arm is expected to earn.", examples=[3.1])
    probability: float = Field(description="The probability that it is the best one.", examples=[0.97])
    distance: float = Field(
        description="How far the task is from the others, in standard deviations between tasks.", examples=[0.8]
    )
    unusual: bool = Field(description="Whether that is further than chance would put any.", examples=[False])


class UnusualTask(Answer):
    """A task that is unlike the others."""

    task: str = Field(examples=["store-3"])
    arm: str = Field(description="In which it differs most.", examples=["cake"])
    mean: float = Field(description="Expected reward of that arm there.", examples=[4.2])
    typical: float = Field(description="And in a typical task.", examples=[2.0])
    distance: float = Field(examples=[3.9])
    feature: str | None = Field(description="In which it differs most; null: in its level.", examples=["weather"])


class InsightFinding(Answer):
    """Something that looks wrong, or is good to know."""

    about: Literal["learning", "log"]
    severity: str = Field(examples=["warning"])
    text: str = Field(examples=["arm 'tea' has no rewards yet"])
    what_to_do: str = Field(examples=["offer it, or retire it"])


class InsightState(Answer):
    """Whether there is something to tell."""

    state: State = Field(
        description="making: ask again in a second; empty: too few rewards; failed: see problem.", examples=["ready"]
    )
    problem: str | None = Field(examples=[None])
    made: str | None = Field(description="When.", examples=["2026-01-31T09:30:00.000000Z"])


class InsightsAnswer(InsightState):
    """Uplift of the logged policy, rewards over time, which arm is best where, and what is unusual or looks wrong."""

    rows: int = Field(description="Decisions that were looked at, taken evenly from the log.", examples=[20_000])
    decisions: int = Field(description="Decisions of the log.", examples=[45_210])
    rewards: int = Field(description="Those looked at that have a reward.", examples=[19_200])
    confidence: float = Field(description="Of all intervals.", examples=[0.9])
    earned: Estimate | None = Field(description="Mean reward per decision.")
    gains: list[GainOver]
    over_time: OverTime | None
    arms: list[ArmInsight]
    segments: list[Segment]
    tasks: list[TaskInsight] = Field(description="At most 400: those with most rewards, and unusual ones.")
    unusual: list[UnusualTask]
    findings: list[InsightFinding]
