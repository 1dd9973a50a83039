r"""The population of logistic or log-linear regressions by regularised evidence, with fixed coefficients.

Every row is replaced by its Gaussian site (:mod:`posse.families.links`), and the population by an EM step on the sites;
sites are made again under every new population. Where a coefficient is fixed, its row and column of the covariance are
zero, so all that is learned about it is the shared mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled
from posse.families import RewardFamily
from posse.families.links import FAINTEST
from posse.families.sites import CLOSE_AGAIN, linked_site
from posse.model import Posterior, Prior, Statistics, posterior
from posse.model.dense import add_outer, dot, multiply_symmetric
from posse.model.posterior import parts_of
from posse.types import Array, BoolArray, IntArray

ROUNDS = 1000
SETTLED = 1e-4  # relative move of the covariance, and move of every predictor in standard deviations
WIDTH = 5.0  # prior standard deviation of a shared coefficient: hardly any shrinkage, and finite where rows separate
LEVEL = 0.2  # what coefficients' variances sum to where nothing else is known
WEIGHT = 1.0  # of that, in groups
FURTHER = 0.5  # how much further than the EM step to go once steps are small


class Rows(NamedTuple):
    """Rows group by group, and their sites."""

    contexts: Array  # (n, d)
    rewards: Array  # (n,)
    precision: Array  # (n,)
    moment: Array  # (n,)
    first: IntArray  # (J + 1,) where the rows of every group begin


class Groups(NamedTuple):
    """Sums over the sites of every group, and what they say: symbols as in :func:`posse.model.posterior`, s2 = 1."""

    gram: Array  # (J, d, d) A
    moment: Array  # (J, d) b
    local_covariance: Array  # (J, d, d) Ct
    local_mean: Array  # (J, d) Ct b
    shared_covariance: Array  # (d, d) Phi
    shared_moment: Array  # (d,)
    shared_mean: Array  # (d,) m0


@dataclass(frozen=True, slots=True, eq=False)
class SiteFit:
    """A population, the sums over the sites made under it, and what both say about every group.

    Parameters
    ----------
    prior : Prior
    statistics : Statistics
    posterior : Posterior
    iterations : int
    converged : bool
    """

    prior: Prior
    statistics: Statistics
    posterior: Posterior
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
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=n_groups)
    rows = Rows(
        np.ascontiguousarray(X[order]), np.ascontiguousarray(y[order]), np.full(y.size, FAINTEST), np.zeros(y.size),
        np.concatenate([[0], np.cumsum(counts)]),
    )  # fmt: skip
    stats = Statistics.zeros(n_tasks=n_groups, n_arms=1, n_features=d)
    stats.count[0] = counts
    groups, done, converged = _groups(stats, prior), 0, False
    while done < ROUNDS and not converged:
        done += 1
        moved, move = make_sites_again(groups, rows, family.code), 0.0
        groups = _groups(stats, prior)
        if covariance is None and moved < 0.5:  # sites first: those that are half made lead astray
            prior, move = _improved(groups, prior, target, random)
            groups = _groups(stats, prior)
        converged = max(move, moved) < SETTLED
    return SiteFit(prior, stats, posterior(stats, prior), done, converged)


def _groups(stats: Statistics, prior: Prior) -> Groups:
    """Return what the sums say about every group; they are the sums' own arrays."""
    parts = parts_of(stats, prior)
    gram, moment, local = stats.gram[0], stats.moment[0], parts.local_covariance[0]
    shared = np.asarray(np.linalg.inv(parts.precision[0]), dtype=np.float64)
    return Groups(
        gram, moment, local, np.einsum("jab,jb->ja", local, moment), shared, parts.moment[0], shared @ parts.moment[0]
    )


