"""Worlds made from data: real contexts, tasks drawn around what a regression says about each arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number, whole_number
from posse.environments.base import Draw
from posse.errors import InvalidValue, ShapeError
from posse.model.dense import invert
from posse.types import Array, BoolArray, Settings
from posse_lab.worlds.features import Scaling, indicators
from posse_lab.worlds.population import draw_from_population
from posse_lab.worlds.rows import not_among, require_every_class, size_of_share
from posse_lab.worlds.tables import checked_table, fingerprint, rows_to_meet

if TYPE_CHECKING:
    from posse_lab.datasets import Letter, Sarcos

LARGEST_INFLATION = 1e10


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionWorld:
    r"""Tasks around the regression of every arm's target on the features of a data set.

    .. math:: \beta_{kj} \sim \mathcal N(o_k, h\, \operatorname{diag} V_k), \qquad
        y = x^\top \beta_{kj} + \mathcal N(0, s_k^2)

    with :math:`o_k`, :math:`V_k` and :math:`s_k` the coefficients, their sampling covariance and the residual standard
    deviation of arm k's ordinary least squares, after features and targets were standardised. One of the
    :class:`~posse_lab.worlds.PopulationWorld` kind, with a regression for a population.

    Parameters
    ----------
    name : str
        What the data set is called in result files.
    features : array of shape (n_rows, n_features)
    targets : array of shape (n_rows, n_arms)
    n_tasks : int
    heterogeneity : float
        :math:`h`; 1 is the paper's protocol as far as it is stated, 0 makes all tasks identical.
    scale_targets : bool
        Divide targets by their standard deviation; they are centred in any case.
    checksum : str, optional
        SHA-256 of the file the rows came from, for result files.
    contexts : array of shape (n_met_rows, n_features), optional
        Rows to meet, in the units of ``features``, by whose means and standard deviations they are standardised.
        Default: the rows that the regression was fitted to.
    details : dict, optional
        Plain values that say which rows these are, for result files.

    Notes
    -----
    Rewards are simulated, so the linear model is right by construction; only the contexts are real. A run meets every
    row at most once, in an order that the seed decides: a horizon beyond the number of rows is an error.

    The declared prior has one shared precision for all arms, :math:`1 / \operatorname{mean}(o^2)`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> world = RegressionWorld(name="toy", features=rows, targets=rows @ [[1.0], [2.0]], n_tasks=3)
    >>> world.draw(seed=0, horizon=4).coefficients.shape
    (1, 3, 2)
    """

    name: str
    features: Array
    targets: Array
    n_tasks: int = 30
    heterogeneity: float = 1.0
    scale_targets: bool = True
    checksum: str | None = None
    contexts: Array | None = None
    details: Settings = field(default_factory=dict)
    _contexts: Array = field(init=False, repr=False)
    _fit: Regression = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole_number(self.n_tasks, "n_tasks", at_least=1)
        number(self.heterogeneity, "heterogeneity", at_least=0)
        features, targets = checked_table(self.features, "features"), checked_table(self.targets, "targets")
        if len(features) != len(targets):
            raise ShapeError(f"expected targets to have {len(features)} rows as features has, got {len(targets)}")
        scaling = Scaling.of(features, "feature")
        rows = scaling.apply(features)
        responses = standardised(targets, "target") if self.scale_targets else targets - targets.mean(axis=0)
        contexts = None if self.contexts is None else checked_table(self.contexts, "contexts")
        if contexts is not None and contexts.shape[1] != features.shape[1]:
            raise ShapeError(
                f"expected contexts to have {features.shape[1]} columns as features has, got {contexts.shape[1]}"
            )
        met = rows if contexts is None else scaling.apply(contexts)
        checked = {"features": features, "targets": targets, "contexts": contexts, "_contexts": met}
        for name, value in {**checked, "_fit": regress(rows, responses)}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_sarcos(
        cls, data: Sarcos, *, n_tasks: int = 30, heterogeneity: float = 1.0, contexts: Sarcos | None = None
    ) -> RegressionWorld:
        """Return the world whose arms are the seven torques, standardised.

        Parameters
        ----------
        data : Sarcos
            What the regression is fitted to: the test file, in the paper.
        n_tasks : int
        heterogeneity : float
        contexts : Sarcos, optional
            What is met: the training file, in the paper. Movements that ``data`` has too are left out. Default:
            ``data``.
        """
        met, details = (None, {}) if contexts is None else other_rows(data, contexts)
        return cls(
            name=f"sarcos {data.part}",
            features=data.X,
            targets=data.y,
            n_tasks=n_tasks,
            heterogeneity=heterogeneity,
            checksum=data.sha256,
            contexts=None if met is None else contexts.X[met],  # type: ignore[union-attr]  # both or neither
            details=details,
        )

    @classmethod
    def from_letter(
        cls, data: Letter, *, n_tasks: int = 30, heterogeneity: float = 1.0, training_share: float | None = None
    ) -> RegressionWorld:
        """Return the world whose arms are the 26 letters; the target of each is "this letter or not", centred.

        Parameters
        ----------
        data : Letter
        n_tasks : int
        heterogeneity : float
        training_share : float, optional
            The regression is fitted to this share of the rows, the first ones, and the others are met; 0.3 in the
            paper. Default: all rows are fitted to and met.
        """
        fit, met, details = slice(None), None, {}
        if training_share is not None:
            size = size_of_share(len(data.X), training_share, "training_share")
            fit, met = slice(size), data.X[size:]
            require_every_class(data.labels[fit], data.classes, f"the first {size} rows")
            details = {"fit_rows": f"the first {size}", "met_rows": "the others", "training_share": training_share}
        return cls(
            name="letter",
            features=data.X[fit],
            targets=indicators(data.labels[fit], len(data.classes)),
            n_tasks=n_tasks,
            heterogeneity=heterogeneity,
            scale_targets=False,
            checksum=data.sha256,
            contexts=met,
            details=details,
        )

    @property
    def n_arms(self) -> int:
        """Number of targets, which are the arms."""
        return int(self.targets.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.features.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows to meet, the longest horizon."""
        return int(self._contexts.shape[0])

    @property
    def regression(self) -> Regression:
        """What tasks are drawn around."""
        return self._fit

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        return draw_from_population(
            self._contexts[rows_to_meet(self.name, self.n_rows, seed, horizon)],
            centres=self._fit.coefficients,
            covariance=self.heterogeneity * self._fit.variances,
            noise_variance=self._fit.noise_variance,
            n_tasks=self.n_tasks,
            seed=seed,
        )

    def settings(self) -> Settings:
        """Return every setting as a plain value; the data by name, size and checksum."""
        plain: Settings = {
            "world": "regression",
            "data": self.name,
            "sha256": self.checksum or fingerprint(self.features, self.targets, self.contexts),
            "n_rows": self.n_rows,
            "n_tasks": self.n_tasks,
            "n_arms": self.n_arms,
            "n_features": self.n_features,
            "heterogeneity": self.heterogeneity,
            "scale_targets": self.scale_targets,
        }
        if self.contexts is not None:
            plain["n_fit_rows"] = int(self.features.shape[0])
        return plain | self.details


