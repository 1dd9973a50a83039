"""A linear regression per group, all groups drawn from one population that is learned with them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np

from posse.errors import InvalidValue, PosseWarning
from posse.model import Prior, PriorEstimate, PriorReport, estimate_prior, posterior
from posse.model.evidence import STUDENT_FREEDOM
from posse.model.reml import estimate_reml
from posse.regression.base import Estimator, Grouped
from posse.regression.fixed import estimate_with_fixed
from posse.regression.inputs import feature_matrix, feature_names, group_labels, target_vector
from posse.regression.notes import ONE_GROUP, notes_without_warning, unlearned
from posse.regression.sums import GroupSums, Standardised
from posse.types import Array


class HierarchicalRegressor(Grouped, Estimator):
    r"""Linear regression with coefficients of its own for every group, drawn from a population.

    .. math::
        y = x^\top \beta_j + \mathcal N(0, \sigma^2), \qquad \beta_j \sim \mathcal N(\beta_0, \Sigma)

    Shared mean :math:`\beta_0`, covariance :math:`\Sigma` and noise :math:`\sigma^2` are learned from all groups; so a
    group with few rows borrows from the others exactly as much as the data say it should, and a group that was never
    seen is predicted from the population. The intercept is a coefficient like any other and differs between groups too.

    All is computed from sums over the rows of each group, so fitting takes no longer for more rows once they are summed
    up. scikit-learn is not needed; where it is installed this is one of its estimators (``clone``, ``Pipeline``,
    ``cross_val_score``).

    Parameters
    ----------
    method : {"evidence", "reml"}, default "evidence"
        * ``"evidence"``: marginal likelihood, regularised, so that the covariance is positive definite however little
          was seen. For predicting.
        * ``"reml"``: restricted maximum likelihood, nothing regularised: the numbers that lme4 and statsmodels give. A
          covariance at the boundary comes back singular.
    fit_intercept : bool, default True
        Whether there is an intercept. With one, shifting y or a feature moves intercepts and changes nothing else.
    robust : bool, default False
        With "evidence": the population is Student's with 8 degrees of freedom, so that outlier groups neither drag the
        others nor are dragged by them.
    fixed : list of feature names or positions, default None
        Features whose coefficient is the same in all groups (no random slope): ``y ~ 1 + x + z + (1 + x | group)`` in
        lme4's words is ``fixed=["z"]``. For features that do not vary within groups, and where groups have fewer rows
        than there are features. None: every coefficient differs between groups. The intercept, if there is one,
        always does.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Of the population: its shared mean. Of a model fitted without groups, those of its one group.
    intercept_ : float
        Likewise; 0 without an intercept.
    coef_std_ : ndarray of shape (n_features,)
    intercept_std_ : float
        Standard errors of these.
    groups_ : ndarray of shape (n_groups,)
        Labels, in the order of their first rows.
    group_coef_ : ndarray of shape (n_groups, n_features)
    group_intercept_ : ndarray of shape (n_groups,)
    covariance_ : ndarray of shape (1 + n_features, 1 + n_features)
        How the coefficients differ between groups, the intercept first; (n_features, n_features) without an intercept.
        Rows and columns of ``fixed`` features are 0. With ``robust`` the scale matrix of the Student population.
    noise_variance_ : float
    shrinkage_ : ndarray of shape (n_groups,)
        How much each group borrows: 1 if its coefficients come from the others alone, 0 if from its own rows alone.
        One minus the effective number of coefficients that its own rows determine, over all that are not ``fixed``.
    group_weight_ : ndarray of shape (n_groups,)
        With ``robust`` small for outlier groups, whose own covariance is ``covariance_`` over the weight; else 1.
    prior_ : Prior
        The population as it was estimated: for rows with a 1 for the intercept first, features of mean 0 and mean
        square 1, and y of mean 0. ``covariance_`` is the same in the units of X.
    report_ : PriorReport
        How the estimate came about, with one task per group; ``notes`` say what could not be learned and what looks
        unusual, eigenvalues are those of ``prior_``. ``log_evidence`` is the restricted log likelihood for "reml".
    fixed_ : ndarray of shape (n_features,)
        True for features whose coefficient is the same in all groups.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X was a data frame whose columns have names.

    Warns
    -----
    PosseWarning
        Once per ``fit``: if the estimate did not converge, if something could not be learned, if there is hardly any
        noise, or if noise cannot be told from coefficients (more than 85 % of what rows say goes into them): what
        ``report_`` says. What only looks unusual is in its notes.

    Examples
    --------
    Three groups on lines through 0 with slopes near 1, 2 and 3; the third has one row only.

    >>> X = [[0.0], [1.0], [2.0], [3.0], [0.0], [1.0], [2.0], [3.0], [3.0]]
    >>> y = [0.1, 0.9, 2.1, 2.9, 0.1, 1.9, 4.1, 5.9, 9.0]
    >>> groups = ["a", "a", "a", "a", "b", "b", "b", "b", "c"]
    >>> model = HierarchicalRegressor(method="reml", fit_intercept=False).fit(X, y, groups=groups)
    >>> model.group_coef_.round(2).ravel()
    array([0.99, 1.99, 3.  ])

    A group that was never seen is predicted from the population, and far less surely.

    >>> mean, std = model.predict([[4.0], [4.0]], groups=["a", "d"], return_std=True)
    >>> mean.round(2), std.round(2)
    (array([3.95, 7.96]), array([0.16, 4.65]))

    Groups that differ in level only: the slope is fixed.

    >>> y = [0.1, 0.9, 2.1, 2.9, 5.1, 5.9, 7.1, 7.9, 12.0]
    >>> model = HierarchicalRegressor(method="reml", fixed=[0]).fit(X, y, groups=groups)
    >>> model.group_coef_.round(2).ravel(), model.group_intercept_.round(2)
    (array([0.96, 0.96, 0.96]), array([0.06, 5.06, 9.12]))
    """

    noise_variance_: float
    shrinkage_: Array
    group_weight_: Array
    prior_: Prior
    report_: PriorReport

    method: Literal["evidence", "reml"]
    _methods = ("evidence", "reml")
    _sums: GroupSums  # all that was learned
    _data: Standardised  # the same in standard form

    def __init__(
        self,
        *,
        method: Literal["evidence", "reml"] = "evidence",
        fit_intercept: bool = True,
        robust: bool = False,
        fixed: Sequence[str | int] | None = None,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.robust = robust
        self.fixed = fixed

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from these rows alone; what was learned before is dropped.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            Finite numbers, in any units.
        y : array or column of shape (n_rows,)
        groups : one label per row, default None
            Any hashable labels. None: all rows are one group.

        Returns
        -------
        HierarchicalRegressor
            This estimator.

        Raises
        ------
        InvalidValue
            If a setting is out of its range, ``fixed`` names a feature that X does not have, or an entry is not a
            number.
        ShapeError
            If X is not two-dimensional, or there are not as many rows in X, y and ``groups``.
        NotFinite
            If X or y has NaN or infinity.

        Warns
        -----
        PosseWarning
            If the estimate did not converge or something could not be learned; see the class.
        """
        return self._learn(X, y, groups, fresh=True)

    def partial_fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from these rows as well; the result is that of one ``fit`` on all rows so far.

        New groups may appear. The rows are added to the sums, and the population is estimated again. The same rows
        again count twice.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            With the features of the rows before.
        y : array or column of shape (n_rows,)
        groups : one label per row, default None
            Given in every call, or in none.

        Returns
        -------
        HierarchicalRegressor
            This estimator.

        Raises
        ------
        InvalidValue, ShapeError, NotFinite
            As in :meth:`fit`; also if features, ``fit_intercept`` or whether there are groups differ from the rows
            before. The model is then as it was.
        """
        return self._learn(X, y, groups, fresh=not hasattr(self, "_sums"))

    @overload
    def predict(self, X: Any, groups: Any = None, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Any, groups: Any = None, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: Any, groups: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def predict(self, X: Any, groups: Any = None, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict y.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        groups : one label per row, default None
            Groups that were not seen in ``fit`` are predicted from the population, and so are all rows without groups
            (unless the model was fitted without them).
        return_std : bool, default False
            Whether to return standard deviations too: of a new observation, noise included, as scikit-learn's
            ``BayesianRidge`` does. Take ``noise_variance_`` from their squares for those of the expected value.

        Returns
        -------
        ndarray of shape (n_rows,), or two of them
            Predictions, and standard deviations with ``return_std=True``, in the unit of y.

        Raises
        ------
        NotFitted
            If ``fit`` was not called.
        ShapeError, InvalidValue
            If features differ from those of ``fit``.
        """
        rows, which = self._standardised(X, groups)
        mean = self._means(rows, which) + self._data.target_centre
        return (mean, np.sqrt(self.noise_variance_ + self._variances(rows, which))) if return_std else mean

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array or column of shape (n_rows,)
        groups : one label per row, default None

        Returns
        -------
        float
            1 is perfect, 0 no better than a constant.

        Raises
        ------
        NotFitted, ShapeError, InvalidValue
            As in :meth:`predict`.
        """
        mean = self.predict(X, groups)
        truth = target_vector(y, mean.size)
        residual = float(((truth - mean) ** 2).sum())
        total = float(((truth - truth.mean()) ** 2).sum())
        if total == 0:
            return 1.0 if residual == 0 else 0.0
        return 1.0 - residual / total

    def _learn(self, X: Any, y: Any, groups: Any, *, fresh: bool) -> Self:
        """Check everything, then learn: a call that fails leaves the model as it was."""
        self._check_settings()
        if self.robust and self.method != "evidence":
            raise InvalidValue(f"robust=True needs method='evidence', but the method is {self.method!r}")
        rows, names = feature_matrix(X), feature_names(X)
        target = target_vector(y, len(rows))
        labels = group_labels(groups, len(rows))
        known = names if fresh else getattr(self, "feature_names_in_", None)
        fixed = self._fixed_features(rows.shape[1], None if known is None else list(known))
        if fresh:
            position: dict[Hashable, int] = {}
            sums = GroupSums.nothing(rows, target, intercept=bool(self.fit_intercept))
        else:
            self._require_same_features(rows, names)
            position, sums = dict(self._position), self._sums
            if sums.intercept != self.fit_intercept:
                raise InvalidValue(
                    f"earlier rows were learned with fit_intercept={sums.intercept}, which cannot be changed; "
                    "call fit with all rows"
                )
            if (None in position) != (groups is None):
                earlier = "had no groups" if groups is not None else "had groups"
                raise InvalidValue(
                    f"expected groups for all rows or for none, got rows after some that {earlier}; call fit"
                )
        group = self._numbered(labels, position)
        sums = sums.with_rows(rows, target, group, len(position))
        with self._undone_on_failure():
            if fresh:
                self._set_features(rows.shape[1], names)
            self._sums, self._position, self.fixed_ = sums, position, fixed
            self._estimate()
            self._warn(stacklevel=4)
        return self

    def _estimate(self) -> None:
        """Estimate the population from the sums, and condition every group on it."""
        self._data = self._sums.standardised()
        estimate = self._population()
        log_evidence = estimate.report.log_evidence
        if self.method == "reml":
            # log det X'V^-1 X was taken with standardised features.
            log_evidence -= float(np.log(self._data.scale).sum())
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        notes = unlearned(self._data, estimate, ~self._random(), [repr(name) for name in names])
        self.prior_ = estimate.prior
        self.report_ = replace(estimate.report, log_evidence=log_evidence, notes=notes)
        self.group_weight_ = estimate.task_weight.copy()
        self.noise_variance_ = float(estimate.prior.noise_variance[0])
        self._condition_groups()

    def _population(self) -> PriorEstimate:
        stats, fixed = self._data.stats, ~self._random()
        if not fixed.any():
            return estimate_prior(stats, method=self.method, robust=bool(self.robust))
        if self.method == "reml":
            return estimate_reml(stats, fixed)
        return estimate_with_fixed(stats, fixed, robust=bool(self.robust))

    def _warn(self, stacklevel: int) -> None:
        """Warn of an estimate that did not come to rest or lacks something, unless that was asked for."""
        known = notes_without_warning(self.report_)
        if None in self._position:
            known.append(ONE_GROUP)  # who passes no groups knows that there is one only
        found = [note for note in self.report_.notes if note not in known]
        if not self.report_.converged:
            found.insert(0, f"the estimate did not converge in {self.report_.iterations} iterations")
        if found:
            warnings.warn("; ".join(found), PosseWarning, stacklevel=stacklevel)

    def _condition_groups(self) -> None:
        """Compute the coefficients of every group and of a new one, how sure they are, and what is made public."""
        stats, covariance = self._data.stats, self.prior_.covariance[0]
        found = posterior(stats, self.prior_, self.group_weight_)
        # A new group's weight is not known: the variance of a Student population is wider than its scale.
        widening = STUDENT_FREEDOM / (STUDENT_FREEDOM - 2) if self.robust else 1.0
        self._condition(found, widening * covariance)
        random = self._random()
        own_rows = np.ix_(np.ones(stats.n_tasks, dtype=np.bool_), random, random)
        own = self._uncertainty[:-1][own_rows]
        determined = np.einsum("jab,jba->j", own, stats.gram[0][own_rows]) / self.noise_variance_
        self.shrinkage_ = np.clip(1.0 - determined / random.sum(), 0.0, 1.0)
        shared, unsure = found.shared_mean[0], found.shared_covariance[0]
        if None in self._position:  # fitted without groups: the public coefficients are those of the one group
            shared, unsure = self._coefficients[0], self._uncertainty[0]
        self._publish(shared, unsure, covariance, self._data.target_centre)
