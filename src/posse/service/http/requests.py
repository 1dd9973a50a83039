"""Bodies of requests: what they look like, and how they are read, limited in size and checked as they are parsed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request as HttpRequest

from posse.families import Rewards
from posse.service.http.errors import ApiError, invalid_field
from posse.service.http.heads import Receive, Scope, header_of

Model = TypeVar("Model", bound=BaseModel)


Value = float | int | str | bool | None
"""A raw value of a context."""


def _like(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class Request(BaseModel):
    """What is sent: no fields but these, and every value of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Prices = Annotated[dict[str, Price], Field(min_length=1)]
"""What a reward is worth, or an arm costs, by arm."""


class Definition(Request):
    """What makes a fleet."""

    model_config = _like(
        {
            "arms": ["coffee", "cake", "newspaper"],
            "features": ["hour", {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]}],
            "evaluation_budget": 0.01,
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
    values: Prices | None = Field(
        None,
        description=(
            "What one unit of reward is worth, of every arm: arms are compared by value x expected reward - cost. Left "
            "out: by their rewards."
        ),
    )
    costs: Prices | None = Field(None, description="What playing an arm costs; 0 for those that are left out.")
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

    model_config = _like(
        {"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}, "eligible": ["coffee", "cake"]}
    )
    task: str = Field(description="One never seen starts from what the others have in common.")
    context: dict[str, Value] | list[Value] = Field(description="Raw values by feature name, or all in their order.")
    eligible: list[str] | None = Field(None, description="Left out: all arms that are not retired.")
    explore: bool = Field(True, description="False takes the arm with the best mean, with propensity 1.")
    values: Prices | None = Field(
        None,
        description=(
            "What one unit of reward is worth in this decision, in place of the fleet's, of the arms named; of every "
            "eligible arm if the fleet has no values."
        ),
    )
    costs: Prices | None = Field(None, description="What playing an arm costs in this decision, likewise.")


class AskRanking(Ask):
    """A request for a ranking."""

    model_config = _like({"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}, "k": 2})
    k: int = Field(ge=1, description="How many places: at most as many as there are eligible arms.")


class AskChoice(Request):
    """A request for a decision of a catalogue."""

    model_config = _like(
        {"task": "store-17", "context": {"hour": 9.5}, "eligible": {"tea": {"price": 2.5}, "cocoa": {"price": 3.0}}}
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

    model_config = _like(
        {
            "decisions": [
                {"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}},
                {"task": "store-18", "context": {"hour": 17, "weather": "sun"}, "eligible": ["cake"]},
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

    model_config = _like({"reward": 3.2})
    reward: Reward = Field(description="A number; false and true where rewards are binary or counts.")
    event: str | None = Field(None, min_length=1, description=EVENT, examples=["purchase-991"])


class CorrectionBody(Request):
    """What the reward of a decision should have been."""

    model_config = _like({"reward": 2.4, "instead_of": 3.2})
    reward: Number
    instead_of: Number | None = Field(None, description="Refuse (409) if the decision has another reward than this.")


class RewardOf(Request):
    """The reward of a decision that is named."""

    id: str
    reward: Reward
    event: str | None = Field(None, min_length=1, description=EVENT)


class RewardMany(Request):
    """Many rewards."""

    model_config = _like({"rewards": [{"id": "3f1c0a9b2d4e-17", "reward": 3.2}]})
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
    values: list[Price] | None = Field(None, description="What rewards of the eligible arms were worth.")
    costs: list[Price] | None = Field(None, description="What the eligible arms cost.")
    reward: Reward | None = None
    reward_family: Rewards | None = Field(None, description="What rewards are: that of the fleet.")
    reward_time: str | None = Field(None, description="Left out: that of the decision.")
    policy: str | None = Field(None, description="Who decided.")
    version: str | None = None


class LogEntries(Request):
    """Rows of a log."""

    model_config = _like(
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
    )
    rows: list[LogEntry]


class ArmBody(Request):
    """An arm."""

    model_config = _like({"arm": "ice cream"})
    arm: str
    features: dict[str, Value] | None = Field(
        None, description="What is known about a new arm, in a fleet with arm_features; left out: nothing."
    )
    value: Price | None = Field(
        None,
        description="What one unit of its reward is worth from now on, in a fleet with values; also of one there is.",
    )
    cost: Price | None = Field(None, description="What playing it costs from now on; also of an arm that there is.")


class TaskFeaturesBody(Request):
    """What is known about one task."""

    model_config = _like({"features": {"region": "north", "size": 120}})
    features: dict[str, Value] = Field(
        description="By name; null where a value is missing and its feature allows for that."
    )


class TaskFeaturesMany(Request):
    """What is known about many tasks."""

    model_config = _like(
        {"tasks": {"store-17": {"region": "north", "size": 120}, "store-18": {"region": "south", "size": 80}}}
    )
    tasks: dict[str, dict[str, Value]] = Field(min_length=1, description="Features by task.")


class Expect(Request):
    """A situation to look at."""

    model_config = _like({"task": "store-17", "context": {"hour": 9.5, "weather": "rain"}})
    task: str = Field(description="One never seen has what the others have in common.")
    context: dict[str, Value] | list[Value] = Field(description="Raw values by feature name, or all in their order.")


async def read_json(scope: Scope, receive: Receive, model: type[Model], most: int) -> Model:
    """Return a checked body; raise before more than ``most`` bytes of it are taken in."""
    kind = header_of(scope, b"content-type") or ""
    if kind != "application/json" and kind.partition(";")[0].strip().lower() != "application/json":
        kind = kind.partition(";")[0].strip().lower() or "none"
        raise ApiError("media_type", f"expected content-type application/json, got {kind}; send JSON")
    length = header_of(scope, b"content-length") or ""
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > most:
        raise _too_large(most)
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError("bad_request", "the connection ended before the body did; send it again")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise _too_large(most)
    return parse(model, body)


def json_body(model: type[Model]) -> Callable[[HttpRequest], Awaitable[Model]]:
    """Return a dependency that reads a body of this shape."""

    async def read(request: HttpRequest) -> Model:
        most = request.app.state.runtime.settings.limits.body
        return await read_json(request.scope, request.receive, model, most)

    return read


def parse(model: type[Model], body: bytes) -> Model:
    """Return a checked body, or raise the one error that says where it is wrong."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        # A field that is misspelt is missing, too; its name says more.
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        if first["type"] == "json_invalid":
            raise ApiError("invalid_json", f"the body is not JSON: {first['msg']}") from None
        field = invalid_field(_place(first["loc"]))
        raise ApiError("invalid", f"{field or 'the body'}: {_words(first)}", field) from None


def json_request(model: type[BaseModel]) -> dict[str, Any]:
    """Return the part of OpenAPI that describes a body."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}},
        }
    }


def _place(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a place without the names that pydantic gives to the members of unions."""
    kinds = ("float", "int", "str", "bool", "dict[", "list[", "none")
    return tuple(part for part in location if not (isinstance(part, str) and _is_kind(part, kinds))) or location[:1]


def _is_kind(part: str, kinds: tuple[str, ...]) -> bool:
    return part in kinds or part.startswith(("dict[", "list["))


def _words(error: Any) -> str:
    message: str = error["msg"]
    if error["type"] == "extra_forbidden":
        return "there is no such field; take it out"
    if error["type"] == "missing":
        return "is missing; give it"
    return message[0].lower() + message[1:]


def _too_large(most: int) -> ApiError:
    return ApiError(
        "body_too_large", f"the body must have at most {most} bytes; send smaller batches, or raise limits.body"
    )