def other_rows(data: Sarcos, contexts: Sarcos) -> tuple[BoolArray, Settings]:
    """Return which rows of a file another one does not have, and what result files say about them."""
    new = not_among(contexts.X, data.X)
    if not new.any():
        raise InvalidValue(
            f"every row of sarcos {contexts.part} is in sarcos {data.part} too, so none is left to meet; pass another "
            "file as contexts"
        )
    met = f"sarcos {contexts.part} without the rows of sarcos {data.part}"
    return new, {"fit_rows": f"sarcos {data.part}", "met_rows": met, "met_sha256": contexts.sha256}


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Ordinary least squares of every target.

    Parameters
    ----------
    coefficients : ndarray of shape (n_arms, n_features)
    variances : ndarray of shape (n_arms, n_features)
        Sampling variance of each coefficient.
    noise_variance : ndarray of shape (n_arms,)
        Residual variance.
    """

    coefficients: Array
    variances: Array
    noise_variance: Array


def regress(X: Array, Y: Array) -> Regression:
    """Regress the columns of centred ``Y`` (n, K) on centred ``X`` (n, d).

    Sums run over rows in their order, never through BLAS: a file gives the same bits on every machine.
    """
    n, d = X.shape
    freedom = n - d - 1  # the means took one
    if freedom < 1:
        raise InvalidValue(f"expected at least {d + 2} rows for a regression on {d} features, got {n}")
    gram, moment = np.empty((d, d)), np.empty((d, Y.shape[1]))
    for i in range(d):
        gram[i] = (X[:, i, None] * X).sum(axis=0)
        moment[i] = (X[:, i, None] * Y).sum(axis=0)
    inverse = np.empty((d, d))
    regular = invert(gram, np.empty((d, d)), np.empty((d, d)), inverse)
    # The variance inflation of a feature is 1 / (1 - R^2) of its regression on the others.
    if not regular or not (np.diag(inverse) * np.diag(gram) < LARGEST_INFLATION).all():
        raise InvalidValue(
            "the features are collinear, so no regression is defined; leave out those that repeat others"
        )
    coefficients = np.zeros((Y.shape[1], d))
    residuals = Y.copy()
    for i in range(d):
        coefficients += moment[i][:, None] * inverse[i]
    for i in range(d):
        residuals -= X[:, i, None] * coefficients[:, i]
    noise_variance = (residuals**2).sum(axis=0) / freedom
    return Regression(coefficients, noise_variance[:, None] * np.diag(inverse), noise_variance)


def standardised(columns: Array, name: str) -> Array:
    """Return columns with mean 0 and standard deviation 1."""
    return Scaling.of(columns, name).apply(columns)
