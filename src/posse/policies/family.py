"""The hierarchical policies under the names that they have for clicks and counts."""

from __future__ import annotations

from typing import Literal

from posse.families import linked_family_of
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.hierarchical import LINKED_REFRESH, Hierarchical


class _Family(Hierarchical):
    """A hierarchical policy of clicks or counts."""

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        rewards: Literal["binary", "count"] = "binary",
        exploration: float | None = None,
        refresh_growth: float = LINKED_REFRESH,
        first_pulls: bool = True,
        drift: float | Literal["learn"] | None = None,
    ) -> None:
        linked_family_of(rewards)
        super().__init__(
            n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, exploration=exploration, prior="evidence",
            refresh_growth=refresh_growth, first_pulls=first_pulls, drift=drift, rewards=rewards,
        )  # fmt: skip


class FamilyUCB(_Family, EbmUCB):
    r"""Pull the arm with the highest optimistic linear predictor under the learned population of clicks or counts.

    .. math:: \arg\max_k \; m_k + a \sqrt{\log t}\, s_k, \qquad x^\top\theta_{kj} \sim \mathcal N(m_k, s_k^2)

    Links rise, so the arm with the best predictor is the arm with the best probability or rate. As
    :class:`posse.policies.EbmUCB` with these ``rewards``.

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
    drift : None, "learn" or float, default None
        A world that changes (docs/drift.md), as in :class:`posse.policies.EbmUCB`: a half-life in steps, or that it is
        to be learned, and changes noticed.

    Notes
    -----
    A reward is learned as its site, see :mod:`posse.families.links`; the population as in
    :func:`posse.model.estimate_family_prior`, by a few steps per refresh.
    """

    label = "familyUCB"


class FamilyTS(_Family, EbmTS):
    r"""Pull the arm that is best in a draw from the belief under the learned population of clicks or counts.

    Parameters
    ----------
    n_tasks, n_arms, n_features, rewards, refresh_growth, first_pulls, drift
        As in :class:`FamilyUCB`.
    exploration : float, default 0.15
        Times :math:`\sqrt{\log t}` and the standard deviation of the belief.
    """

    label = "familyTS"


class FamilyRandUCB(_Family, EbmRandUCB):
    r"""As :class:`FamilyUCB`, with optimism drawn at random, so that decisions can be evaluated.

    Parameters
    ----------
    n_tasks, n_arms, n_features, rewards, refresh_growth, first_pulls, drift
        As in :class:`FamilyUCB`.
    exploration : float, default 0.4
        As in :class:`posse.policies.EbmRandUCB`.
    """

    label = "familyRandUCB"
