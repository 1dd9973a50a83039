"""river: ``bandit.LinUCBDisjoint``, its one policy that takes a context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse.types import Array
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, Entry, Peer, library
from posse_lab.benchmarks.workload import Size


class RiverEntry(Entry):
    """A context is a dictionary; ``pull`` and ``update``."""

    def __init__(self, size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> None:
        policy = library("river.bandit").LinUCBDisjoint
        self._policies = [policy(**settings, seed=seed) for _ in range(size.n_tasks if form == PER_TASK else 1)]
        self._arms = list(range(size.n_arms))
        self.decide, self.update = policy.pull, policy.update

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the policy, the arms and the context."""
        return self._policies[task % len(self._policies)], self._arms, dict(enumerate(context.tolist()))

    def arm(self, decided: int) -> int:
        """Return what ``pull`` returned."""
        return decided

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return policy, arm, context and reward."""
        return given[0], decided, given[2], reward


def build(size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
    """Return a new learner."""
    return RiverEntry(size, form, seed, settings)


# Precision of the prior, and of the noise: together they say how far the upper bound is from the mean.
TRIED = tuple({"alpha": alpha, "beta": beta} for alpha in (0.3, 1.0, 3.0) for beta in (0.1, 1.0, 10.0))

PEER = Peer(
    name="river",
    package="river",
    build=build,
    forms=(POOLED, PER_TASK),
    recommended={"alpha": 1.0, "beta": 1.0},
    grid=TRIED,
)
