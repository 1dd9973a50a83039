"""Policies whose value is asked for: each says what it would have done in every row of a log."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from posse.checks import nearest, real_array, shortened
from posse.errors import InvalidValue, ShapeError, UnknownArm
from posse.fleet.catalogue import Catalogue
from posse.logs.schema import PRICES
from posse.offline.data import LoggedBandit, check_distributions
from posse.offline.estimators import importance_weights
from posse.types import Array

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet import Posse


@runtime_checkable
class Target(Protocol):
    """A policy that does not learn while it is evaluated."""

    @property
    def name(self) -> str:
        """Its name in tables and figures."""

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return how likely it would choose each arm in each row, shape (n_rows, n_arms)."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Choose any eligible arm, each as likely as the others."""

    name: str = "uniform"

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return equal shares of the eligible arms."""
        return np.asarray(data.eligible / data.eligible.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Always:
    """Choose one arm, always.

    Parameters
    ----------
    arm : str or int
        Its label.
    """

    arm: Any

    @property
    def name(self) -> str:
        """Its arm."""
        return f"always {self.arm}"

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return 1 for the arm, also where it was not eligible: the evaluation is then refused."""
        if self.arm not in data.arm_labels:
            raise UnknownArm(f"no arm {self.arm!r} in the log; {nearest(self.arm, data.arm_labels, 'arms')}")
        result = np.zeros((data.n_rows, data.n_arms))
        result[:, data.arm_labels.index(self.arm)] = 1.0
        return result


@dataclass(frozen=True, slots=True)
class Logged:
    """The policy that made the log: its value is the mean reward."""

    name: str = "logged"

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return the logged probabilities; where there are none, what was done stands for what might have been."""
        if data.probabilities is not None:
            return data.probabilities
        result = np.zeros((data.n_rows, data.n_arms))
        result[np.arange(data.n_rows), data.arms] = 1.0
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """A saved fleet or catalogue, frozen: it decides as it would have decided the day it was saved.

    It must not have learned from the log that it is judged by: its value would be too high. Fit it on an earlier log,
    or take :class:`~posse.offline.learned.Learned`.

    Parameters
    ----------
    posse : Posse or Catalogue
        A catalogue for the log of a catalogue, a fleet for others.
    label : str, optional
    explore : bool
        False takes the arm with the best mean.
    """

    posse: Posse | Catalogue
    label: str = ""
    explore: bool = True

    @property
    def name(self) -> str:
        """Its label, or its policy."""
        policy = "catalogue" if isinstance(self.posse, Catalogue) else self.posse.policy
        return self.label or (policy if self.explore else f"{policy}, greedy")

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return what the fleet would do with the arms that it has and that were eligible."""
        if data.raw is None:
            raise InvalidValue("a fleet needs the features as they were logged; evaluate it on a Log, not on arrays")
        if isinstance(self.posse, Catalogue):
            return self._of_menus(self.posse, data, data.raw)
        own = {arm: position for position, arm in enumerate(self.posse.arms)}
        shared = np.array([arm in own for arm in data.arm_labels])
        offered = data.eligible & shared
        if not offered.any(axis=1).all():
            row = int(np.argmin(offered.any(axis=1)))
            eligible = [arm for arm, there in zip(data.arm_labels, data.eligible[row], strict=True) if there]
            raise UnknownArm(
                f"fleet {self.name!r} has none of the arms {eligible} that were eligible in row {row}; its arms are "
                f"{', '.join(map(repr, own))}"
            )
        labels = np.array(data.arm_labels, dtype=object)
        tasks = [data.task_labels[task] for task in data.tasks.tolist()]
        everything = bool(offered.all()) and len(own) == data.n_arms
        lists = None if everything else [labels[row].tolist() for row in offered]
        fleet, tasks = _with_tasks_of(self.posse, data.raw, tasks)
        prices = {}
        if fleet.worth is not None and data.worth is not None:  # those of the request, as far as the log has the arm
            for name, part in zip(PRICES, data.worth, strict=True):
                prices[name] = {arm: part[:, place] for place, arm in enumerate(data.arm_labels) if arm in own}
        given = fleet.probabilities(tasks, data.raw, lists, explore=self.explore, **prices)
        result = np.zeros((data.n_rows, data.n_arms))
        for column, arm in enumerate(data.arm_labels):
            if arm in own:
                result[:, column] = given[:, own[arm]]
        return result

    def _of_menus(self, catalogue: Catalogue, data: LoggedBandit, raw: pl.DataFrame) -> Array:
        """Return what a catalogue would do with the eligible arms of every row."""
        if data.menus is None:
            raise InvalidValue(
                f"expected a log with arm_features for the catalogue {self.name!r}, got one of fixed arms; judge a "
                "fleet by it, or log the features of all eligible arms"
            )
        tasks = [data.task_labels[task] for task in data.tasks.tolist()]
        contexts: Any = raw if raw.width else [[]] * data.n_rows
        result = np.zeros((data.n_rows, data.n_arms))
        for row, found in enumerate(catalogue.probabilities_in(tasks, contexts, data.menus, self.explore)):
            result[row, : found.size] = found
        return result


