"""Single raw values: what counts as a number, as a category and as a name, and how errors show them."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from posse.core.size import LARGEST
from posse.errors import InvalidValue, NotFinite
from posse.tables import EXACT, is_missing

LONGEST_NAME = 200
LONGEST_CATEGORY = 1000
MOST_COLUMNS = 10_000

SMALLEST_WHOLE, LARGEST_WHOLE = -(2**63), 2**64 - 1  # that a column of a table holds

Category: TypeAlias = str | int | bool

KINDS: dict[type, str] = {str: "text", int: "whole numbers", bool: "True and False"}
"""Words for the categories of one feature, by their type."""


def shown(value: Any) -> str:
    """Return a value for an error message: text in double quotes, nothing longer than a line."""
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except Exception:  # an int of more digits than Python prints, or an object of the caller's
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:76]} ..."


def feature(name: str, row: int | None) -> str:
    """Return how an error message calls a feature."""
    return f'feature "{name}"' if row is None else f'feature "{name}" at row {row}'


def checked_name(value: Any) -> str:
    """Return the name of a feature."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not _is_unicode(value):
        raise InvalidValue(
            f"expected the name of a feature to be a string of 1 to {LONGEST_NAME} characters, got {shown(value)}"
        )
    return str.__str__(value)


def checked_category(value: Any, name: str) -> Category:
    """Return a declared category: text, a whole number of 64 bits, or a bool."""
    if isinstance(value, np.bool | np.integer) and not _is_span(value):
        value = value.item()
    kind = type(value)
    if isinstance(value, str) and len(value) <= LONGEST_CATEGORY and _is_unicode(value):
        return str.__str__(value)
    if kind is bool or (kind is int and SMALLEST_WHOLE <= value <= LARGEST_WHOLE):
        return value  # type: ignore[no-any-return]
    raise InvalidValue(
        f'expected a category of feature "{name}" to be a string of at most {LONGEST_CATEGORY} characters, a whole '
        f"number of 64 bits or a bool, got {shown(value)}"
    )


def quantity(value: Any, name: str, row: int | None) -> float:
    """Return a raw value as a float of any size, NaN where it is missing."""
    if is_missing(value):
        return math.nan
    value = _unwrapped(value)
    if isinstance(value, np.bool):
        return float(value)
    if not isinstance(value, Real | Decimal) or _is_span(value):
        hint = "; convert it first" if isinstance(value, str) else ""
        raise InvalidValue(f"expected {feature(name, row)} to be a number, got {shown(value)}{hint}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def too_large(value: Any, name: str, row: int | None) -> NotFinite:
    """Return the error for a raw number that is not finite or whose squares would not be."""
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return NotFinite(f"expected {feature(name, row)} to be finite, got {shown(value)}")
    return NotFinite(
        f"{feature(name, row)} is {shown(value)}: sums of squares would overflow; keep it below {LARGEST:g}, or rescale"
    )


def category(value: Any, name: str, row: int | None) -> Category:
    """Return a raw value that is not missing as a category.

    A whole number may come as a float, since tables with gaps make floats of whole numbers; one that may have lost
    digits is refused.
    """
    value = _unwrapped(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | np.bool):
        return bool(value)
    if _is_whole(value):
        whole = operator.index(value)
        if SMALLEST_WHOLE <= whole <= LARGEST_WHOLE:
            return whole
        raise InvalidValue(f"{feature(name, row)} is {shown(value)}, beyond 64 bits; pass it as text")
    if isinstance(value, float | np.floating):
        value = float(value)
        if abs(value) <= EXACT and value.is_integer():
            return int(value)
        why = "has a fraction" if abs(value) <= EXACT else "may have lost digits"
        raise InvalidValue(
            f"{feature(name, row)} is {shown(value)}, which {why}: a category is text, a whole number or a bool; pass "
            "it as one of these"
        )
    raise InvalidValue(
        f"expected {feature(name, row)} to be text, a whole number or a bool, got {shown(value)}; pass it as one of "
        "these"
    )


def _is_span(value: Any) -> bool:
    """Whether it is a time span, which NumPy counts among its whole numbers."""
    return isinstance(value, np.timedelta64)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not _is_span(value)


def _unwrapped(value: Any) -> Any:
    """Return what an array without axes holds."""
    if getattr(value, "shape", None) == () and not isinstance(value, np.generic) and hasattr(value, "__array__"):
        return np.asarray(value)[()]
    return value


def _is_unicode(text: str) -> bool:
    """Whether the text can be written to a file: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
