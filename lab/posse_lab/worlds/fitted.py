"""Worlds whose tasks are groups of real rows and whose rewards come from models fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posse.checks import real_array, whole_number
from posse.environments.base import NOISE, Draw, stream
from posse.environments.drawing import expected_rewards
from posse.errors import ShapeError
from posse.model.prior import Prior
from posse.types import Array, IntArray, Settings
from posse_lab.worlds.rows import rows_to_meet
from posse_lab.worlds.tables import checked_noise_sd, checked_table, checked_tasks, fingerprint


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedWorld:
    r"""Real rows in real groups; rewards :math:`y = x^\top \beta_{kj} + \mathcal N(0, s_k^2)` from fixed coefficients.

    The seed decides the order of the rows and the noise. A row brings its own task along, so tasks arrive as often as
    they have rows.

    Parameters
    ----------
    name : str
        What the data set is called in result files.
    contexts : array of shape (n_rows, n_features)
        The rows to meet; a run meets each at most once.
    tasks : array of shape (n_rows,)
        The task of every row, from 0; every task has one at least.
    coefficients : array of shape (n_arms, n_tasks, n_features)
        :math:`\beta_{kj}`.
    noise_sd : array of shape (n_arms,), or one number
        :math:`s_k`.
    prior : Prior, optional
        What is declared as the population of the coefficients.
    checksum : str, optional
        SHA-256 of the file the rows came from, for result files.
    details : dict, optional
        Plain values that say how rows and coefficients came about, for result files.

    Notes
    -----
    The linear model is right by construction.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(6, 1))
    >>> world = FittedWorld(
    ...     name="toy", contexts=rows, tasks=[0, 0, 0, 0, 1, 1], coefficients=[[[1.0], [2.0]]], noise_sd=0.1
    ... )
    >>> np.bincount(world.draw(seed=0, horizon=6).tasks)
    array([4, 2])
    """

    name: str
    contexts: Array
    tasks: IntArray
    coefficients: Array
    noise_sd: Array
    prior: Prior | None = None
    checksum: str | None = None
    details: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        contexts, coefficients = checked_table(self.contexts, "contexts"), real_array(self.coefficients, "coefficients")
        if coefficients.ndim != 3 or coefficients.size == 0:
            raise ShapeError(
                f"expected coefficients to have axes (arm, task, feature), none empty, got shape {coefficients.shape}"
            )
        n_arms, n_tasks, d = coefficients.shape
        if contexts.shape[1] != d:
            raise ShapeError(f"contexts have {contexts.shape[1]} features, but the coefficients have {d}")
        if self.prior is not None:
            self.prior.require_shape(n_arms=n_arms, n_features=d)
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "tasks", checked_tasks(self.tasks, len(contexts), n_tasks))
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "noise_sd", checked_noise_sd(self.noise_sd, n_arms))

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.coefficients.shape[1])

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.coefficients.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.coefficients.shape[2])

    @property
    def n_rows(self) -> int:
        """Rows to meet, the longest horizon."""
        return int(self.contexts.shape[0])

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        seed = whole_number(seed, "seed", at_least=0)
        horizon = whole_number(horizon, "horizon", at_least=1)
        rows = rows_to_meet(self.name, self.n_rows, seed, horizon)
        contexts, tasks = self.contexts[rows], self.tasks[rows]
        expected = expected_rewards(contexts, self.coefficients[:, tasks])
        noise = stream(seed, NOISE).standard_normal(horizon)[:, None]
        return Draw(
            tasks=tasks,
            contexts=contexts,
            expected=expected,
            rewards=expected + noise * self.noise_sd,
            coefficients=self.coefficients,
            prior=self.prior,
            arrival_probabilities=np.bincount(self.tasks) / self.n_rows,
        )

    def settings(self) -> Settings:
        """Return every setting as a plain value; the data by name, size and checksum."""
        return {
            "world": "fitted",
            "data": self.name,
            "sha256": self.checksum or fingerprint(self.contexts, self.tasks, self.coefficients, self.noise_sd),
            "n_rows": self.n_rows,
            "n_tasks": self.n_tasks,
            "n_arms": self.n_arms,
            "n_features": self.n_features,
            **self.details,
        }
