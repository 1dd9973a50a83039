"""Estimating the population from the statistics of all tasks, by a named method."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from posse.checks import number, one_of, whole_number
from posse.errors import InvalidValue
from posse.model.evidence import ITERATIONS, estimate_evidence, limits
from posse.model.least_squares import METHODS as LEAST_SQUARES
from posse.model.least_squares import Memory, estimate_arm, fit_pair, new_memory
from posse.model.posterior import posterior
from posse.model.prior import Prior, PriorEstimate, PriorReport, new_report
from posse.model.reml import estimate_reml
from posse.model.statistics import Statistics
from posse.types import Array, IntArray

PriorMethod: TypeAlias = Literal["paper", "paper-literal", "paper-unthresholded", "moments", "evidence"]
"""How a policy may estimate its prior."""

METHODS = (*LEAST_SQUARES, "evidence", "reml")
"""All methods."""

PASSES = 50
TOLERANCE = 1e-10


def estimate_prior(
    stats: Statistics,
    method: PriorMethod | Literal["reml"] = "evidence",
    *,
    start: Prior | None = None,
    shared_precision: float = 1e-3,
    passes: int | None = None,
    robust: bool = False,
) -> PriorEstimate:
    r"""Estimate the population of every arm.

    Parameters
    ----------
    stats : Statistics
        Sums over the rewards of every arm and task.
    method : {"evidence", "reml", "paper", "paper-literal", "paper-unthresholded", "moments"}, default "evidence"
        * ``"evidence"``: everything by regularised marginal likelihood. Arms share a target for their covariances, a
          noise level and a scale of the shared means, so it says something from the first reward on. The shared
          precision is estimated too, one per feature, so that units do not matter.
        * ``"reml"``: restricted maximum likelihood, each arm alone, nothing regularised. A covariance at the boundary
          comes back singular.
        * ``"paper"``: covariance of the tasks' OLS estimates (tasks with a well-conditioned Gram matrix only, divisor
          m - 1), off-diagonal entries thresholded as Bickel and Levina choose it, eigenvalues kept positive; noise
          from the residuals around the shrunken coefficients.
        * ``"paper-literal"``: as printed: minimum-norm OLS of every task, no divisor, diagonal thresholded as well.
        * ``"paper-unthresholded"``: ``"paper"`` with every entry kept, to see what the threshold is worth.
        * ``"moments"``: Swamy's correction: covariance of the OLS estimates less their sampling covariance; noise
          from the residuals within tasks.
    start : Prior, default None
        Where the search starts and what stands until the data suffice. None: of the size of the data
        ("evidence"), or identity covariance and noise variance 1. "reml" needs none.
    shared_precision : float, default 0.001
        For the paper's methods and moments, which do not estimate it, when ``start`` is not given.
    passes : int, default None
        Steps at most; None: until they stand still, up to a limit of the method's own. The paper's noise formula needs
        the coefficients, and these need the noise, so its methods go round too; from a given ``start`` once, which is
        what a policy does at a refresh.
    robust : bool, default False
        With "evidence": the population is Student's with 8 degrees of freedom, so that outlier tasks neither drag the
        others nor are dragged by them; see ``task_weight`` of the result.

    Returns
    -------
    PriorEstimate
        ``prior``; ``report``, which says whether it converged and what could not be learned; and ``task_weight``.

    Raises
    ------
    InvalidValue
        If a setting is out of its range, or ``robust`` comes with another method than "evidence".
    ShapeError
        If ``start`` is of other arms or features.

    Examples
    --------
    Four tasks whose coefficient is 1, 2, 3 and 6, each seen twice without noise at x = 1. Their covariance is 14/3.

    >>> from posse.model import Statistics
    >>> stats = Statistics.from_data(
    ...     task=[0, 0, 1, 1, 2, 2, 3, 3],
    ...     arm=[0] * 8,
    ...     context=[[1.0]] * 8,
    ...     reward=[1, 1, 2, 2, 3, 3, 6, 6],
    ...     n_tasks=4,
    ...     n_arms=1,
    ... )
    >>> estimate = estimate_prior(stats, method="paper", passes=1)
    >>> estimate.prior.covariance.round(4)
    array([[[4.6667]]])
    >>> print(estimate.report)
    prior by method 'paper': 1 iteration, not converged
      arm 0: 4 tasks used, eigenvalues 4.67 to 4.67
    """
    one_of(method, "method", METHODS)
    shared_precision = number(shared_precision, "shared_precision", above=0)
    if passes is not None:
        passes = whole_number(passes, "passes", at_least=1)
    if robust and method != "evidence":
        raise InvalidValue(f"robust applies to method 'evidence' only, but the method is {method!r}")
    if start is not None:
        start.require_shape(n_arms=stats.n_arms, n_features=stats.n_features)
    if method == "evidence":
        return estimate_evidence(stats, start=start, robust=robust, iterations=passes or ITERATIONS)
    if method == "reml":
        return estimate_reml(stats)
    if start is None:
        start = Prior.isotropic(
            n_arms=stats.n_arms,
            n_features=stats.n_features,
            shared_precision=shared_precision,
        )
        return _by_least_squares(stats, method, start, passes or PASSES)
    return _by_least_squares(stats, method, start, passes or 1)


def _by_least_squares(stats: Statistics, method: str, start: Prior, limit: int) -> PriorEstimate:
    """Estimate from the tasks' own least squares: the paper's methods and moments."""
    K, N, d = stats.moment.shape
    memory, code, rewards = new_memory(K, N, d), LEAST_SQUARES[method], stats.count.sum(axis=1)
    covariance, noise = start.covariance.copy(), start.noise_variance.copy()
    for arm, task in np.argwhere(stats.count > 0).tolist():
        gram, moment = stats.gram[arm, task], stats.moment[arm, task]
        fit_pair(
            memory, code, arm, task, gram, moment, stats.sum_of_squares[arm, task], stats.count[arm, task]
        )  # fmt: skip
    prior, done, converged = start, 0, False
    while done < limit and not converged:
        before = noise.copy()
        mean = posterior(stats, prior).mean
        residuals = stats.sum_of_squares - 2.0 * np.einsum("kni,kni->kn", mean, stats.moment)
        residuals += np.einsum("kni,knij,knj->kn", mean, stats.gram, mean)
        for arm in np.flatnonzero(rewards > 0).tolist():
            residual = max(float(residuals[arm].sum()), 0.0)
            estimate_arm(memory, code, arm, rewards[arm], residual, noise, covariance[arm])
        prior = Prior(
            covariance=covariance, noise_variance=noise, shared_precision=start.shared_precision,
            shared_location=start.shared_location,
        )  # fmt: skip
        done += 1
        # The covariance comes from least squares alone, so only the noise can still move.
        converged = bool(np.allclose(before, noise, rtol=TOLERANCE, atol=0))
    report = least_squares_report(covariance, memory, method, stats, iterations=done, converged=converged)
    return PriorEstimate(prior, report, np.ones(N))


def least_squares_report(
    covariance: Array, memory: Memory, method: str, stats: Statistics, *, iterations: int = 1, converged: bool = False
) -> PriorReport:
    """Return what the estimators remember, as a report."""
    return new_report(
        method, covariance, memory.tasks_used, iterations=iterations, converged=converged,
        covariance_at_start=~memory.covariance_learned, noise_at_start=~memory.noise_learned,
        threshold=memory.threshold.copy(), eigenvalues_floored=memory.eigenvalues_floored.copy(),
        notes=tuple(limits(stats)),
    )  # fmt: skip


def given_report(prior: Prior, tasks_used: IntArray) -> PriorReport:
    """Return the report of a prior that was given, not estimated."""
    notes = ("the prior was given, nothing is estimated",)
    return new_report("known", prior.covariance, tasks_used, iterations=0, converged=True, notes=notes)
