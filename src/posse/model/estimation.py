"""Estimating the population from the statistics of all tasks, by a named method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from posse.checks import number, one_of, whole_number
from posse.kernels import estimators
from posse.kernels.posterior import new_buffers
from posse.model.belief import new_belief
from posse.model.prior import Prior

if TYPE_CHECKING:
    from posse.kernels.estimators import Memory
    from posse.model.statistics import Statistics
    from posse.types import Array, BoolArray, IntArray

PriorMethod: TypeAlias = Literal["paper", "paper-literal", "moments"]

METHODS: dict[str, int] = {
    "paper": estimators.PAPER,
    "paper-literal": estimators.PAPER_LITERAL,
    "moments": estimators.MOMENTS,
}
"""Method names and the codes that the kernels know them by."""

PASSES = 50
TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class PriorReport:
    """How an estimate of the prior came about; one entry per arm.

    Parameters
    ----------
    method : str
    tasks_used : ndarray of shape (n_arms,)
        Tasks whose own least-squares estimate took part.
    threshold : ndarray of shape (n_arms,)
        Covariances smaller than this were set to zero (0 where none was chosen).
    eigenvalues_floored : ndarray of shape (n_arms,)
        Eigenvalues that had to be raised to keep the covariance positive definite.
    covariance_at_start, noise_at_start : ndarray of shape (n_arms,)
        True where the data did not suffice and the start value still stands.
    passes : int
        How often the estimates were fed back before they stood still.
    converged : bool
        Whether they did.
    """

    method: str
    tasks_used: IntArray
    threshold: Array
    eigenvalues_floored: IntArray
    covariance_at_start: BoolArray
    noise_at_start: BoolArray
    passes: int
    converged: bool

    def __str__(self) -> str:
        head = f"prior by method {self.method!r}: {self.passes} passes, " + (
            "converged" if self.converged else "not converged"
        )
        rows = [
            f"  arm {arm}: {self.tasks_used[arm]} tasks used, threshold {self.threshold[arm]:.4g}, "
            f"{self.eigenvalues_floored[arm]} eigenvalues floored"
            + (", covariance still at its start value" if self.covariance_at_start[arm] else "")
            + (", noise variance still at its start value" if self.noise_at_start[arm] else "")
            for arm in range(self.tasks_used.size)
        ]
        return "\n".join([head, *rows])


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """A prior and how it came about."""

    prior: Prior
    report: PriorReport


def estimate_prior(
    stats: Statistics,
    method: PriorMethod = "paper",
    *,
    start: Prior | None = None,
    shared_precision: float = 1e-3,
    passes: int | None = None,
) -> PriorEstimate:
    r"""Estimate covariance and noise variance of every arm.

    Parameters
    ----------
    stats : Statistics
    method : {"paper", "paper-literal", "moments"}
        * ``"paper"``: covariance of the tasks' OLS estimates (tasks with a well-conditioned Gram matrix only, divisor
          m - 1), off-diagonal entries thresholded as Bickel and Levina choose it, eigenvalues kept positive; noise
          from the residuals around the shrunken coefficients.
        * ``"paper-literal"``: as printed: minimum-norm OLS of every task, no divisor, diagonal thresholded as well.
        * ``"moments"``: Swamy's correction: covariance of the OLS estimates less their sampling covariance; noise
          from the residuals within tasks.
    start : Prior, optional
        Where the noise estimate starts and what stands until the data suffice. Default: identity covariance, noise
        variance 1.
    shared_precision : float
        Used when ``start`` is not given; never estimated by these methods.
    passes : int, optional
        The paper's noise formula needs the coefficients, and these need the noise. ``passes`` is how often to go
        round. Default: once from a given ``start`` (what a policy does at a refresh), else until it stands still.

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
    prior by method 'paper': 1 passes, not converged
      arm 0: 4 tasks used, threshold 0, 0 eigenvalues floored
    """
    code = METHODS[one_of(method, "method", tuple(METHODS))]
    if start is None:
        start = Prior.isotropic(
            n_arms=stats.n_arms,
            n_features=stats.n_features,
            shared_precision=number(shared_precision, "shared_precision", above=0),
        )
        limit = PASSES
    else:
        limit = 1
    if passes is not None:
        limit = whole_number(passes, "passes", at_least=1)
    buffers = new_buffers(stats.n_features)
    belief = new_belief(stats, start, buffers)
    memory = estimators.new_memory(stats.n_arms, stats.n_tasks, stats.n_features)
    done, converged = 0, False
    while done < limit and not converged:
        before = belief.noise_variance.copy()
        for arm in range(stats.n_arms):
            if belief.rewards[arm] > 0:
                estimators.refresh(belief, memory, arm, code, buffers)
        done += 1
        # The covariance comes from least squares alone, so only the noise can still move.
        converged = bool(np.allclose(before, belief.noise_variance, rtol=TOLERANCE, atol=0))
    prior = Prior(
        covariance=belief.covariance,
        noise_variance=belief.noise_variance,
        shared_precision=belief.shared_precision,
    )
    return PriorEstimate(prior, report_of(memory, method, passes=done, converged=converged))


def report_of(memory: Memory, method: str, *, passes: int = 1, converged: bool = False) -> PriorReport:
    """Return what the estimators remember, as a report."""
    return PriorReport(
        method=method,
        tasks_used=memory.tasks_used.copy(),
        threshold=memory.threshold.copy(),
        eigenvalues_floored=memory.eigenvalues_floored.copy(),
        covariance_at_start=~memory.covariance_learned,
        noise_at_start=~memory.noise_learned,
        passes=passes,
        converged=converged,
    )
