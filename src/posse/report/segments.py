"""Find the arm that is best in each situation: for every category of a feature, and every range of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import PosseError
from posse.features.quantities import Numeric
from posse.fleet.expecting import expected_rewards, in_money, predictors_at, probability_best

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.logs import Log
    from posse.types import Array, BoolArray

MOST_ROWS = 4000  # of the log at which arms are compared
RANGES = 4  # of a number, with as many decisions each
FEW_VALUES = 6  # up to which every value of a number is a segment
MOST_SEGMENTS = 12  # of a feature; the rarest are left out


@dataclass(frozen=True, slots=True)
class Segment:
    """Decisions of the log that have something in common.

    Parameters
    ----------
    feature : str
    low, high : float or None
        The range of a number.
    value : str, int, float, bool or None
        The category; None for a range.
    share : float
        How many of the decisions are among them, from 0 to 1.
    arm, second : str, int or None
        The arm that is expected to earn most over them, and the next best one; None if there is no other.
    mean, ahead : float
        What the best is expected to earn per decision, and by how much that is more than the next best.
    probability : float
        How likely that arm is the best one, on average over the decisions.
    """

    feature: str
    low: float | None
    high: float | None
    value: Any
    share: float
    arm: Label
    second: Label | None
    mean: float
    ahead: float
    probability: float


def segments_of(fleet: Fleet, log: Log) -> list[Segment]:
    """Return the best arm in every segment of the log, feature by feature; nothing for a log of other features.

    Every decision counts with its own task and context, by what the fleet believes now.

    Parameters
    ----------
    fleet : Fleet
    log : Log
    """
    features = fleet.features
    if not log.n_rows or not features.names or not set(features.names) <= set(log.features):
        return []
    rows = np.unique(np.linspace(0, log.n_rows - 1, min(log.n_rows, MOST_ROWS)).round().astype(np.int64)).tolist()
    contexts, tasks = log.contexts[rows], log.frame["task"][rows].to_list()
    labels = list(dict.fromkeys(tasks))
    position = {task: place for place, task in enumerate(labels)}
    codes = np.array([position[task] for task in tasks], dtype=np.int64)
    try:
        predictors = predictors_at(fleet, labels, codes, features.encode_many(contexts))
    except PosseError:  # the log has contexts that the fleet does not know
        return []
    beliefs = in_money(fleet, expected_rewards(fleet, predictors))
    compared = predictors if fleet.worth is None else beliefs
    mean, probability = beliefs.mean, probability_best(compared.mean, compared.sd)
    found = []
    for feature in features.features:
        values = contexts[feature.name]
        cut = _ranges(values) if isinstance(feature, Numeric) else _categories(values)
        for low, high, value, rows_of in cut:
            arms = _best(fleet, mean[rows_of].mean(axis=0), probability[rows_of].mean(axis=0))
            found.append(Segment(feature.name, low, high, value, float(rows_of.mean()), *arms))
    return found


def _best(fleet: Fleet, average: Array, probability: Array) -> tuple[Label, Label | None, float, float, float]:
    """Return the best arm and the next, what it earns, by how much more, and how likely it is the best."""
    order = np.argsort(-average, kind="stable").tolist()
    best, second = order[0], order[1] if len(order) > 1 else None
    ahead = 0.0 if second is None else float(average[best] - average[second])
    name = None if second is None else fleet.arms[second]
    return fleet.arms[best], name, float(average[best]), ahead, float(probability[best])


Cut = tuple[float | None, float | None, Any, "BoolArray"]


def _ranges(values: pl.Series) -> Iterator[Cut]:
    """Yield the ranges of a number, each with as many decisions as the next, as far as values allow."""
    numbers = values.to_numpy().astype(np.float64)
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return
    distinct = np.unique(known)
    if distinct.size <= FEW_VALUES:
        for value in distinct.tolist():
            yield None, None, value, numbers == value
        return
    edges = np.unique(np.quantile(known, np.linspace(0, 1, RANGES + 1)))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = (numbers >= low) & ((numbers < high) | (high == edges[-1]) & (numbers == high))
        if inside.any():
            yield low, high, None, inside


def _categories(values: pl.Series) -> Iterator[Cut]:
    """Yield the categories that occur, the most frequent first."""
    counts = values.drop_nulls().value_counts(sort=True)
    for value in counts[values.name].head(MOST_SEGMENTS).to_list():
        yield None, None, value, (values == value).fill_null(value=False).to_numpy()
