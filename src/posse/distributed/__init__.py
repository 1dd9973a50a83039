"""More than one machine: fleets, fits and sweeps on Ray.

Everything that a population needs from tasks is a sum over tasks, so tasks are spread over actors that each hold the
ordinary engine, and one coordinator estimates the population from the sums that they send. ``import posse`` does not
import Ray, and neither does this package before something is started.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posse.distributed.sharded import ShardedPosse

__all__ = ["ShardedPosse"]


def __getattr__(name: str) -> Any:
    if name == "ShardedPosse":
        return import_module("posse.distributed.sharded").ShardedPosse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
