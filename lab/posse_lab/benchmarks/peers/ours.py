"""posse's own entries: two policies, and the fleet with its ids and propensities. None of them is tuned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posse.features import FeatureSpec
from posse.fleet import Decision, Posse
from posse.policies import EbmTS, EbmUCB
from posse.policies.base import Policy
from posse.types import Array
from posse_lab.benchmarks.peers.entry import Entry
from posse_lab.benchmarks.workload import Size, feature_names

TS, UCB, FLEET = "ebmTS", "ebmUCB", "Posse, with ids"


class PolicyEntry(Entry):
    """``choose`` and ``update`` of a policy."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.decide, self.update = policy.choose, policy.update
        self._rng = np.random.default_rng(seed)

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:
        """Return task, context, step and generator."""
        return task, context, step, self._rng

    def arm(self, decided: int) -> int:
        """Return what ``choose`` returned."""
        return decided

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return task, arm, context and reward."""
        return given[0], decided, given[1], reward


class FleetEntry(Entry):
    """``Posse.decide`` and ``Posse.reward``: an id, propensities, and rewards that may come late."""

    def __init__(self, size: Size, seed: int, settings: Mapping[str, Any]) -> None:
        features = FeatureSpec(feature_names(size.n_features), intercept=False)
        fleet = Posse(arms=list(range(size.n_arms)), features=features, seed=seed, **settings)
        self.decide, self.update = fleet.decide, fleet.reward

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the name of the task, and the context."""
        return task, context

    def arm(self, decided: Decision) -> int:
        """Return the arm of the decision."""
        return int(decided.arm)

    def outcome(self, given: tuple[Any, ...], decided: Decision, reward: float) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the id of the decision, and the reward."""
        return decided.id, reward


def build(size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
    """Return one of the three entries."""
    if form == FLEET:
        return FleetEntry(size, seed, settings)
    policy = {TS: EbmTS, UCB: EbmUCB}[form]
    return PolicyEntry(policy(**size._asdict(), **settings), seed)
