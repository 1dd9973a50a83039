"""Logistic and log-linear regressions per group, all groups drawn from one population that is learned with them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from posse.checks import one_of
from posse.errors import InvalidValue, PosseWarning, ShapeError
from posse.families import LinkedFamily, linked_family_of
from posse.regression.base import Classifier, Estimator, NotFitted
from posse.regression.inputs import (
    feature_matrix,
    feature_names,
    fixed_features,
    group_labels,
    label_array,
    target_vector,
)
from posse.regression.laplace import fit_laplace
from posse.regression.variational import SiteFit, fit_sites
from posse.types import Array, BoolArray

METHODS = ("evidence", "laplace")


class _Generalised:
    """What both have in common: the fit, the attributes and the belief about linear predictors."""

    method: str
    fit_intercept: bool
    fixed: Sequence[str | int] | None

    coef_: Array
    intercept_: float
    coef_std_: Array
    intercept_std_: float
    groups_: np.ndarray[Any, Any]
    group_coef_: Array
    group_intercept_: Array
    covariance_: Array
    log_likelihood_: float
    n_iter_: int
    converged_: bool
    fixed_: BoolArray
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]

    _family: ClassVar[LinkedFamily]
    _position: dict[Hashable, int]
    _centre: Array  # (d,) what was taken from the features
    _scale: Array  # (d,) and what they were divided by
    _mean: Array  # (n_groups + 1, p) coefficients of standardised rows, the last those of a new group
    _uncertainty: Array  # (n_groups + 1, p, p)

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
        if not hasattr(self, "_position"):
            raise NotFitted(f"this {type(self).__name__} has seen no data; call fit(X, y, groups) first")
        raw, names = feature_matrix(X), feature_names(X)
        if raw.shape[1] != self.n_features_in_:
            raise ShapeError(
                f"X has {raw.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input, those of fit"
            )
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and list(known) != names:
            raise InvalidValue(f"expected the columns {', '.join(known)} of fit, got {', '.join(names)}")
        labels = group_labels(groups, len(raw))
        new = len(self._position)
        which = np.fromiter((self._position.get(label, new) for label in labels), np.int64, len(labels))
        rows = self._rows(raw)
        mean = np.einsum("ni,ni->n", rows, self._mean[which])
        variance = np.einsum("ni,nij,nj->n", rows, self._uncertainty[which], rows)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _rows(self, raw: Array) -> Array:
        rows = (raw - self._centre) / self._scale
        return np.column_stack([np.ones(len(raw)), rows]) if self.fit_intercept else rows

    def _learn(self, X: Any, y: Array, groups: Any) -> None:
        """Check everything, then learn: a call that fails leaves the model as it was."""
        one_of(self.method, "method", METHODS)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidValue(f"expected fit_intercept to be True or False, got {self.fit_intercept!r}")
        raw, names = feature_matrix(X), feature_names(X)
        if y.size != len(raw):
            raise ShapeError(f"expected y to have one entry per row of X, {len(raw)}, got {y.size}")
        labels = group_labels(groups, len(raw))
        fixed = fixed_features(self.fixed, raw.shape[1], names)
        if fixed.all() and not self.fit_intercept:
            raise InvalidValue(
                "fixed names every coefficient, so that groups would not differ; leave one out or pass "
                "fit_intercept=True"
            )
        position: dict[Hashable, int] = {}
        group = np.fromiter((position.setdefault(label, len(position)) for label in labels), np.int64, len(labels))
        before = dict(vars(self))
        try:
            self.n_features_in_, self.fixed_ = raw.shape[1], fixed
            vars(self).pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            self._centre = raw.mean(axis=0) if self.fit_intercept else np.zeros(raw.shape[1])
            scale = np.sqrt(((raw - self._centre) ** 2).mean(axis=0))
            self._scale = np.where(scale > 1e-12 * (1.0 + abs(self._centre)), scale, 1.0)
            self._position, self.groups_ = position, label_array(list(position))
            self._estimate(self._rows(raw), y, group)
            if not self.converged_:
                words = f"the estimate did not converge in {self.n_iter_} iterations"
                warnings.warn(words, PosseWarning, stacklevel=3)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _estimate(self, rows: Array, y: Array, group: Any) -> None:
        random = ~np.concatenate([np.zeros(int(self.fit_intercept), dtype=np.bool_), self.fixed_])
        if self.method == "laplace":
            found = fit_laplace(rows, y, group, random, self._family)
            self._condition(fit_sites(rows, y, group, random, self._family, found.covariance))
            self._publish(found.shared_mean, found.shared_covariance, found.covariance)
            self.n_iter_, self.converged_ = found.iterations, found.converged
            self.log_likelihood_ = found.log_likelihood
            return
        fit = fit_sites(rows, y, group, random, self._family)
        self._condition(fit)
        self._publish(fit.belief.shared_mean[0], fit.belief.shared_covariance[0], fit.prior.covariance[0])
        self.n_iter_, self.converged_, self.log_likelihood_ = fit.iterations, fit.converged, float("nan")

    def _condition(self, fit: SiteFit) -> None:
        """Compute the coefficients of every group and of a new one, and how sure they are."""
        belief = fit.belief
        d = belief.local_mean.shape[1]
        shared, unsure = belief.shared_mean[0], belief.shared_covariance[0]
        leaning = np.eye(d) - belief.local_covariance @ belief.sums.gram
        own = belief.local_mean + leaning @ shared
        covariance = belief.local_covariance + leaning @ unsure @ np.swapaxes(leaning, -1, -2)
        self._mean = np.concatenate([own, shared[None]])
        self._uncertainty = np.concatenate([covariance, (fit.prior.covariance[0] + unsure)[None]])

    def _publish(self, shared: Array, unsure: Array, covariance: Array) -> None:
        """Translate to the units and the origin of the rows as they came."""
        intercept = int(self.fit_intercept)
        to_raw = np.diag(np.concatenate([np.ones(intercept), 1.0 / self._scale]))
        if intercept:
            to_raw[0, 1:] = -self._centre / self._scale
        self.covariance_ = to_raw @ covariance @ to_raw.T
        coefficients, errors = to_raw @ shared, np.sqrt(np.diagonal(to_raw @ unsure @ to_raw.T))
        groups = self._mean[:-1] @ to_raw.T
        self.coef_, self.coef_std_ = coefficients[intercept:].copy(), errors[intercept:].copy()
        self.intercept_ = float(coefficients[0]) if intercept else 0.0
        self.intercept_std_ = float(errors[0]) if intercept else 0.0
        self.group_coef_ = groups[:, intercept:].copy()
        self.group_intercept_ = groups[:, 0].copy() if intercept else np.zeros(len(groups))


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
