"""HierTS and MTTS: Thompson sampling in a hierarchy whose population is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number, real_array
from posse.core.select import SAMPLING
from posse.errors import InvalidValue, ShapeError
from posse.model.prior import Prior
from posse.policies.base import Policy, Prediction
from posse.policies.hierarchical import Hierarchical

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike


class HierTS(Hierarchical):
    r"""Draw from the posterior under a population that is given, never learned.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    prior : Prior, optional
        The population. Default: covariance I, noise variance 1 and shared covariance 3 I, the setting of the
        method's own synthetic study.
    exploration : float
        Scale of the draws; 1 is posterior sampling.

    References
    ----------
    Hong, Kveton, Zaheer and Ghavamzadeh, "Hierarchical Bayesian Bandits" (2022).

    Notes
    -----
    One hierarchy per arm, as arms are independent here. The draw of the shared mean and the draw given it are one
    draw from their joint law, scored at the context.
    """

    label = "HierTS"
    explores = SAMPLING._replace(growing=False)

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        prior: Prior | None = None,
        exploration: float = 1.0,
    ) -> None:
        if prior is None:
            prior = self.default_prior(n_arms=n_arms, n_features=n_features)
        if not isinstance(prior, Prior):
            raise InvalidValue(f"expected prior to be a Prior: HierTS takes the population as known, got {prior!r}")
        super().__init__(
            n_tasks=n_tasks,
            n_arms=n_arms,
            n_features=n_features,
            exploration=exploration,
            prior=prior,
            first_pulls=False,
        )

    @staticmethod
    def default_prior(*, n_arms: int, n_features: int) -> Prior:
        """Return the population of the method's own synthetic study."""
        return Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=1 / 3)


class MTTS(Policy):
    r"""Draw from the posterior of a hierarchy in which what is known about a task moves its mean.

    .. math::
        \theta_{jk} \sim N(W_k z_j, \Sigma_k), \qquad \operatorname{vec} W_k \sim N(\cdot, I \otimes \Lambda_k^{-1})

    :math:`\Sigma`, :math:`\Lambda` and the noise are given, never learned; ``Posse(task_features=...)`` learns them.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    task_features : array of shape (n_tasks, n_task_features), optional
        :math:`z_j`, with a column of ones if there shall be an intercept. Default: that column alone, which is
        :class:`HierTS`.
    prior : Prior, optional
        Covariance of the tasks, noise variance, and the precision of every column of W. Default: that of
        :class:`HierTS`.
    effects : array of shape (n_arms, n_task_features, n_features), optional
        Where W is believed to lie. Default: at 0.
    exploration : float
        Scale of the draws; 1 is posterior sampling.

    References
    ----------
    Wan, Ge and Song, "Metadata-based Multi-Task Bandits with Bayesian Hierarchical Models" (2021).

    Notes
    -----
    Departures from the paper: contexts, of which its bandits have none (a single 1); one hierarchy per arm, so features
    of a pair of task and arm are those of the task in the arm's own columns. Beliefs are exact after every reward,
    where the paper samples the shared effects now and then. Not compiled: for small simulations.

    Examples
    --------
    >>> policy = MTTS(n_tasks=2, n_arms=2, n_features=1, task_features=[[1.0, 0.0], [0.0, 1.0]])
    >>> policy.update(task=0, arm=0, context=[1.0], reward=2.0)
    >>> policy.predict(task=0, context=[1.0]).mean.round(3)
    array([1.6, 0. ])
    >>> policy.predict(task=1, context=[1.0]).mean.round(3)  # tasks that have nothing in common
    array([0., 0.])
    """

    label = "MTTS"

    def __init__(
        self,
        *,
        n_tasks: int,
        n_arms: int,
        n_features: int,
        task_features: ArrayLike | None = None,
        prior: Prior | None = None,
        effects: ArrayLike | None = None,
        exploration: float = 1.0,
    ) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        z = np.ones((self.n_tasks, 1)) if task_features is None else real_array(task_features, "task_features")
        if z.ndim != 2 or len(z) != self.n_tasks or not z.shape[1]:
            raise ShapeError(f"expected task_features to have shape ({self.n_tasks}, n_task_features), got {z.shape}")
        if prior is None:
            prior = HierTS.default_prior(n_arms=n_arms, n_features=n_features)
        if not isinstance(prior, Prior):
            raise InvalidValue(f"expected prior to be a Prior: MTTS takes the population as known, got {prior!r}")
        prior.require_shape(n_arms=self.n_arms, n_features=self.n_features)
        self.prior, self.exploration = prior, number(exploration, "exploration", at_least=0)
        self.task_features = z
        K, N, d, p = self.n_arms, self.n_tasks, self.n_features, z.shape[1]
        shape = (K, p, d)
        start = np.tile(prior.shared_location[:, None], (1, p, 1)) * (z.shape[1] == 1)
        if effects is not None:
            start = real_array(effects, "effects")
            if start.shape != shape:
                raise ShapeError(f"expected effects to have shape {shape}, got shape {start.shape}")
        self._gram = np.zeros((K, N, d, d))
        self._local = np.repeat((prior.covariance / prior.noise_variance[:, None, None])[:, None], N, axis=1)
        self._local_mean = np.zeros((K, N, d))
        precision = np.array([np.kron(np.eye(p), part) for part in prior.shared_precisions])
        self._effect_covariance = np.linalg.inv(precision)
        self._effect_moment = np.einsum("kij,kj->ki", precision, start.reshape(K, -1))

    def predict(self, task: int, context: ArrayLike) -> Prediction:
        """Return what is believed about every arm's expected reward, exploration apart."""
        return Prediction(*self._believe(self._checked_task(task), self._checked_context(context)))

    def describe(self) -> str:
        """Return how many features tasks have, and how far is explored."""
        return f"{self.task_features.shape[1]} task features; exploration {self.exploration:g}; known prior"

    def _believe(self, task: int, x: Array) -> tuple[Array, Array]:
        v = self._local[:, task] @ x
        through = self._through(task, x - np.einsum("kij,kj->ki", self._gram[:, task], v))
        effects = np.einsum("kij,kj->ki", self._effect_covariance, self._effect_moment)
        mean = self._local_mean[:, task] @ x + np.einsum("ki,ki->k", through, effects)
        variance = self.prior.noise_variance * (v @ x)
        variance += np.einsum("ki,kij,kj->k", through, self._effect_covariance, through)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _through(self, task: int, leaning: Array) -> Array:
        """Return what leans on the effects: what is known about the task times what is left of the context."""
        z = self.task_features[task]
        return np.asarray((z[:, None] * leaning[..., None, :]).reshape(*leaning.shape[:-1], -1))

    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:  # noqa: ARG002
        mean, sd = self._believe(task, x)
        return int(np.lexsort((draws, mean + self.exploration * sd * draws))[-1])

    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        # Changes of rank one, of the pair and of the effects (docs/model.md).
        noise = self.prior.noise_variance[arm]
        local, mean = self._local[arm, task], self._local_mean[arm, task]
        v = local @ x
        through = self._through(task, (x - self._gram[arm, task] @ v) / noise)
        gain = 1.0 / (1.0 + max(x @ v, 0.0))
        surprise = gain * (reward - x @ mean)
        local -= gain * np.outer(v, v)
        mean += surprise * v
        self._effect_moment[arm] += surprise * through
        p = self._effect_covariance[arm] @ through
        weight = noise * gain
        self._effect_covariance[arm] -= weight / (1.0 + weight * max(through @ p, 0.0)) * np.outer(p, p)
        self._gram[arm, task] += np.outer(x, x)
