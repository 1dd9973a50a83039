"""What takes part: a library in one configuration, called as its documentation says."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from posse.errors import MissingDependency
from posse.types import Array, Settings
from posse_lab.benchmarks.workload import Size

PER_TASK, POOLED, TASK_FEATURES, TASK_BLOCKS = "per task", "pooled", "task features", "task blocks"
RECOMMENDED, TUNED = "recommended", "tuned"

INSTALL = "pip install './lab[peers]'"


class Entry(ABC):
    """A learner at work, from its first decision on.

    ``decide`` and ``update`` are the library's own functions, or the few lines that its documentation has around
    them: they are what is timed. ``given`` and ``outcome`` turn what the stream holds into their arguments: that is
    timed apart.
    """

    decide: Callable[..., Any]
    update: Callable[..., Any]

    @abstractmethod
    def given(self, task: int, context: Array, step: int) -> tuple[Any, ...]:
        """Return the arguments of ``decide``; steps count from 1."""

    @abstractmethod
    def arm(self, decided: Any) -> int:
        """Return the arm that was chosen, out of what ``decide`` returned."""

    @abstractmethod
    def outcome(self, given: tuple[Any, ...], decided: Any, reward: float) -> tuple[Any, ...]:
        """Return the arguments of ``update``."""


Build = Callable[[Size, str, int, Mapping[str, Any]], Entry]
"""A new learner for a size, a form, a seed and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library that takes part.

    Parameters
    ----------
    name : str
        As its makers write it.
    package : str
        What is imported, and what ``--only`` calls it.
    build : callable
    forms : tuple of str
        How tasks are told apart, in the order of the table.
    recommended : dict
        What the documentation recommends.
    grid : tuple of dicts
        What is tried in tuning beside that.
    """

    name: str
    package: str
    build: Build
    forms: tuple[str, ...]
    recommended: Settings
    grid: tuple[Settings, ...] = ()

    @property
    def trials(self) -> list[Settings]:
        """All settings that are tried in tuning, the recommended first."""
        return [self.recommended, *(one for one in self.grid if one != self.recommended)]


def library(package: str) -> ModuleType:
    """Return an optional library, or say how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise MissingDependency(f"{package} is not installed{reason}: {INSTALL}") from None


def version_of(package: str) -> str:
    """Return the version of an installed library."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def words_of(settings: Mapping[str, Any]) -> str:
    """Return settings in a few words.

    Examples
    --------
    >>> words_of({"policy": "LinUCB", "alpha": 1.25})
    'policy LinUCB, alpha 1.25'
    """
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )
