"""A policy that learned from the log itself, judged by rows that it did not see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posse.checks import one_of
from posse.core.decide import show_rewards
from posse.core.rule import score_probabilities_rows
from posse.errors import InvalidValue
from posse.families import FAMILIES, Rewards, family_of
from posse.model import Posterior, Prior, Statistics, estimate_prior, posterior
from posse.offline.data import LoggedBandit, Predictors
from posse.offline.model import FOLDS, cross_fitted, deal_folds, predictors, predictors_of
from posse.policies import make_policy
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.types import Array, IntArray

KEYS = ("ebm-rand-ucb", "ebm-ts", "ebm-ucb")


class Learned:
    """The hierarchical policy, learned from this log and then frozen.

    In every row it decides as the policy that has learned from the other folds would, with its exploration at that
    number of rewards. Nothing is judged by a reward that it learned from, so the value is not too high; it is that of a
    policy with ``1 - 1 / folds`` of the log's rows, which is a little less than what all rows would give.

    Clicks and counts are learned by the model of their family, as a fleet of such rewards learns them; with a ``prior``
    other than "evidence", or with ``robust``, which only numbers have, they are learned as numbers.

    Parameters
    ----------
    key : {"ebm-rand-ucb", "ebm-ts", "ebm-ucb"}
    folds : int
    seed : int
        Of the deal of rows into folds.
    label : str, optional
    rewards : {"number", "binary", "count", "revenue"}, optional
        What rewards are learned as. Default: what the log says that they are.
    **settings
        Of the policy; ``prior`` is "evidence" unless given, ``exploration=0`` is greedy.

    Examples
    --------
    >>> Learned("ebm-rand-ucb", exploration=0.3).name
    'learned ebm-rand-ucb (exploration=0.3)'
    """

    def __init__(
        self,
        key: str,
        *,
        folds: int = FOLDS,
        seed: int = 0,
        label: str = "",
        rewards: Rewards | None = None,
        **settings: Any,
    ) -> None:
        if key not in KEYS:
            raise InvalidValue(
                f"a learned target must be one of {', '.join(map(repr, KEYS))}, but {key!r} came; others, which learn "
                "as they go, can be replayed: Replay"
            )
        if settings.get("drift") is not None:
            raise InvalidValue(
                f"expected drift=None for a learned target, got {settings['drift']!r}: folds have no order in time; "
                "replay the policy instead: Replay"
            )
        if rewards is not None:
            one_of(rewards, "rewards", tuple(FAMILIES))
        shown = ", ".join(f"{name}={value}" for name, value in settings.items())
        self.name = label or f"learned {key}" + (f" ({shown})" if shown else "")
        self.key, self.folds, self.seed, self.rewards = key, folds, seed, rewards
        self.settings = {"prior": "evidence", **settings}
        self._policy(n_tasks=1, n_arms=2, n_features=1)

    def _policy(self, **shape: int) -> EbmRandUCB | EbmTS | EbmUCB:
        settings = dict(self.settings)
        if isinstance(settings["prior"], Prior):
            shape |= {"n_arms": settings["prior"].n_arms, "n_features": settings["prior"].n_features}
        policy = make_policy(self.key, **shape, **settings)
        assert isinstance(policy, EbmRandUCB | EbmTS | EbmUCB)
        return policy

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return what the policies of the other folds would do."""
        if self.rewards is not None:
            data = replace(data, reward_family=self.rewards)
        policy = self._policy(n_tasks=1, n_arms=2, n_features=1)
        folds = deal_folds(data.tasks, folds=self.folds, seed=self.seed)
        mean, sd = self._predictors(data, folds, policy)
        if data.worth is not None:
            shown = mean.copy(), sd.copy()
            if self._has_links(data, policy):
                show_rewards(family_of(data.reward_family).code, *(part.reshape(-1) for part in shown))
            mean, sd = data.worth[0] * shown[0] - data.worth[1], data.worth[0] * shown[1]
        result = np.zeros((data.n_rows, data.n_arms))
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            probabilities = np.empty((rows.size, data.n_arms))
            # Without prices, clicks and counts by the scale of the linear predictor: links rise, so the best arm is
            # the same.
            score_probabilities_rows(
                mean[rows],
                sd[rows],
                data.eligible[rows],
                data.n_rows - rows.size + 1,
                policy.explores.scaled(policy.exploration),
                probabilities,
            )
            result[rows] = probabilities
        return result

    def _by_evidence(self, policy: EbmRandUCB | EbmTS | EbmUCB) -> bool:
        known = self.settings["prior"]
        return not isinstance(known, Prior) and known == "evidence" and not policy.robust

    def _has_links(self, data: LoggedBandit, policy: EbmRandUCB | EbmTS | EbmUCB) -> bool:
        """Whether predictors are those of clicks or counts, not of numbers."""
        return data.reward_family != "number" and self._by_evidence(policy)

    def _predictors(
        self, data: LoggedBandit, folds: IntArray, policy: EbmRandUCB | EbmTS | EbmUCB
    ) -> tuple[Array, Array]:
        """Return mean and standard deviation of every arm in every row, learned from the other folds."""
        known = self.settings["prior"]
        if self._by_evidence(policy):
            return _both(predictors(data, folds, spread=True))

        def learn(seen: Statistics) -> Posterior:
            if isinstance(known, Prior):
                return posterior(seen, known)
            estimate = estimate_prior(
                seen, method=known, robust=policy.robust, shared_precision=policy.shared_precision
            )
            return posterior(seen, estimate.prior, estimate.task_weight)

        return _both(predictors_of(cross_fitted(data, folds, learn), data, spread=True))


def _both(found: Predictors) -> tuple[Array, Array]:
    mean, sd = found
    assert sd is not None
    return mean, sd
