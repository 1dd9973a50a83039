"""The population that the tasks' coefficients come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.checks import covariance as checked_covariance
from posse.checks import real_array, whole_number
from posse.errors import InvalidValue, ShapeError
from posse.showing import brief_repr

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike


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
