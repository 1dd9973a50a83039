"""Which weights SWITCH-DR leaves to the model: the threshold, chosen from the log."""

from __future__ import annotations

import numpy as np

from posse.offline.estimators import doubly_robust
from posse.types import Array, IntArray

CANDIDATES = 25


def switch_threshold(
    probabilities: Array,
    predicted: Array,
    weights: Array,
    arms: IntArray,
    rewards: Array,
    tasks: IntArray,
    logged: Array | None = None,
) -> float:
    r"""Return the threshold with the smallest bound on the mean squared error.

    .. math::
        \widehat{\mathrm{var}}(\tau) + \Bigl( s \cdot \frac1n \sum_i \sum_a \pi(a \mid x_i)\,
        1\{\pi(a \mid x_i) / p(a \mid x_i) > \tau\} \Bigr)^2

    The variance is that of the estimate over tasks. The sum is the part of the target's decisions that is left to the
    model, and `s`, the root mean square of the model's errors in the log, stands for how wrong the model may be there.
    It is larger than the error of the model alone, since it contains the noise of the rewards.

    Candidates are spread evenly on a log scale between the median of the positive weights and the largest of them; the
    largest means no switching.

    Parameters
    ----------
    probabilities, predicted : ndarray of shape (n_rows, n_arms)
    weights, arms, rewards, tasks : ndarray of shape (n_rows,)
    logged : ndarray of shape (n_rows, n_arms), optional
        The logged probabilities. Without them the sum is estimated by that of the weights above the threshold, which
        is large just where a rare arm was taken: then less is left to the model.

    Notes
    -----
    After Wang, Agarwal and Dudík (2017), section 4, who bound the model's error by the largest reward there can be.
    Rewards here have no known bound.
    """
    positive = weights[weights > 0]
    if positive.size == 0:
        return float(np.inf)
    low, high = float(np.median(positive)), float(positive.max())
    errors = rewards - predicted[np.arange(arms.size), arms]
    scale = float(np.sqrt(np.mean(errors**2)))
    best, chosen = np.inf, np.inf
    # From no switching downwards: a smaller threshold must be better, not only as good.
    for threshold in np.geomspace(high, low, CANDIDATES):
        rows = doubly_robust(probabilities, predicted, weights, arms, rewards, threshold=float(threshold)).numerator
        centred = np.bincount(tasks, rows - rows.mean())
        variance = float(centred @ centred) / rows.size**2
        if logged is None:
            left = float(weights[weights > threshold].sum()) / rows.size
        else:
            left = float(probabilities[probabilities > threshold * logged].sum()) / rows.size
        bound = variance + (scale * left) ** 2
        if bound < best:
            best, chosen = bound, float(threshold)
    return float(np.inf) if chosen >= high else chosen
