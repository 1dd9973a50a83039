"""Policies that learn clicks and counts, and the population they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from posse.checks import number, whole_number
from posse.kernels import family as kernels
from posse.kernels.batches import REWARD_BATCH
from posse.kernels.evidence import new_evidence
from posse.kernels.kept_rows import new_rows
from posse.kernels.llvm.handle import Handle
from posse.kernels.select import OPTIMISTIC, RANDOMISED, SAMPLING
from posse.model import Prior
from posse.policies.base import FamilyPolicy, exploration_words
from posse.policies.fading import Fading, PopulationPolicy, drift_words

if TYPE_CHECKING:
    from posse.kernels.batches import RewardBatch
    from posse.types import Array, ArrayLike

KEPT = 40
"""Rows of every (arm, task) pair whose sites are made again at a refresh."""


class _Family(PopulationPolicy, FamilyPolicy):
    """The hierarchical posterior over sites and the decisions made from it; subclasses say how to explore."""

    _kernels: ClassVar[Any] = kernels
    _refresh = kernels.REFRESH
    default_exploration: ClassVar[float]

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        rewards: Literal["binary", "count"] = "binary",
        exploration: float | None = None,
        refresh_growth: float = 0.1,
        first_pulls: bool = True,
        kept_rows: int = KEPT,
        drift: float | Literal["learn"] | None = None,
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, rewards=rewards)
        exploration = self.default_exploration if exploration is None else exploration
        start = Prior.isotropic(n_arms=self.n_arms, n_features=self.n_features, shared_precision=1.0)
        self._begin(exploration, first_pulls, start, drift)
        self.refresh_growth = number(refresh_growth, "refresh_growth", at_least=0)
        self.kept_rows = whole_number(kept_rows, "kept_rows", at_least=1)
        self._evidence = new_evidence(self.n_arms, self.n_tasks, self.n_features, 0.0)
        self._rows = new_rows(self.n_arms * self.n_tasks, self.kept_rows, self.n_features)
        self._features = np.zeros((2, self.n_features))
        if drift is not None:
            self._fading = Fading(
                drift, self._belief, self._evidence, self._buffers, family=self.family, rows=self._rows,
                features=self._features,
            )  # fmt: skip
        self._link()

    def expected(self, task: int, context: ArrayLike) -> Array:
        """Return the expected reward of every arm: a probability, or a rate."""
        believed = self.predict(task, context)
        return self.family.expected(believed.mean, believed.sd)

    def interval(self, task: int, context: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of every arm's probability or rate."""
        believed = self.predict(task, context)
        return self.family.interval(believed.mean, believed.sd, level)

    def describe(self) -> str:
        """Return exploration, family, refresh schedule and drift."""
        words = [
            exploration_words(self._exploration),
            f"{self.rewards} rewards",
            f"refresh at +{self.refresh_growth:.0%}",
        ]
        return "; ".join(words if self.drift is None else [*words, drift_words(self.drift)])

    def _link(self) -> None:
        state = kernels.State(
            belief=self._belief, evidence=self._evidence, rows=self._rows, features=self._features,
            buffers=self._buffers, exploration=self._exploration, first_pulls=self._first_pulls,
            family=self.family.code, refresh_growth=self.refresh_growth,
        )  # fmt: skip
        self._handle = Handle(kernels.STATE, state)

    def _learn_many(self, batch: RewardBatch) -> None:
        if self._fading is not None:
            super()._learn_many(batch)
            return
        rows = Handle(REWARD_BATCH, batch)
        kernels.learn_rows(self._handle.address, rows.address, kernels.REFRESH.address)


class FamilyUCB(_Family):
    r"""Pull the arm with the highest optimistic linear predictor under the learned population of clicks or counts.

    .. math:: \arg\max_k \; m_k + a \sqrt{\log t}\, s_k, \qquad x^\top\theta_{kj} \sim \mathcal N(m_k, s_k^2)

    Links rise, so the arm with the best predictor is the arm with the best probability or rate.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    rewards : {"binary", "count"}, default "binary"
        0 and 1 with the logistic link, or counts with the log link.
    exploration : float, default 0.4
        :math:`a`.
    refresh_growth : float, default 0.1
        The population is refreshed when all rewards have grown by this fraction.
    first_pulls : bool, default True
        Pull arm t at step t for the first ``n_arms`` steps.
    kept_rows : int, default 40
        Rows of every (arm, task) pair whose sites are made again at a refresh. With d features a pair takes
        ``8 (kept_rows (d + 4) + 2 d^2 + 2 d + 2)`` bytes.
    drift : None, "learn" or float, default None
        A world that changes (docs/drift.md), as in :class:`posse.policies.EbmUCB`: a half-life in steps, or that it is
        to be learned, and changes noticed.

    Notes
    -----
    A reward is learned as its site, see :mod:`posse.kernels.sites`; the population as in
    :func:`posse.model.estimate_family_prior`, by a few steps per refresh.
    """

    label = "familyUCB"
    explores = OPTIMISTIC
    default_exploration = 0.4


class FamilyTS(_Family):
    r"""Pull the arm that is best in a draw from the belief under the learned population of clicks or counts.

    Parameters
    ----------
    n_tasks, n_arms, n_features, rewards, refresh_growth, first_pulls, kept_rows, drift
        As in :class:`FamilyUCB`.
    exploration : float, default 0.15
        Times :math:`\sqrt{\log t}` and the standard deviation of the belief.
    """

    label = "familyTS"
    explores = SAMPLING
    default_exploration = 0.15


class FamilyRandUCB(_Family):
    r"""As :class:`FamilyUCB`, with optimism drawn at random, so that decisions can be evaluated.

    Parameters
    ----------
    n_tasks, n_arms, n_features, rewards, refresh_growth, first_pulls, kept_rows, drift
        As in :class:`FamilyUCB`.
    exploration : float, default 0.4
        As in :class:`posse.policies.EbmRandUCB`.
    """

    label = "familyRandUCB"
    explores = RANDOMISED
    default_exploration = 0.4
