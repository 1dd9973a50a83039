r"""Maximum likelihood of a population of logistic or log-linear regressions, by Laplace's approximation.

.. math:: \eta = x^\top\beta + z^\top L\,\varepsilon_j, \qquad \varepsilon_j \sim \mathcal N(0, I)

Given :math:`\beta` and the lower triangular L, the likelihood of a group is the integral over its
:math:`\varepsilon_j`; it is taken to be that of the Gaussian with the mode and the curvature of the integrand. That is
what lme4's ``glmer`` does by default (``nAGQ=1``), and nothing is regularised here either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.families import LinkedFamily
from posse.types import Array, BoolArray, IntArray

ROUNDS = 500  # of the search for beta and L, at most
NEWTON = 50  # steps of the search for a mode, at most
CLOSE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceFit:
    """Result of maximum likelihood.

    Parameters
    ----------
    shared_mean : ndarray of shape (n_features,)
    shared_covariance : ndarray of shape (n_features, n_features)
        From the curvature of the log likelihood.
    covariance : ndarray of shape (n_features, n_features)
        Zero where coefficients are fixed.
    log_likelihood : float
    iterations : int
    converged : bool
    """

    shared_mean: Array
    shared_covariance: Array
    covariance: Array
    log_likelihood: float
    iterations: int
    converged: bool


class _Likelihood:
    """The log likelihood and its slope; modes are remembered between calls, where the next search starts."""

    def __init__(
        self, X: Array, y: Array, first: IntArray, group: IntArray, random: BoolArray, family: LinkedFamily
    ) -> None:
        # Rows are sorted by group; `first` is where each begins.
        self.X, self.Z, self.y, self.first, self.group, self.family = X, X[:, random], y, first, group, family
        self.p, self.q = X.shape[1], int(random.sum())
        self.rows, self.columns = np.tril_indices(self.q)
        self.modes = np.zeros((first.size, self.q))
        self.constant = family.constant(y)

    def curve(self, eta: Array) -> tuple[Array, Array, Array, Array]:
        """Return the log likelihood of every row, the expected y, and its two derivatives by the predictor."""
        return self.family.curve(self.y, eta)

    def total(self, rows: Array) -> Array:
        """Return sums over the rows of every group."""
        return np.asarray(np.add.reduceat(rows, self.first, axis=0))

    def __call__(self, values: Array) -> tuple[float, Array]:
        """Return minus the log likelihood and its slope."""
        beta, factor = self.unpack(values)
        fixed, A = self.X @ beta, self.Z @ factor  # a = L'z
        modes, eta, precision = self._find_modes(fixed, A)
        likelihood, mean, w, bend = self.curve(eta)
        inverse = np.linalg.inv(precision)
        lower = np.linalg.cholesky(precision)
        value = self.constant + likelihood.sum() - 0.5 * (modes**2).sum()
        value -= np.log(np.diagonal(lower, axis1=1, axis2=2)).sum()
        # With s = a'H^-1 a and c = sum w' s a, the slope of log det H by the mode: the mode moves with the parameters.
        half = np.einsum("nij,nj->ni", inverse[self.group], A)
        leverage = np.einsum("ni,ni->n", half, A)
        c = self.total((bend * leverage)[:, None] * A)
        moved = np.einsum("nij,nj->ni", inverse, c)[self.group]
        residual = self.y - mean
        pull = residual - 0.5 * bend * leverage + 0.5 * w * np.einsum("ni,ni->n", moved, A)
        slope_beta = self.X.T @ pull
        slope_factor = self.Z.T @ (pull[:, None] * modes[self.group] - w[:, None] * half)
        slope_factor -= 0.5 * self.Z.T @ (residual[:, None] * moved)
        return -float(value), -np.concatenate([slope_beta, slope_factor[self.rows, self.columns]])

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Return beta and L."""
        factor = np.zeros((self.q, self.q))
        factor[self.rows, self.columns] = values[self.p :]
        return values[: self.p], factor

    def _find_modes(self, fixed: Array, A: Array) -> tuple[Array, Array, Array]:
        """Return the mode of every group, the predictor of every row there, and the curvature H of every group."""

        def penalised(modes: Array) -> tuple[Array, Array]:
            eta = fixed + np.einsum("ni,ni->n", A, modes[self.group])
            return self.total(self.curve(eta)[0]) - 0.5 * (modes**2).sum(axis=1), eta

        modes = self.modes
        value, eta = penalised(modes)
        precision = np.empty(0)
        for _ in range(NEWTON):
            _, mean, w, _ = self.curve(eta)
            precision = np.eye(self.q) + self.total(w[:, None, None] * A[:, :, None] * A[:, None, :])
            slope = self.total((self.y - mean)[:, None] * A) - modes
            step = np.linalg.solve(precision, slope[..., None])[..., 0]
            if float((step * slope).sum(axis=1).max(initial=0.0)) < CLOSE**2:
                break
            share = np.ones(len(modes))
            for _halving in range(30):
                ahead, eta = penalised(modes + share[:, None] * step)
                worse = ahead < value - 1e-12 * abs(value)
                if not worse.any():
                    break
                share[worse] *= 0.5
            modes = modes + share[:, None] * step
            value, eta = penalised(modes)
        self.modes = modes
        return modes, eta, precision


def fit_laplace(X: Array, y: Array, group: IntArray, random: BoolArray, family: LinkedFamily) -> LaplaceFit:
    """Maximise the likelihood.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Of mean square about 1.
    y : ndarray of shape (n_rows,)
    group : ndarray of shape (n_rows,)
        Whole numbers from 0, each at least once.
    random : ndarray of shape (n_features,)
        Whose coefficients differ between groups; one at least.
    family : LinkedFamily

    Returns
    -------
    LaplaceFit
    """
    from scipy.optimize import minimize
    from threadpoolctl import ThreadpoolController

    order = np.argsort(group, kind="stable")
    X, y, group = X[order], y[order], group[order]
    first = np.flatnonzero(np.r_[True, np.diff(group) > 0])
    likelihood = _Likelihood(X, y, first, group, random, family)
    p = likelihood.p
    on_diagonal = likelihood.rows == likelihood.columns
    start = np.concatenate([_pooled(X, y, likelihood), np.where(on_diagonal, 0.5, 0.0)])
    bounds = [(None, None)] * p + [(0.0, None) if corner else (None, None) for corner in on_diagonal]
    with ThreadpoolController().limit(limits=1):
        found = minimize(
            likelihood,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": ROUNDS, "ftol": 1e-13, "gtol": 1e-6 * len(y), "maxcor": 30},
        )
        beta, factor = likelihood.unpack(found.x)
        curvature = _curvature(likelihood, found.x, on_diagonal)
    covariance = np.zeros((p, p))
    covariance[np.ix_(random, random)] = factor @ factor.T
    return LaplaceFit(
        shared_mean=beta.copy(),
        shared_covariance=np.asarray(np.linalg.pinv(curvature, hermitian=True)[:p, :p], dtype=np.float64),
        covariance=covariance,
        log_likelihood=-float(found.fun),
        iterations=int(found.nit),
        converged=bool(found.success),
    )


def _pooled(X: Array, y: Array, likelihood: _Likelihood) -> Array:
    """Return the coefficients of one regression for all rows, held back a little where rows are separable."""
    beta = np.zeros(X.shape[1])
    for _ in range(25):
        _, mean, w, _ = likelihood.curve(np.clip(X @ beta, -20, 20))
        step = np.linalg.solve((X * w[:, None]).T @ X + 0.1 * np.eye(beta.size), X.T @ (y - mean) - 0.1 * beta)
        beta = beta + np.clip(step, -1.0, 1.0)
    return beta


def _curvature(likelihood: _Likelihood, values: Array, on_diagonal: BoolArray) -> Array:
    """Return the curvature of minus the log likelihood, from differences of its slope; parameters at 0 stay there."""
    free = np.ones(values.size, dtype=np.bool_)
    free[likelihood.p :] = ~(on_diagonal & (values[likelihood.p :] < 1e-8))
    result = np.zeros((values.size, values.size))
    for i in np.flatnonzero(free):
        side = np.zeros(values.size)
        side[i] = 1e-4
        result[i] = (likelihood(values + side)[1] - likelihood(values - side)[1]) / 2e-4
    result[:, ~free] = 0.0
    return (result + result.T) / 2
