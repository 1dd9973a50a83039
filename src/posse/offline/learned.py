"""A policy that learned from the log itself, judged by rows that it did not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posse.checks import one_of
from posse.errors import InvalidValue
from posse.families import FAMILIES, Rewards
from posse.kernels.rule import score_probabilities_rows
from posse.model import Posterior, Prior, Statistics, estimate_prior, posterior
from posse.offline.data import LoggedBandit
from posse.offline.folds import FOLDS, deal_folds
from posse.offline.model import cross_fitted, cross_fitted_family, learn_by_evidence, means, spreads
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
    rewards : {"number", "binary", "count"}, optional
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
        policy = self._policy(n_tasks=data.n_tasks, n_arms=data.n_arms, n_features=data.contexts.shape[1])
        result = np.zeros((data.n_rows, data.n_arms))
        for rows, belief in self._beliefs(data, policy):
            probabilities = np.empty((rows.size, data.n_arms))
            # Clicks and counts by the scale of the linear predictor: links rise, so the best arm is the same.
            score_probabilities_rows(
                means(belief, data, rows),
                spreads(belief, data, rows),
                data.eligible[rows],
                data.n_rows - rows.size + 1,
                policy.explores.scaled(policy.exploration),
                probabilities,
            )
            result[rows] = probabilities
        return result

    def _beliefs(self, data: LoggedBandit, policy: EbmRandUCB | EbmTS | EbmUCB) -> Iterator[tuple[IntArray, Posterior]]:
        """Return the rows of every fold with what was learned from all others."""
        folds, known = deal_folds(data.tasks, folds=self.folds, seed=self.seed), self.settings["prior"]
        if not isinstance(known, Prior) and known == "evidence" and not policy.robust:
            if data.reward_family != "number":
                return cross_fitted_family(data, folds)
            return cross_fitted(data, folds, learn_by_evidence)

        def learn(seen: Statistics) -> Posterior:
            if isinstance(known, Prior):
                return posterior(seen, known)
            estimate = estimate_prior(
                seen, method=known, robust=policy.robust, shared_precision=policy.shared_precision
            )
            return posterior(seen, estimate.prior, estimate.task_weight)

        return cross_fitted(data, folds, learn)
