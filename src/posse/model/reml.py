"""Restricted maximum likelihood of the population: no regularisation, for statisticians.

Works on the relative covariance factor, ``Sigma = s2 T T'`` with T lower triangular, and profiles noise variance and
shared mean out, so that the search runs over T alone; a zero on its diagonal is the boundary, and a legal answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posse.core.compiler import compiled
from posse.model.dense import (
    cross_product,
    dot,
    factor,
    factor_at_least,
    invert,
    log_determinant,
    mirror_upper,
    multiply_symmetric,
    multiply_upper,
    solve_transposed,
)
from posse.model.evidence import limits
from posse.model.prior import Prior, PriorEstimate, new_report
from posse.model.statistics import Statistics
from posse.types import Array, BoolArray

TOLERANCE = 1e-13  # relative improvement of the criterion at which the search stops
SINGULAR = 1e-10  # an eigenvalue of the relative covariance below this share of the largest is zero
ROUNDS = 500
RESTARTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class RemlFit:
    """Restricted maximum likelihood of one arm.

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
    noise_variance : float
    log_likelihood : float
        The restricted log likelihood at the maximum.
    shared_mean : ndarray of shape (n_features,)
        The generalised least squares estimate (fixed effects).
    rank : int
        Of the covariance; less than the number of random coefficients at the boundary.
    iterations : int
    converged : bool
    """

    covariance: Array
    noise_variance: float
    log_likelihood: float
    shared_mean: Array
    rank: int
    iterations: int
    converged: bool


def estimate_reml(stats: Statistics, fixed: BoolArray | None = None) -> PriorEstimate:
    """Restricted maximum likelihood of every arm; see :func:`posse.model.estimate_prior`.

    Parameters
    ----------
    stats : Statistics
    fixed : ndarray of shape (n_features,), optional
        Features whose coefficients are the same in all tasks: their rows and columns of the covariance are 0. Default:
        none is.
    """
    K, d = stats.n_arms, stats.n_features
    random = np.ones(d, dtype=np.bool_) if fixed is None else ~fixed
    squares = np.einsum("knii->i", stats.gram) / max(stats.count.sum(), 1.0)
    squares = np.where(squares > 0, squares, 1.0)
    size = float(stats.sum_of_squares.sum() / max(stats.count.sum(), 1.0)) or 1.0
    covariance = np.tile(np.diag(random * size / (d * squares)), (K, 1, 1))
    noise = np.full(K, size)
    fits = [fit_reml(stats, arm, random) for arm in range(K)]
    notes = limits(stats)
    for arm, fit in enumerate(fits):
        if fit is None:
            notes.append(
                f"arm {arm} has no restricted likelihood: too few rewards, too few directions among its contexts, or "
                "rewards that are fitted exactly"
            )
        else:
            covariance[arm], noise[arm] = fit.covariance, fit.noise_variance
            if fit.rank < random.sum():
                notes.append(f"arm {arm} is at the boundary: its covariance has rank {fit.rank} of {random.sum()}")
    found = np.array([fit is not None for fit in fits])
    # Flat up to rounding: a ten-billionth of what one arm's data say about the shared mean.
    flat = 1e-10 * np.maximum(stats.count.sum(axis=1), 1.0)[:, None] * squares / noise[:, None]
    likelihoods = [fit.log_likelihood for fit in fits if fit is not None]
    return PriorEstimate(
        Prior(covariance=covariance, noise_variance=noise, shared_precision=flat),
        new_report(
            "reml",
            covariance,
            (stats.count > 0).sum(axis=1),
            at_start=~found,
            iterations=sum(fit.iterations for fit in fits if fit is not None),
            converged=all(fit is not None and fit.converged for fit in fits),
            log_evidence=float(sum(likelihoods)) if likelihoods else float("nan"),
            notes=tuple(notes),
        ),
        np.ones(stats.n_tasks),
    )


class _Criterion:
    """The restricted deviance of one arm as a function of the relative factor, features scaled to mean square 1."""

    def __init__(self, stats: Statistics, arm: int, scale: Array, random: BoolArray) -> None:
        seen = stats.count[arm] > 0
        self.gram = np.ascontiguousarray(stats.gram[arm, seen] / np.outer(scale, scale))
        self.moment = np.ascontiguousarray(stats.moment[arm, seen] / scale)
        self.squares = float(stats.sum_of_squares[arm].sum())
        self.rewards = float(stats.count[arm].sum())
        self.freedom = self.rewards - scale.size
        self.mean = np.empty(scale.size)
        self.slope = np.empty((scale.size, scale.size))
        # The factor is lower triangular; where a coefficient is fixed its row, and with it its column, is zero.
        rows, columns = np.tril_indices(int(random.sum()))
        places = np.flatnonzero(random)
        self._rows, self._columns = places[rows], places[columns]
        self._task_precision = np.empty_like(self.gram)
        self._task_moment = np.empty_like(self.moment)
        self._buffers = np.empty((6, scale.size, scale.size)), np.empty((3, scale.size))

    def unpack(self, values: Array) -> Array:
        """Return the lower triangular factor that the search's vector stands for."""
        factor = np.zeros_like(self.slope)
        factor[self._rows, self._columns] = values
        return factor

    def pack(self, factor: Array) -> Array:
        """Return a factor as the search's vector."""
        packed: Array = factor[self._rows, self._columns]
        return packed

    def __call__(self, values: Array) -> tuple[float, Array]:
        """Return the deviance and its slope; ``mean`` and ``slope`` (in T T') are left behind."""
        factor = self.unpack(values)
        deviance = restricted_deviance(
            self.gram,
            self.moment,
            self.squares,
            self.rewards,
            factor,
            self._task_precision,
            self._task_moment,
            *self._buffers,
            self.mean,
            self.slope,
        )
        return float(deviance), self.pack(2.0 * self.slope @ factor)

    def noise_variance(self, deviance: float, values: Array) -> float:
        """Return the noise variance that belongs to a factor."""
        factor = self.unpack(values)
        d = factor.shape[0]
        lower = np.linalg.cholesky(np.eye(d) + factor.T @ self.gram @ factor)
        determinants = 2.0 * float(np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum())
        determinants += float(np.linalg.slogdet(self._task_precision.sum(axis=0))[1])
        return float(np.exp((deviance - determinants) / self.freedom - 1.0) / (2 * np.pi))


