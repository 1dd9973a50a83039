"""Covariate diversity: whether contexts alone explore enough for a greedy policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.checks import one_of, real_array, whole_number
from posse.errors import ShapeError

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike

LAWS = ("mixed-gaussian", "uniform", "intercept", "one-hot")
"""The context laws of :class:`posse.SyntheticWorld`."""

ROUNDS = 40
"""How often :func:`empirical_covariate_diversity` looks around its best directions, ever closer."""

KEPT = 8
"""How many directions it looks around."""


def covariate_diversity(law: str, n_features: int) -> float:
    r"""Return the diversity of a law of contexts, exactly.

    Bastani, Bayati and Khosravi call contexts diverse if, whichever half of them an arm gets to see, it sees every
    direction:

    .. math:: \lambda_0 = \min_{\lVert u \rVert = 1} \lambda_{\min}\bigl( E[x x^\top 1(x^\top u \ge 0)] \bigr) > 0 .

    If x and −x have the same law, and :math:`x^\top u = 0` has probability 0 for every u, both halves are alike and the
    matrix is :math:`E[x x^\top] / 2` for every u.

    Parameters
    ----------
    law : {"mixed-gaussian", "uniform", "intercept", "one-hot"}
    n_features : int

    Returns
    -------
    float
        *mixed-gaussian*: 1, as a coordinate is N(±1, 1) and its mean square 2. The paper says that this law lacks
        diversity; it has six times that of the uniform law. *uniform* on [−1, 1]: 1/6. *intercept*: 0, as with
        u = −e₁ no context is left. *one-hot*: 0, for the same u, which leaves out e₁.

    Examples
    --------
    >>> covariate_diversity("mixed-gaussian", 3), covariate_diversity("one-hot", 3)
    (1.0, 0.0)
    """
    whole_number(n_features, "n_features", at_least=1)
    one_of(law, "law", LAWS)
    return {"mixed-gaussian": 1.0, "uniform": 1.0 / 6.0}.get(law, 0.0)


def empirical_covariate_diversity(
    contexts: ArrayLike, rng: np.random.Generator, n_directions: int = 512
) -> tuple[float, Array]:
    r"""Return the diversity of a sample of contexts, and the direction it was found at.

    Minimises :math:`\lambda_{\min}(\frac1n \sum_t x_t x_t^\top 1(x_t^\top u \ge 0))` over random directions and
    that of the mean, with both signs, and then around the best of them. Every direction bounds the minimum from above,
    so a value near 0 is a proof and a large one is evidence. The minimum is at most half the smallest eigenvalue of
    :math:`\frac1n \sum_t x_t x_t^\top` (if no context is orthogonal to u), as the halves add up to the whole and the
    emptier one counts.

    Parameters
    ----------
    contexts : array of shape (n_contexts, n_features)
    rng : numpy.random.Generator
    n_directions : int
        How many directions are drawn to start with.

    Returns
    -------
    diversity : float
    direction : ndarray of shape (n_features,)

    Examples
    --------
    >>> contexts = np.random.default_rng(0).standard_normal((500, 2))
    >>> value, _ = empirical_covariate_diversity(contexts, np.random.default_rng(1))
    >>> 0.3 < value < 0.5
    True
    >>> empirical_covariate_diversity(contexts**2, np.random.default_rng(1))[0]
    0.0
    """
    X = real_array(contexts, "contexts")
    if X.ndim != 2 or 0 in X.shape:
        raise ShapeError(f"contexts must have shape (contexts, features), but its shape is {X.shape}")
    n_directions = whole_number(n_directions, "n_directions", at_least=1)
    d = X.shape[1]
    # The mean, since away from it there are fewest contexts: none at all if a feature is constant.
    start = _unit(np.vstack([rng.standard_normal((n_directions, d)), X.mean(axis=0)]))
    start = np.vstack([start, -start])
    values = _seen(X, start)
    best = np.argsort(values, kind="stable")[:KEPT]
    directions, values = start[best], values[best]
    around = max(n_directions // 16, 8)
    for scale in np.geomspace(0.5, 0.005, ROUNDS):
        moved = directions[:, None] + scale * rng.standard_normal((directions.shape[0], around, d))
        near = _unit(moved.reshape(-1, d))
        everywhere = np.vstack([directions, near])
        found = np.concatenate([values, _seen(X, near)])
        best = np.argsort(found, kind="stable")[:KEPT]
        directions, values = everywhere[best], found[best]
    return max(float(values[0]), 0.0), np.array(directions[0])


def _seen(X: Array, directions: Array) -> Array:
    """Return, for each direction, the smallest eigenvalue of what lies on its side."""
    n, d = X.shape
    outer = (X[:, :, None] * X[:, None, :]).reshape(n, d * d)
    side = (directions @ X.T >= 0).astype(np.float64)
    return np.asarray(np.linalg.eigvalsh((side @ outer / n).reshape(-1, d, d))[:, 0], dtype=np.float64)


def _unit(directions: Array) -> Array:
    """Return the directions with length 1, without those that have none."""
    length = np.linalg.norm(directions, axis=1)
    kept = length > 0
    return np.asarray(directions[kept] / length[kept, None], dtype=np.float64)
