"""Checks of the arrays that worlds from data are made of."""

from __future__ import annotations

import hashlib

import numpy as np

from posse.checks import labels, real_array
from posse.errors import InvalidValue, ShapeError, UnknownTask
from posse.types import Array, ArrayLike, IntArray


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
