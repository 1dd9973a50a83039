"""Rules of one's own: a function of task and context, or a column that names the arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any

import numpy as np

from posse.errors import InvalidValue, UnknownArm
from posse.offline.data import LoggedBandit
from posse.types import Array

SHOWN = 20  # arms that an error names


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule that names the arm, or how likely each is, given a task, a context and maybe the eligible arms.

    Parameters
    ----------
    function : callable
        ``function(task, context)`` with the task's name and the raw features by name; returns an arm, or a mapping
        from arms to probabilities that sum to 1. It must not look at rewards. ``function(task, context, arms)``, three
        parameters without defaults, gets the eligible arms, too: a mapping from arms to their raw features by name,
        empty where the log has none. For the log of a catalogue it must be such a one.
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

    function: Callable[..., Any]
    label: str = ""

    @property
    def name(self) -> str:
        """Its label, or the function's name."""
        return self.label or str(getattr(self.function, "__name__", "rule"))

    @property
    def takes_arms(self) -> bool:
        """True if the function asks for the eligible arms: it has three parameters that must be given."""
        try:
            parameters = signature(self.function)
            parameters.bind(None, None, None)
        except (TypeError, ValueError):  # another number of parameters, or none that can be seen
            return False
        try:
            parameters.bind(None, None)
        except TypeError:
            return True
        return False

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return what the rule says in every row, also where the arm was not eligible: that is then refused."""
        if data.raw is None:
            raise InvalidValue("a rule needs the features as they were logged; evaluate it on a Log, not on arrays")
        if data.menus is not None and not self.takes_arms:
            raise InvalidValue(
                f"expected a rule with three parameters (task, context, arms) for the log of a catalogue, got "
                f"{self.name!r}; arms has the eligible arms with their features"
            )
        contexts = data.raw.iter_rows(named=True) if data.raw.width else ({} for _ in range(data.n_rows))
        result = np.zeros((data.n_rows, data.n_arms))
        for row, (task, context) in enumerate(zip(data.tasks.tolist(), contexts, strict=True)):
            arms = (_eligible(data, row),) if self.takes_arms else ()
            answer = self.function(data.task_labels[task], context, *arms)
            place = data.columns(row)
            for arm, probability in (answer if isinstance(answer, Mapping) else {answer: 1.0}).items():
                if arm not in place:
                    raise _unknown(self.name, arm, row, place)
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
        for row, arm in enumerate(data.raw[self.column].to_list()):
            place = data.columns(row)
            if arm not in place:
                raise _unknown(self.name, arm, row, place)
            result[row, place[arm]] = 1.0
        return result


def _eligible(data: LoggedBandit, row: int) -> dict[Any, dict[str, Any]]:
    """Return the eligible arms of a row with their features, which only the log of a catalogue has."""
    if data.menus is not None:
        return data.menus.by_arm(row)
    return {arm: {} for arm, there in zip(data.arm_labels, data.eligible[row].tolist(), strict=True) if there}


def _unknown(name: str, arm: Any, row: int, arms: Iterable[Any]) -> UnknownArm:
    known = list(map(repr, islice(arms, SHOWN + 1)))
    more = ", ..." if len(known) > SHOWN else ""
    return UnknownArm(f"{name!r} says {arm!r} in row {row}, but the arms there are {', '.join(known[:SHOWN])}{more}")
