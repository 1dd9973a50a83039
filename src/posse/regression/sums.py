"""Statistics of every group about the first row, and their standard form: no row is ever looked at twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from posse.errors import NotFinite
from posse.model import Statistics
from posse.model.sums import add_rows
from posse.types import Array, IntArray

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A column whose spread is a smaller share of its size than this is constant."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scaling:
    """Origin and unit of features, by which rows are standardised and coefficients translated back.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
        What is taken from the features, and what they are divided by afterwards.
    intercept : bool
        Whether a column of ones comes first.
    """

    centre: Array
    scale: Array
    intercept: bool

    def rows(self, X: Array) -> Array:
        """Return standardised rows."""
        result = (X - self.centre) / self.scale
        return np.column_stack([np.ones(len(X)), result]) if self.intercept else result

    def to_raw(self) -> Array:
        """Return the matrix that takes coefficients of standardised rows to those of rows as they come."""
        result = np.diag(np.concatenate([np.ones(int(self.intercept)), 1.0 / self.scale]))
        if self.intercept:
            result[0, 1:] = -self.centre / self.scale
        return result


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Standardised(Scaling):
    """Statistics in which neither units nor offsets matter any more.

    Parameters
    ----------
    centre, scale, intercept
        As in :class:`Scaling`.
    stats : Statistics
        With an intercept its feature comes first.
    target_centre : float
        What was taken from y.
    """

    stats: Statistics
    target_centre: float


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """All that was learned: statistics of rows taken relative to ``origin``, so that large offsets cost no digits.

    Parameters
    ----------
    stats : Statistics
        One arm; one task per group. With an intercept its feature comes first.
    origin : ndarray of shape (n_features,)
        The first row; zero without an intercept.
    target_origin : float
    intercept : bool
    """

    stats: Statistics
    origin: Array
    target_origin: float
    intercept: bool

    @classmethod
    def nothing(cls, X: Array, y: Array, *, intercept: bool) -> Self:
        """Return the sums of no rows, about the first of these."""
        stats = Statistics.zeros(n_tasks=1, n_arms=1, n_features=X.shape[1] + intercept)
        if intercept:
            return cls(stats, X[0].copy(), float(y[0]), intercept)
        return cls(stats, np.zeros(X.shape[1]), 0.0, intercept)

    def with_rows(self, X: Array, y: Array, group: IntArray, n_groups: int) -> GroupSums:
        """Return the sums over these rows as well; bit for bit what all rows at once would have given."""
        more = n_groups - self.stats.n_tasks
        padded = [np.pad(field, [(0, 0), (0, more)] + [(0, 0)] * (field.ndim - 2)) for field in self.stats.sums]
        stats = Statistics(*padded)
        relative = X - self.origin
        if self.intercept:
            relative = np.column_stack([np.ones(len(X)), relative])
        arm = np.zeros(len(X), dtype=np.int64)
        add_rows(stats.sums, group, arm, np.ascontiguousarray(relative), y - self.target_origin)
        if not all(np.isfinite(field).all() for field in stats.sums):
            raise NotFinite("X or y is too large to be squared; divide it by a constant first")
        return GroupSums(stats, self.origin, self.target_origin, self.intercept)

    def standardised(self) -> Standardised:
        """Return the same sums with features of mean 0 and mean square 1, and y of mean 0.

        A column that does not vary keeps its mean, and without an intercept all do.
        """
        d = self.origin.size
        rows = self.stats.count.sum()
        total = self.stats.gram[0].sum(axis=0)
        to_standard = np.eye(self.stats.n_features)
        centre, target_centre, target_shift = np.zeros(d), 0.0, 0.0
        if self.intercept:
            mean, target_mean = total[0, 1:] / rows, self.stats.moment[..., 0].sum() / rows
            spread = np.diagonal(total)[1:] / rows - mean**2
            target_spread = self.stats.sum_of_squares.sum() / rows - target_mean**2
            constant = spread <= (ROUNDING * (self.origin + mean)) ** 2
            target_constant = bool(target_spread <= (ROUNDING * (self.target_origin + target_mean)) ** 2)
            centre = np.where(constant, 0.0, self.origin + mean)
            target_centre = 0.0 if target_constant else float(self.target_origin + target_mean)
            target_shift = -self.target_origin if target_constant else target_mean
            # The intercept's feature is 1, so a shift of the others is a linear map of them all.
            to_standard[1:, 0] = np.where(constant, self.origin, -mean)
        square = np.einsum("ia,ab,ib->i", to_standard, total, to_standard)[-d:] / rows
        scale = np.sqrt(np.where(square > 0, square, 1.0))
        to_standard[-d:] /= scale[:, None]
        stats = self.stats
        gram = to_standard @ stats.gram @ to_standard.T
        moment, squares = stats.moment, stats.sum_of_squares
        if self.intercept:
            squares = squares - 2 * target_shift * moment[..., 0] + target_shift**2 * stats.count
            moment = moment - target_shift * stats.gram[..., 0]
        return Standardised(
            stats=Statistics(
                gram=(gram + np.swapaxes(gram, -1, -2)) / 2,
                moment=moment @ to_standard.T,
                sum_of_squares=np.maximum(squares, 0.0),
                count=stats.count.copy(),
            ),
            centre=centre, scale=scale, intercept=self.intercept, target_centre=target_centre,
        )  # fmt: skip
