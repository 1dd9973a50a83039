"""What a fleet expects of every arm in many tasks at once, how sure it is, and each arm's probability of being best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import number
from posse.engine.decide import expected_rewards as show_expected_rewards
from posse.engine.site_store import SiteStore
from posse.errors import InvalidValue
from posse.fleet.rows import sequence_codes
from posse.fleet.views import beliefs_of_rows
from posse.kernels.packing import whole_matrix
from posse.kernels.rule import score_probabilities_rows
from posse.kernels.select import SAMPLING
from posse.tables import in_library_of

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.types import Array, IntArray

CONFIDENCE = 0.9  # of intervals that people read
BORROWED_CONTEXTS = 10.0  # average contexts of all tasks that are counted among those of each
MOST_CONTEXTS = 500  # over which rewards are averaged
FARTHEST, BISECTIONS = 20.0, 40  # how far a predictor may be moved for that, and how closely it is found
# One draw per arm, as wide as what is believed: the probabilities of Thompson sampling are those of being best.
AS_BELIEVED = SAMPLING._replace(growing=False)


class Beliefs(NamedTuple):
    """What is believed about active arms in rows of one task and context each.

    Parameters
    ----------
    mean, sd : ndarray of shape (n_rows, n_arms)
        Of the expected reward.
    probabilities : ndarray of shape (n_rows, n_arms)
        The probability of each arm being chosen if the row were its next decision.
    """

    mean: Array
    sd: Array
    probabilities: Array


def expected_table(fleet: Fleet, tasks: Any, contexts: Any, confidence: float) -> Any:
    """Return one row per task or context and arm; see :meth:`posse.fleet.Posse.expected_many`."""
    import polars as pl

    confidence = number(confidence, "confidence", above=0)
    if confidence >= 1:
        raise InvalidValue(f"expected a confidence below 1, got {confidence:g}; 0.9 is 90 %")
    if contexts is None:
        if isinstance(tasks, str):
            raise InvalidValue(f"expected a sequence of tasks, got the text {tasks!r}; pass [{tasks!r}]")
        with fleet._lock:
            asked = list(fleet._tasks) if tasks is None else tasks
        labels, codes = sequence_codes(asked, fleet._tasks)
        encoded = average_contexts(fleet, labels)[codes]
    else:
        if tasks is None:
            raise InvalidValue("expected a task for every context, got none; pass tasks, or the name of their column")
        labels, codes, encoded = fleet._rows(tasks, contexts)
    predictors = predictors_at(fleet, labels, codes, encoded)
    if contexts is None:
        predictors = over_contexts(fleet, predictors)
    n, arms = len(codes), fleet._arms.active_names
    low, high = fleet._behaviour.family.interval(predictors.mean, predictors.sd, confidence)
    row = np.repeat(np.arange(n), len(arms))
    frame = pl.DataFrame(
        {
            "row": row,
            "task": pl.Series(labels, dtype=_kind(labels)).gather(codes[row]),
            "arm": pl.Series(arms, dtype=_kind(arms)).gather(np.tile(np.arange(len(arms)), n)),
            "mean": expected_rewards(fleet, predictors).mean.ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
            # Links rise: the arm with the best predictor has the best reward.
            "probability_best": probability_best(predictors.mean, predictors.sd).ravel(),
        }
    )
    return in_library_of(frame, tasks if contexts is None else contexts)


def beliefs_at(fleet: Fleet, labels: list[Label], codes: IntArray, encoded: Array) -> Beliefs:
    """Return what a fleet believes in rows of encoded contexts; a task that it does not know has the population's.

    Parameters
    ----------
    fleet : Posse
    labels : list of str or int
        Distinct tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position in ``labels``.
    encoded : ndarray of shape (n_rows, n_columns)
    """
    return expected_rewards(fleet, predictors_at(fleet, labels, codes, encoded))


def expected_rewards(fleet: Fleet, predictors: Beliefs) -> Beliefs:
    """Return what beliefs about linear predictors mean for expected rewards; for numbers they are the same."""
    if fleet._behaviour.family.name == "number":
        return predictors
    mean, sd = predictors.mean.copy(), predictors.sd.copy()
    show_expected_rewards(fleet._engine, mean, sd)
    return Beliefs(mean, sd, predictors.probabilities)


def predictors_at(fleet: Fleet, labels: list[Label], codes: IntArray, encoded: Array) -> Beliefs:
    """As :func:`beliefs_at`, with mean and standard deviation of linear predictors: of the logit of a click rate."""
    probabilities, mean, sd = beliefs_of_rows(fleet, labels, codes, encoded)
    return Beliefs(mean, sd, probabilities)


def average_contexts(fleet: Fleet, labels: list[Label]) -> Array:
    """Return the average encoded context of every task, shape (n_tasks, n_columns).

    Ten average contexts of all tasks count among a task's own, so that one with few rewards is not looked at where it
    happened to be seen. The sums of columns stand in the row of the intercept, so without one they are not known.
    """
    if not fleet._features.intercept:
        raise InvalidValue(
            "expected contexts, got none: without an intercept a fleet does not know its average context; pass contexts"
        )
    d = fleet._features.n_features
    tasks, sums = _sums(fleet, labels)
    columns = fleet._engine.store.copy_of_contexts(sums)
    total = columns.sum(axis=0)
    average = total / total[0] if len(columns) and total[0] > 0 else np.eye(1, d)[0]
    own = np.zeros((len(labels), d))
    np.add.at(own, tasks[tasks >= 0], columns[tasks >= 0])
    own += BORROWED_CONTEXTS * average
    result: Array = own / own[:, :1]
    return result


def over_contexts(fleet: Fleet, predictors: Beliefs) -> Beliefs:
    """Return predictors at average contexts, moved so that their expected rewards are averages over contexts.

    A link bends: visitors who differ click more often on average than an average visitor does.
    """
    return predictors._replace(mean=predictors.mean + context_shift(fleet))


def context_shift(fleet: Fleet) -> Array:
    """Return by how much each active arm's predictor at the average context misses the average over contexts.

    Computed for a task never seen, over contexts that were learned from; 0 for rewards of numbers.
    """
    store, family = fleet._engine.store, fleet._behaviour.family
    if not isinstance(store, SiteStore):
        return np.zeros(len(fleet.arms))
    with fleet._lock:
        contexts = store.some_contexts(MOST_CONTEXTS)
    if not len(contexts):
        return np.zeros(len(fleet.arms))
    stranger, row = [unused_task(fleet.tasks)], np.zeros(1, dtype=np.int64)
    each = predictors_at(fleet, stranger, row.repeat(len(contexts)), contexts)
    middle = predictors_at(fleet, stranger, row, contexts.mean(axis=0, keepdims=True))
    wanted = family.expected(each.mean, each.sd).mean(axis=0)
    low, high = np.full(wanted.shape, -FARTHEST), np.full(wanted.shape, FARTHEST)
    for _ in range(BISECTIONS):
        shift = (low + high) / 2
        short = family.expected(middle.mean[0] + shift, middle.sd[0]) < wanted
        low, high = np.where(short, shift, low), np.where(short, high, shift)
    return np.asarray((low + high) / 2)


def unused_task(tasks: tuple[Label, ...]) -> Label:
    """Return a name that no task has: the fleet answers for it as for a task never seen."""
    taken = set(tasks)
    if tasks and isinstance(tasks[0], int):
        return next(number for number in range(len(tasks) + 1) if number not in taken)
    return next(name for name in (f"a new task {i}" for i in range(len(tasks) + 1)) if name not in taken)


def rewards_of_tasks(fleet: Fleet, labels: list[Label]) -> Array:
    """Return how many rewards every task has, shape (n_tasks,)."""
    tasks, sums = _sums(fleet, labels)
    there = tasks >= 0
    return np.asarray(np.bincount(tasks[there], sums.counts[there], minlength=len(labels)), dtype=np.float64)


def context_spread(fleet: Fleet) -> Array:
    """Return the covariance of encoded contexts over all rewards, shape (n_columns, n_columns).

    Without an intercept their mean is not known, and the squares are taken around 0.
    """
    d = fleet._features.n_features
    with fleet._lock:
        _, _, sums = fleet._engine.store.copy_of_sums()
    count = float(sums.counts.sum())
    if not count > 0:
        return np.zeros((d, d))
    # Clicks and counts have weighted rows; with an intercept its square is their whole weight.
    gram = whole_matrix(sums.gram.sum(axis=0))
    squares = gram / (gram[0, 0] if fleet._features.intercept else count)
    if not fleet._features.intercept:
        return squares
    result: Array = squares - np.outer(squares[0], squares[0])
    return result


def rewards_vary(fleet: Fleet) -> bool:
    """Whether there are two different rewards."""
    if isinstance(fleet._engine.store, SiteStore):
        with fleet._lock:
            return fleet._engine.store.rewards_vary()
    with fleet._lock:
        _, _, sums = fleet._engine.store.copy_of_sums()
    squares, count = float(sums.sum_of_squares.sum()), float(sums.counts.sum())
    if not fleet._features.intercept:
        return squares > 0
    total = float(sums.moment[:, 0].sum())  # of the intercept
    return count > 0 and squares - total * total / count > 1e-12 * squares


def _sums(fleet: Fleet, labels: list[Label]) -> tuple[IntArray, Any]:
    """Return the sums of all pairs with rewards, and where in ``labels`` the task of each is; -1 if not there."""
    with fleet._lock:
        known = fleet._tasks.known(labels)
        tasks, _, sums = fleet._engine.store.copy_of_sums()
    position = np.full(max(int(known.max(initial=-1)), int(tasks.max(initial=-1))) + 1, -1, dtype=np.int64)
    there = np.flatnonzero(known >= 0)
    position[known[there]] = there
    return position[tasks], sums


def probability_best(mean: Array, sd: Array) -> Array:
    """Return each arm's probability of being best in every row; arms are believed independently.

    Examples
    --------
    >>> probability_best(np.array([[1.0, 1.0], [0.0, 10.0]]), np.ones((2, 2))).round(6)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    result = np.empty(mean.shape)
    score_probabilities_rows(
        np.ascontiguousarray(mean),
        np.ascontiguousarray(sd),
        np.ones(mean.shape, dtype=np.bool_),
        1,
        AS_BELIEVED,
        result,
    )
    return result


def _kind(labels: Sequence[Any]) -> Any:
    import polars as pl

    return pl.Int64() if labels and isinstance(labels[0], int) else pl.String()
