"""What worlds from data have in common: rows to meet, their checks, and how result files name them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from posse.checks import labels, real_array, whole_number
from posse.environments.base import CONTEXTS, stream
from posse.errors import InvalidValue, ShapeError, UnknownTask
from posse.types import Array, ArrayLike, IntArray, Settings


@dataclass(frozen=True, kw_only=True, eq=False)
class TableWorld:
    """A pool of rows of a data set, met in an order that the seed decides, each at most once.

    A kind of world says what it is called in result files, and what its numbers come from.
    """

    kind: ClassVar[str]
    made_of: ClassVar[tuple[str, ...]]
    name: str
    contexts: Array
    checksum: str | None = None
    details: Settings = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.contexts.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows to meet, the longest horizon."""
        return int(self.contexts.shape[0])

    def rows_to_meet(self, seed: int, horizon: int) -> IntArray:
        """Return the rows that a run of this seed meets, in their order."""
        return rows_to_meet(self.name, self.n_rows, seed, horizon)

    def settings(self) -> Settings:
        """Return every setting as a plain value; the data by name, size and checksum."""
        sizes = {name: getattr(self, name) for name in ("n_rows", "n_tasks", "n_arms", "n_features")}
        sha256 = self.checksum or fingerprint(*(getattr(self, name) for name in self.made_of))
        return {"world": self.kind, "data": self.name, "sha256": sha256, **sizes, **self._choices(), **self.details}

    def _choices(self) -> Settings:
        """Return what else decides the rewards."""
        return {}

    def _set(self, **checked: Any) -> None:
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def rows_to_meet(name: str, n_rows: int, seed: int, horizon: int) -> IntArray:
    """Return the rows that a run of this seed meets, in their order; each comes at most once."""
    seed, horizon = whole_number(seed, "seed", at_least=0), whole_number(horizon, "horizon", at_least=1)
    if horizon > n_rows:
        raise InvalidValue(
            f"expected horizon to be at most {n_rows}, the rows of {name!r}, since no context comes twice, got "
            f"{horizon}"
        )
    return stream(seed, CONTEXTS).permutation(n_rows)[:horizon]


def checked_table(value: ArrayLike, name: str) -> Array:
    """Return a table with at least one row and one column."""
    table = real_array(value, name)
    if table.ndim != 2 or table.size == 0:
        raise ShapeError(f"expected {name} to be a table with a row and a column at least, got shape {table.shape}")
    return table


def checked_tasks(value: ArrayLike, n_rows: int, n_tasks: int | None = None) -> IntArray:
    """Return the task of every row; every task up to ``n_tasks``, or up to the largest, has a row."""
    largest = n_tasks if n_tasks is not None else int(np.iinfo(np.int64).max)
    tasks = labels(value, "task", below=largest, error=UnknownTask)
    if tasks.size != n_rows:
        raise ShapeError(f"expected tasks to have {n_rows} entries, one per row, got {tasks.size}")
    present = np.unique(tasks)
    if present.size < (n_tasks or int(present[-1]) + 1):
        missing = int(np.argmax(np.append(present, -1) != np.arange(present.size + 1)))
        raise InvalidValue(f"task {missing} has no rows to meet; number those that have, from 0 and without gaps")
    return tasks


def checked_noise_sd(value: ArrayLike, n_arms: int) -> Array:
    """Return one standard deviation per arm."""
    sd = real_array(value, "noise_sd")
    if sd.ndim == 0:
        sd = np.full(n_arms, float(sd))
    if sd.shape != (n_arms,):
        raise ShapeError(f"expected noise_sd to be one number or have length {n_arms}, got shape {sd.shape}")
    if (sd < 0).any():
        raise InvalidValue(f"expected noise_sd to be at least 0, got {sd.min():g}")
    return sd


def fingerprint(*arrays: Array | IntArray | None) -> str:
    """Return a checksum of arrays, for worlds that no file stands behind: other numbers must not count as the same."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
