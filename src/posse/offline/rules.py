"""Rules of one's own: a function of task and context, or a column that names the arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.errors import InvalidValue, UnknownArm
from posse.offline.data import LoggedBandit
from posse.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule that names the arm, or how likely each is, given a task and a context.

    Parameters
    ----------
    function : callable
        ``function(task, context)`` with the task's name and the raw features by name; returns an arm, or a mapping
        from arms to probabilities that sum to 1. It must not look at rewards.
    label : str, optional
        Default: the function's name.

    Examples
    --------
    >>> from posse.logs import Log
    >>> from posse.offline import LoggedBandit
    >>> log = Log({"task": ["s", "s"], "arm": ["tea", "ice"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5],
    ...            "context": [{"degrees": 30.0}, {"degrees": 4.0}]})
    >>> Rule(lambda task, context: "ice" if context["degrees"] > 20 else "tea").probabilities(
    ...     LoggedBandit.from_log(log)).tolist()  # columns are the arms, sorted: ice, tea
    [[1.0, 0.0], [0.0, 1.0]]
    """

    function: Callable[[Any, dict[str, Any]], Any]
    label: str = ""

    @property
    def name(self) -> str:
        """Its label, or the function's name."""
        return self.label or str(getattr(self.function, "__name__", "rule"))

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return what the rule says in every row, also where the arm was not eligible: that is then refused."""
        if data.raw is None:
            raise InvalidValue("a rule needs the features as they were logged; evaluate it on a Log, not on arrays")
        contexts = data.raw.iter_rows(named=True) if data.raw.width else ({} for _ in range(data.n_rows))
        result = np.zeros((data.n_rows, data.n_arms))
        place = {arm: column for column, arm in enumerate(data.arm_labels)}
        for row, (task, context) in enumerate(zip(data.tasks.tolist(), contexts, strict=True)):
            said = self.function(data.task_labels[task], context)
            for arm, probability in (said if isinstance(said, Mapping) else {said: 1.0}).items():
                if arm not in place:
                    raise _unknown(self.name, arm, row, data)
                result[row, place[arm]] = probability
        return result


@dataclass(frozen=True, slots=True)
class Column:
    """The arm that a column of the log's features names: what another system would have done.

    Parameters
    ----------
    column : str
    """

    column: str

    @property
    def name(self) -> str:
        """Its column."""
        return f"column {self.column}"

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return 1 for the arm that the column names."""
        if data.raw is None or self.column not in data.raw.columns:
            known = ", ".join(map(repr, data.raw.columns)) if data.raw is not None else ""
            raise InvalidValue(f"no column {self.column!r} in the log; its features are {known or 'not there'}")
        result = np.zeros((data.n_rows, data.n_arms))
        place = {arm: column for column, arm in enumerate(data.arm_labels)}
        for row, arm in enumerate(data.raw[self.column].to_list()):
            if arm not in place:
                raise _unknown(self.name, arm, row, data)
            result[row, place[arm]] = 1.0
        return result


def _unknown(name: str, arm: Any, row: int, data: LoggedBandit) -> UnknownArm:
    known = ", ".join(map(repr, data.arm_labels))
    return UnknownArm(f"{name!r} says {arm!r} in row {row}, but the arms of the log are {known}")
