"""Hierarchical policies in a world that changes: old rewards fade, and changes are noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posse.checks import number
from posse.engine import drift as engine
from posse.engine import noticing
from posse.errors import InvalidValue
from posse.kernels import ebm as kernels
from posse.kernels.posterior import rebuild

if TYPE_CHECKING:
    from posse.kernels.estimators import Memory
    from posse.kernels.posterior import Belief, Buffers
    from posse.kernels.stretch import Stretch
    from posse.policies.base import Policy
    from posse.types import Array, IntArray

VISITS = (25, 50, 100, 200, 400, 800, 1600)
"""Half-lives that are compared, in visits of a task."""


class Fading:
    """What a policy does before it learns a reward: count the step, age what is old, look for changes.

    Parameters
    ----------
    drift : "learn" or float
        A half-life in steps, or that it is to be learned.
    belief, memory, buffers
        Those of the policy.
    """

    def __init__(self, drift: float | Literal["learn"], belief: Belief, memory: Memory, buffers: Buffers) -> None:
        n_arms, d = belief.shared_mean.shape
        n_tasks = belief.task_weight.size
        half_life = half_life_of(drift)
        self.drift = engine.Drift(half_life, [visits * n_tasks for visits in VISITS], n_arms, d)
        self.steps = 0
        self._belief, self._memory, self._buffers = belief, memory, buffers
        self._out = np.empty((2, n_arms))

    def before(self, handle: int, task: int, arm: int, x: Array, reward: float) -> None:
        """Take notice of a reward that is about to be learned; ``handle`` is that of the policy."""
        self.steps += 1
        belief, counts = self._belief, self._belief.sums.counts
        self.drift.meet(x)
        passed = self.drift.elapsed(self.steps)
        if passed > 0.0:
            self._scale(engine.aged(counts, passed, self.drift.half_life))
        if not self.drift.learned:
            return
        found = self.drift.note(
            self.steps, task, arm, x, reward, self._believed(handle, task, arm, x), engine.population_of(belief, arm)
        )
        if found == noticing.WORLD:
            self._scale(engine.restarted(counts))
        elif found == noticing.TASK:
            rows = belief.slot[task]
            self._scale(engine.restarted(counts[rows]), rows)

    def _believed(self, handle: int, task: int, arm: int, x: Array) -> noticing.Belief:
        out = self._out
        kernels.believe(handle, task, x, out)
        mean, sd = float(out[0, arm]), float(out[1, arm])
        kernels.believe(handle, -1, x, out)
        return noticing.Belief(mean, sd, float(out[0, arm]), float(out[1, arm]))

    def _scale(self, factor: Array, rows: IntArray | None = None) -> None:
        """Multiply the sums of some rows, or of all, and compute what follows from them."""
        belief, memory = self._belief, self._memory
        engine.scale_sums(belief.sums, factor, self.drift.squares, rows)
        before = belief.rewards.copy()
        for arm in range(before.size):
            belief.rewards[arm] = belief.sums.counts[belief.seen[arm, : belief.n_seen[arm]]].sum()
        # So that a refresh is due when rewards have grown by as much beside those that still count.
        for at in (memory.refreshed_at, memory.threshold_rewards):
            at *= belief.rewards / np.maximum(before, engine.LEAST)
        memory.evidence.refreshed_at[0] *= belief.rewards.sum() / max(before.sum(), engine.LEAST)
        for arm in range(before.size):
            rebuild(belief, arm, self._buffers)


def half_life_of(drift: Any) -> float | None:
    """Return the half-life that was asked for, or None if it is to be learned."""
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(f"expected drift to be None, 'learn' or a half-life, got {drift!r}; pass one of these")
        return None
    return number(drift, "drift", above=0)


def play_in_turn(policy: Policy, stretch: Stretch) -> None:
    """Fill the arms of a stretch step by step, outside compiled code."""
    asked = range(policy.n_tasks if stretch.everywhere.shape[0] else 0)
    for t, task in enumerate(stretch.tasks.tolist()):
        x, step, draws = stretch.contexts[t], stretch.first_step + t, stretch.draws[t]
        for other in asked:
            stretch.everywhere[t, other] = policy._choose(other, x, step, draws)
        arm = policy._choose(task, x, step, draws)
        stretch.arms[t] = arm
        policy._learn(task, arm, x, float(stretch.rewards[t, arm]))
