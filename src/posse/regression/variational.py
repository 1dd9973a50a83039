r"""The population of logistic or log-linear regressions by regularised evidence, with fixed coefficients.

Every row is replaced by its Gaussian site (:mod:`posse.kernels.sites`), and the population by an EM step on the sites;
sites are made again under every new population. Where a coefficient is fixed, its row and column of the covariance are
zero, so all that is learned about it is the shared mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.families import RewardFamily
from posse.kernels.kept_rows import make_sites_again
from posse.kernels.posterior import Belief, new_buffers, rebuild
from posse.model import Prior, Statistics, new_belief
from posse.model.family_prior import table_rows
from posse.types import Array, BoolArray, IntArray

ROUNDS = 1000
SETTLED = 1e-4  # relative move of the covariance, and move of every predictor in standard deviations
WIDTH = 5.0  # prior standard deviation of a shared coefficient: hardly any shrinkage, and finite where rows separate
LEVEL = 0.2  # what coefficients' variances sum to where nothing else is known
WEIGHT = 1.0  # of that, in groups
FURTHER = 0.5  # how much further than the EM step to go once steps are small


@dataclass(frozen=True, slots=True, eq=False)
class SiteFit:
    """A population, the sums over the sites made under it, and what both say about every group.

    Parameters
    ----------
    prior : Prior
    belief : Belief
    iterations : int
    converged : bool
    """

    prior: Prior
    belief: Belief
    iterations: int
    converged: bool


def fit_sites(
    X: Array, y: Array, group: IntArray, random: BoolArray, family: RewardFamily, covariance: Array | None = None
) -> SiteFit:
    """Learn a population from rows, or only what rows say about their groups where its covariance is given.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Of mean square about 1.
    y : ndarray of shape (n_rows,)
    group : ndarray of shape (n_rows,)
        Whole numbers from 0.
    random : ndarray of shape (n_features,)
        Whose coefficients differ between groups; one at least.
    family : RewardFamily
    covariance : ndarray of shape (n_features, n_features), optional
        Given: it stays as it is.

    Returns
    -------
    SiteFit
    """
    n_groups, d = int(group.max()) + 1, X.shape[1]
    target = np.diag(np.where(random, LEVEL / random.sum(), 0.0))
    prior = Prior(
        covariance=(target if covariance is None else covariance)[None],
        noise_variance=1.0,
        shared_precision=WIDTH**-2,
    )
    stats = Statistics.zeros(n_tasks=n_groups, n_arms=1, n_features=d)
    rows = table_rows(group, np.ascontiguousarray(X), y, n_groups)
    stats.count[0] = rows.kept
    buffers = new_buffers(d)
    belief = new_belief(stats, prior, buffers)
    done, converged = 0, False
    while done < ROUNDS and not converged:
        done += 1
        moved = make_sites_again(belief, rows, 0, family.code, 1, buffers)
        rebuild(belief, 0, buffers)
        move = 0.0
        if covariance is None and moved < 0.5:  # sites first: those that are half made lead astray
            move = _improve(belief, stats, target, random)
            rebuild(belief, 0, buffers)
        converged = max(move, moved) < SETTLED
    learned = Prior(covariance=belief.covariance.copy(), noise_variance=1.0, shared_precision=WIDTH**-2)
    return SiteFit(learned, belief, done, converged)


def _improve(belief: Belief, stats: Statistics, target: Array, random: BoolArray) -> float:
    """Move the covariance by one EM step; return the largest relative move of a variance."""
    # theta_j - b = m_j - Ct A b: how far a group is from the shared mean, and how uncertain that is.
    seen = belief.seen[0, : belief.n_seen[0]]
    local = belief.local_covariance[seen]
    away = local @ stats.gram[0, seen]
    deviation = belief.local_mean[seen] - away @ belief.shared_mean[0]
    second = local + away @ belief.shared_covariance[0] @ np.swapaxes(away, -1, -2)
    total = second.sum(axis=0) + deviation.T @ deviation + WEIGHT * target
    some = np.ix_(random, random)
    old = belief.covariance[0][some].copy()
    new = total[some] / (len(seen) + WEIGHT)
    relative = (new - old) @ np.linalg.inv(old)
    if abs(np.diagonal(relative)).max() < 0.5:
        # (I + k (new old^-1 - I)) new stays positive definite, unlike a longer step along the change.
        further = FURTHER * relative @ new
        new = new + (further + further.T) / 2
    belief.covariance[0][some] = new
    return float(abs(np.diagonal(new) / np.diagonal(old) - 1.0).max())
