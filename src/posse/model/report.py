"""An estimate of the prior and how it came about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.model.findings import Unusual
from posse.model.prior import Prior
from posse.showing import brief_repr
from posse.types import Array, BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriorReport:
    """How an estimate of the prior came about; arrays have one entry per arm.

    Parameters
    ----------
    method : str
    tasks_used : ndarray of shape (n_arms,)
        Tasks that took part: with a least-squares estimate of their own ("paper", "moments"), or with any reward.
    covariance_at_start, noise_at_start : ndarray of shape (n_arms,)
        True where the data did not suffice and the start value still stands.
    iterations : int
        Steps, or how often the paper's estimates were fed back.
    converged : bool
        Whether they stood still at the end.
    eigenvalues : ndarray of shape (n_arms, n_features)
        Of the covariance, smallest first.
    threshold : ndarray of shape (n_arms,)
        The paper's: covariances smaller than this were set to zero.
    eigenvalues_floored : ndarray of shape (n_arms,)
        Eigenvalues that had to be raised to keep the covariance positive definite.
    target_weight : ndarray of shape (n_arms,)
        The evidence prior's: share of the common target in the arm's covariance.
    log_evidence : float
        Of all rewards under the estimate; restricted likelihood for "reml"; NaN if it was not computed.
    evidence_gained : float
        How much of that the estimate gained over its start.
    notes : tuple of str
        Findings in words: what could not be learned, and what looks unusual.
    unusual : Unusual or None
        The evidence prior's: the numbers behind what looks unusual; None before there is a reward other than 0.
    """

    method: str
    tasks_used: IntArray
    covariance_at_start: BoolArray
    noise_at_start: BoolArray
    iterations: int
    converged: bool
    eigenvalues: Array
    threshold: Array
    eigenvalues_floored: IntArray
    target_weight: Array
    log_evidence: float = float("nan")
    evidence_gained: float = float("nan")
    notes: tuple[str, ...] = ()
    unusual: Unusual | None = None

    __repr__ = brief_repr

    def __str__(self) -> str:
        times = "iteration" if self.iterations == 1 else "iterations"
        head = f"prior by method {self.method!r}: {self.iterations} {times}, "
        head += "converged" if self.converged else "not converged"
        if np.isfinite(self.log_evidence):
            head += f", log evidence {self.log_evidence:.2f}"
        if np.isfinite(self.evidence_gained):
            head += f" ({self.evidence_gained:+.2f} from its start)"
        rows = []
        for arm in range(self.tasks_used.size):
            low, high = self.eigenvalues[arm, 0], self.eigenvalues[arm, -1]
            words = [f"{self.tasks_used[arm]} tasks used", f"eigenvalues {low:.3g} to {high:.3g}"]
            if self.threshold[arm] > 0:
                words.append(f"threshold {self.threshold[arm]:.3g}")
            if self.eigenvalues_floored[arm] > 0:
                words.append(f"{self.eigenvalues_floored[arm]} eigenvalues floored")
            if self.target_weight[arm] > 0:
                words.append(f"target weight {self.target_weight[arm]:.2f}")
            if self.covariance_at_start[arm]:
                words.append("covariance still at its start value")
            if self.noise_at_start[arm]:
                words.append("noise variance still at its start value")
            rows.append(f"  arm {arm}: " + ", ".join(words))
        return "\n".join([head, *rows, *(f"  note: {note}" for note in self.notes)])


def eigenvalues(covariance: Array) -> Array:
    """Return the eigenvalues of every arm's covariance, smallest first."""
    return np.asarray(np.linalg.eigvalsh(covariance), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """A prior and how it came about.

    Parameters
    ----------
    prior : Prior
    report : PriorReport
    task_weight : ndarray of shape (n_tasks,)
        1, or less for tasks that a robust estimate takes for outliers: their covariance is that of the prior over the
        weight.
    """

    prior: Prior
    report: PriorReport
    task_weight: Array

    __repr__ = brief_repr
