"""The population that the tasks' coefficients come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import covariance as checked_covariance
from posse.checks import real_array, whole_number
from posse.errors import InvalidValue, ShapeError
from posse.model.findings import Unusual
from posse.showing import brief_repr
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from posse.types import ArrayLike


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Prior:
    r"""The population of every arm: what is known about a task before its first reward.

    .. math::
        \beta_0 \sim \mathcal N(\ell, \Lambda^{-1}), \qquad
        \beta_j \mid \beta_0 \sim \mathcal N(\beta_0, \Sigma), \qquad
        y = x^\top \beta_j + \mathcal N(0, \sigma^2)

    Parameters
    ----------
    covariance : array of shape (n_arms, n_features, n_features)
        :math:`\Sigma`, how coefficients differ between tasks. Positive semidefinite is enough.
    noise_variance : array of shape (n_arms,), or one number for all arms
        :math:`\sigma^2`, greater than 0.
    shared_precision : array of shape (n_arms,), (n_arms, n_features) or (n_arms, n_features, n_features), or one number
        :math:`\Lambda`, positive: how close to its location the shared mean is believed to be. One number stands for a
        multiple of the identity, one per feature for a diagonal.
    shared_location : array of shape (n_arms, n_features), or one number
        :math:`\ell`, where the shared mean is believed to lie. Default 0.

    Examples
    --------
    >>> prior = Prior(covariance=[[[2.0]], [[0.5]]], noise_variance=1.0, shared_precision=0.001)
    >>> prior.n_arms, prior.n_features
    (2, 1)
    >>> prior.noise_variance
    array([1., 1.])
    """

    covariance: Array
    noise_variance: Array
    shared_precision: Array
    shared_location: Array

    __repr__ = brief_repr

    def __init__(
        self,
        *,
        covariance: ArrayLike,
        noise_variance: ArrayLike,
        shared_precision: ArrayLike = 1e-3,
        shared_location: ArrayLike = 0.0,
    ) -> None:
        matrices = checked_covariance(covariance, "prior covariance")
        if matrices.ndim != 3 or matrices.shape[0] == 0:
            raise ShapeError(
                f"expected prior covariance to have axes (arm, feature, feature), got shape {matrices.shape}"
            )
        object.__setattr__(self, "covariance", matrices)
        n_arms = matrices.shape[0]
        object.__setattr__(self, "noise_variance", _per_arm(noise_variance, "noise_variance", n_arms))
        object.__setattr__(self, "shared_precision", _precision(shared_precision, matrices.shape))
        location = real_array(shared_location, "shared_location")
        if location.ndim and location.shape != matrices.shape[:2]:
            raise ShapeError(
                f"expected shared_location as one number or of shape {matrices.shape[:2]}, got shape {location.shape}"
            )
        object.__setattr__(self, "shared_location", np.array(np.broadcast_to(location, matrices.shape[:2])))

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.covariance.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.covariance.shape[1])

    @property
    def shared_precisions(self) -> Array:
        """The shared precision of every arm as a matrix, shape (n_arms, n_features, n_features)."""
        given = self.shared_precision
        if given.ndim == 3:
            return given.copy()
        columns = given if given.ndim == 2 else given[:, None]
        matrices: Array = columns[:, :, None] * np.eye(self.n_features)
        return matrices

    @classmethod
    def isotropic(
        cls,
        *,
        n_arms: int,
        n_features: int,
        variance: float = 1.0,
        noise_variance: float = 1.0,
        shared_precision: float = 1e-3,
    ) -> Prior:
        """Return a prior with covariance ``variance * I`` for every arm."""
        n_arms = whole_number(n_arms, "n_arms", at_least=1)
        n_features = whole_number(n_features, "n_features", at_least=1)
        return cls(
            covariance=np.tile(variance * np.eye(n_features), (n_arms, 1, 1)),
            noise_variance=noise_variance,
            shared_precision=shared_precision,
        )

    def require_shape(self, *, n_arms: int, n_features: int) -> None:
        """Raise unless this prior is for so many arms and features."""
        if (self.n_arms, self.n_features) != (n_arms, n_features):
            raise ShapeError(
                f"the prior is for {self.n_arms} arms and {self.n_features} features, "
                f"but {n_arms} arms and {n_features} features are needed"
            )


def one_arm(prior: Prior, arm: int = 0) -> Prior:
    """Return the prior of one of the arms."""
    return Prior(
        covariance=prior.covariance[arm : arm + 1],
        noise_variance=prior.noise_variance[arm : arm + 1],
        shared_precision=prior.shared_precisions[arm : arm + 1],
        shared_location=prior.shared_location[arm : arm + 1],
    )


def _precision(value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return a shared precision as numbers, diagonals or matrices; never the caller's own array."""
    if np.ndim(value) < 3:
        return _per_arm(value, "shared_precision", shape[0], shape[:2])
    matrices = checked_covariance(value, "shared_precision")
    if matrices.shape != shape:
        raise ShapeError(f"expected shared_precision to have shape {shape} as matrices, got shape {matrices.shape}")
    lowest = np.linalg.eigvalsh(_correlations(matrices)).min(axis=1)
    if not (lowest > 0).all():
        raise InvalidValue(f"shared_precision must be positive definite, but that of arm {int(lowest.argmin())} is not")
    return matrices


def _correlations(matrices: Array) -> Array:
    """Return matrices with ones on the diagonal: whether one is positive does not depend on the features' units."""
    size = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    scale = np.where(size > 0, size, 1.0)
    result: Array = matrices / (scale[:, :, None] * scale[:, None, :])
    return result


def _per_arm(value: ArrayLike, name: str, n_arms: int, also: tuple[int, ...] | None = None) -> Array:
    """Return one positive number per arm, or an array of the shape ``also``; never the caller's own array."""
    result = real_array(value, name).copy()
    if result.ndim == 0:
        result = np.full(n_arms, float(result))
    if result.shape != (n_arms,) and result.shape != also:
        shapes = f"({n_arms},)" + (f" or {also}" if also else "")
        raise ShapeError(f"expected {name} to be one number or have shape {shapes}, got shape {result.shape}")
    if not (result > 0).all():
        arm = int(np.argwhere(result == result.min())[0][0])
        raise InvalidValue(f"expected {name} to be greater than 0, got {result.min():g} for arm {arm}")
    return result


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


def new_report(
    method: str, covariance: Array, tasks_used: IntArray, *, at_start: BoolArray | bool = False, **others: Any
) -> PriorReport:
    """Return the report of an estimate; what ``others`` does not say did not take part in it."""
    n_arms = len(covariance)
    start = np.full(n_arms, at_start)
    return PriorReport(
        **{
            "method": method,
            "tasks_used": tasks_used.copy(),
            "covariance_at_start": start,
            "noise_at_start": start,
            "eigenvalues": eigenvalues(covariance),
            "threshold": np.zeros(n_arms),
            "eigenvalues_floored": np.zeros(n_arms, dtype=np.int64),
            "target_weight": np.zeros(n_arms),
        }
        | others
    )


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
