"""The shape that all arms' covariances are drawn to, and the covariance of every arm: one step of each.

A shape is a covariance at mean variance 1 in standardised features, so an arm whose coefficients hardly differ between
tasks, or differ wildly, weighs no more than the others. Everything here is in standardised features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.core.arms import symmetric
from posse.core.linalg import squared_pivots
from posse.types import Array

PRIOR_PAIRS = 50.0  # fully observed pairs of task and arm from which on data say how alike shapes are
OVERRELAXATION = 0.5  # how much further than the EM step to go once steps are small
REGULAR = 1e-10  # the least share of a feature's variance in the population that other features leave unexplained


class Shape(NamedTuple):
    """The common shape, its weight in the covariance of an arm (in tasks), and that of the identity in it."""

    target: Array
    weight: float
    identity_share: float


def first_weight(d: int) -> float:
    """Return the weight of the common shape in an arm's covariance, in tasks, while nothing else is known."""
    return 3.0 * d + 6.0


def level_of(covariance: Array) -> Array:
    """Return mean variances."""
    return np.asarray(np.einsum("...ii", covariance) / covariance.shape[-1])


def learn_shape(shape: Shape, covariance: Array, second_moment: Array, tasks: Array, observed: Array) -> Shape:
    """Return the shape that arms are drawn to, how strongly they are, and how strongly it is to the identity.

    What the data alone say about shapes scatters, by a variance that is known: (tr T^2 + d^2) over the number of pairs
    that they were learned from. Where shapes scatter no more than that, around the identity or around the common shape,
    they are drawn all the way; what they scatter beyond it is theirs (as Ledoit and Wolf shrink one covariance).

    Parameters
    ----------
    covariance, second_moment : ndarrays of shape (n_arms, d, d)
    tasks, observed : ndarrays of shape (n_arms,)
        Tasks with rewards, and how many the rewards are worth that settle all coefficients.
    """
    some = observed > 0
    if not some.any():
        return shape
    d, level = covariance.shape[1], level_of(covariance[some])[:, None, None]
    seen, observed = tasks[some][:, None, None], observed[some][:, None, None]
    covariance, moment = covariance[some], second_moment[some]
    noise, pairs = d * d + float((shape.target**2).sum()), float(observed.sum())
    surplus = (moment - seen * covariance) / level
    # Where the arm's data alone would put its shape: an EM step less its drag.
    own = covariance / level + surplus / observed
    apart = own - level_of(own)[:, None, None] * shape.target
    pooled = (observed * own).sum(axis=0) / pairs
    away = float(((pooled - level_of(pooled) * np.eye(d)) ** 2).sum())
    identity = _shrinkage(pairs * away - noise, noise, pairs, float(d * d))
    weight = _shrinkage(float((observed * apart**2).sum()) - some.sum() * noise, noise, pairs, first_weight(d))
    target = (moment / level).sum(axis=0) + identity * np.eye(d)
    return Shape(target / level_of(target), weight, identity / (identity + pairs))


def _shrinkage(surplus: float, noise: float, pairs: float, start: float) -> float:
    """Return how many pairs a shape is worth that others are drawn to.

    ``surplus`` is how far they lie from it beyond their ``noise``. Pairs that count as much as PRIOR_PAIRS well-known
    ones say ``start``.
    """
    return noise * (pairs + PRIOR_PAIRS) / (max(surplus, 0.0) + PRIOR_PAIRS * noise / start)


def improve_covariances(
    shape: Shape, covariance: Array, inverse: Array, second_moment: Array, tasks: Array, level: Array
) -> tuple[Array, float]:
    """Return all covariances after one EM step of their shapes, at new levels, and the largest relative move."""
    old = (level_of(covariance)[:, None, None] * shape.target, tasks[:, None, None] + shape.weight)
    new = (second_moment + shape.weight * old[0]) / old[1]
    relative = (new - covariance) @ inverse
    changes = np.diagonal(relative, axis1=1, axis2=2)
    # The level is not EM's to set: a move of the shape is what is left at the new one.
    to_level = level / level_of(new)
    move = float(np.abs((1.0 + changes) * to_level[:, None] - 1.0).max())
    # Sigma + kappa (Sigma Sigma_old^-1 - I) Sigma stays positive definite, unlike a longer step along the change.
    further = (np.abs(changes).max(axis=1) < 0.5)[:, None, None]
    new = np.where(further, new + OVERRELAXATION * symmetric(relative @ new), new)
    return regular(new * (level / level_of(new))[:, None, None], np.zeros(len(new))), move


def regular(covariance: Array, least: Array) -> Array:
    """Return covariances that are regular enough to be inverted.

    It is the share of each feature's variance that the features before it do not explain that counts: free of units.
    Variances of 0, as a population that is given may have, become a small part of the others, or ``least`` by arm.
    """
    diagonal, unit = np.diagonal(covariance, axis1=1, axis2=2), np.eye(covariance.shape[1])
    if not (diagonal > 0).all():
        floor = np.maximum(10.0 * REGULAR * diagonal.max(axis=1), least)
        covariance = covariance + (np.maximum(diagonal, floor[:, None]) - diagonal)[:, :, None] * unit
    for _attempt in range(40):
        # Written so that what is not a number is singular, too.
        singular = np.logical_not((squared_pivots(np.ascontiguousarray(covariance)) > REGULAR * diagonal).all(axis=1))
        if not singular.any():
            break
        covariance = covariance + singular[:, None, None] * (10.0 * REGULAR * diagonal[:, :, None] * unit)
        diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    return covariance
