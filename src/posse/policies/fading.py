"""Hierarchical policies in a world that changes: old rewards fade, and changes are noticed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from posse.checks import number
from posse.engine import drift as engine
from posse.engine import noticing
from posse.engine.site_rows import places_of
from posse.engine.site_store import FAINT
from posse.errors import InvalidValue
from posse.kernels import ebm as kernels
from posse.kernels import family as family_kernels
from posse.kernels.batches import STEP_BATCH
from posse.kernels.llvm.handle import Handle
from posse.kernels.posterior import new_buffers, rebuild
from posse.model import Prior, Statistics, new_belief
from posse.model.belief import prior_of
from posse.policies.base import CompiledPolicy, Policy

if TYPE_CHECKING:
    from posse.families import LinkedFamily
    from posse.kernels.batches import StepBatch
    from posse.kernels.estimators import Memory
    from posse.kernels.evidence import Evidence
    from posse.kernels.kept_rows import KeptRows
    from posse.kernels.llvm.callback import CompiledCallback
    from posse.kernels.posterior import Belief, Buffers
    from posse.kernels.select import Exploration
    from posse.types import Array, IntArray

VISITS = (25, 50, 100, 200, 400, 800, 1600)
"""Half-lives that are compared, in visits of a task."""


class Fading:
    """Steps before a policy learns a reward: count it, age what is old, look for changes.

    Parameters
    ----------
    drift : "learn" or float
        A half-life in steps, or that it is to be learned.
    belief, evidence, buffers
        Those of the policy.
    memory : Memory, optional
        That of a policy of numbers.
    family : LinkedFamily, optional
        That of a policy of clicks or counts.
    rows : KeptRows, optional
        Likewise.
    features : ndarray of shape (2, n_features), optional
        Likewise.
    """

    def __init__(
        self,
        drift: float | Literal["learn"],
        belief: Belief,
        evidence: Evidence,
        buffers: Buffers,
        *,
        memory: Memory | None = None,
        family: LinkedFamily | None = None,
        rows: KeptRows | None = None,
        features: Array | None = None,
    ) -> None:
        n_arms, d = belief.shared_mean.shape
        n_tasks = belief.task_weight.size
        half_life = half_life_of(drift)
        self.drift = engine.Drift(half_life, [visits * n_tasks for visits in VISITS], n_arms, d, family)
        self.steps = 0
        self._belief, self._evidence, self._buffers = belief, evidence, buffers
        self._memory, self._rows, self._features = memory, rows, features
        self._believe = kernels.believe if family is None else family_kernels.believe
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
        self._believe(handle, task, x, out)
        mean, sd = float(out[0, arm]), float(out[1, arm])
        self._believe(handle, -1, x, out)
        return noticing.Belief(mean, sd, float(out[0, arm]), float(out[1, arm]))

    def _scale(self, factor: Array, rows: IntArray | None = None) -> None:
        """Multiply the sums of some rows, or of all, and compute what follows from them."""
        belief, squares = self._belief, self.drift.squares
        if self._rows is not None:
            squares = FAINT * squares
            self._scale_rows(self._rows, factor, squares, np.arange(factor.size) if rows is None else rows)
        engine.scale_sums(belief.sums, factor, squares, rows)
        before = belief.rewards.copy()
        for arm in range(before.size):
            belief.rewards[arm] = belief.sums.counts[belief.seen[arm, : belief.n_seen[arm]]].sum()
        # So that a refresh is due when rewards have grown by as much beside those that still count.
        left = belief.rewards.sum() / max(before.sum(), engine.LEAST)
        if self._memory is not None:
            for at in (self._memory.refreshed_at, self._memory.threshold_rewards):
                at *= belief.rewards / np.maximum(before, engine.LEAST)
        if self._features is not None:
            self._features *= left
        self._evidence.refreshed_at[0] *= left
        for arm in range(before.size):
            rebuild(belief, arm, self._buffers)

    def _scale_rows(self, rows: KeptRows, factor: Array, squares: Array, slots: IntArray) -> None:
        """Let kept rows of clicks and counts count for less with their sums: likelihoods of a lower power.

        Rows of a pair in which a feature has faded away are kept no more, and their sites stay as they are.
        """
        places, left = places_of(rows.first[slots], rows.kept[slots]), np.repeat(factor, rows.kept[slots])
        for field in (rows.precision, rows.moment, rows.weight):
            field[places] *= left
        gram = self._belief.sums.gram[slots]
        own = gram[:, np.arange(squares.size), np.arange(squares.size)] * factor[:, None]
        lost = slots[((own < engine.FADED * squares) & (own != 0.0)).any(axis=1)]
        rows.kept[lost] = rows.seen[lost] = 0


class PopulationPolicy(CompiledPolicy):
    """A policy over the hierarchical posterior of all tasks, whose old rewards may fade."""

    explores: ClassVar[Exploration]
    _refresh: CompiledCallback
    """Estimates the population again."""

    def _begin(
        self, exploration: float, first_pulls: bool, start: Prior, drift: float | Literal["learn"] | None
    ) -> None:
        self.exploration = number(exploration, "exploration", at_least=0)
        self._exploration = self.explores.scaled(self.exploration)
        self._first_pulls = bool(first_pulls)
        stats = Statistics.zeros(n_tasks=self.n_tasks, n_arms=self.n_arms, n_features=self.n_features)
        self._buffers = new_buffers(self.n_features)
        self._belief: Belief = new_belief(stats, start, self._buffers)
        self.drift = drift
        self._fading: Fading | None = None

    @property
    def first_pulls(self) -> bool:
        """Whether arm t is pulled at step t for the first ``n_arms`` steps."""
        return self._first_pulls

    @property
    def statistics(self) -> Statistics:
        """A copy of all that was learned; of clicks and counts the sums over their sites."""
        shape = (self.n_arms, self.n_tasks)
        return Statistics(*(field.reshape(*shape, *field.shape[1:]) for field in self._belief.sums)).copy()

    @property
    def prior(self) -> Prior:
        """The prior in force, on the scale of the linear predictor."""
        return prior_of(self._belief)

    @property
    def half_life(self) -> float:
        """Steps after which half of what differs in a task is believed to have changed; infinite without drift."""
        return math.inf if self._fading is None else self._fading.drift.half_life

    @property
    def changes(self) -> list[tuple[int, int | None]]:
        """The changes that were noticed: after how many rewards, and in which task, or None for all at once."""
        noticed = [] if self._fading is None else self._fading.drift.changes
        return [(int(change.time), None if change.task == engine.EVERYWHERE else change.task) for change in noticed]

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        if self._fading is not None:
            self._fading.before(self._handle.address, task, arm, x, reward)
        if self._kernels.learn(self._handle.address, task, arm, x, reward):
            self._refresh(self._handle.address, arm)

    def _play(self, batch: StepBatch) -> None:
        if self._fading is not None:
            Policy._play(self, batch)
            return
        steps = Handle(STEP_BATCH, batch)
        self._kernels.play(self._handle.address, steps.address, self._refresh.address)


def drift_words(drift: float | Literal["learn"]) -> str:
    """Return a drift as people read it."""
    return "drift learned" if drift == "learn" else f"half-life {drift:g} steps"


def half_life_of(drift: Any) -> float | None:
    """Return the half-life that was asked for, or None if it is to be learned."""
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(f"expected drift to be None, 'learn' or a half-life, got {drift!r}; pass one of these")
        return None
    return number(drift, "drift", above=0)
