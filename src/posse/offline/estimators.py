r"""Estimators of a policy's value from a log: arrays in, a contribution of every row out.

With weights :math:`w_i = \pi(a_i \mid x_i) / p_i`, a reward model :math:`\hat q` and
:math:`\hat q_\pi(x_i) = \sum_a \pi(a \mid x_i)\, \hat q(x_i, a)`, an estimate is a ratio of sums over rows:

=========== =============================================================== ===========
estimator   numerator                                                       denominator
=========== =============================================================== ===========
IPS         :math:`w_i r_i`                                                 1
SNIPS       :math:`w_i r_i`                                                 :math:`w_i`
DM          :math:`\hat q_\pi(x_i)`                                         1
DR          :math:`\hat q_\pi(x_i) + w_i (r_i - \hat q(x_i, a_i))`          1
SWITCH-DR   as DR, without the correction where :math:`w_i > \tau`          1
=========== =============================================================== ===========

References
----------
Horvitz and Thompson (1952), IPS. Swaminathan and Joachims (2015), SNIPS. Dudík, Langford and Li (2011), DR.
Wang, Agarwal and Dudík (2017), SWITCH-DR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.types import Array, IntArray

ESTIMATORS = ("ips", "snips", "dm", "dr", "switch-dr")
"""Estimators of the value of a policy that does not learn."""

LABELS = {"ips": "IPS", "snips": "SNIPS", "dm": "DM", "dr": "DR", "switch-dr": "SWITCH-DR", "replay": "replay"}
"""Their names in tables and figures."""

CANDIDATES = 25  # thresholds of SWITCH-DR that are tried

NEED_MODEL = ("dm", "dr", "switch-dr")
"""Those that need a model of the rewards."""


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """Terms that rows add to an estimate, which is the sum of numerators over the sum of denominators.

    Parameters
    ----------
    numerator, denominator : ndarray of shape (n_rows,)
    """

    numerator: Array
    denominator: Array

    @property
    def value(self) -> float:
        """The estimate; NaN where no row counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(self.numerator.sum(), self.denominator.sum()))


def importance_weights(
    probabilities: Array, arms: IntArray, propensities: Array, *, clip: float | None = None
) -> Array:
    """Return how much more often the target would have chosen what the log shows, row by row.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_arms)
        Of the target.
    arms : ndarray of shape (n_rows,)
        What the log shows.
    propensities : ndarray of shape (n_rows,)
        The probability with which it was chosen.
    clip : float, optional
        Weights above this are set to it. That lowers the variance and adds a bias: IPS moves towards 0, SNIPS towards
        the rows with small weights, DR towards the model.

    Examples
    --------
    >>> importance_weights(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), np.array([0.5, 0.25]))
    array([1.8, 3.2])
    """
    weights: Array = probabilities[np.arange(arms.size), arms] / propensities
    return weights if clip is None else np.minimum(weights, clip)


def ips(weights: Array, rewards: Array) -> Contributions:
    """Weigh every reward by how much more often the target would have earned it."""
    return Contributions(weights * rewards, np.ones(rewards.size))


def snips(weights: Array, rewards: Array) -> Contributions:
    """Divide by the weights in place of the rows: a weighted mean of the rewards, so it stays within their range."""
    return Contributions(weights * rewards, weights)


def direct_method(probabilities: Array, predicted: Array) -> Contributions:
    """Believe the model of the rewards.

    Parameters
    ----------
    probabilities, predicted : ndarray of shape (n_rows, n_arms)
        What the target would do, and the reward that the model expects; not from the row's own reward.
    """
    return Contributions((probabilities * predicted).sum(axis=1), np.ones(probabilities.shape[0]))


def doubly_robust(
    probabilities: Array,
    predicted: Array,
    weights: Array,
    arms: IntArray,
    rewards: Array,
    *,
    threshold: float = np.inf,
) -> Contributions:
    """Believe the model, and correct it by its weighted errors at the arms that the log shows.

    Parameters
    ----------
    probabilities, predicted : ndarray of shape (n_rows, n_arms)
    weights, arms, rewards : ndarray of shape (n_rows,)
    threshold : float, default infinity
        Rows with a larger weight are left to the model: SWITCH-DR.
    """
    errors = rewards - predicted[np.arange(arms.size), arms]
    correction = np.where(weights <= threshold, weights * errors, 0.0)
    return Contributions(direct_method(probabilities, predicted).numerator + correction, np.ones(rewards.size))


def switch_threshold(
    probabilities: Array,
    predicted: Array,
    weights: Array,
    arms: IntArray,
    rewards: Array,
    tasks: IntArray,
    logged: Array | None = None,
) -> float:
    r"""Return the threshold of SWITCH-DR with the smallest bound on the mean squared error.

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
