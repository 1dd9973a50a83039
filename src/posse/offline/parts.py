"""Values of parts of a log: of every task by itself, and of groups of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from posse.errors import InvalidValue
from posse.offline.bootstrap import TaskSums, bootstrap, estimate
from posse.offline.data import LoggedBandit
from posse.offline.diagnostics import Limits, effective_size
from posse.offline.estimators import Contributions
from posse.types import Settings

NO_INTERVAL = "too few tasks for an interval"


def task_rows(
    data: LoggedBandit, weights: Any, estimates: Mapping[str, Contributions], *, confidence: float, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Yield the value of every task, by every estimator.

    Within a task its rows are the units: given the task's coefficients they are independent, and the value is that of
    this very task. Intervals are Student's with the effective number of rows less one as degrees of freedom. Tasks with
    too few effective rows get no value.
    """
    tasks, n_tasks = data.tasks, data.n_tasks
    count = np.bincount(tasks, minlength=n_tasks)
    total = np.bincount(tasks, weights, n_tasks)
    squares = np.bincount(tasks, weights**2, n_tasks)
    effective = np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1.0), 0.0)
    enough = effective >= limits.min_task_rows
    logged = np.bincount(tasks, data.rewards, n_tasks) / np.maximum(count, 1)
    reach = stdtrit(np.maximum(effective - 1, 1), (1 + confidence) / 2)
    for name, rows in estimates.items():
        over = np.bincount(tasks, rows.denominator, n_tasks)
        safe = np.where(over > 0, over, 1.0)
        value = np.bincount(tasks, rows.numerator, n_tasks) / safe
        pulls = (rows.numerator - value[tasks] * rows.denominator) / safe[tasks]
        se = np.sqrt(np.bincount(tasks, pulls**2, n_tasks) * count / np.maximum(count - 1, 1))
        for task in range(n_tasks):
            row: dict[str, Any] = {
                "estimator": name,
                "task": data.task_labels[task],
                "rows": int(count[task]),
                "effective_rows": float(effective[task]),
                "on_policy": float(logged[task]),
                **dict.fromkeys(("value", "se", "low", "high", "refused")),
            }
            if enough[task]:
                half = float(reach[task] * se[task])
                row |= {"value": float(value[task]), "se": float(se[task])}
                row |= {"low": float(value[task]) - half, "high": float(value[task]) + half}
            else:
                row["refused"] = f"worth {effective[task]:.1f} rows of the target, less than {limits.min_task_rows:g}"
            yield row


def group_rows(
    data: LoggedBandit,
    weights: Any,
    estimates: Mapping[str, Contributions],
    *,
    limits: Limits,
    bootstrap_settings: Settings,
) -> Iterator[dict[str, Any]]:
    """Yield the value of every group of rows, by every estimator, with intervals over the tasks that have such rows."""
    for column, values in data.groups.items():
        names, place = np.unique(values.astype(str), return_inverse=True)
        if names.size > limits.max_groups:
            raise InvalidValue(
                f"column {column!r} has {names.size} different values, more than {limits.max_groups} groups; put them "
                "into classes first"
            )
        for position, group in enumerate(names):
            rows = np.flatnonzero(place == position)
            _, tasks = np.unique(data.tasks[rows], return_inverse=True)
            row: dict[str, Any] = {
                "column": column,
                "group": str(group),
                "tasks": int(tasks.max()) + 1,
                "rows": int(rows.size),
                "effective_rows": effective_size(weights[rows]),
                "on_policy": float(data.rewards[rows].mean()),
                **dict.fromkeys(("value", "se", "low", "high", "refused")),
            }
            if row["effective_rows"] < limits.min_effective_rows:
                row["refused"] = (
                    f"worth {row['effective_rows']:.1f} rows of the target, less than {limits.min_effective_rows:g}"
                )
                yield from ({"estimator": name, **row} for name in estimates)
                continue
            sums = [
                TaskSums.of(tasks, Contributions(part.numerator[rows], part.denominator[rows]))
                for part in estimates.values()
            ]
            if enough_tasks(tasks, limits):
                found = bootstrap(sums, **bootstrap_settings)
            else:
                found, row["refused"] = [estimate(one) for one in sums], NO_INTERVAL
            for name, one in zip(estimates, found, strict=True):
                numbers = {"value": one.value, "se": one.se, "low": one.low, "high": one.high}
                yield {"estimator": name, **row, **{key: _or_none(number) for key, number in numbers.items()}}


def enough_tasks(tasks: Any, limits: Limits) -> bool:
    """Return whether there are tasks enough, and not one that outweighs all others, for an interval over tasks."""
    sizes = np.bincount(tasks).astype(np.float64)
    sizes = sizes[sizes > 0]
    return sizes.size >= limits.min_tasks and effective_size(sizes) >= limits.min_effective_tasks


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
