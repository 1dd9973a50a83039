"""Sums of posterior variances along a run, and the lemmas that bound them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from posse.checks import real_array

if TYPE_CHECKING:
    from posse.model import Prior
    from posse.types import Array, ArrayLike
    from posse_lab.theory.constants import Constants


@dataclass(frozen=True, slots=True, eq=False)
class VarianceSums:
    r"""Posterior variance of the expected reward of every pulled arm, just before its reward.

    .. math:: x^\top C x = \sigma^2 x^\top \tilde C x + \sigma^4 x^\top \tilde C \Sigma^{-1} \Phi \Sigma^{-1} \tilde C x

    Parameters
    ----------
    own : ndarray of shape (horizon,)
        The first term, what is unknown about the task if the shared mean were known.
    shared : ndarray of shape (horizon,)
        The second term, what is unknown about the shared mean.
    """

    own: Array
    shared: Array


def variance_sums(prior: Prior, tasks: ArrayLike, arms: ArrayLike, contexts: ArrayLike, n_tasks: int) -> VarianceSums:
    r"""Walk through a run and return the two terms of the posterior variance at every step.

    Rewards do not matter: the covariance of a Gaussian posterior does not depend on them. With
    :math:`v = \tilde C x`, :math:`h = \sigma^2 \Sigma^{-1} \tilde C x` and :math:`q = 1 + x^\top v`, a reward changes

    .. math::
        \tilde C \leftarrow \tilde C - \frac{v v^\top}{q}, \qquad
        \sigma^2 \tilde C \Sigma^{-1} \leftarrow \sigma^2 \tilde C \Sigma^{-1} - \frac{v h^\top}{q}, \qquad
        \Phi^{-1} \leftarrow \Phi^{-1} + \frac{h h^\top}{\sigma^2 q},

    so nothing is inverted and :math:`\Sigma` may be singular.

    Parameters
    ----------
    prior : Prior
        Known, as the lemmas have it.
    tasks, arms : int labels of shape (horizon,)
    contexts : array of shape (horizon, n_features)
    n_tasks : int
        How many there are, with or without arrivals.

    Examples
    --------
    One feature that is always 1; the task varies by 2 around a shared mean that varies by 1, the noise by 1.
    After one reward, 2 has become 2/3. The reward varied by 3 around the shared mean, which is left with
    1 / (1 + 1/3) = 3/4 of its variance, of which the task still inherits (1/3)² = 1/9.

    >>> from posse.model import Prior
    >>> prior = Prior(covariance=[[[2.0]]], noise_variance=1.0, shared_precision=1.0)
    >>> sums = variance_sums(prior, tasks=[0, 0], arms=[0, 0], contexts=[[1.0], [1.0]], n_tasks=1)
    >>> sums.own.round(6), sums.shared.round(6)
    (array([2.      , 0.666667]), array([1.      , 0.083333]))
    """
    X = real_array(contexts, "contexts")
    d = prior.n_features
    noise = prior.noise_variance
    local = np.repeat((prior.covariance / noise[:, None, None])[:, None], n_tasks, axis=1)  # Ct
    leaning = np.tile(np.eye(d), (prior.n_arms, n_tasks, 1, 1))  # s2 Ct Sigma^-1
    shared_covariance = np.linalg.inv(prior.shared_precisions)  # Phi
    own, shared = np.empty(X.shape[0]), np.empty(X.shape[0])
    for t, (j, k) in enumerate(zip(np.asarray(tasks).tolist(), np.asarray(arms).tolist(), strict=True)):
        x, s2 = X[t], noise[k]
        C, H, phi = local[k, j], leaning[k, j], shared_covariance[k]
        v, h = C @ x, x @ H
        g = phi @ h
        q, r = 1.0 + x @ v, h @ g
        own[t], shared[t] = s2 * (q - 1.0), r
        C -= np.outer(v, v / q)
        H -= np.outer(v, h / q)
        phi -= np.outer(g, g / (s2 * q + r))
    return VarianceSums(own=own, shared=shared)


def variance_bound_own(constants: Constants, n_rewards: float) -> float:
    r"""Bound the sum of the first term over one (arm, task): :math:`c_1 d \log(1 + c_2 n_j)`.

    The paper's first lemma; it holds as printed, for every :math:`\sigma`.

    Parameters
    ----------
    constants : Constants
    n_rewards : float
        Rewards of this arm in this task, or more, such as the arrivals at the task.
    """
    return constants.c_1 * constants.n_features * math.log1p(constants.c_2 * n_rewards)


def variance_bound_shared(constants: Constants, form: Literal["printed", "sharpened"] = "printed") -> float:
    r"""Bound the sum of the second term over one arm: :math:`c_3 d \log(1 + c_4 N)`, however long the run.

    The paper's second lemma; its result holds as printed. *Sharpened*, :math:`(\lambda_1/\lambda_d)^2` in :math:`c_3`
    is :math:`\lambda_1/\lambda_d`: the norm of :math:`\sigma^2 \tilde C \Sigma^{-1}` is at most
    :math:`\sqrt{\lambda_1/\lambda_d}`, where the proof multiplies the norms of its factors.
    """
    scale = constants.c_3
    if form == "sharpened":
        largest = constants.c_4 * constants.n_features * constants.context_bound / constants.precision_min
        scale = largest * (1.0 + constants.n_features * constants.c_2) / math.log1p(largest / constants.noise_sd**2)
    return scale * constants.n_features * math.log1p(constants.c_4 * constants.n_tasks)


def variance_bound_joint(constants: Constants, arrivals: ArrayLike, clip: float | None = None) -> tuple[float, float]:
    r"""Bound the sum of both terms over all arms at once, as one regression in :math:`N d` dimensions.

    .. math::
        \sum_t x_t^\top C x_t \le \frac{\sigma^2 w}{\log(1 + w)}\, K
        \Bigl[ d \sum_j \log\bigl(1 + c_2 n_j / K\bigr) + d \log(1 + c_4 N) \Bigr], \quad
        w = \frac{d c_x}{\sigma^2} \Bigl(\frac{1}{\lambda_d} + \frac{1}{\lambda}\Bigr) .

    Unlike the sum of the two lemmas it has neither :math:`c_6` nor a condition number.

    Parameters
    ----------
    constants : Constants
    arrivals : array of shape (n_tasks,)
        :math:`n_j`.
    clip : float, optional
        Bound :math:`\sum_t \min(x_t^\top C x_t, \text{clip})` instead: w is at most clip over :math:`\sigma^2`.

    Returns
    -------
    own, shared : float
        The two summands of the bracket, each times what stands before it.
    """
    n = real_array(arrivals, "arrivals")
    s2, d, K = constants.noise_sd**2, constants.n_features, constants.n_arms
    w = d * constants.context_bound / s2 * (1.0 / constants.precision_min + 1.0 / constants.shared_precision)
    if clip is not None:
        w = min(w, clip / s2)
    scale = s2 * (w / math.log1p(w)) * K * d
    own = float(np.log1p(constants.c_2 * n / K).sum())
    return scale * own, scale * math.log1p(constants.c_4 * constants.n_tasks)
