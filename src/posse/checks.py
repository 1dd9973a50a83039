"""Checks at the edges: each returns the value in the form the inside relies on, or raises one clear error."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from posse.errors import InvalidValue, NotFinite, NotPositiveDefinite, ShapeError, UnknownArm, UnknownTask
from posse.types import Array, ArrayLike, IntArray


def shortened(value: Any) -> str:
    """Return a value for an error message, on one line and no longer than that."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


MANY = 1000  # names among which the nearest is looked for
LONGEST = 100  # characters of a name that are compared, and of a value in an error
LISTED = 8  # names in an error


def nearest(given: Any, known: Collection[Any], what: str, shown: Callable[[Any], str] = repr) -> str:
    """Return the end of an error about an unknown name: the nearest known one, if any is near, and what there are.

    Examples
    --------
    >>> nearest("cofee", ["coffee", "cake"], "arms")
    "did you mean 'coffee'? The arms are 'coffee', 'cake'"
    """
    names = list(islice(known, MANY))
    near = get_close_matches(str(given)[:LONGEST], [str(name) for name in names], n=1)
    meant = [name for name in names if near and str(name) == near[0]]
    listed = ", ".join(map(shown, names[:LISTED])) or "none"
    more = f", ... ({len(known):,} in all)" if len(known) > LISTED else ""
    return f"{f'did you mean {shown(meant[0])}? The' if meant else 'the'} {what} are {listed}{more}"


def whole_number(value: Any, name: str, *, at_least: int) -> int:
    """Return ``value`` as an int that is at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidValue(f"expected {name} to be a whole number of at least {at_least}, got {value!r}")
    if value < at_least:
        raise InvalidValue(f"expected {name} to be at least {at_least}, got {value}")
    return int(value)


def number(value: Any, name: str, *, above: float = -math.inf, at_least: float = -math.inf) -> float:
    """Return ``value`` as a finite float inside the given range."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidValue(f"expected {name} to be a number, got {value!r}")
    try:
        result = float(value)
    except OverflowError:
        raise NotFinite(f"expected {name} to be finite, got a whole number too large for a float") from None
    if not math.isfinite(result):
        raise NotFinite(f"expected {name} to be finite, got {result}")
    if result <= above:
        raise InvalidValue(f"expected {name} to be greater than {above:g}, got {result:g}")
    if result < at_least:
        raise InvalidValue(f"expected {name} to be at least {at_least:g}, got {result:g}")
    return result


def one_of(value: str, name: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is among ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidValue(f"expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def real_array(value: ArrayLike, name: str) -> Array:
    """Return ``value`` as a contiguous float array without NaN or infinity."""
    try:
        raw = np.asarray(value)
        if np.iscomplexobj(raw):
            raise TypeError("its entries are complex")
        result = np.asarray(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"expected {name} to be an array of numbers, got {type(value).__name__}: {error}") from None
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        place = f" at index {where[0] if len(where) == 1 else where}" if where else ""
        raise NotFinite(f"expected {name} to be finite, got {result[where]}{place}; drop or replace such values first")
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
        raise InvalidValue(
            f"expected {name} to be whole numbers from 0 to {below - 1}, got something else: {reason}"
        ) from None
    if raw.ndim != 1:
        raise ShapeError(f"expected {name} to have one axis, got shape {raw.shape}")
    if raw.size and not np.issubdtype(raw.dtype, np.integer):
        raise InvalidValue(f"expected {name} to be whole numbers from 0 to {below - 1}, got type {raw.dtype}")
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
        raise ShapeError(f"expected {name} to be square matrices, got shape {result.shape}")
    scale = np.abs(result).max(axis=(-1, -2))
    asymmetry = np.abs(result - np.swapaxes(result, -1, -2)).max(axis=(-1, -2))
    # Rounding in S = B B' leaves asymmetries and negative eigenvalues of a few units in the last place.
    tolerance = 1e-10 * scale
    if (asymmetry > tolerance).any():
        worst = float((asymmetry / np.where(scale > 0, scale, 1.0)).max())
        raise NotPositiveDefinite(
            f"expected {name} to be symmetric, got entries that differ from their mirror by {worst:.1e} of the "
            "largest; "
            "pass (S + S.T) / 2"
        )
    result = (result + np.swapaxes(result, -1, -2)) / 2
    smallest = np.linalg.eigvalsh(result)[..., 0]
    if (smallest < -tolerance).any():
        arm = int(np.argmin(np.atleast_1d(smallest)))
        which = f" of arm {arm}" if result.ndim == 3 else ""
        raise NotPositiveDefinite(
            f"expected {name}{which} to be positive semidefinite, got a smallest eigenvalue of {smallest.min():.3g}; "
            "clip negative eigenvalues at 0 first"
        )
    return result


class KnownKeywords:
    """Base of classes whose ``__init__`` may be inherited, so that Python would name a class nobody called."""

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Say what a class takes: before 3.11.4, Python would tell of ``__new__`` instead."""
        super().__init_subclass__()
        signature = inspect.signature(cls.__init__)
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls, *_: Any, **keywords: Any) -> Self:
        """Refuse a keyword that ``__init__`` does not take."""
        if keywords:
            require_keywords(cls, keywords)
        return super().__new__(cls)


def require_keywords(kind: type, keywords: Iterable[str]) -> None:
    """Raise TypeError for the first keyword that ``kind`` does not take."""
    known = _keywords(kind)
    if known is None:
        return
    for word in keywords:
        if word not in known:
            near = get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{kind.__name__} has no argument {word!r}; {hint}")


@cache
def _keywords(kind: type) -> tuple[str, ...] | None:
    """Return what ``kind`` takes by keyword, None if anything."""
    found = inspect.signature(kind).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in found):
        return None
    return tuple(parameter.name for parameter in found if parameter.kind is not parameter.VAR_POSITIONAL)
