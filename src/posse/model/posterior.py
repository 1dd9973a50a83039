"""The posterior of every task given the data of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.linalg import cholesky, inv, slogdet, solve

from posse.checks import real_array
from posse.errors import InvalidValue, ShapeError
from posse.showing import brief_repr

if TYPE_CHECKING:
    from posse.model.prior import Prior
    from posse.model.statistics import Statistics
    from posse.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Gaussian belief about the coefficients of every (arm, task) and about the shared mean of every arm.

    Parameters
    ----------
    mean : ndarray of shape (n_arms, n_tasks, n_features)
    covariance : ndarray of shape (n_arms, n_tasks, n_features, n_features)
    shared_mean : ndarray of shape (n_arms, n_features)
    shared_covariance : ndarray of shape (n_arms, n_features, n_features)
    """

    mean: Array
    covariance: Array
    shared_mean: Array
    shared_covariance: Array

    __repr__ = brief_repr


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of both posterior and evidence; symbols as in :func:`posterior`, ``moment`` is Phi^-1 m_0."""

    local_covariance: Array  # Ct, (K, N, d, d)
    precision: Array  # Phi^-1, (K, d, d)
    moment: Array  # r, (K, d)
    log_determinant: Array  # log det(I + A Sigma / s2), (K, N)


def posterior(stats: Statistics, prior: Prior, task_weight: Array | None = None) -> Posterior:
    r"""Condition every task on the rewards of all tasks.

    With :math:`\tilde C_j = (A_j + \sigma^2 \Sigma^{-1})^{-1}` and :math:`H_j = I - \tilde C_j A_j`,

    .. math::
        \Phi = \Bigl(\Lambda + \sum_j \tfrac{A_j - A_j \tilde C_j A_j}{\sigma^2}\Bigr)^{-1}, \quad
        m_0 = \Phi \Bigl(\Lambda \ell + \sum_j \tfrac{b_j - A_j \tilde C_j b_j}{\sigma^2}\Bigr), \quad
        m_j = H_j m_0 + \tilde C_j b_j, \quad
        C_j = \sigma^2 \tilde C_j + H_j \Phi H_j^\top .

    :math:`\Sigma` is never inverted: it may be singular, and a task may have any number of rewards, none included.

    Parameters
    ----------
    stats : Statistics
    prior : Prior
        For the same arms and features.
    task_weight : ndarray of shape (n_tasks,), optional
        The covariance of task j is that of the prior over its weight: what a robust estimate returns.

    Examples
    --------
    One feature that is always 1, one task with rewards 3 and 1. The task's mean reward varies by 2 around the shared
    mean, which varies by 1 around 0, and the noise by 1; so it varies by 3 in all, and
    3 / (3 + 1/2) of the average 2 is left after shrinkage.

    >>> from posse.model import Prior, Statistics
    >>> stats = Statistics.from_data(
    ...     task=[0, 0], arm=[0, 0], context=[[1.0], [1.0]], reward=[3.0, 1.0], n_tasks=1, n_arms=1
    ... )
    >>> post = posterior(stats, Prior(covariance=[[[2.0]]], noise_variance=1.0, shared_precision=1.0))
    >>> post.mean[0, 0].round(6), post.covariance[0, 0].round(6)
    (array([1.714286]), array([[0.428571]]))
    """
    prior.require_shape(n_arms=stats.n_arms, n_features=stats.n_features)
    parts = parts_of(stats, prior, task_weight)
    s2 = prior.noise_variance[:, None, None, None]
    shared_covariance = symmetric(np.asarray(inv(parts.precision), dtype=np.float64))
    shared_mean = np.einsum("kab,kb->ka", shared_covariance, parts.moment)
    leaning = np.eye(stats.n_features) - parts.local_covariance @ stats.gram
    mean = np.einsum("knab,kb->kna", leaning, shared_mean)
    mean += np.einsum("knab,knb->kna", parts.local_covariance, stats.moment)
    covariance = s2 * parts.local_covariance
    covariance += leaning @ shared_covariance[:, None] @ np.swapaxes(leaning, -1, -2)
    return Posterior(
        mean=mean,
        covariance=symmetric(covariance),
        shared_mean=shared_mean,
        shared_covariance=shared_covariance,
    )


def log_evidence(stats: Statistics, prior: Prior, task_weight: Array | None = None) -> Array:
    r"""Log density of all rewards of every arm under the prior, the shared mean integrated out.

    .. math::
        -\tfrac12 \Bigl\{ \sum_j \Bigl[ n_j \log 2\pi\sigma^2 + \log\det\bigl(I + A_j \Sigma / \sigma^2\bigr)
        + \frac{c_j - b_j^\top \tilde C_j b_j}{\sigma^2} \Bigr]
        + \log\det \Phi^{-1} - \log\det \Lambda + \ell^\top \Lambda \ell - r^\top \Phi\, r \Bigr\}

    with :math:`r = \Lambda \ell + \sum_j g_j`.

    Returns
    -------
    ndarray of shape (n_arms,)

    Examples
    --------
    One reward of 2, whose variance is 2 + 1 + 1:

    >>> from posse.model import Prior, Statistics
    >>> stats = Statistics.from_data(task=[0], arm=[0], context=[[1.0]], reward=[2.0], n_tasks=1, n_arms=1)
    >>> log_evidence(stats, Prior(covariance=[[[2.0]]], noise_variance=1.0, shared_precision=1.0)).round(6)
    array([-2.112086])
    >>> round(float(-0.5 * (np.log(2 * np.pi * 4) + 2.0**2 / 4)), 6)
    -2.112086
    """
    prior.require_shape(n_arms=stats.n_arms, n_features=stats.n_features)
    parts = parts_of(stats, prior, task_weight)
    s2 = prior.noise_variance[:, None]
    explained = np.einsum("kna,knab,knb->kn", stats.moment, parts.local_covariance, stats.moment)
    per_task = stats.count * np.log(2 * np.pi * s2) + parts.log_determinant + (stats.sum_of_squares - explained) / s2
    shared = slogdet(parts.precision)[1] - slogdet(prior.shared_precisions)[1]
    shared += np.einsum("ka,kab,kb->k", prior.shared_location, prior.shared_precisions, prior.shared_location)
    shared -= np.einsum("ka,ka->k", parts.moment, solve(parts.precision, parts.moment[..., None])[..., 0])
    result: Array = -0.5 * (per_task.sum(axis=1) + shared)
    return result


def parts_of(stats: Statistics, prior: Prior, task_weight: Array | None = None) -> Parts:
    """Return the parts of which the posterior of every task is made."""
    s2 = prior.noise_variance[:, None, None, None]
    d = stats.n_features
    # Sigma = L L' by eigenvectors: exact for singular Sigma, where Cholesky stops. On the scale of correlations, so
    # that features in small units keep their digits.
    scale = _scale(prior.covariance)
    values, vectors = np.linalg.eigh(prior.covariance / (scale[:, :, None] * scale[:, None, :]))
    root = (scale[:, :, None] * vectors * np.sqrt(np.clip(values, 0, None))[:, None, :])[:, None]
    if task_weight is not None:
        root = root / np.sqrt(_checked_weight(task_weight, stats.n_tasks))[None, :, None, None]
    root_t = np.swapaxes(root, -1, -2)
    # M = s2 I + L'AL is at least s2 I, so its Cholesky factor always exists.
    lower = cholesky(s2 * np.eye(d) + symmetric(root_t @ stats.gram @ root))
    whitened = solve(lower, np.broadcast_to(root_t, stats.gram.shape))
    local_covariance = np.swapaxes(whitened, -1, -2) @ whitened
    # With A = B'B: G = B' (s2 I + B Sigma B')^-1 B, and b = B'z gives g. The textbook's (A - A Ct A) / s2 is a
    # difference of large numbers when the noise is small.
    half, solution = _half(stats)
    reach = half @ root
    outer = cholesky(s2 * np.eye(d) + reach @ np.swapaxes(reach, -1, -2))
    seen = solve(outer, half)
    precision: Array = np.asarray((np.swapaxes(seen, -1, -2) @ seen).sum(axis=1), dtype=np.float64)
    precision += prior.shared_precisions
    moment: Array = np.einsum("knab,kna->kb", seen, solve(outer, solution[..., None])[..., 0])
    moment += np.einsum("kab,kb->ka", prior.shared_precisions, prior.shared_location)
    diagonal = np.diagonal(lower, axis1=-2, axis2=-1)
    log_determinant = 2 * np.log(diagonal).sum(axis=-1) - d * np.log(prior.noise_variance)[:, None]
    return Parts(local_covariance, symmetric(precision), moment, log_determinant)


def _checked_weight(task_weight: Array, n_tasks: int) -> Array:
    weight = real_array(task_weight, "task_weight")
    if weight.shape != (n_tasks,):
        raise ShapeError(f"expected task_weight to have shape ({n_tasks},), got shape {weight.shape}")
    if not (weight > 0).all():
        raise InvalidValue(f"expected task_weight to be greater than 0, got {weight.min():g}")
    return weight


def _half(stats: Statistics) -> tuple[Array, Array]:
    """Return B and z with A = B'B and b = B'z for every (arm, task), also where A is singular."""
    scale = _scale(stats.gram)
    values, vectors = np.linalg.eigh(symmetric(stats.gram / (scale[..., :, None] * scale[..., None, :])))
    values = np.where(values > stats.n_features * np.finfo(np.float64).eps * values[..., -1:], values, 0.0)
    root = np.sqrt(values)
    half = root[..., :, None] * np.swapaxes(vectors, -1, -2) * scale[..., None, :]
    rotated = np.einsum("knba,knb->kna", vectors, stats.moment / scale)
    return half, np.divide(rotated, root, out=np.zeros_like(rotated), where=root > 0)


def _scale(matrices: Array) -> Array:
    """Return roots of the diagonals, 1 where they are zero."""
    scale: Array = np.sqrt(np.diagonal(matrices, axis1=-2, axis2=-1))
    return np.where(scale > 0, scale, 1.0)


def symmetric(matrices: Array) -> Array:
    """Average with the transpose, so that rounding leaves no asymmetry."""
    result: Array = (matrices + np.swapaxes(matrices, -1, -2)) / 2
    return result
