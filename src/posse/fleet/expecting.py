"""What a fleet expects of every arm in many tasks at once, how sure it is, and each arm's probability of being best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import number
from posse.core.looking import last_rewards, some_contexts
from posse.core.revenue import of_all_rewards
from posse.core.rule import score_probabilities_rows
from posse.core.select import SAMPLING
from posse.errors import InvalidValue
from posse.fleet.deciding import believe_rows
from posse.fleet.tables import encoded_rows, sequence_codes
from posse.fleet.worth import money_of
from posse.tables import in_library_of

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
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


class Rate(NamedTuple):
    """A probability or a rate with its interval, all inside their range.

    Parameters
    ----------
    mean, low, high : float
    """

    mean: float
    low: float
    high: float


def expected_table(fleet: Fleet, tasks: Any, contexts: Any, confidence: float) -> Any:
    """Return one row per task or context and arm; see :meth:`posse.Posse.expected_many`."""
    import polars as pl

    confidence = number(confidence, "confidence", above=0)
    if confidence >= 1:
        raise InvalidValue(f"expected a confidence below 1, got {confidence:g}; 0.9 is 90 %")
    if contexts is None:
        if isinstance(tasks, str):
            raise InvalidValue(f"expected a sequence of tasks, got the text {tasks!r}; pass [{tasks!r}]")
        asked = fleet.tasks if tasks is None else tasks
        labels, codes = sequence_codes(asked, fleet.names.tasks)
        encoded = average_contexts(fleet, labels)[codes]
    else:
        if tasks is None:
            raise InvalidValue("expected a task for every context, got none; pass tasks, or the name of their column")
        labels, codes, encoded = encoded_rows(fleet, tasks, contexts)
    predictors = predictors_at(fleet, labels, codes, encoded)
    if contexts is None:
        predictors = over_contexts(fleet, predictors)
    n, arms = len(codes), fleet.arms
    low, high = fleet.settings.family.interval(predictors.mean, predictors.sd, confidence)
    # Links rise: without prices the arm with the best predictor has the best reward.
    expected, compared, money = expected_rewards(fleet, predictors), predictors, {}
    if fleet.worth is not None:
        compared = in_money(fleet, expected)
        money = {"worth": compared.mean.ravel()}
    row = np.repeat(np.arange(n), len(arms))
    frame = pl.DataFrame(
        {
            "row": row,
            "task": pl.Series(labels, dtype=_kind(labels)).gather(codes[row]),
            "arm": pl.Series(arms, dtype=_kind(arms)).gather(np.tile(np.arange(len(arms)), n)),
            "mean": expected.mean.ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
            "probability_best": probability_best(compared.mean, compared.sd).ravel(),
            **money,
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
    mean, sd = predictors.mean.copy(), predictors.sd.copy()
    fleet.core.show(mean, sd)
    return Beliefs(mean, sd, predictors.probabilities)


def in_money(fleet: Fleet, beliefs: Beliefs) -> Beliefs:
    """Return what beliefs about expected rewards mean for value x expected reward - cost, where a fleet has prices."""
    if fleet.worth is None:
        return beliefs
    with fleet.lock:
        worth = fleet.worth.among(fleet.names.arms.active.arms)
    mean, sd = money_of(worth, beliefs.mean, beliefs.sd)
    return Beliefs(mean, sd, beliefs.probabilities)


def predictors_at(fleet: Fleet, labels: list[Label], codes: IntArray, encoded: Array) -> Beliefs:
    """As :func:`beliefs_at`, with mean and standard deviation of linear predictors: of the logit of a click rate."""
    with fleet.lock:
        _, probabilities, mean, sd = believe_rows(fleet, labels, codes, encoded)
    return Beliefs(mean, sd, probabilities)


def _contexts(fleet: Fleet) -> tuple[IntArray, Array, Array]:
    """Return task, sum of contexts, and number of rewards of every pair."""
    with fleet.lock:
        if fleet.rewards != "number":
            plain = fleet.core.plain_sums()
            return plain.tasks, plain.contexts, plain.counts
        sums, d = fleet.core.sums(None, fleet.now), fleet.features.n_features
        return sums.tasks, sums.gram[:, :d], sums.counts  # of the intercept, which is 1


def average_contexts(fleet: Fleet, labels: list[Label]) -> Array:
    """Return the average encoded context of every task, shape (n_tasks, n_columns).

    Ten average contexts of all tasks count among a task's own, so that one with few rewards is not looked at where it
    happened to be seen. The sums of columns stand in the row of the intercept, so without one they are not known.
    """
    if not fleet.features.intercept:
        raise InvalidValue(
            "expected contexts, got none: without an intercept a fleet does not know its average context; pass contexts"
        )
    tasks, columns, _ = _contexts(fleet)
    total, d = columns.sum(axis=0), fleet.features.n_features
    average = total / total[0] if len(columns) and total[0] > 0 else np.eye(1, d)[0]
    own, place = np.zeros((len(labels), d)), _places(fleet, labels, tasks)
    np.add.at(own, place[place >= 0], columns[place >= 0])
    own += BORROWED_CONTEXTS * average
    result: Array = own / own[:, :1]
    return result


def rewards_of_tasks(fleet: Fleet, labels: list[Label]) -> Array:
    """Return how many rewards every task has, shape (n_tasks,)."""
    tasks, _, counts = _contexts(fleet)
    place = _places(fleet, labels, tasks)
    there = place >= 0
    return np.asarray(np.bincount(place[there], counts[there], minlength=len(labels)), dtype=np.float64)


def _places(fleet: Fleet, labels: list[Label], tasks: IntArray) -> IntArray:
    """Return where in ``labels`` tasks are, given their numbers; -1 if not there."""
    with fleet.lock:
        known = fleet.names.tasks.known(labels)
    position = np.full(max(int(known.max(initial=-1)), int(tasks.max(initial=-1))) + 1, -1, dtype=np.int64)
    there = np.flatnonzero(known >= 0)
    position[known[there]] = there
    return position[tasks]


def over_contexts(fleet: Fleet, predictors: Beliefs) -> Beliefs:
    """Return predictors at average contexts, moved so that their expected rewards are averages over contexts.

    A link bends: visitors who differ click more often on average than an average visitor does.
    """
    return predictors._replace(mean=predictors.mean + context_shift(fleet))


def context_shift(fleet: Fleet) -> Array:
    """Return by how much each active arm's predictor at the average context misses the average over contexts.

    Computed for a task never seen, over contexts that were learned from; 0 for rewards of numbers.
    """
    family, nothing = fleet.settings.family, np.zeros(len(fleet.arms))
    if family.name == "number":
        return nothing
    with fleet.lock:
        contexts = some_contexts(of_all_rewards(fleet.core), MOST_CONTEXTS)
    if not len(contexts):
        return nothing
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


def expected_rates(fleet: Fleet, task: Label | None = None, *, confidence: float = CONFIDENCE) -> dict[Label, Rate]:
    """Return the expected reward of every arm, averaged over contexts, retired arms too; nothing for numbers.

    Parameters
    ----------
    fleet : Posse
    task : str or int, optional
        At the average of its contexts, among which ten average contexts of all tasks are counted. Default: a task
        never seen.
    confidence : float
        Of the intervals. Default 0.9.

    Raises
    ------
    InvalidValue
        If ``confidence`` is not between 0 and 1.
    """
    family, arms = fleet.settings.family, fleet.names.arms
    if family.name == "number":
        return {}
    shift = dict(zip(fleet.arms, context_shift(fleet).tolist(), strict=True))
    tasks, columns, counts = _contexts(fleet)
    with fleet.lock:
        fleet.core.ensure_fresh()
        at = -1 if task is None else fleet.names.tasks.numbers.get(task, -1)
        average = columns.sum(axis=0) / counts.sum() if counts.sum() > 0 else _constant(fleet)
        own = tasks == at
        x = columns[own].sum(axis=0) + BORROWED_CONTEXTS * average
        x /= float(counts[own].sum()) + BORROWED_CONTEXTS
        out, everyone = np.empty((2, len(arms))), np.array(list(arms.numbers.values()))
        fleet.core.predict(at, x, fleet.now, everyone, out)
        labels = list(arms)
    mean, sd = out[0] + np.array([shift.get(label, 0.0) for label in labels]), out[1]
    low, high = family.interval(mean, sd, confidence)
    rows = np.stack([family.expected(mean, sd), low, high], axis=1).tolist()
    return {label: Rate(*row) for label, row in zip(labels, rows, strict=True)}


def _constant(fleet: Fleet) -> Array:
    """Return the context of a fleet that has seen none: nothing but the intercept."""
    x = np.zeros(fleet.features.n_features)
    x[: int(fleet.features.intercept)] = 1.0
    return x


def unused_task(tasks: tuple[Label, ...]) -> Label:
    """Return a name that no task has: the fleet answers for it as for a task never seen."""
    taken = set(tasks)
    if tasks and isinstance(tasks[0], int):
        return next(number for number in range(len(tasks) + 1) if number not in taken)
    return next(name for name in (f"a new task {i}" for i in range(len(tasks) + 1)) if name not in taken)


def context_spread(fleet: Fleet) -> Array:
    """Return the covariance of encoded contexts over all rewards, shape (n_columns, n_columns).

    Without an intercept their mean is not known, and the squares are taken around 0.
    """
    d = fleet.features.n_features
    with fleet.lock:
        sums = fleet.core.sums(None, fleet.now)
    count, gram = float(sums.counts.sum()), np.zeros((d, d))
    if not count > 0:
        return gram
    gram[np.triu_indices(d)] = sums.gram.sum(axis=0)
    gram += np.triu(gram, 1).T
    # Clicks and counts have weighted rows; with an intercept its square is their whole weight.
    squares = gram / (gram[0, 0] if fleet.features.intercept else count)
    if not fleet.features.intercept:
        return squares
    result: Array = squares - np.outer(squares[0], squares[0])
    return result


def rewards_vary(fleet: Fleet) -> bool:
    """Whether there are two different rewards."""
    with fleet.lock:
        if fleet.rewards != "number":
            return reward_range(fleet)[0]
        sums = fleet.core.sums(None, fleet.now)
    squares, count = float(sums.squares.sum()), float(sums.counts.sum())
    if not fleet.features.intercept:
        return squares > 0
    total = float(sums.moment[:, 0].sum())  # of the intercept
    return count > 0 and squares - total * total / count > 1e-12 * squares


def reward_range(fleet: Fleet) -> tuple[bool, float]:
    """Return whether clicks, counts or revenue differ, and their mean; the lock must be held.

    Of revenue it is the mean as the logarithmic law has it.
    """
    plain = fleet.core.plain_sums()
    count, total = float(plain.counts.sum()), float(plain.total.sum())
    if fleet.rewards == "revenue":
        level, spread = fleet.core.logarithms(fleet.now)  # type: ignore[attr-defined]
        bought = np.bincount(plain.arms, weights=plain.total, minlength=level.size)
        total = float(np.nansum(bought * np.exp(level + 0.5 * spread)))
        varies = total > 0 and (plain.total.sum() < count or bool(np.nanmax(spread) > 0))
    elif fleet.rewards == "binary":
        varies = 0 < total < count
    else:
        last = last_rewards(fleet.core)
        varies = bool(last.size) and (last.min() < last.max() or total != count * last[0])
    return varies, total / count if count > 0 else 0.0


def probability_best(mean: Array, sd: Array) -> Array:
    """Return each arm's probability of being best in every row; arms are believed independently.

    Examples
    --------
    >>> probability_best(np.array([[1.0, 1.0], [0.0, 10.0]]), np.ones((2, 2))).round(6)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    result, mean, sd = np.empty(mean.shape), np.ascontiguousarray(mean), np.ascontiguousarray(sd)
    score_probabilities_rows(mean, sd, np.ones(mean.shape, dtype=np.bool_), 1, AS_BELIEVED, result)
    return result


def _kind(labels: Sequence[Any]) -> Any:
    import polars as pl

    return pl.Int64() if labels and isinstance(labels[0], int) else pl.String()
