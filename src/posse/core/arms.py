r"""Arms come from a population too: their shared means scatter around a common mean that depends on what they are.

.. math:: M \sim \mathcal N(0, W), \qquad b_k \mid M \sim \mathcal N(M f_k, \Lambda^{-1})

with :math:`b_k` the shared mean of arm k and :math:`f_k` what is known about it, 1 first. What the tasks of an arm say
about its shared mean is a Gaussian factor with precision G and moment g. Passed on to :math:`M f_k`, it has lost what
the spread of the arms takes from it::

    P = Lambda (Lambda + G)^-1 G          h = Lambda (Lambda + G)^-1 g

Factors multiply, so what the *other* arms say about M is a sum over them, and what they say about b_k is that sum
passed back in the same way. That is the prior of b_k, exactly: no arm's rewards count twice, a lone arm is believed
to lie anywhere, and a constant added to all rewards moves M and nothing else.

Everything here is in standardised features, so Lambda is one number, ``scale``. M is a vector, feature after feature;
those of its entries that are certainly 0, effects of features that say nothing, have infinite precision and are left
out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.core.linalg import inverses
from posse.types import Array

NARROW = 8.0  # the arms' variance over the squared width of the law of their common mean
DOUBT = 4.0  # how much wider that law is, in variances of the common mean, where the mean is clearly not 0


class Pooled(NamedTuple):
    """What arms say about their common mean, and the evidence about their spread."""

    mean: Array  # (m,) of M
    covariance: Array  # (m, m)
    factors: Array  # (K, u, u) what every arm says about the entries of M that are not certainly 0
    moments: Array  # (K, u)
    design: Array  # (K, u, d) turns M into the mean of an arm
    diagonal: Array  # (u,) the prior precision of these entries
    slope: float  # of the log evidence, by the log of the arms' variance
    information: float  # about that


def symmetric(matrices: Array) -> Array:
    """Return the averages with the transposes."""
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))


def inverse(matrices: Array) -> Array:
    """Return the inverses of symmetric matrices, one or many."""
    stack = np.ascontiguousarray(matrices).reshape(-1, *matrices.shape[-2:])
    return np.asarray(inverses(stack).reshape(matrices.shape))


def times(matrices: Array, vectors: Array) -> Array:
    """Return the products of matrices and vectors, one by one."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def common_width(mean: Array, variance: Array, scale: float) -> Array:
    """Return how close to 0 the common mean is believed to be: a law with heavy tails, narrower than the arms' spread.

    Common coefficients that are small beside the spread of the arms are drawn to 0; large ones (sales near 100) are let
    go. Its penalty, log(1 + t^2) / 2, is that of a Gaussian whose precision follows the common mean as it was last.
    A mean that is larger than it is uncertain, a few clicks in a thousand rows, is drawn to 0 less.
    """
    narrow, square = NARROW * scale, mean * mean
    doubt = variance * (1.0 - variance / np.maximum(np.maximum(square, variance), 1e-300))
    return narrow / (1.0 + narrow * (square + variance + DOUBT * doubt))


def pool_arms(precision: Array, moment: Array, features: Array, diagonal: Array, scale: float) -> Pooled:
    """Learn the common mean of the arms from what their tasks say.

    Parameters
    ----------
    precision, moment : ndarrays of shapes (n_arms, d, d) and (n_arms, d)
        What the tasks of every arm say about its shared mean.
    features : ndarray of shape (n_arms, 1 + q)
    diagonal : ndarray of shape ((1 + q) * d,)
        The prior precision of the common mean.
    scale : float
        The precision of shared means around it.
    """
    n_arms, d = moment.shape
    used, unit = np.flatnonzero(~np.isinf(diagonal)), np.eye(d)
    lean = inverse(precision + scale * unit)
    # work = (Lambda + G)^-1 Lambda - I: what b_k - M f_k does when M moves.
    work, from_mean = scale * lean - unit, times(lean, moment)
    own, own_moment = scale * (lean @ precision), scale * from_mean
    if features.shape[1] == 1:
        design, factors, moments = np.broadcast_to(unit, (n_arms, d, d)), own, own_moment
    else:
        design = (features[:, :, None, None] * unit).reshape(n_arms, -1, d)[:, used]
        factors, moments = design @ own @ design.swapaxes(1, 2), times(design, own_moment)
    covariance, mean = np.zeros((diagonal.size, diagonal.size)), np.zeros(diagonal.size)
    some = inverse(factors.sum(axis=0) + np.diag(diagonal[used]))
    covariance[used[:, None], used], mean[used] = some, some @ moments.sum(axis=0)
    if features.shape[1] == 1:
        at, width = np.broadcast_to(mean, (n_arms, d)), some
    else:
        at, width = times(design.swapaxes(1, 2), mean[used]), design.swapaxes(1, 2) @ some @ design
    deviation = from_mean + times(work, at)
    spread = np.einsum("kij,kij->", work @ width, work) + np.einsum("kii->", lean)
    squares = float((deviation * deviation).sum() + spread)
    return Pooled(
        mean, covariance, factors, moments, design, diagonal[used], 0.5 * (scale * squares - n_arms * d),
        0.5 * float(np.einsum("kij,kij->", work, work)),  # which is symmetric
    )  # fmt: skip


def priors_of_arms(pooled: Pooled, scale: float, more: Array) -> tuple[Array, Array]:
    """Return precision and location of every arm's shared mean as all other arms say.

    ``more`` is a covariance for every arm: of what is not known about it.
    """
    # Sums over the arms before and after each one. No sum is a difference, so an arm with nearly all the rewards does
    # not drown the others in rounding.
    factors, moments = _of_others(pooled.factors), _of_others(pooled.moments)
    others = inverse(factors + np.diag(pooled.diagonal))
    locations, unit = times(others, moments), np.eye(pooled.design.shape[2])
    if pooled.design.shape[1] > unit.shape[0]:
        back = pooled.design.swapaxes(1, 2)
        others, locations = back @ others @ pooled.design, times(back, locations)
    return inverse(others + more + unit / scale), locations


def prior_of_arm(
    pooled: Pooled, arm: int, factors: Array, moments: Array, scale: float, more: Array
) -> tuple[Array, Array]:
    """Return precision and location of one arm's shared mean, given the sums of all arms but for this one."""
    others, design = inverse(factors + np.diag(pooled.diagonal)), pooled.design[arm]
    width = design.T @ others @ design + more
    return inverse(width + np.eye(len(width)) / scale), design.T @ (others @ moments)


def _of_others(parts: Array) -> Array:
    """Return the sums over all others."""
    result = np.zeros_like(parts)
    result[1:] = np.cumsum(parts[:-1], axis=0)
    result[:-1] += np.cumsum(parts[:0:-1], axis=0)[::-1]
    return result
