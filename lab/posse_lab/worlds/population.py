"""Worlds whose contexts are real and whose tasks are drawn from a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse.checks import covariance as checked_covariance
from posse.checks import number, real_array, whole_number
from posse.environments.base import NOISE, TRUTH, Draw, stream
from posse.environments.drawing import arriving_tasks, correlated, expected_rewards
from posse.errors import InvalidValue, ShapeError
from posse.model.prior import Prior
from posse.types import Array, Settings
from posse_lab.worlds.tables import TableWorld, checked_noise_sd, checked_table


@dataclass(frozen=True, kw_only=True, eq=False)
class PopulationWorld(TableWorld):
    r"""Tasks from a given population, contexts from a given pool.

    .. math:: \beta_{kj} \sim \mathcal N(o_k, h\, \Sigma_k), \qquad y = x^\top \beta_{kj} + \mathcal N(0, s_k^2)

    Parameters
    ----------
    name : str
        What the data set is called in result files.
    contexts : array of shape (n_rows, n_features)
        The pool. A run meets every row at most once, in an order that the seed decides.
    centres : array of shape (n_arms, n_features)
        :math:`o_k`.
    covariance : array of shape (n_arms, n_features, n_features), or (n_arms, n_features) for diagonals
        :math:`\Sigma_k`.
    noise_sd : array of shape (n_arms,), or one number
        :math:`s_k`.
    n_tasks : int
    heterogeneity : float
        :math:`h`; 0 makes all tasks identical.
    checksum : str, optional
        SHA-256 of the file the numbers came from, for result files.
    details : dict, optional
        Plain values that say how the population came about, for result files.

    Notes
    -----
    Tasks arrive equally often. The declared prior has one shared precision for all arms,
    :math:`1 / \operatorname{mean}(o^2)`.

    Examples
    --------
    >>> pool = np.random.default_rng(0).normal(size=(50, 2))
    >>> world = PopulationWorld(
    ...     name="toy", contexts=pool, centres=[[1.0, 2.0]], covariance=[[0.1, 0.4]], noise_sd=0.5, n_tasks=3
    ... )
    >>> draw = world.draw(seed=0, horizon=4)
    >>> draw.coefficients.shape, draw.prior.covariance.tolist()
    ((1, 3, 2), [[[0.1, 0.0], [0.0, 0.4]]])
    """

    kind: ClassVar[str] = "population"
    made_of: ClassVar[tuple[str, ...]] = ("contexts", "centres", "covariance", "noise_sd")
    centres: Array
    covariance: Array
    noise_sd: Array
    n_tasks: int = 10
    heterogeneity: float = 1.0

    def __post_init__(self) -> None:
        whole_number(self.n_tasks, "n_tasks", at_least=1)
        number(self.heterogeneity, "heterogeneity", at_least=0)
        contexts, centres = checked_table(self.contexts, "contexts"), checked_table(self.centres, "centres")
        n_arms, d = centres.shape
        if contexts.shape[1] != d:
            raise ShapeError(f"contexts have {contexts.shape[1]} features, but the centres have {d}")
        covariance = real_array(self.covariance, "covariance")
        if covariance.shape not in ((n_arms, d), (n_arms, d, d)):
            raise ShapeError(
                f"expected covariance to have shape {(n_arms, d, d)}, or {(n_arms, d)} for diagonals, got shape "
                f"{covariance.shape}"
            )
        if covariance.ndim == 3:
            covariance = checked_covariance(covariance, "covariance")
        elif (covariance < 0).any():
            raise InvalidValue(f"expected covariance to have variances of at least 0, got {covariance.min():g}")
        noise_sd = checked_noise_sd(self.noise_sd, n_arms)
        self._set(contexts=contexts, centres=centres, covariance=covariance, noise_sd=noise_sd)

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.centres.shape[0])

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        return draw_from_population(
            self.contexts[self.rows_to_meet(seed, horizon)],
            centres=self.centres,
            covariance=self.heterogeneity * self.covariance,
            noise_variance=self.noise_sd**2,
            n_tasks=self.n_tasks,
            seed=seed,
        )

    def _choices(self) -> Settings:
        return {"heterogeneity": self.heterogeneity}


def draw_from_population(
    met: Array, *, centres: Array, covariance: Array, noise_variance: Array, n_tasks: int, seed: int
) -> Draw:
    """Draw tasks around ``centres`` (K, d) with ``covariance`` (K, d, d), or (K, d) for diagonals, for given contexts.

    Sums are elementwise, never through BLAS: a seed gives the same bits on every machine.
    """
    (n_arms, d), horizon = centres.shape, len(met)
    standard = stream(seed, TRUTH).standard_normal((n_arms, n_tasks, d))
    diagonal = covariance.ndim == 2
    deviations = np.sqrt(covariance)[:, None, :] * standard if diagonal else correlated(standard, covariance)
    coefficients = centres[:, None, :] + deviations
    probabilities = np.full(n_tasks, 1.0 / n_tasks)
    tasks = arriving_tasks(probabilities, seed, horizon)
    expected = expected_rewards(met, coefficients[:, tasks])
    noise = stream(seed, NOISE).standard_normal(horizon)[:, None]
    prior = Prior(
        covariance=covariance[:, :, None] * np.eye(d) if diagonal else covariance,
        noise_variance=np.maximum(noise_variance, 1e-12),
        shared_precision=1.0 / max(float(np.mean(centres**2)), 1e-12),
    )
    return Draw(
        tasks=tasks,
        contexts=met,
        expected=expected,
        rewards=expected + noise * np.sqrt(noise_variance),
        coefficients=coefficients,
        prior=prior,
        arrival_probabilities=probabilities,
    )