def _with_tasks_of(fleet: Posse, raw: pl.DataFrame, tasks: list[Any]) -> tuple[Posse, list[Any]]:
    """Return a fleet, and the tasks of rows, so that tasks it has never met are known by what the rows say of them.

    A task that the fleet knows is as it was when the fleet was saved.
    """
    spec = fleet.known.tasks.spec
    names = () if spec is None or not spec.ready else spec.names
    if not names or not set(names) <= set(raw.columns):
        return fleet, tasks
    mine = set(fleet.tasks)
    found: dict[tuple[Any, ...], int] = {}
    at: dict[int, int] = {}
    for row, about in enumerate(raw.select(names).iter_rows()):
        if tasks[row] not in mine and any(value is not None for value in about):
            at[row] = found.setdefault(about, len(found))  # without rewards, tasks of one kind are all alike
    if not found:
        return fleet, tasks
    copy, labels = with_more_tasks(fleet, [dict(zip(names, about, strict=True)) for about in found])
    return copy, [labels[at[row]] if row in at else task for row, task in enumerate(tasks)]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Any function from a log to probabilities of shape (n_rows, n_arms)."""

    function: Callable[[LoggedBandit], Array]
    name: str = "function"

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return what the function says."""
        return self.function(data)


def as_target(value: Any) -> Target:
    """Return a target as it is, and a function as one."""
    if isinstance(value, Target) and not isinstance(value, type):
        return value
    if callable(value) and not isinstance(value, type):
        return Function(value, getattr(value, "__name__", "function"))
    raise InvalidValue(
        "expected a target such as Uniform(), Learned('ebm-ts') or Fleet(posse), or a function of a LoggedBandit, got "
        f"{shortened(value)}"
    )


def checked_probabilities(target: Target, data: LoggedBandit) -> Array:
    """Return what a target would do, or say what is wrong with it."""
    result = real_array(target.probabilities(data), f"probabilities of {target.name!r}")
    if result.shape != (data.n_rows, data.n_arms):
        raise ShapeError(
            f"probabilities of {target.name!r} must have shape {(data.n_rows, data.n_arms)}, but {result.shape} came"
        )
    check_distributions(result, f"probabilities of {target.name!r}")
    return result


def weights_of(target: Target, probabilities: Array, data: LoggedBandit, *, clip: float | None = None) -> Array:
    """Return the importance weights of a target; those of the logging policy are 1, whatever rounding says."""
    if isinstance(target, Logged):
        return np.ones(data.n_rows)
    return importance_weights(probabilities, data.arms, data.propensities, clip=clip)


def with_more_tasks(fleet: Posse, features: Sequence[Mapping[str, Any]]) -> tuple[Posse, list[Any]]:
    """Return a copy of a fleet that has further tasks, known by their features alone, and their names there.

    The fleet itself stays as it is; a question about a task that it does not know leaves no trace.
    """
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = Path(folder) / "fleet.posse"
        fleet.save(path)
        copy = type(fleet).load(path, clock=fleet.clock)
    labels: list[Any] = []
    free = max((task for task in copy.tasks if isinstance(task, int)), default=-1)
    while len(labels) < len(features):
        free += 1
        label = free if copy.names.tasks.kind is int else f"new task {free}"
        if label not in copy.names.tasks:
            labels.append(label)
    copy.set_task_features(dict(zip(labels, features, strict=True)))
    return copy, labels
