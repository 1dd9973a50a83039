"""Parts that all estimators share: settings as in scikit-learn, checks, and attributes in the units of the rows."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from posse.checks import one_of
from posse.errors import InvalidValue, PosseError, ShapeError
from posse.regression.inputs import feature_matrix, feature_names, fixed_features, group_labels, label_array
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from posse.model import Posterior
    from posse.regression.sums import Scaling


class PlainEstimator:
    """Settings by name, as scikit-learn's ``BaseEstimator`` has them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - no setting is itself an estimator
        """Return the settings by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; they count from the next ``fit`` on."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InvalidValue(f"no setting {name!r}; the settings are {', '.join(map(repr, known))}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({settings})"


if TYPE_CHECKING:
    Estimator = PlainEstimator
    Classifier = PlainEstimator

    class NotFitted(PosseError, ValueError, AttributeError):
        """Something was asked of an estimator that has seen no data."""
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
        from sklearn.exceptions import NotFittedError

        class Estimator(RegressorMixin, BaseEstimator):
            """scikit-learn's own base."""

        class Classifier(ClassifierMixin, BaseEstimator):
            """scikit-learn's own base of classifiers."""

        class NotFitted(PosseError, NotFittedError):
            """Something was asked of an estimator that has seen no data."""

    except ImportError:
        Estimator = PlainEstimator
        Classifier = PlainEstimator

        class NotFitted(PosseError, ValueError, AttributeError):
            """Something was asked of an estimator that has seen no data."""


class Grouped:
    """An estimator whose groups have coefficients of their own, drawn from one population."""

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
    fixed_: BoolArray
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]

    _methods: ClassVar[tuple[str, ...]]
    _position: dict[Hashable, int]  # of every group
    _data: Scaling  # of the rows
    _coefficients: Array  # (n_groups + 1, p) of standardised rows; the last are those of a new group
    _uncertainty: Array  # (n_groups + 1, p, p) their covariances

    def _check_settings(self) -> None:
        one_of(self.method, "method", self._methods)
        for name in ("fit_intercept", "robust"):
            if not isinstance(getattr(self, name, False), bool | np.bool_):
                raise InvalidValue(f"expected {name} to be True or False, got {getattr(self, name)!r}")

    def _fixed_features(self, n_features: int, names: Sequence[str] | None) -> BoolArray:
        """Return which features are fixed; not all coefficients may be."""
        fixed = fixed_features(self.fixed, n_features, names)
        if fixed.all() and not self.fit_intercept:
            raise InvalidValue(
                "fixed names every coefficient, so that groups would not differ; leave one out or pass "
                "fit_intercept=True, or fit one regression to all rows without groups"
            )
        return fixed

    @staticmethod
    def _numbered(labels: Sequence[Hashable], position: dict[Hashable, int]) -> IntArray:
        """Return the number of every row's group; new groups get the next ones."""
        return np.fromiter((position.setdefault(label, len(position)) for label in labels), np.int64, len(labels))

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _set_features(self, n_features: int, names: list[str] | None) -> None:
        self.n_features_in_ = n_features
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _require_same_features(self, rows: Array, names: list[str] | None) -> None:
        if rows.shape[1] != self.n_features_in_:
            raise ShapeError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input, those of fit"
            )
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and list(known) != names:
            wrong = next(i for i, (name, other) in enumerate(zip(names, known, strict=True)) if name != other)
            raise InvalidValue(
                f"column {wrong} of X is {names[wrong]!r}, but it was {known[wrong]!r} in fit; pass "
                "X[model.feature_names_in_]"
            )

    def _standardised(self, X: Any, groups: Any) -> tuple[Array, IntArray]:
        """Return rows to predict and the places of their groups among the coefficients."""
        if not hasattr(self, "_position"):
            raise NotFitted(f"this {type(self).__name__} has seen no data; call fit(X, y, groups) first")
        rows = feature_matrix(X)
        self._require_same_features(rows, feature_names(X))
        labels = group_labels(groups, len(rows))
        new = len(self._position)
        which = np.fromiter((self._position.get(label, new) for label in labels), np.int64, len(labels))
        return self._data.rows(rows), which

    def _means(self, rows: Array, which: IntArray) -> Array:
        mean: Array = np.einsum("ni,ni->n", rows, self._coefficients[which])
        return mean

    def _variances(self, rows: Array, which: IntArray) -> Array:
        """Return how unsure the linear predictor of every row is."""
        variance = np.zeros(len(rows))
        order = np.argsort(which, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
            own = np.einsum("ni,ij,nj->n", rows[some], self._uncertainty[which[some[0]]], rows[some], optimize=True)
            variance[some] = np.maximum(own, 0.0)
        return variance

    def _random(self) -> BoolArray:
        """Return which coefficients differ between groups, the intercept first."""
        return ~np.concatenate([np.zeros(int(self.fit_intercept), dtype=np.bool_), self.fixed_])

    def _condition(self, found: Posterior, covariance: Array) -> None:
        """Compute the coefficients of every group and of a new one, and how sure they are."""
        shared, unsure = found.shared_mean[0], found.shared_covariance[0]
        self._coefficients = np.concatenate([found.mean[0], shared[None]])
        self._uncertainty = np.concatenate([found.covariance[0], (covariance + unsure)[None]])

    def _publish(self, shared: Array, unsure: Array, covariance: Array, target_centre: float = 0.0) -> None:
        """Translate to the units and the origin of the rows as they came."""
        to_raw, intercept = self._data.to_raw(), int(self.fit_intercept)
        covariance = to_raw @ covariance @ to_raw.T
        self.covariance_ = (covariance + covariance.T) / 2
        self.groups_ = label_array(list(self._position))
        coefficients, groups = shared @ to_raw.T, self._coefficients[:-1] @ to_raw.T
        errors = np.sqrt(np.maximum(np.einsum("ia,ab,ib->i", to_raw, unsure, to_raw), 0.0))
        self.coef_, self.coef_std_ = coefficients[intercept:].copy(), errors[intercept:].copy()
        self.intercept_ = float(coefficients[0]) + target_centre if intercept else 0.0
        self.intercept_std_ = float(errors[0]) if intercept else 0.0
        self.group_coef_ = groups[:, intercept:].copy()
        self.group_intercept_ = groups[:, 0] + target_centre if intercept else np.zeros(len(groups))
