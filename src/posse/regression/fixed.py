r"""The population of the random coefficients where others are fixed, by evidence.

With :math:`x = (z, w)`, :math:`y = z^\top \beta_j + w^\top \gamma + \text{noise}`: the coefficients :math:`\beta_j` of
:math:`z` come from a population, those of :math:`w` are the same in every group.

Given :math:`\gamma`, what is left of y is an ordinary problem for the evidence prior, and its sums follow from those
that were kept. Given the population, :math:`\gamma` is part of the shared mean of a population whose covariance has
zeros where coefficients are fixed. So the two take turns until :math:`\gamma` rests. What is left is smaller than it
should be, since :math:`\gamma` was chosen to make it so; levels are corrected for that in every round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posse.model import Prior, PriorEstimate, Statistics, estimate_prior, log_evidence, posterior
from posse.model.prior import eigenvalues
from posse.types import Array, BoolArray

ROUNDS = 50
REST = 1e-3
"""A move of less than this is none: of a fixed coefficient in standard errors, of a level on the log scale."""
WIDTH = 10.0
"""Prior standard deviation of a fixed coefficient, in those of y per one of the feature: hardly any shrinkage."""
LEVEL_SD = 2.0
"""How far, on the log scale, levels may be from where the evidence prior starts: its own constant."""
FARTHEST, LONGEST = 3.0, 1.0
"""The largest correction of a level, on the log scale, and the largest step of it."""
DIFFERENCE = 1e-2
"""Between the levels at which the evidence is compared."""


def estimate_with_fixed(stats: Statistics, fixed: BoolArray, *, robust: bool = False) -> PriorEstimate:
    """Estimate the population by evidence where some coefficients are the same in all groups.

    Parameters
    ----------
    stats : Statistics
        One arm; one task per group. Features have mean square 1, so that one prior fits all fixed coefficients.
    fixed : ndarray of shape (n_features,)
        At least one and not all of them.
    robust : bool, default False
        A Student population, as in :func:`posse.model.estimate_prior`.

    Returns
    -------
    PriorEstimate
        For all features: rows and columns of the covariance are 0 where coefficients are fixed. Iterations are those
        of all rounds, and the log evidence is that of y itself.
    """
    total = stats.gram[0].sum(axis=0)
    size = float(stats.sum_of_squares.sum() / max(stats.count.sum(), 1.0)) or 1.0
    wide = 1.0 / (WIDTH**2 * size)
    # Start from the regression of all rows: fixed coefficients hardly depend on how groups differ.
    ridge = total + 1e-10 * max(float(np.trace(total)), 1.0) * np.eye(stats.n_features)
    gamma: Array = np.linalg.solve(ridge, stats.moment[0].sum(axis=0))[fixed]
    levels, iterations, rested = np.zeros(2), 0, False
    for _ in range(ROUNDS):
        left = without_fixed(stats, fixed, gamma)
        estimate = estimate_prior(left, method="evidence", robust=robust)
        iterations += estimate.report.iterations
        prior = with_zeros(estimate.prior, fixed, wide)
        before = levels
        if not estimate.report.covariance_at_start[0]:
            levels = _better_levels(stats, prior, left, estimate, levels)
        prior = _at_levels(prior, levels)
        found = posterior(stats, prior, estimate.task_weight)
        errors = np.sqrt(np.diagonal(found.shared_covariance[0])[fixed])
        moved = abs(found.shared_mean[0, fixed] - gamma) / errors
        gamma = found.shared_mean[0, fixed]
        if moved.max() < REST and abs(levels - before).max() < REST:
            rested = True
            break
    report = replace(
        estimate.report,
        iterations=iterations,
        converged=bool(estimate.report.converged) and rested,
        eigenvalues=eigenvalues(prior.covariance),
        log_evidence=float(log_evidence(stats, prior, estimate.task_weight)[0]),
        # What single rounds gained was of the evidence of what they were left with.
        evidence_gained=float("nan"),
    )
    return PriorEstimate(prior, report, estimate.task_weight)


def without_fixed(stats: Statistics, fixed: BoolArray, gamma: Array) -> Statistics:
    """Return the sums of the random features and of y less what fixed coefficients ``gamma`` explain."""
    random = ~fixed
    gram, moment = stats.gram, stats.moment
    between = gram[..., random, :][..., fixed]
    own = gram[..., fixed, :][..., fixed]
    squares = stats.sum_of_squares - 2.0 * moment[..., fixed] @ gamma + np.einsum("a,knab,b->kn", gamma, own, gamma)
    return Statistics(
        gram=np.ascontiguousarray(gram[..., random, :][..., random]),
        moment=np.ascontiguousarray(moment[..., random] - between @ gamma),
        sum_of_squares=np.maximum(squares, 0.0),
        count=stats.count.copy(),
    )


def with_zeros(prior: Prior, fixed: BoolArray, precision: float) -> Prior:
    """Return the prior of the random coefficients as one of all, in which fixed ones differ between no groups."""
    random = ~fixed
    covariance = np.zeros((1, fixed.size, fixed.size))
    covariance[0][np.ix_(random, random)] = prior.covariance[0]
    shared = precision * np.eye(fixed.size)[None]
    shared[0][np.ix_(random, random)] = prior.shared_precisions[0]
    location = np.zeros((1, fixed.size))
    location[0, random] = prior.shared_location[0]
    return Prior(
        covariance=covariance,
        noise_variance=prior.noise_variance,
        shared_precision=shared,
        shared_location=location,
    )


def _at_levels(prior: Prior, levels: Array) -> Prior:
    """Return the prior with covariance and noise variance multiplied by the exponentials of ``levels``."""
    return Prior(
        covariance=prior.covariance * np.exp(levels[0]),
        noise_variance=prior.noise_variance * np.exp(levels[1]),
        shared_precision=prior.shared_precision,
        shared_location=prior.shared_location,
    )


def _better_levels(stats: Statistics, prior: Prior, left: Statistics, estimate: PriorEstimate, levels: Array) -> Array:
    """Return by how much, on the log scale, covariance and noise variance should be larger: one Newton step.

    The estimate maximises the evidence of what is left less penalties, so at its place the slope of the penalties is
    that of this evidence. The correction maximises the evidence of y itself, fixed coefficients integrated out, less
    penalties of that slope and of the curvature that they are known to have.
    """

    def evidence_left(levels: Array) -> float:
        return float(log_evidence(left, _at_levels(estimate.prior, levels), estimate.task_weight)[0])

    def evidence(levels: Array) -> float:
        return float(log_evidence(stats, _at_levels(prior, levels), estimate.task_weight)[0])

    first, second = DIFFERENCE * np.eye(2)
    pull = np.array([evidence_left(side) - evidence_left(-side) for side in (first, second)]) / (2 * DIFFERENCE)
    here = evidence(levels)
    ahead, behind = ([evidence(levels + sign * side) for side in (first, second)] for sign in (1, -1))
    slope = np.subtract(ahead, behind) / (2 * DIFFERENCE) - pull - levels / LEVEL_SD**2
    curvature = np.diag(np.add(ahead, behind) - 2 * here)
    corners = evidence(levels + first + second) + evidence(levels - first - second)
    curvature[0, 1] = curvature[1, 0] = (corners + 2 * here - sum(ahead) - sum(behind)) / 2
    values, vectors = np.linalg.eigh(np.eye(2) / LEVEL_SD**2 - curvature / DIFFERENCE**2)
    # Uphill also where the evidence is not concave.
    step = vectors @ (vectors.T @ slope / np.maximum(abs(values), LEVEL_SD**-2))
    result: Array = np.clip(levels + np.clip(step, -LONGEST, LONGEST), -FARTHEST, FARTHEST)
    return result
