"""A client of ``posse serve``: time-outs, retries that are safe, and an arm to fall back on."""

from posse.errors import MissingDependency

try:
    import httpx as _httpx  # noqa: F401 -- so that its absence is said here, in one way
except ImportError as error:
    raise MissingDependency("posse.client needs httpx: pip install httpx") from error

from posse.api import (
    Activity,
    ArmBelief,
    ArmPopulation,
    Estimate,
    ExpectedArm,
    Fleet,
    LogRow,
    Pending,
    PendingDecision,
    Period,
    Population,
    Task,
    TaskRow,
    Value,
)
from posse.client.answers import ServiceError, ServiceUnavailable
from posse.client.clients import AsyncClient, Client
from posse.client.values import Decision, Health, RewardCounts

__all__ = [
    "Activity", "ArmBelief", "ArmPopulation", "AsyncClient", "Client", "Decision", "Estimate", "ExpectedArm", "Fleet",
    "Health", "LogRow", "Pending", "PendingDecision", "Period", "Population", "RewardCounts", "ServiceError",
    "ServiceUnavailable", "Task", "TaskRow", "Value",
]  # fmt: skip
