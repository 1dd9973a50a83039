"""Logistic and log-linear regressions per group, all groups drawn from one population that is learned with them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from posse.errors import InvalidValue, PosseWarning, ShapeError
from posse.families import LinkedFamily, linked_family_of
from posse.regression.base import Classifier, Estimator, Grouped
from posse.regression.inputs import feature_matrix, feature_names, group_labels, target_vector
from posse.regression.laplace import fit_laplace
from posse.regression.sums import Scaling
from posse.regression.variational import fit_sites
from posse.types import Array


class _Generalised(Grouped):
    """A regression of clicks or counts: the fit, and expectations under the belief about linear predictors."""

    log_likelihood_: float
    n_iter_: int
    converged_: bool

    _methods = ("evidence", "laplace")
    _family: ClassVar[LinkedFamily]

    def __init__(
        self,
        *,
        method: Literal["evidence", "laplace"] = "evidence",
        fit_intercept: bool = True,
        fixed: Sequence[str | int] | None = None,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.fixed = fixed

    def predict_interval(self, X: Any, groups: Any = None, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of the central interval of the probability or rate of every row.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        groups : one label per row, default None
            As in ``predict``.
        level : float, default 0.9
            Its probability.

        Returns
        -------
        tuple of two ndarrays of shape (n_rows,)
            Inside the range of a probability or rate: quantiles of the predictor through the link.

        Raises
        ------
        NotFitted
            If ``fit`` was not called.
        ShapeError, InvalidValue
            If features differ from those of ``fit``.
        """
        return self._family.interval(*self._predictor(X, groups), level)

    def _expected(self, X: Any, groups: Any) -> Array:
        return self._family.expected(*self._predictor(X, groups))

    def _predictor(self, X: Any, groups: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of the linear predictor of every row."""
        rows, which = self._standardised(X, groups)
        return self._means(rows, which), np.sqrt(self._variances(rows, which))

    def _learn(self, X: Any, y: Array, groups: Any) -> None:
        """Check everything, then learn: a call that fails leaves the model as it was."""
        self._check_settings()
        raw, names = feature_matrix(X), feature_names(X)
        if y.size != len(raw):
            raise ShapeError(f"expected y to have one entry per row of X, {len(raw)}, got {y.size}")
        labels = group_labels(groups, len(raw))
        fixed = self._fixed_features(raw.shape[1], names)
        position: dict[Hashable, int] = {}
        group = self._numbered(labels, position)
        with self._undone_on_failure():
            self._set_features(raw.shape[1], names)
            self.fixed_, self._position = fixed, position
            centre = raw.mean(axis=0) if self.fit_intercept else np.zeros(raw.shape[1])
            scale = np.sqrt(((raw - centre) ** 2).mean(axis=0))
            scale = np.where(scale > 1e-12 * (1.0 + abs(centre)), scale, 1.0)
            self._data = Scaling(centre=centre, scale=scale, intercept=bool(self.fit_intercept))
            self._estimate(self._data.rows(raw), y, group)
            if not self.converged_:
                words = f"the estimate did not converge in {self.n_iter_} iterations"
                warnings.warn(words, PosseWarning, stacklevel=3)

    def _estimate(self, rows: Array, y: Array, group: Any) -> None:
        random = self._random()
        found = fit_laplace(rows, y, group, random, self._family) if self.method == "laplace" else None
        fit = fit_sites(rows, y, group, random, self._family, None if found is None else found.covariance)
        covariance = fit.prior.covariance[0]
        self._condition(fit.posterior, covariance)
        if found is None:
            self._publish(fit.posterior.shared_mean[0], fit.posterior.shared_covariance[0], covariance)
        else:
            self._publish(found.shared_mean, found.shared_covariance, found.covariance)
        self.log_likelihood_ = float("nan") if found is None else found.log_likelihood
        self.n_iter_, self.converged_ = (found or fit).iterations, (found or fit).converged


class HierarchicalClassifier(_Generalised, Classifier):
    r"""Logistic regression with coefficients of its own for every group, drawn from a population.

    .. math:: P(y = 1) = 1 / (1 + e^{-x^\top\beta_j}), \qquad \beta_j \sim \mathcal N(\beta_0, \Sigma)

    Parameters
    ----------
    method : {"evidence", "laplace"}, default "evidence"
        * ``"evidence"``: variational marginal likelihood, regularised, so that all is finite however little was seen
          and where classes are separable. For predicting.
        * ``"laplace"``: maximum likelihood by Laplace's approximation, nothing regularised: the numbers that lme4's
          ``glmer`` gives. Groups are conditioned on it as with "evidence".
    fit_intercept : bool, default True
        Whether there is an intercept; it differs between groups.
    fixed : list of feature names or positions, default None
        Features whose coefficient is the same in all groups: ``y ~ 1 + x + z + (1 + x | group)`` in lme4's words is
        ``fixed=["z"]``. None: every coefficient differs between groups.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; probabilities are those of the second.
    coef_, intercept_, coef_std_, intercept_std_
        Of the population, with standard errors.
    groups_, group_coef_, group_intercept_
        Of every group.
    covariance_ : ndarray
        How coefficients differ between groups, the intercept first; 0 for ``fixed`` features.
    log_likelihood_ : float
        With "laplace"; else NaN.
    n_iter_, converged_, fixed_, n_features_in_, feature_names_in_

    Examples
    --------
    Twelve shops with ten visitors each; half of the shops sell well.

    >>> shop = np.repeat(np.arange(12), 10)
    >>> sold = np.tile(np.arange(10), 12) < np.where(shop < 6, 2, 6)
    >>> model = HierarchicalClassifier().fit(np.zeros((120, 1)), sold, groups=shop)
    >>> model.predict_proba([[0.0], [0.0], [0.0]], groups=[0, 11, 99])[:, 1].round(2)
    array([0.32, 0.48, 0.4 ])
    """

    classes_: np.ndarray[Any, Any]
    _family = linked_family_of("binary")

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from these rows alone; what was learned before is dropped.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array or column of shape (n_rows,)
            Two classes: 0 and 1, False and True, or any two labels.
        groups : one label per row, default None
            Any hashable labels. None: all rows are one group.

        Returns
        -------
        HierarchicalClassifier
            This estimator.

        Raises
        ------
        InvalidValue
            If y has more than two classes, or one that is neither 0 nor 1; if a setting is out of its range.
        ShapeError
            If there are not as many rows in X, y and ``groups``.
        NotFinite
            If X has NaN or infinity.

        Warns
        -----
        PosseWarning
            If the estimate did not converge.
        """
        if y is None:
            raise InvalidValue("HierarchicalClassifier requires y to be passed, but the target y is None")
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise ShapeError(f"expected y to have one axis, got shape {labels.shape}")
        classes, code = np.unique(labels, return_inverse=True)
        if classes.size > 2:
            raise InvalidValue(f"expected two classes in y, got {classes.size}: {', '.join(map(str, classes[:5]))}")
        if classes.size < 2 and not set(classes.tolist()) <= {0, 1}:
            raise InvalidValue(f"expected two classes in y, got {classes.tolist()} only; code them as 0 and 1")
        if classes.size < 2:
            # Clicks that are all 0, or all 1, say a lot: the other class is known.
            classes, code = np.array([0, 1], dtype=classes.dtype), labels.astype(np.int64)
        self._learn(X, code.astype(np.float64), groups)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Return the probabilities of both classes; what is unsure is averaged over.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        groups : one label per row, default None
            Groups that were not seen in ``fit`` are predicted from the population.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            In the order of ``classes_``.

        Raises
        ------
        NotFitted
            If ``fit`` was not called.
        ShapeError, InvalidValue
            If features differ from those of ``fit``.
        """
        second = self._expected(X, groups)
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any, groups: Any = None) -> np.ndarray[Any, Any]:
        """Return the more probable class of every row.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        groups : one label per row, default None

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of ``classes_``.

        Raises
        ------
        NotFitted, ShapeError, InvalidValue
            As in :meth:`predict_proba`.
        """
        second = self._expected(X, groups) > 0.5
        return np.asarray(self.classes_[second.astype(np.int64)])

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the share of rows whose class is predicted right.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array or column of shape (n_rows,)
        groups : one label per row, default None

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        NotFitted, ShapeError, InvalidValue
            As in :meth:`predict_proba`.
        """
        return float(np.mean(self.predict(X, groups) == np.asarray(y).reshape(-1)))


class HierarchicalCountRegressor(_Generalised, Estimator):
    r"""Poisson regression with coefficients of its own for every group, drawn from a population.

    .. math:: y \sim \text{Poisson}(e^{x^\top\beta_j}), \qquad \beta_j \sim \mathcal N(\beta_0, \Sigma)

    Parameters
    ----------
    method : {"evidence", "laplace"}, default "evidence"
    fit_intercept : bool, default True
    fixed : list of feature names or positions, default None
        As in :class:`HierarchicalClassifier`.

    Attributes
    ----------
    coef_, intercept_, coef_std_, intercept_std_, groups_, group_coef_, group_intercept_, covariance_, log_likelihood_,
    n_iter_, converged_, fixed_, n_features_in_, feature_names_in_
        As in :class:`HierarchicalClassifier`, on the scale of the logarithm.

    Examples
    --------
    >>> shop = np.repeat(np.arange(8), 5)
    >>> items = np.where(shop < 4, 2, 9)
    >>> model = HierarchicalCountRegressor().fit(np.zeros((40, 1)), items, groups=shop)
    >>> model.predict([[0.0], [0.0]], groups=[0, 7]).round(1)
    array([2.3, 8.7])
    """

    _family = linked_family_of("count")

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from these rows alone; what was learned before is dropped.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array or column of shape (n_rows,)
            Counts: 0, 1, 2, ...
        groups : one label per row, default None
            Any hashable labels. None: all rows are one group.

        Returns
        -------
        HierarchicalCountRegressor
            This estimator.

        Raises
        ------
        InvalidValue
            If y has entries that are no counts, or a setting is out of its range.
        ShapeError
            If there are not as many rows in X, y and ``groups``.
        NotFinite
            If X or y has NaN or infinity.

        Warns
        -----
        PosseWarning
            If the estimate did not converge.
        """
        target = target_vector(y, len(feature_matrix(X)))
        self._learn(X, self._family.check_many(target), groups)
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Return the expected count of every row; what is unsure is averaged over.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        groups : one label per row, default None
            Groups that were not seen in ``fit`` are predicted from the population.

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        NotFitted
            If ``fit`` was not called.
        ShapeError, InvalidValue
            If features differ from those of ``fit``.
        """
        return self._expected(X, groups)