def fit_reml(stats: Statistics, arm: int, random: BoolArray | None = None) -> RemlFit | None:
    """Return the fit of one arm, or None if its rewards are too few or do not vary enough to say anything.

    Needs more rewards than features and a Gram matrix over all tasks that can be inverted. Coefficients differ between
    tasks where ``random``, which must be so for one feature at least; by default, all do.
    """
    from scipy.optimize import minimize
    from threadpoolctl import ThreadpoolController

    d = stats.n_features
    random = np.ones(d, dtype=np.bool_) if random is None else random
    rewards = float(stats.count[arm].sum())
    scale = np.sqrt(np.einsum("jii->i", stats.gram[arm]) / max(rewards, 1.0))
    if rewards <= d or not (scale > 0).all():
        return None
    criterion = _Criterion(stats, arm, scale, random)
    if np.linalg.eigvalsh(criterion.gram.sum(axis=0))[0] < 1e-10 * rewards:
        return None

    on_diagonal = criterion.pack(np.eye(d)) > 0
    bounds = [(0.0, None) if corner else (None, None) for corner in on_diagonal]
    start = np.where(on_diagonal, 1.0, 0.0)
    if not np.isfinite(criterion(start)[0]):
        return None
    iterations = 0
    threads = ThreadpoolController()
    for _attempt in range(RESTARTS):
        # The search calls LAPACK on tiny matrices, where waking a second thread takes ten times the work itself.
        with threads.limit(limits=1):
            found = minimize(
                criterion,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": ROUNDS, "ftol": TOLERANCE, "gtol": 1e-7 * rewards, "maxcor": 30},
            )
        iterations += int(found.nit)
        factor = criterion.unpack(found.x)
        deviance, _ = criterion(found.x)
        # Where a column of the factor is zero its slope is zero too, even if a little variance there would help: look
        # at the slope in the covariance itself, and step off the saddle along the direction that gains most.
        gains, directions = np.linalg.eigh(-criterion.slope[np.ix_(random, random)])
        if gains[-1] <= 1e-5 * rewards:
            break
        relative = (factor @ factor.T)[np.ix_(random, random)]
        lift = 1e-3 * max(np.trace(relative) / random.sum(), 1e-6)
        root = np.zeros_like(factor)
        root[np.ix_(random, random)] = _lower_root(relative + lift * np.outer(directions[:, -1], directions[:, -1]))
        start = criterion.pack(root)
    noise = criterion.noise_variance(deviance, found.x)
    values, vectors = np.linalg.eigh(factor @ factor.T)
    positive = values > SINGULAR * max(float(values[-1]), 1.0 / rewards)
    relative = (vectors * np.where(positive, values, 0.0)) @ vectors.T
    return RemlFit(
        covariance=noise * relative / np.outer(scale, scale),
        noise_variance=noise,
        # log det X'V^-1 X was taken with scaled features.
        log_likelihood=-0.5 * deviance - float(np.log(scale).sum()),
        shared_mean=criterion.mean / scale,
        rank=int(positive.sum()),
        iterations=iterations,
        converged=bool(found.success) and bool(gains[-1] <= 1e-5 * rewards),
    )


