r"""Decide whether exploration still pays: what it may still gain over the coming decisions, against what it costs.

Who stops now takes in every context the arm with the highest mean, for good. Knowing every arm would earn more by

.. math:: E[\max_k \theta_k] - \max_k E[\theta_k]

per decision, the expected value of perfect information: no exploration can gain more. What :math:`n` more decisions
would tell is a part of it. An arm that they take with probability :math:`p_k` has then been seen :math:`n p_k` times
more, so its mean will move by a Gaussian with the variance that those rewards take away,

.. math:: r_k^2 = \frac{s_k^4}{s_k^2 + \sigma_k^2 h / (n p_k)},

with :math:`h = x^\top \bar G^{-1} x` how much of a reward at other contexts counts here (1 at the average context). The
same expectation with :math:`r_k` in place of :math:`s_k` is the expected value of sample information. Exploring for
:math:`n` of the coming :math:`N` decisions and stopping then is worth

.. math:: (N - n)\, \mathrm{EVSI}(n) - n\, c, \qquad c = \sum_k p_k (\max_j m_j - m_k),

and the best :math:`n` is what the report says. Two ways to explore are weighed, as the fleet does now and by taking
arms as often as they are likely to be best (Thompson sampling), since a fleet that has all but decided for an arm may
have stopped too early; the better one counts. Both are lower bounds: a task also learns from the others, and a policy
explores less as it learns.

References
----------
Raiffa and Schlaifer (1961), "Applied Statistical Decision Theory", for the value of perfect and of sample information.
Frazier, Powell and Dayanik (2009), "The knowledge-gradient policy for correlated normal beliefs".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from posse.fleet.expecting import beliefs_at, in_money, probability_best

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array, BoolArray, IntArray

SHARES = (1 / 256, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the coming decisions that exploration may take
NEGLIGIBLE = 0.01  # of what the best arm gains over random choice: exploration that gains less does not pay
MOST_RIVALS = 10  # arms of a row that may turn out best; others hardly ever do
REACH = 6.0
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
BLOCK = 2_000_000  # numbers that are held at a time


@dataclass(frozen=True, slots=True, eq=False)
class Stopping:
    """The worth of going on with exploration; one entry per task.

    Parameters
    ----------
    coming : ndarray of shape (n_tasks,)
        Decisions that are looked ahead.
    advantage : ndarray of shape (n_tasks,)
        What taking the best arm gains per decision over random choice, by what is believed.
    explore, gain : ndarray of shape (n_tasks,)
        For how many of the coming decisions to explore before stopping, and what that gains over stopping now, in all
        of the coming decisions; 0: stop now.
    """

    coming: Array
    advantage: Array
    explore: Array
    gain: Array

    @property
    def pays(self) -> BoolArray:
        """True where exploring gains more than a hundredth of what the best arm gains over random choice."""
        return np.asarray(self.gain > NEGLIGIBLE * self.coming * self.advantage)


def stopping_of(
    fleet: Fleet, labels: list[Label], codes: IntArray, encoded: Array, coming: Array, *, contexts: bool
) -> Stopping:
    """Return what exploration is still worth in every task.

    Parameters
    ----------
    fleet : Fleet
    labels : list of str or int
        Tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position; every task has one at least.
    encoded : ndarray of shape (n_rows, n_columns)
        Contexts that stand for those to come.
    coming : ndarray of shape (n_tasks,)
        Decisions to look ahead.
    contexts : bool
        Whether these are single contexts, rather than averages.
    """
    beliefs = in_money(fleet, beliefs_at(fleet, labels, codes, encoded))
    mean, sd = beliefs.mean, beliefs.sd
    n_tasks, rows = len(labels), np.bincount(codes, minlength=len(labels))

    def per_task(values: Array) -> Array:
        return np.bincount(codes, values, minlength=n_tasks) / rows

    best = mean.max(axis=1)
    noise = _noise(fleet)
    leverage = _leverage(encoded) if contexts else np.ones(len(encoded))

    explore, gain = np.zeros(n_tasks), np.zeros(n_tasks)
    for chance in (beliefs.probabilities, probability_best(mean, sd)):
        cost = per_task((chance * (best[:, None] - mean)).sum(axis=1))
        shares = np.stack([per_task(column) for column in chance.T], axis=1)
        for share in SHARES:
            n = share * coming
            pulls = (n[:, None] * shares)[codes]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                moved = sd * sd / np.sqrt(sd * sd + noise * leverage[:, None] / pulls)
            worth = (coming - n) * per_task(improvement(mean, np.where(pulls > 0, moved, 0.0))) - n * cost
            better = worth > gain
            explore, gain = np.where(better, n, explore), np.where(better, worth, gain)
    advantage = per_task(best - mean.mean(axis=1))
    return Stopping(coming=coming, advantage=advantage, explore=explore, gain=gain)


def improvement(mean: Array, sd: Array) -> Array:
    r"""Return by how much the highest of independent Gaussians exceeds the highest mean, on average, in every row.

    With F the distribution function of the highest and b the highest mean it is
    :math:`\int_b^\infty (1 - F) - \int_{-\infty}^b F`.

    Examples
    --------
    >>> improvement(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(4)  # 1 / sqrt(pi)
    array([0.5642])
    """
    mean, sd = _rivals(mean, sd)
    n_rows, n_arms = mean.shape
    result = np.zeros(n_rows)
    if n_arms == 1:
        return result
    size = max(1, BLOCK // (7 * n_arms * NODES.size * n_arms))
    for start in range(0, n_rows, size):
        some = slice(start, start + size)
        result[some] = _integrated(mean[some], sd[some])
    return np.maximum(result, 0.0)


def _rivals(mean: Array, sd: Array) -> tuple[Array, Array]:
    """Return the arms of every row that may be highest: the one with the best mean, and those most likely above it."""
    if mean.shape[1] <= MOST_RIVALS:
        return mean, sd
    best = mean.argmax(axis=1)
    rows = np.arange(len(mean))
    spread = np.hypot(sd, sd[rows, best][:, None])
    behind = (mean[rows, best][:, None] - mean) / np.where(spread > 0, spread, 1e-300)
    behind[rows, best] = -np.inf
    nearest = np.argpartition(behind, MOST_RIVALS - 1, axis=1)[:, :MOST_RIVALS]
    return np.take_along_axis(mean, nearest, axis=1), np.take_along_axis(sd, nearest, axis=1)


def _integrated(mean: Array, sd: Array) -> Array:
    best = mean.max(axis=1, keepdims=True)
    low = np.minimum((mean - REACH * sd).max(axis=1, keepdims=True), best)
    high = np.maximum((mean + REACH * sd).max(axis=1, keepdims=True), best)
    # Panels end where an arm begins to change and where it changes most, and at the highest mean.
    steps = np.array([-REACH, -3.0, -1.2, 0.0, 1.2, 3.0, REACH])
    cuts = (mean[:, :, None] + steps * sd[:, :, None]).reshape(len(mean), -1)
    cuts = np.sort(np.clip(np.concatenate([cuts, best], axis=1), low, high), axis=1)
    half = np.diff(cuts, axis=1)[:, :, None] / 2
    nodes = (cuts[:, :-1, None] + half * (1 + NODES)).reshape(len(mean), -1)
    weights = (half * WEIGHTS).reshape(len(mean), -1)
    certain = sd <= 0
    scale = np.where(certain, 1.0, sd)
    z = (nodes[:, :, None] - mean[:, None, :]) / scale[:, None, :]
    below = np.where(certain[:, None, :], (nodes[:, :, None] >= mean[:, None, :]).astype(float), ndtr(z))
    highest_below = below.prod(axis=2)
    return np.asarray((weights * np.where(nodes >= best, 1 - highest_below, -highest_below)).sum(axis=1))


def _leverage(encoded: Array) -> Array:
    """Return how much of a reward at another of these contexts is missing at each: 1 on average per column."""
    inverse = np.linalg.pinv(encoded.T @ encoded / len(encoded), hermitian=True)
    return np.asarray(np.maximum(np.einsum("ni,ij,nj->n", encoded, inverse, encoded), 1e-12))


def _noise(fleet: Fleet) -> Array:
    """Return the noise variance of the active arms."""
    retired, every = set(fleet.retired_arms), fleet.overview(0).arms
    noise = np.array([arm.noise_sd**2 for arm in every if arm.arm not in retired])
    return noise if fleet.worth is None else noise * fleet.worth.among(fleet.names.arms.active.arms)[0] ** 2
