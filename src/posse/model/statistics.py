"""Additive statistics of every (arm, task): all that is ever learned from rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from posse.checks import labels, real_array, whole_number
from posse.core.size import LARGEST, moderate
from posse.errors import InvalidValue, NotFinite, ShapeError, UnknownArm, UnknownTask
from posse.model.sums import Sums, add_rows
from posse.showing import brief_repr

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    r"""Sums over the rewards of every (arm, task).

    .. math:: A = \sum x x^\top, \quad b = \sum x y, \quad c = \sum y^2, \quad n = \sum 1

    They add, so two halves of a log can be learned apart and put together with ``+``. Counts are floats because
    discounted rewards count less than one.

    Parameters
    ----------
    gram : ndarray of shape (n_arms, n_tasks, n_features, n_features)
    moment : ndarray of shape (n_arms, n_tasks, n_features)
    sum_of_squares : ndarray of shape (n_arms, n_tasks)
    count : ndarray of shape (n_arms, n_tasks)

    Examples
    --------
    Two rewards, 3 and 1, of arm 0 in task 0:

    >>> stats = Statistics.from_data(
    ...     task=[0, 0], arm=[0, 0], context=[[1.0, 0.0], [1.0, 2.0]], reward=[3.0, 1.0], n_tasks=1, n_arms=1
    ... )
    >>> stats.gram[0, 0]
    array([[2., 2.],
           [2., 4.]])
    >>> stats.moment[0, 0]
    array([4., 2.])
    >>> stats.sum_of_squares[0, 0], stats.count[0, 0]
    (np.float64(10.0), np.float64(2.0))
    """

    gram: Array
    moment: Array
    sum_of_squares: Array
    count: Array

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        for name in ("gram", "moment", "sum_of_squares", "count"):
            object.__setattr__(self, name, real_array(getattr(self, name), name))
        if self.gram.ndim != 4:
            raise ShapeError(f"expected gram to have axes (arm, task, feature, feature), got shape {self.gram.shape}")
        n_arms, n_tasks, n_features, _ = self.gram.shape
        expected = {
            "gram": (n_arms, n_tasks, n_features, n_features),
            "moment": (n_arms, n_tasks, n_features),
            "sum_of_squares": (n_arms, n_tasks),
            "count": (n_arms, n_tasks),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ShapeError(f"expected {name} to have shape {shape}, got shape {getattr(self, name).shape}")
        if (self.count < 0).any() or (self.sum_of_squares < 0).any():
            raise InvalidValue("count and sum_of_squares must not be negative; were statistics subtracted twice?")

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.gram.shape[0])

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.gram.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.gram.shape[2])

    @classmethod
    def zeros(cls, *, n_tasks: int, n_arms: int, n_features: int) -> Self:
        """Statistics of no rewards at all."""
        n_tasks = whole_number(n_tasks, "n_tasks", at_least=1)
        n_arms = whole_number(n_arms, "n_arms", at_least=1)
        n_features = whole_number(n_features, "n_features", at_least=1)
        return cls(
            gram=np.zeros((n_arms, n_tasks, n_features, n_features)),
            moment=np.zeros((n_arms, n_tasks, n_features)),
            sum_of_squares=np.zeros((n_arms, n_tasks)),
            count=np.zeros((n_arms, n_tasks)),
        )

    @classmethod
    def from_data(
        cls,
        *,
        task: ArrayLike,
        arm: ArrayLike,
        context: ArrayLike,
        reward: ArrayLike,
        n_tasks: int,
        n_arms: int,
    ) -> Self:
        """Sum up rows of a log.

        Parameters
        ----------
        task, arm : int labels of shape (n_rows,)
            From 0 to ``n_tasks - 1`` and ``n_arms - 1``.
        context : array of shape (n_rows, n_features)
        reward : array of shape (n_rows,)
        n_tasks, n_arms : int
            How many there are, with or without rows.
        """
        n_tasks = whole_number(n_tasks, "n_tasks", at_least=1)
        n_arms = whole_number(n_arms, "n_arms", at_least=1)
        X = real_array(context, "context")
        y = real_array(reward, "reward")
        if X.ndim != 2 or X.shape[1] == 0:
            raise ShapeError(f"expected context to have shape (rows, features), got shape {X.shape}")
        tasks = labels(task, "task", below=n_tasks, error=UnknownTask)
        arms = labels(arm, "arm", below=n_arms, error=UnknownArm)
        if not tasks.shape == arms.shape == y.shape == X.shape[:1]:
            raise ShapeError(
                "task, arm, context and reward must have equally many rows, but they have "
                f"{tasks.shape[0]}, {arms.shape[0]}, {X.shape[0]} and {y.shape[0] if y.ndim == 1 else y.shape}"
            )
        for name, values in (("context", X), ("reward", y)):
            if not moderate(values.reshape(-1)):
                raise NotFinite(f"{name} has values beyond {LARGEST:g}: sums of squares would overflow; rescale them")
        result = cls.zeros(n_tasks=n_tasks, n_arms=n_arms, n_features=X.shape[1])
        add_rows(result.sums, tasks, arms, X, y)
        return result

    def __add__(self, other: object) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.gram.shape != other.gram.shape:
            raise ShapeError(
                "statistics add only over the same arms, tasks and features, but these have (arms, tasks, features) "
                f"{self.gram.shape[:3]} and {other.gram.shape[:3]}"
            )
        return Statistics(
            gram=self.gram + other.gram,
            moment=self.moment + other.moment,
            sum_of_squares=self.sum_of_squares + other.sum_of_squares,
            count=self.count + other.count,
        )

    @property
    def sums(self) -> Sums:
        """The same arrays, as compiled functions take them."""
        return Sums(self.gram, self.moment, self.sum_of_squares, self.count)

    def copy(self) -> Statistics:
        """Return statistics that share no array with these."""
        return Statistics(*(field.copy() for field in self.sums))
