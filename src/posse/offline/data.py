"""A log as arrays: what every estimator works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from posse.checks import labels, nearest, number, real_array
from posse.errors import InvalidValue, ShapeError, UnknownArm, UnknownTask
from posse.families import family_of
from posse.offline.intervals import effective_rewards
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    import polars as pl

    from posse.features import FeatureSpec
    from posse.logs import Log
    from posse.logs.menus import Menus
    from posse.offline.reading import Rankings

Predictors = tuple[Array, Array | None]

AGREE = 1e-4  # what rounding to 32-bit floats and few digits may take from probabilities


@dataclass(slots=True, eq=False)
class Fits:
    """Models learned from folds of a log, so that a policy and the model it is evaluated with are learned once.

    Parameters
    ----------
    begin : callable, optional
        Called with what comes next before every fold.
    found : dict
        Means and standard deviations of linear predictors, by the fold of every row.
    """

    begin: Callable[[str], None] | None = None
    found: dict[bytes, Predictors] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoggedBandit:
    """Decisions with known propensities and their rewards.

    Parameters
    ----------
    tasks, arms : int ndarray of shape (n_rows,)
    contexts : ndarray of shape (n_rows, n_features)
        As the model sees them.
    rewards : ndarray of shape (n_rows,)
    reward_family : {"number", "binary", "count", "revenue"}, optional
        What rewards are: the model of the rewards is one of the family. Default: binary for rewards of True and False,
        else number.
    propensities : ndarray of shape (n_rows,)
        The probability with which each arm was chosen, above 0.
    eligible : bool ndarray of shape (n_rows, n_arms), optional
        Default: every arm, always.
    probabilities : ndarray of shape (n_rows, n_arms), optional
        Of all arms, where the log has them.
    worth : ndarray of shape (2, n_rows, n_arms), optional
        What one unit of reward is worth, and what playing an arm costs, where that was so: values of policies are then
        those of value x reward - cost. 0 for arms that were not eligible.
    task_labels, arm_labels : tuple, optional
        Default: the numbers themselves.
    groups : mapping of str to ndarray of shape (n_rows,)
        Values by which results can be divided.
    raw : polars.DataFrame, optional
        The features as they were logged; saved fleets encode them themselves.
    menus : Menus, optional
        The eligible arms of each row and their features, where a catalogue decided. The number of an arm, and its
        column in ``eligible`` and ``probabilities``, is then its place among the eligible arms of its row.
    rankings : Rankings, optional
        Where rows are places of rankings: what stands above each, with or without a reward.
    rows_without_reward, rows_without_propensity, rows_without_place_above, rows_left_out : int
        Rows of the log that are not here: for lack of a reward, of a propensity, of the place above in a ranking, of
        any.

    Examples
    --------
    >>> data = LoggedBandit(
    ...     tasks=[0, 0, 1], arms=[0, 1, 1], contexts=[[1.0], [1.0], [1.0]], rewards=[1, 0, 1], propensities=[0.5] * 3
    ... )
    >>> data
    LoggedBandit(3 rows, 2 tasks, 2 arms, 1 feature)
    """

    tasks: IntArray
    arms: IntArray
    contexts: Array
    rewards: Array
    propensities: Array
    eligible: BoolArray = None  # type: ignore[assignment]
    probabilities: Array | None = None
    worth: Array | None = None
    task_labels: tuple[Any, ...] = ()
    arm_labels: tuple[Any, ...] = ()
    groups: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    reward_family: str = ""
    raw: pl.DataFrame | None = None
    menus: Menus | None = None
    rankings: Rankings | None = None
    rows_without_reward: int = 0
    rows_without_propensity: int = 0
    rows_without_place_above: int = 0
    rows_left_out: int = 0
    fits: Fits = field(default_factory=Fits, init=False)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)  # the class is frozen

        if not self.reward_family:
            put("reward_family", "binary" if np.asarray(self.rewards).dtype == np.bool_ else "number")
        for name in ("contexts", "rewards", "propensities"):
            put(name, real_array(getattr(self, name), name))
        if self.probabilities is not None:
            put("probabilities", real_array(self.probabilities, "probabilities"))
        if self.worth is not None:
            put("worth", real_array(self.worth, "worth"))
        if self.reward_family != "number":
            put("rewards", family_of(self.reward_family).check_many(self.rewards))
        put("task_labels", tuple(self.task_labels) or tuple(range(_count(self.tasks, "tasks"))))
        put("arm_labels", tuple(self.arm_labels) or tuple(range(self._arms_there_are())))
        put("tasks", labels(self.tasks, "task", below=len(self.task_labels), error=UnknownTask))
        put("arms", labels(self.arms, "arm", below=len(self.arm_labels), error=UnknownArm))
        n, K = self.n_rows, self.n_arms
        put("eligible", np.ones((n, K), dtype=np.bool_) if self.eligible is None else np.asarray(self.eligible, bool))
        shapes = {"arms": (n,), "rewards": (n,), "propensities": (n,), "eligible": (n, K)}
        if self.probabilities is not None:
            shapes["probabilities"] = (n, K)
        if self.worth is not None:
            shapes["worth"] = (2, n, K)
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ShapeError(f"{name} must have shape {shape}, but its shape is {getattr(self, name).shape}")
        if self.contexts.ndim != 2 or self.contexts.shape[0] != n:
            raise ShapeError(f"contexts must have shape ({n}, n_features), but its shape is {self.contexts.shape}")
        for name, values in self.groups.items():
            if np.shape(values) != (n,):
                raise ShapeError(f"group {name!r} must have shape ({n},), but its shape is {np.shape(values)}")
        self._check_probabilities()

    def _arms_there_are(self) -> int:
        for matrix in (self.eligible, self.probabilities):
            if matrix is not None and np.ndim(matrix) == 2:
                return int(np.shape(matrix)[1])
        return _count(self.arms, "arms")

    def _check_probabilities(self) -> None:
        rows = np.arange(self.n_rows)
        wrong = ~((self.propensities > 0) & (self.propensities <= 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidValue(
                f"propensities must be above 0 and at most 1, but {self.propensities[row]:g} came in row {row}; log "
                "the probability with which the arm was drawn"
            )
        if not self.eligible[rows, self.arms].all():
            row = int(np.argmin(self.eligible[rows, self.arms]))
            raise InvalidValue(f"row {row} took arm {self.label(row, self.arms[row])!r}, which was not eligible there")
        if self.probabilities is None:
            return
        check_distributions(self.probabilities, "probabilities")
        if (self.probabilities[~self.eligible] > 0).any():
            raise InvalidValue("probabilities must be 0 for arms that are not eligible")
        off = np.abs(self.probabilities[rows, self.arms] - self.propensities)
        if (off > AGREE * np.maximum(self.propensities, 1e-2)).any():
            row = int(off.argmax())
            raise InvalidValue(
                f"row {row} has propensity {self.propensities[row]:g}, but probability "
                f"{self.probabilities[row, self.arms[row]]:g} for the same arm; find out which is right"
            )

    @property
    def n_rows(self) -> int:
        """Number of decisions."""
        return int(self.tasks.shape[0])

    @property
    def n_tasks(self) -> int:
        """Number of tasks, with or without rows."""
        return len(self.task_labels)

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.arm_labels)

    @property
    def money(self) -> Array:
        """What every row earned: its reward, or value x reward - cost where the log has prices."""
        if self.worth is None:
            return self.rewards
        values, costs = self.worth[:, np.arange(self.n_rows), self.arms]
        return np.asarray(values * self.rewards - costs)

    def in_money(self, expected: Array) -> Array:
        """Return what expected rewards of every arm are worth, shape (n_rows, n_arms)."""
        return expected if self.worth is None else np.asarray(self.worth[0] * expected - self.worth[1])

    @property
    def usual_reward(self) -> float:
        """The median reward: 0 where clicks are rare."""
        return float(np.median(self.rewards))

    def effective_rewards(self, weights: Array) -> float:
        """Return the effective number of rewards that differ from the usual one."""
        return effective_rewards(weights, self.rewards, self.usual_reward)

    @property
    def supported(self) -> BoolArray:
        """The arms that could have been chosen, as far as the log says, shape (n_rows, n_arms)."""
        return self.eligible if self.probabilities is None else self.probabilities > 0

    def label(self, row: int, column: int) -> Any:
        """Return the arm of a column in a row."""
        return self.arm_labels[column] if self.menus is None else self.menus.arms(row)[column]

    def columns(self, row: int) -> dict[Any, int]:
        """Return the columns of arms in a row: of all arms, or of those that a catalogue chose among there."""
        arms = self.arm_labels if self.menus is None else self.menus.arms(row)
        return {arm: column for column, arm in enumerate(arms)}

    def __repr__(self) -> str:
        n_arms = self.n_arms if self.menus is None else self.menus.n_arms
        counts = {"row": self.n_rows, "task": self.n_tasks, "arm": n_arms, "feature": self.contexts.shape[1]}
        words = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items())
        return f"LoggedBandit({words})"

    def in_order_of_appearance(self) -> Self:
        """Return the same rows with tasks numbered as they first appear, so that their names change no number."""
        there, first, place = np.unique(self.tasks, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        named = tuple(self.task_labels[there[position]] for position in order)
        return replace(self, tasks=rank[place], task_labels=named)

    @classmethod
    def from_log(cls, log: Log, features: FeatureSpec | None = None, groups: Sequence[str] = ()) -> Self:
        """Return the rows of a log that have a reward and a propensity, in order of time where that is known.

        Parameters
        ----------
        log : Log
        features : FeatureSpec, optional
            How the model of the rewards sees a context. Default: inferred from the log, numbers scaled.
        groups : sequence of str
            Columns of the log, or features, by which results will be divided.

        Raises
        ------
        InvalidValue
            If nothing is left, or a row contradicts itself; :func:`posse.logs.check_log` finds all that is wrong.
        """
        from posse.offline.reading import read_columns

        return cls(**read_columns(log, features, groups))


def with_prices(data: LoggedBandit, values: Mapping[Any, Any] | None, costs: Mapping[Any, Any] | None) -> LoggedBandit:
    """Return the same rows with prices of their arms in place of those of the log, or raise; costs may be left out."""
    if values is None and costs is None:
        return data
    if data.menus is not None:
        raise InvalidValue("expected no values and costs for the log of a catalogue, got some; leave them out")
    table = np.array([np.ones(data.n_arms), np.zeros(data.n_arms)])
    for place, (name, given) in enumerate((("values", values), ("costs", costs))):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise InvalidValue(
                f"expected {name} to be a mapping from arms to numbers, got {type(given).__name__}; pass "
                f"{name}={{arm: number}}"
            )
        for arm, one in given.items():
            if arm not in data.arm_labels:
                raise UnknownArm(f"no arm {arm!r} in the log; {nearest(arm, data.arm_labels, 'arms')}")
            table[place, data.arm_labels.index(arm)] = number(one, f"{name} of arm {arm!r}", at_least=0)
    missing = [arm for arm in data.arm_labels if values is not None and arm not in values]
    if missing:
        raise InvalidValue(f"expected a value of every arm of the log, got none of {missing[0]!r}; add it")
    shape = (2, data.n_rows, data.n_arms)
    ranked = data.rankings
    if ranked is not None:
        ranked = replace(ranked, whole=with_prices(ranked.whole, values, costs))
    return replace(data, worth=np.broadcast_to(table[:, None], shape).copy(), rankings=ranked)


def check_distributions(probabilities: Array, name: str) -> None:
    """Raise unless every row is a distribution over the arms."""
    if (probabilities < 0).any():
        raise InvalidValue(f"{name} must not be negative, but {probabilities.min():g} came")
    sums = probabilities.sum(axis=1)
    off = np.abs(sums - 1)
    if (off > AGREE).any():
        row = int(off.argmax())
        raise InvalidValue(f"{name} of a row must add up to 1, but those of row {row} add up to {sums[row]:g}")


def _count(values: Any, name: str) -> int:
    """Return how many labels there are if they are numbered from 0."""
    array = np.asarray(values)
    if array.size == 0:
        raise InvalidValue(f"{name} is empty: there are no decisions to learn from")
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidValue(f"{name} must be whole numbers from 0 on, but their type is {array.dtype}")
    return int(array.max()) + 1
