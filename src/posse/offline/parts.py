"""Values of parts of a log: of every task by itself, and of groups of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posse.errors import InvalidValue
from posse.offline.data import LoggedBandit
from posse.offline.diagnostics import Limits
from posse.offline.estimators import Contributions
from posse.offline.intervals import IntervalRule, effective_rewards, effective_size
from posse.types import Array, IntArray


def task_rows(
    data: LoggedBandit, weights: Array, estimates: Mapping[str, Contributions], rule: IntervalRule, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Yield the value of every task, by every estimator, with the interval about this very task.

    Tasks with too few effective rows, or effective rewards, get no value.
    """
    own = replace(rule, over_tasks=False)
    for task, rows in enumerate(_rows_of(data.tasks, data.n_tasks)):
        for found in _part(data, weights, estimates, rows, own, limits, limits.min_task_rows):
            yield {"task": data.task_labels[task], **found}


def group_rows(
    data: LoggedBandit, weights: Array, estimates: Mapping[str, Contributions], rule: IntervalRule, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Yield the value of every group of rows, by every estimator.

    Intervals are about tasks like those that have such rows; where these are few, about these very tasks.
    """
    for column, values in data.groups.items():
        names, place = np.unique(values.astype(str), return_inverse=True)
        if names.size > limits.max_groups:
            raise InvalidValue(
                f"column {column!r} has {names.size} different values, more than {limits.max_groups} groups; put them "
                "into classes first"
            )
        for group, rows in zip(names, _rows_of(place, names.size), strict=True):
            own = replace(rule, over_tasks=enough_tasks(data.tasks[rows], limits))
            named = {"column": column, "group": str(group), "tasks": int(np.unique(data.tasks[rows]).size)}
            for found in _part(data, weights, estimates, rows, own, limits, limits.min_effective_rows):
                yield {**named, **found}


def _rows_of(place: IntArray, n: int) -> list[IntArray]:
    """Return the rows at every place."""
    return np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place, minlength=n))[:-1])


def _part(
    data: LoggedBandit,
    weights: Array,
    estimates: Mapping[str, Contributions],
    rows: IntArray,
    rule: IntervalRule,
    limits: Limits,
    least: float,
) -> Iterator[dict[str, Any]]:
    """Yield the value of some rows, or why there is none, by every estimator."""
    own, rewards, usual = weights[rows], data.rewards[rows], data.usual_reward
    effective, count = effective_size(own), effective_rewards(own, rewards, usual)
    result: dict[str, Any] = {
        "rows": int(rows.size),
        "effective_rows": effective,
        "on_policy": float(rewards.mean()) if rows.size else 0.0,
        **dict.fromkeys(("value", "se", "low", "high", "refused")),
    }
    if effective < least:
        result["refused"] = f"worth {effective:.1f} rows of the target, less than {least:g}"
    elif count < limits.min_effective_rewards:
        other = f"rewards other than {usual:g}"
        result["refused"] = f"worth {count:.1f} {other}, less than {limits.min_effective_rewards:g}"
    _, tasks = np.unique(data.tasks[rows], return_inverse=True)
    for name, part in estimates.items():
        row = {"estimator": name, **result}
        if not row["refused"]:
            mine = Contributions(part.numerator[rows], part.denominator[rows])
            found = rule.estimate(tasks, mine, n_rewards=count)
            numbers = {"value": found.value, "se": found.se, "low": found.low, "high": found.high}
            row |= {key: number if math.isfinite(number) else None for key, number in numbers.items()}
        yield row


def enough_tasks(tasks: Any, limits: Limits) -> bool:
    """Return whether there are tasks enough, and not one that outweighs all others, for an interval over tasks."""
    sizes = np.bincount(tasks).astype(np.float64)
    sizes = sizes[sizes > 0]
    return sizes.size >= limits.min_tasks and effective_size(sizes) >= limits.min_effective_tasks
