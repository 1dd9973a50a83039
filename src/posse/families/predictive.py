r"""How probable a reward was under a Gaussian belief about its predictor, and what it says about that predictor.

.. math:: \log \int p(y \mid \eta)\, \mathcal N(\eta; m, v)\, d\eta

by Gauss-Hermite quadrature around where the integrand is highest, so that it is right for wide beliefs and for large
counts, too. All that is asked of a family is its :meth:`~posse.families.LinkedFamily.curve`. The site is that of
:mod:`posse.families.links` with expectations under the true belief after the reward in place of the Gaussian nearest
to it: :math:`e = m + v\,(y - \operatorname{E}\mu)` holds exactly there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.families.links import FARTHEST, NODES, WEIGHTS

if TYPE_CHECKING:
    from posse.families.base import LinkedFamily
    from posse.types import Array

ROUNDS = 100  # at most, of Newton's method
CLOSE = 1e-3  # of a move, in standard deviations: the place of the nodes need not be exact
NARROWEST = 1e-12  # a variance: of a context of zeros, say
LOG_WEIGHTS = np.log(WEIGHTS) + 0.5 * NODES**2


class Predicted(NamedTuple):
    """A reward under several beliefs about its predictor."""

    log_likelihood: Array  # up to what does not depend on the belief
    precision: Array  # of the site that it is
    moment: Array


def predicted(family: LinkedFamily, reward: float, mean: Array, variance: Array) -> Predicted:
    """Return how probable a reward was under every belief N(mean, variance), and its site there.

    Examples
    --------
    >>> from posse.families import linked_family_of
    >>> clicks = linked_family_of("binary")
    >>> found = predicted(clicks, 1.0, np.array([-3.0]), np.array([1.0]))
    >>> print(f"{np.exp(found.log_likelihood[0]):.3f}, as expected: {clicks.expected(-3.0, 1.0):.3f}")
    0.069, as expected: 0.069
    """
    variance = np.maximum(variance, NARROWEST)
    centre, width = _highest(family, reward, mean, variance)
    at = centre[:, None] + width[:, None] * NODES
    likelihood, rate, slope, _ = family.curve(np.asarray(reward), at)
    away = at - mean[:, None]
    height = LOG_WEIGHTS + likelihood - 0.5 * away * away / variance[:, None]
    top = height.max(axis=1, keepdims=True)
    share = np.exp(height - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    left = reward - (share * rate).sum(axis=1)
    precision = (share * slope).sum(axis=1)
    return Predicted(
        np.log(total) + top[:, 0] + np.log(width) - 0.5 * np.log(variance),
        precision,
        left + precision * (mean + variance * left),
    )


def _highest(family: LinkedFamily, reward: float, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return where likelihood times belief is highest, and how wide it is there."""
    centre, width = mean.copy(), np.sqrt(variance)
    for _ in range(ROUNDS):
        _, rate, slope, _ = family.curve(np.asarray(reward), centre)
        precision = slope + 1.0 / variance
        width = 1.0 / np.sqrt(precision)
        move = (reward - rate - (centre - mean) / variance) / precision
        centre = centre + np.clip(move, -FARTHEST, FARTHEST)
        if (np.abs(move) < CLOSE * width).all():
            break
    return centre, width
