"""What scikit-learn asks of an estimator: its own base where it is installed, a stand-in where it is not."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from posse.errors import InvalidValue, PosseError


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
