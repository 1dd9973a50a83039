"""Checks at the edges: each returns the value in the form the inside relies on, or raises one clear error."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from posse.errors import InvalidValue, NotFinite, NotPositiveDefinite, ShapeError, UnknownArm, UnknownTask
from posse.types import Array, ArrayLike, IntArray


def whole_number(value: Any, name: str, *, at_least: int) -> int:
    """Return ``value`` as an int that is at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidValue(f"{name} must be a whole number of at least {at_least}, but {value!r} came")
    if value < at_least:
        raise InvalidValue(f"{name} must be at least {at_least}, but {value} came")
    return int(value)


def number(value: Any, name: str, *, above: float = -math.inf, at_least: float = -math.inf) -> float:
    """Return ``value`` as a finite float inside the given range."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidValue(f"{name} must be a number, but {value!r} came")
    try:
        result = float(value)
    except OverflowError:
        raise NotFinite(f"{name} must be finite, but a whole number too large for a float came") from None
    if not math.isfinite(result):
        raise NotFinite(f"{name} must be finite, but {result} came")
    if result <= above:
        raise InvalidValue(f"{name} must be greater than {above:g}, but {result:g} came")
    if result < at_least:
        raise InvalidValue(f"{name} must be at least {at_least:g}, but {result:g} came")
    return result


def one_of(value: str, name: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is among ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidValue(f"{name} must be one of {', '.join(map(repr, choices))}, but {value!r} came")
    return value


def real_array(value: ArrayLike, name: str) -> Array:
    """Return ``value`` as a contiguous float array without NaN or infinity."""
    try:
        raw = np.asarray(value)
        if np.iscomplexobj(raw):
            raise TypeError("its entries are complex")
        result = np.asarray(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"{name} must be an array of numbers, but {type(value).__name__} came: {error}") from None
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        place = f" at index {where[0] if len(where) == 1 else where}" if where else ""
        raise NotFinite(f"{name} must be finite, but it has {result[where]}{place}; drop or replace such values first")
    return result


def label(value: Any, name: str, *, below: int, error: type[UnknownTask] | type[UnknownArm]) -> int:
    """Return ``value`` as an int label in ``range(below)``."""
    try:
        result = operator.index(value)
    except TypeError:
        result = -1
    if not 0 <= result < below:
        raise error(f"no {name} {value!r}; the {name}s are 0 to {below - 1}")
    return result


def labels(value: ArrayLike, name: str, *, below: int, error: type[UnknownTask] | type[UnknownArm]) -> IntArray:
    """Return ``value`` as int labels that are all in ``range(below)``."""
    try:
        raw = np.asarray(value)
    except ValueError as reason:
        raise InvalidValue(f"{name} must be whole numbers from 0 to {below - 1}: {reason}") from None
    if raw.ndim != 1:
        raise ShapeError(f"{name} must have one axis, but its shape is {raw.shape}")
    if raw.size and not np.issubdtype(raw.dtype, np.integer):
        raise InvalidValue(f"{name} must be whole numbers from 0 to {below - 1}, but its type is {raw.dtype}")
    result = raw.astype(np.int64)
    wrong = (result < 0) | (result >= below)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise error(f"{name} {result[row]} at row {row} is unknown; the {name}s are 0 to {below - 1}")
    return result


def covariance(value: ArrayLike, name: str) -> Array:
    """Return symmetric positive-semidefinite matrices, shape (..., n_features, n_features)."""
    result = real_array(value, name)
    if result.ndim < 2 or result.shape[-1] != result.shape[-2] or result.shape[-1] == 0:
        raise ShapeError(f"{name} must be square matrices, but its shape is {result.shape}")
    scale = np.abs(result).max(axis=(-1, -2))
    asymmetry = np.abs(result - np.swapaxes(result, -1, -2)).max(axis=(-1, -2))
    # Rounding in S = B B' leaves asymmetries and negative eigenvalues of a few units in the last place.
    tolerance = 1e-10 * scale
    if (asymmetry > tolerance).any():
        worst = float((asymmetry / np.where(scale > 0, scale, 1.0)).max())
        raise NotPositiveDefinite(
            f"{name} must be symmetric, but entries differ from their mirror by {worst:.1e} of the largest; "
            "pass (S + S.T) / 2"
        )
    result = (result + np.swapaxes(result, -1, -2)) / 2
    smallest = np.linalg.eigvalsh(result)[..., 0]
    if (smallest < -tolerance).any():
        arm = int(np.argmin(np.atleast_1d(smallest)))
        which = f" of arm {arm}" if result.ndim == 3 else ""
        raise NotPositiveDefinite(
            f"{name}{which} must be positive semidefinite, but its smallest eigenvalue is {smallest.min():.3g}; "
            "clip negative eigenvalues at 0 first"
        )
    return result
