"""ebmUCB as plain array code: after every reward, all tasks of the pulled arm from scratch, O(N d^3).

The rival of the exact rank-one step. The prior is re-estimated after every reward as the paper asks, without the
threshold, which its own synthetic study has no use for.
"""

from __future__ import annotations

import numpy as np

from posse.kernels.select import OPTIMISTIC, explore
from posse.model import Posterior, Prior, Statistics, posterior
from posse.types import Array


class DirectEbmUCB:
    """The paper's Algorithm 1, line by line."""

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        exploration: float = 0.1,
        shared_precision: float = 1e-3,
    ) -> None:
        self.stats = Statistics.zeros(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.prior = Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=shared_precision)
        self.exploration = OPTIMISTIC.scaled(exploration)
        self.belief = [self._condition(arm) for arm in range(n_arms)]

    def choose(self, task: int, context: Array, step: int, rng: np.random.Generator) -> int:
        """Return the arm to pull."""
        n_arms = len(self.belief)
        draws = rng.standard_normal(n_arms)
        if step <= n_arms:
            return step - 1
        mean = np.array([belief.mean[0, task] @ context for belief in self.belief])
        sd = np.sqrt([context @ belief.covariance[0, task] @ context for belief in self.belief])
        return int(explore(mean, sd, step, self.exploration, draws))

    def update(self, task: int, arm: int, context: Array, reward: float) -> None:
        """Learn one reward."""
        self.stats.gram[arm, task] += np.outer(context, context)
        self.stats.moment[arm, task] += reward * context
        self.stats.sum_of_squares[arm, task] += reward**2
        self.stats.count[arm, task] += 1
        belief = self._condition(arm)
        gram, moment, count = self.stats.gram[arm], self.stats.moment[arm], self.stats.count[arm]
        d = context.size
        if count.sum() > d + 1:
            fitted = np.einsum("na,nab,nb->", belief.mean[0], gram, belief.mean[0])
            squares = self.stats.sum_of_squares[arm].sum() - 2 * (belief.mean[0] * moment).sum() + fitted
            self.prior.noise_variance[arm] = max(squares / max(count.sum() - d - 1, 1), 1e-6)
        usable = count >= d
        usable[usable] = np.linalg.cond(gram[usable]) < 1e8
        if usable.sum() >= 2:
            estimates = np.linalg.solve(gram[usable], moment[usable][..., None])[..., 0]
            covariance = np.cov(estimates.T).reshape(d, d)
            self.prior.covariance[arm] = covariance + 1e-6 * np.trace(covariance) / d * np.eye(d)
        self.belief[arm] = self._condition(arm)

    def _condition(self, arm: int) -> Posterior:
        one = slice(arm, arm + 1)
        stats = Statistics(*(field[one] for field in self.stats.sums))
        prior = Prior(
            covariance=self.prior.covariance[one],
            noise_variance=self.prior.noise_variance[one],
            shared_precision=self.prior.shared_precisions[one],
        )
        return posterior(stats, prior)
