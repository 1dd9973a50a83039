"""The numbers that the paper's statements are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from posse.checks import real_array
from posse.errors import InvalidValue, NotPositiveDefinite

if TYPE_CHECKING:
    from posse.model import Prior
    from posse.types import Array, ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    r"""A world as the theorems see it: how large, how noisy, how far apart.

    The assumption of every statement is :math:`\lVert\beta_{kj}\rVert \le c_\beta`,
    :math:`\lVert x \rVert^2 \le d\, c_x`, eigenvalues of every :math:`\Sigma_k^{-1}` between :math:`\lambda_d` and
    :math:`\lambda_1`, and one noise variance and one :math:`\lambda` for all arms.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
        N, K and d.
    noise_sd : float
        :math:`\sigma`.
    shared_precision : float
        :math:`\lambda`, the prior precision of the shared mean.
    precision_max, precision_min : float
        :math:`\lambda_1` and :math:`\lambda_d`.
    coefficient_bound : float
        :math:`c_\beta`.
    context_bound : float
        :math:`c_x`, a bound on the *mean* squared feature.
    prior_distance : float, optional
        The largest :func:`prior_distance` of any arm, where the coefficients are known. Without it, corrected
        statements use what the assumption implies, :math:`\sqrt{N \lambda_1}\, c_\beta`.

    Examples
    --------
    >>> constants = Constants(
    ...     n_tasks=4, n_arms=2, n_features=3, noise_sd=0.5, shared_precision=0.1, precision_max=2.0,
    ...     precision_min=0.5, coefficient_bound=1.5, context_bound=1.0,
    ... )
    >>> constants.c_2, constants.c_4, constants.m_1, constants.m_2
    (8.0, 20.0, 20.0, 0.5)
    """

    n_tasks: int
    n_arms: int
    n_features: int
    noise_sd: float
    shared_precision: float
    precision_max: float
    precision_min: float
    coefficient_bound: float
    context_bound: float
    prior_distance: float | None = None

    @classmethod
    def of(cls, prior: Prior, coefficients: ArrayLike, contexts: ArrayLike) -> Self:
        r"""Read the constants off a drawn world.

        Bounds are the largest values that occur, so they hold for these contexts and need no bounded law.

        Parameters
        ----------
        prior : Prior
            With the same noise variance and shared precision for every arm, and covariances that can be inverted.
        coefficients : array of shape (n_arms, n_tasks, n_features)
        contexts : array of shape (n_steps, n_features)

        Examples
        --------
        >>> from posse.model import Prior
        >>> prior = Prior(covariance=[[[4.0, 0.0], [0.0, 1.0]]], noise_variance=0.25, shared_precision=0.1)
        >>> constants = Constants.of(prior, [[[3.0, 4.0], [0.0, 1.0]]], [[1.0, 1.0], [2.0, 0.0]])
        >>> constants.noise_sd, constants.precision_max, constants.precision_min
        (0.5, 1.0, 0.25)
        >>> constants.coefficient_bound, constants.context_bound
        (5.0, 2.0)
        """
        beta = real_array(coefficients, "coefficients")
        X = real_array(contexts, "contexts")
        return cls(
            n_tasks=beta.shape[1],
            n_arms=prior.n_arms,
            n_features=prior.n_features,
            noise_sd=math.sqrt(_one(prior.noise_variance, "noise variance")),
            shared_precision=_one(
                np.asarray(np.linalg.eigvalsh(prior.shared_precisions), np.float64), "shared precision"
            ),
            precision_max=float(1.0 / _eigenvalues(prior).min()),
            precision_min=float(1.0 / _eigenvalues(prior).max()),
            coefficient_bound=float(np.sqrt((beta**2).sum(axis=-1)).max()),
            context_bound=float((X**2).mean(axis=1).max()),
            prior_distance=float(prior_distance(prior, beta).max()),
        )

    @property
    def c_1(self) -> float:
        r""":math:`\frac{d c_x / \lambda_d}{\log(1 + d c_x / (\sigma^2 \lambda_d))}`."""
        largest = self.n_features * self.context_bound / self.precision_min
        return largest / math.log1p(largest / self.noise_sd**2)

    @property
    def c_2(self) -> float:
        r""":math:`c_x / (\sigma^2 \lambda_d)`."""
        return self.context_bound / (self.noise_sd**2 * self.precision_min)

    @property
    def c_3(self) -> float:
        r""":math:`\frac{u\,(1 + d c_x / (\sigma^2\lambda_d))}{\log(1 + u / \sigma^2)}`, :math:`u = \frac{\lambda_1^2 d c_x}{\lambda_d^2 \lambda}`."""  # noqa: E501
        largest = (self.precision_max / self.precision_min) ** 2 * self.n_features * self.context_bound
        largest /= self.shared_precision
        return largest * (1.0 + self.n_features * self.c_2) / math.log1p(largest / self.noise_sd**2)

    @property
    def c_4(self) -> float:
        r""":math:`\lambda_1 / \lambda`."""
        return self.precision_max / self.shared_precision

    @property
    def m_1(self) -> float:
        r""":math:`\max(\lambda_1 / \lambda, 1)`."""
        return max(self.c_4, 1.0)

    @property
    def m_2(self) -> float:
        r""":math:`\max(\lambda, \sigma^2 \lambda_1)`."""
        return max(self.shared_precision, self.noise_sd**2 * self.precision_max)

    @property
    def m_3(self) -> float:
        r""":math:`c_\beta \sqrt{\lambda_1}`."""
        return self.coefficient_bound * math.sqrt(self.precision_max)

    @property
    def bias(self) -> float:
        r"""How far the prior may pull an estimate, in posterior standard deviations.

        The prior distance where it is known, else :math:`\sqrt N m_3`, which is never smaller.
        """
        return math.sqrt(self.n_tasks) * self.m_3 if self.prior_distance is None else self.prior_distance

    @property
    def step_regret_bound(self) -> float:
        r"""What one step can cost at most, :math:`2 \sqrt{d c_x}\, c_\beta`."""
        return 2.0 * math.sqrt(self.n_features * self.context_bound) * self.coefficient_bound


def prior_distance(prior: Prior, coefficients: ArrayLike) -> Array:
    r"""How far the coefficients of all tasks lie from the prior, in its own standard deviations.

    For the stacked coefficients :math:`\theta = (\beta_1, \dots, \beta_N)` of an arm, whose prior covariance P has
    blocks :math:`I/\lambda + \Sigma` on and :math:`I/\lambda` off the diagonal,

    .. math::
        \theta^\top P^{-1} \theta
        = \min_b \Bigl\{ \lambda \lVert b \rVert^2 + \sum_j \lVert \beta_j - b \rVert^2_{\Sigma^{-1}} \Bigr\}
        = \sum_j \lVert \beta_j - \bar\beta \rVert^2_{\Sigma^{-1}}
        + \bar\beta^\top \bigl(I/\lambda + \Sigma/N\bigr)^{-1} \bar\beta .

    It is at most :math:`\sqrt{N \lambda_1}\, c_\beta` (take b = 0), and about :math:`\sqrt{N d}` for coefficients that
    were drawn from the prior, when its square is chi-square with N d degrees of freedom.

    Parameters
    ----------
    prior : Prior
        With covariances that can be inverted.
    coefficients : array of shape (n_arms, n_tasks, n_features)

    Returns
    -------
    ndarray of shape (n_arms,)
        The root of the above.

    Examples
    --------
    Tasks at 1 and 3 around a mean of 2: spread (1 + 1) / 2, and 2² / (1 + 2/2) for the mean.

    >>> from posse.model import Prior
    >>> prior_distance(Prior(covariance=[[[2.0]]], noise_variance=1.0, shared_precision=1.0), [[[1.0], [3.0]]]) ** 2
    array([3.])
    """
    beta = real_array(coefficients, "coefficients")
    _eigenvalues(prior)
    mean = beta.mean(axis=1)
    away = beta - mean[:, None]
    spread = np.einsum("kna,kan->k", away, np.linalg.solve(prior.covariance, np.swapaxes(away, 1, 2)))
    vague = np.linalg.inv(prior.shared_precisions) + prior.covariance / beta.shape[1]
    mean = mean - prior.shared_location
    shift = np.einsum("ka,ka->k", mean, np.linalg.solve(vague, mean[..., None])[..., 0])
    return np.asarray(np.sqrt(spread + shift), dtype=np.float64)


def _eigenvalues(prior: Prior) -> Array:
    """Return the eigenvalues of every covariance, all of them positive beyond rounding."""
    values: Array = np.asarray(np.linalg.eigvalsh(prior.covariance), dtype=np.float64)
    singular = values[:, 0] <= prior.n_features * np.finfo(np.float64).eps * values[:, -1]
    if singular.any():
        arm = int(np.argmax(singular))
        raise NotPositiveDefinite(
            f"prior covariance of arm {arm} has smallest eigenvalue {values[arm, 0]:.3g}: the theorems need its "
            "inverse; add a small multiple of the identity"
        )
    return values


def _one(values: Array, name: str) -> float:
    """Return the number that all entries are, up to rounding."""
    if np.ptp(values) > 1e-9 * values.max():
        raise InvalidValue(
            f"the theorems need one {name} for all arms and features, but it goes from {values.min():g} to "
            f"{values.max():g}; rescale the rewards of each arm, or the features, first"
        )
    return float(values.max())
