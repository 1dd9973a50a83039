"""A client of ``posse serve``: time-outs, retries that are safe, and an arm to fall back on."""

from posse.errors import MissingDependency

try:
    import httpx as _httpx  # noqa: F401 -- so that its absence is said here, in one way
except ImportError as error:
    raise MissingDependency("posse.client needs httpx: pip install httpx") from error

from posse.client.asynchronous import AsyncClient
from posse.client.errors import ServiceError, ServiceUnavailable
from posse.client.synchronous import Client
from posse.client.values import (
    Activity,
    ArmBelief,
    ArmPopulation,
    Decision,
    Estimate,
    ExpectedArm,
    Fleet,
    Health,
    LogRow,
    Pending,
    PendingDecision,
    Period,
    Population,
    RewardCounts,
    Task,
    TaskRow,
    Value,
)

__all__ = [
    "Activity",
    "ArmBelief",
    "ArmPopulation",
    "AsyncClient",
    "Client",
    "Decision",
    "Estimate",
    "ExpectedArm",
    "Fleet",
    "Health",
    "LogRow",
    "Pending",
    "PendingDecision",
    "Period",
    "Population",
    "RewardCounts",
    "ServiceError",
    "ServiceUnavailable",
    "Task",
    "TaskRow",
    "Value",
]
