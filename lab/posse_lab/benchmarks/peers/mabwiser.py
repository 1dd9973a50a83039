"""MABWiser: ``MAB`` with one of its linear learning policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posse.types import Array
from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, Entry, Peer, library
from posse_lab.benchmarks.workload import Size


class MabwiserEntry(Entry):
    """A context is a matrix with one row; ``predict`` and ``partial_fit``."""

    def __init__(self, size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> None:
        module = library("mabwiser.mab")
        chosen = dict(settings)
        learning = getattr(module.LearningPolicy, chosen.pop("policy"))(**chosen)
        self._mabs = []
        for _ in range(size.n_tasks if form == PER_TASK else 1):
            mab = module.MAB(arms=list(range(size.n_arms)), learning_policy=learning, seed=seed)
            # It will not predict before it is fitted, nor be fitted to nothing. A row of zeros adds zero to all sums.
            mab.fit([0], [0.0], np.zeros((1, size.n_features)))
            self._mabs.append(mab)
        self.decide, self.update = module.MAB.predict, module.MAB.partial_fit

    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the bandit and the context."""
        return self._mabs[task % len(self._mabs)], context[None, :]

    def arm(self, decided: int) -> int:
        """Return what ``predict`` returned."""
        return decided

    def outcome(self, given: tuple[Any, ...], decided: int, reward: float) -> tuple[Any, ...]:
        """Return the bandit and a batch of one: decision, reward, context."""
        return given[0], [decided], [reward], given[1]


def build(size: Size, form: str, seed: int, settings: Mapping[str, Any]) -> Entry:
    """Return a new learner."""
    return MabwiserEntry(size, form, seed, settings)


TRIED = (
    {"policy": "LinUCB", "alpha": 0.3, "l2_lambda": 1.0},
    {"policy": "LinUCB", "alpha": 0.3, "l2_lambda": 0.3},
    {"policy": "LinTS", "alpha": 0.3, "l2_lambda": 1.0},
    {"policy": "LinGreedy", "epsilon": 0.0, "l2_lambda": 1.0},
    {"policy": "LinGreedy", "epsilon": 0.0, "l2_lambda": 3.0},
)

PEER = Peer(
    name="MABWiser",
    package="mabwiser",
    build=build,
    forms=(POOLED, PER_TASK),
    recommended={"policy": "LinUCB", "alpha": 1.25, "l2_lambda": 1.0},
    grid=TRIED,
)
