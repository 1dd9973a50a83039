"""From columns of a file to the features of a context: scaling, principal components, an intercept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.checks import whole_number
from posse.errors import InvalidValue
from posse.types import Array, IntArray

SMALLEST_SHARE = 1e-10  # of the largest variance: a component below it is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Means and standard deviations of some rows, to put these and other rows on their scale.

    Parameters
    ----------
    mean, sd : ndarray of shape (n_columns,)

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[1.0], [3.0]]), "feature")
    >>> scaling.apply(np.array([[1.0], [3.0], [7.0]]))
    array([[-1.], [ 1.], [ 5.]])
    """

    mean: Array
    sd: Array

    @classmethod
    def of(cls, columns: Array, name: str) -> Scaling:
        """Measure ``columns``; ``name`` is what an error calls one of them."""
        sd = columns.std(axis=0)
        if not (sd > 0).all():
            raise InvalidValue(
                f"{name} {int(np.argmin(sd > 0))} is constant, so it cannot be standardised; leave it out"
            )
        return cls(columns.mean(axis=0), sd)

    def apply(self, columns: Array) -> Array:
        """Return columns less the mean, over the standard deviation."""
        return np.asarray((columns - self.mean) / self.sd)


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Principal components: the directions in which rows vary most.

    Parameters
    ----------
    mean : ndarray of shape (n_columns,)
    directions : ndarray of shape (n_columns, n_components)
        Orthonormal, the most variable first; the entry that is largest in size is positive.
    variances : ndarray of shape (n_components,)

    Examples
    --------
    >>> components = Components.of(np.array([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0]]), 1)
    >>> components.directions.round(6).T
    array([[0.6, 0.8]])
    >>> components.apply(np.array([[6.0, 8.0]])).round(6)
    array([[10.]])
    """

    mean: Array
    directions: Array
    variances: Array

    @classmethod
    def of(cls, columns: Array, n_components: int) -> Components:
        """Find the first ``n_components`` components of ``columns``."""
        n_components = whole_number(n_components, "n_components", at_least=1)
        centred = columns - columns.mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred / len(columns))
        rank = int((values > SMALLEST_SHARE * values[-1]).sum())
        if n_components > rank:
            raise InvalidValue(
                f"expected n_components to be at most {rank}, the number of directions in which the rows vary, got "
                f"{n_components}"
            )
        first = np.argsort(-values, kind="stable")[:n_components]
        return cls(columns.mean(axis=0), vectors[:, first] * signs(vectors[:, first]), values[first])

    def apply(self, columns: Array) -> Array:
        """Return the scores of rows, shape (n_rows, n_components)."""
        return np.asarray((columns - self.mean) @ self.directions)


def signs(columns: Array) -> Array:
    """Return 1 or -1 for every column, the sign of its entry that is largest in size."""
    largest = np.abs(columns).argmax(axis=0)
    return np.where(columns[largest, np.arange(columns.shape[1])] < 0, -1.0, 1.0)


def with_intercept(columns: Array) -> Array:
    """Return columns with a constant 1 before them."""
    return np.column_stack([np.ones(len(columns)), columns])


def indicators(labels: IntArray, n_labels: int) -> Array:
    """Return 1 in the column of a row's label and 0 elsewhere, shape (n_rows, n_labels)."""
    return np.asarray(labels[:, None] == np.arange(n_labels), dtype=np.float64)
