"""How much a task leans on its own rewards, and how much on the other tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.kernels.packing import diagonal_places, whole_matrix
from posse.kernels.posterior import Belief
from posse.showing import brief_repr
from posse.types import Array

AT_ONCE = 8192  # pairs that are read at a time


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


def feature_squares(belief: Belief) -> Array:
    """Return the mean squares of the features over all rewards; 1 for one that was always 0.

    Reads the pairs with rewards and no others: arrays may have space for many times as many.
    """
    n_arms, d = belief.shared_mean.shape
    squares, places = np.zeros(d), diagonal_places(d)
    gram = belief.sums.gram
    for arm in range(n_arms):
        seen = belief.seen[arm, : belief.n_seen[arm]]
        for start in range(0, seen.size, AT_ONCE):
            rows = seen[start : start + AT_ONCE, None]
            squares += (gram[rows, places] if gram.ndim == 2 else gram[rows, np.arange(d), np.arange(d)]).sum(axis=0)
    return mean_squares(squares, float(belief.rewards.sum()))


def mean_squares(sums: Array, rewards: float) -> Array:
    """Return sums of squares of the features over the number of rewards; 1 for a feature that was always 0."""
    total = max(rewards, 1.0)
    return np.where(sums > 0, sums, total) / total


def borrowing_of(belief: Belief, task: int, squares: Array | None = None) -> Borrowing:
    """Return what stands behind the predictions of one task; ``squares`` are those of the features, if at hand."""
    n_arms, d = belief.shared_mean.shape
    own_share, borrowed = np.zeros(n_arms), np.zeros(n_arms)
    rows = belief.slot[task, :n_arms]
    counts = np.where(rows >= 0, belief.sums.counts[rows], 0.0)
    if squares is None:
        squares = feature_squares(belief)
    grams = [
        whole_matrix(belief.sums.gram[row]) if count > 0 else np.zeros((d, d))
        for row, count in zip(rows, counts, strict=True)
    ]
    contexts = np.sum(grams, axis=0)
    for arm in range(n_arms):
        noise = float(belief.noise_variance[arm])
        spread = belief.covariance[arm] / belief.task_weight[task]
        prior_precision = belief.shared_precision[arm]
        shared_precision = _inverse(belief.shared_covariance[arm])
        if counts[arm] > 0:
            gram = grams[arm]
            local_covariance = whole_matrix(belief.local_covariance[rows[arm]])
            leaning = np.eye(d) - local_covariance @ gram
            covariance = noise * local_covariance
            covariance = covariance + leaning @ belief.shared_covariance[arm] @ leaning.T
            # Without this task; what rounding takes below the bare prior is given back.
            shared_precision = shared_precision - gram @ leaning / noise
        before = _inverse(_at_least(shared_precision, prior_precision)) + spread
        if counts[arm] > 0 and (variance := np.vdot(before, contexts)) > 0:
            own_share[arm] = np.clip(1 - np.vdot(covariance, contexts) / variance, 0.0, 1.0)
        others = _inverse(before)
        alone = _inverse(_inverse(prior_precision) + spread)
        borrowed[arm] = max(noise * float((np.diagonal(others - alone) / squares).mean()), 0.0)
    return Borrowing(own_share, borrowed, counts)


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