@compiled
def make_sites_again(groups: Groups, rows: Rows, family: int) -> float:
    """Make the sites of all rows again, one after another; return the largest move of a predictor.

    Every site is the best one given all others, the shared mean included, so no step takes the belief further from the
    truth, and passes converge from any start. A move is in standard deviations of the belief before. Steps gather
    rounding: sums are kept, and what they say is computed afresh after every pass.
    """
    d, farthest = rows.contexts.shape[1], 0.0
    v, leaning, p = np.empty(d), np.empty(d), np.empty(d)
    shared, shared_mean = groups.shared_covariance, groups.shared_mean
    for j in range(groups.moment.shape[0]):
        local, local_mean = groups.local_covariance[j], groups.local_mean[j]
        for row in range(rows.first[j], rows.first[j + 1]):
            x, old_w, old_h = rows.contexts[row], rows.precision[row], rows.moment[row]
            multiply_symmetric(local, x, v)
            multiply_symmetric(groups.gram[j], v, leaning)
            for i in range(d):
                leaning[i] = x[i] - leaning[i]
            multiply_symmetric(shared, leaning, p)
            own, known = max(dot(x, v), 0.0), max(dot(leaning, p), 0.0)
            e, q = dot(x, local_mean) + dot(leaning, shared_mean), own + known
            left = 1.0 - q * old_w
            if not (q > 0.0 and left > 1e-9):  # nothing is unsure, or the site is all that is known
                continue
            w, h = linked_site(family, rows.rewards[row], 1.0, (e - q * old_h) / left, q / left, e, q, CLOSE_AGAIN)
            more_w, more_h = w - old_w, h - old_h
            if not 1.0 + more_w * q > 1e-9:  # a site that loses nearly all leaves nothing to divide by
                continue
            farthest = max(farthest, abs(more_h - more_w * e) / (1.0 + more_w * q) * math.sqrt(q))
            gain = 1.0 / (1.0 + more_w * own)
            surprise, weight = gain * (more_h - more_w * dot(x, local_mean)), gain * more_w
            shared_weight = weight / (1.0 + weight * known)
            # Phi' = Phi - c p p' and r' = r + s H'x give m0' = m0 + p (s - c (x'H m0 + s x'H Phi H'x)).
            shared_surprise = surprise - shared_weight * (dot(leaning, shared_mean) + surprise * known)
            add_outer(-weight, v, local)
            add_outer(-shared_weight, p, shared)
            add_outer(more_w, x, groups.gram[j])
            for i in range(d):
                local_mean[i] += surprise * v[i]
                shared_mean[i] += shared_surprise * p[i]
                groups.moment[j, i] += more_h * x[i]
            rows.precision[row], rows.moment[row] = w, h
    return farthest


def _improved(groups: Groups, prior: Prior, target: Array, random: BoolArray) -> tuple[Prior, float]:
    """Return the prior after one EM step of its covariance, and the largest relative move of a variance."""
    # theta_j - b = m_j - Ct A b: how far a group is from the shared mean, and how uncertain that is.
    local, n_groups = groups.local_covariance, len(groups.moment)
    away = local @ groups.gram
    deviation = groups.local_mean - away @ groups.shared_mean
    second = local + away @ groups.shared_covariance @ np.swapaxes(away, -1, -2)
    total = second.sum(axis=0) + deviation.T @ deviation + WEIGHT * target
    some = np.ix_(random, random)
    old = prior.covariance[0][some]
    new = total[some] / (n_groups + WEIGHT)
    relative = (new - old) @ np.linalg.inv(old)
    if abs(np.diagonal(relative)).max() < 0.5:
        # (I + k (new old^-1 - I)) new stays positive definite, unlike a longer step along the change.
        further = FURTHER * relative @ new
        new = new + (further + further.T) / 2
    covariance = prior.covariance.copy()
    covariance[0][some] = new
    prior = Prior(covariance=covariance, noise_variance=1.0, shared_precision=WIDTH**-2)
    return prior, float(abs(np.diagonal(new) / np.diagonal(old) - 1.0).max())