def _lower_root(matrix: Array) -> Array:
    """Return a lower triangular T with T T' = matrix, zero columns where the matrix has no rank."""
    values, vectors = np.linalg.eigh(matrix)
    upper: Array = np.asarray(np.linalg.qr((vectors * np.sqrt(np.clip(values, 0, None))).T)[1])
    signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
    lower: Array = (upper * signs[:, None]).T
    return lower


@compiled
def _whiten(
    gram: Array, root: Array, lower: Array, s2: float, middle: Array, whitened: Array, explained: Array
) -> None:
    """Condition one task: with Sigma = R'R, write M, Y and Y A such that M'M = s2 I + R A R' and Ct = Y'Y.

    ``root`` is the upper R and ``lower`` its transpose; M goes to ``middle``, Y = M'^-1 R to ``whitened`` and Y A to
    ``explained``. Then A Ct A = (Y A)'(Y A).
    """
    d = gram.shape[0]
    # explained = R A and middle = s2 I + R A R', upper triangle.
    multiply_upper(root, gram, explained)
    for i in range(d):
        for j in range(i, d):
            middle[i, j] = 0.0
        middle[i, i] = s2
        for k in range(i, d):
            weight = explained[i, k]
            for j in range(i, k + 1):
                middle[i, j] += weight * lower[k, j]
    # The factor is built in `whitened` and moved.
    factor_at_least(middle, s2, whitened)
    for i in range(d):
        for j in range(d):
            middle[i, j] = whitened[i, j]
            whitened[i, j] = root[i, j]
    solve_transposed(middle, whitened)
    solve_transposed(middle, explained)


@compiled
def restricted_deviance(
    gram: Array,
    moment: Array,
    squares: float,
    rewards: float,
    relative_root: Array,
    task_precision: Array,
    task_moment: Array,
    matrices: Array,
    vectors: Array,
    mean: Array,
    slope: Array,
) -> float:
    r"""Return minus twice the restricted log likelihood, noise variance and shared mean profiled out.

    ``relative_root`` is the lower T with Sigma = s2 T T'. On return ``mean`` is the shared mean and ``slope`` the slope
    of the deviance in T T'. ``task_precision`` (J, d, d), ``task_moment`` (J, d), ``matrices`` (6, d, d) and
    ``vectors`` (3, d) are buffers.
    """
    n_tasks, d = moment.shape
    root, middle, whitened = matrices[0], matrices[1], matrices[2]
    explained, total, covariance = matrices[3], matrices[4], matrices[5]
    own, shared_moment, left = vectors[0], vectors[1], vectors[2]
    for i in range(d):
        shared_moment[i] = 0.0
        for j in range(d):
            root[i, j] = relative_root[j, i]
            total[i, j] = 0.0
    deviance = 0.0
    residual = squares
    for task in range(n_tasks):
        _whiten(gram[task], root, relative_root, 1.0, middle, whitened, explained)
        deviance += log_determinant(middle)
        precision = task_precision[task]
        cross_product(explained, precision)
        for i in range(d):
            own[i] = dot(whitened[i], moment[task])
            task_moment[task, i] = moment[task, i]
            for j in range(d):
                precision[i, j] = gram[task, i, j] - precision[i, j]
                total[i, j] += precision[i, j]
        residual -= dot(own, own)
        for k in range(d):
            for i in range(d):
                task_moment[task, i] -= own[k] * explained[k, i]
        for i in range(d):
            shared_moment[i] += task_moment[task, i]
    if not invert(total, middle, whitened, covariance):
        return math.inf
    deviance += log_determinant(middle)
    multiply_symmetric(covariance, shared_moment, mean)
    freedom = rewards - d
    residual -= dot(shared_moment, mean)
    # Rewards that are fitted to the last digit have no likelihood: it grows without bound.
    if not residual > 1e-13 * squares:
        return math.inf
    noise = residual / freedom
    deviance += freedom * (1.0 + math.log(2.0 * math.pi * noise))

    # P_j Phi P_j = (R P_j)'(R P_j) with Phi = R'R.
    factor(covariance, root)
    for i in range(d):
        for j in range(d):
            slope[i, j] = total[i, j]
    for task in range(n_tasks):
        precision = task_precision[task]
        multiply_symmetric(precision, mean, left)
        for i in range(d):
            left[i] = task_moment[task, i] - left[i]
        multiply_upper(root, precision, explained)
        for i in range(d):
            scaled = left[i] / noise
            for j in range(i, d):
                slope[i, j] -= scaled * left[j]
        for k in range(d):
            for i in range(d):
                weight = explained[k, i]
                for j in range(i, d):
                    slope[i, j] -= weight * explained[k, j]
    mirror_upper(slope)
    return float(deviance)
