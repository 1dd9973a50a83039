"""How much a task leans on its own rewards, and how much on the other tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.showing import brief_repr

if TYPE_CHECKING:
    from posse.model.prior import Prior
    from posse.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Borrowing:
    r"""The data behind a task's predictions; one entry per arm.

    Before its own rewards, what the others say about the task is a Gaussian with covariance
    :math:`V = \Sigma_j + \Phi_{-j}` (how tasks differ, and how little is known about the shared mean without this
    task). Its own rewards say :math:`A_j / \sigma^2`.

    Parameters
    ----------
    own_share : ndarray of shape (n_arms,)
        Weight of the task's own rewards in what is predicted for it, from 0 (all borrowed) to 1: the part of the
        variance of predictions that they have removed, :math:`1 - \operatorname{tr}(C_j S) / \operatorname{tr}(V S)`
        with S the second moments of the task's contexts.
    borrowed : ndarray of shape (n_arms,)
        How many typical rewards of its own would say as much as the others do:
        :math:`\sigma^2 \operatorname{tr}(V^{-1} W^{-1}) / d` with W the mean squares of the features, less what the
        bare prior says without any task.
    rewards : ndarray of shape (n_arms,)
        Rewards of its own.
    """

    own_share: Array
    borrowed: Array
    rewards: Array

    __repr__ = brief_repr


def mean_squares(sums: Array, rewards: float) -> Array:
    """Return sums of squares of the features over the number of rewards; 1 for a feature that was always 0."""
    total = max(rewards, 1.0)
    return np.where(sums > 0, sums, total) / total


def task_borrowing(
    gram: Array, counts: Array, prior: Prior, shared_covariance: Array, weight: float, squares: Array
) -> Borrowing:
    """Return what stands behind the predictions of one task.

    Parameters
    ----------
    gram : ndarray of shape (n_arms, d, d)
        Sums of products of the task's contexts.
    counts : ndarray of shape (n_arms,)
        Its rewards.
    prior : Prior
    shared_covariance : ndarray of shape (n_arms, d, d)
        Of the shared means, given the rewards of all tasks.
    weight : float
        The covariance of the task is that of the prior over its weight.
    squares : ndarray of shape (d,)
        Mean squares of the features.
    """
    n_arms, d = counts.size, squares.size
    own_share, borrowed = np.zeros(n_arms), np.zeros(n_arms)
    contexts = gram.sum(axis=0)
    for arm, prior_precision in enumerate(prior.shared_precisions):
        noise, spread = float(prior.noise_variance[arm]), prior.covariance[arm] / weight
        shared_precision = _inverse(shared_covariance[arm])
        if counts[arm] > 0:
            # Solve, do not invert: a covariance may be singular.
            local_covariance = spread @ _inverse(noise * np.eye(d) + gram[arm] @ spread)
            leaning = np.eye(d) - local_covariance @ gram[arm]
            covariance = noise * local_covariance + leaning @ shared_covariance[arm] @ leaning.T
            # Without this task; what rounding takes below the bare prior is given back.
            shared_precision = shared_precision - gram[arm] @ leaning / noise
        before = _inverse(_at_least(shared_precision, prior_precision)) + spread
        if counts[arm] > 0 and (variance := np.vdot(before, contexts)) > 0:
            own_share[arm] = np.clip(1 - np.vdot(covariance, contexts) / variance, 0.0, 1.0)
        others = _inverse(before)
        alone = _inverse(_inverse(prior_precision) + spread)
        borrowed[arm] = max(noise * float((np.diagonal(others - alone) / squares).mean()), 0.0)
    return Borrowing(own_share, borrowed, counts.copy())


def _inverse(matrix: Array) -> Array:
    """Return the inverse, or NaN where numbers are too far apart for one."""
    try:
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _at_least(matrix: Array, least: Array) -> Array:
    """Return ``matrix`` with what is negative of ``matrix - least`` cut off."""
    excess = matrix - least
    if not np.isfinite(excess).all():
        return np.full_like(matrix, np.nan)
    values, vectors = np.linalg.eigh((excess + excess.T) / 2)
    result: Array = least + (vectors * np.clip(values, 0, None)) @ vectors.T
    return result
