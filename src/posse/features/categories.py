"""Categories: one column each where they are listed, and a stable hash that says which column where they are not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posse.checks import one_of, whole_number
from posse.errors import InvalidValue, ShapeError
from posse.features.parts import Marking
from posse.features.values import (
    KINDS,
    MOST_COLUMNS,
    Category,
    category,
    checked_category,
    checked_name,
    feature,
    shown,
)


@dataclass(frozen=True, slots=True, repr=False)
class OneHot(Marking):
    """One of a list of categories; make it with :func:`one_hot`."""

    kind_name = "one_hot"

    name: str
    categories: tuple[Category, ...]
    unknown: str = "error"
    missing: str = "error"
    # The type of the categories takes part in comparisons: (1, 0) equals (True, False) in Python.
    kind: type = field(init=False)
    places: Mapping[Any, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        name = checked_name(self.name)
        given: Any = self.categories
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InvalidValue(f'expected categories of feature "{name}" to be a list, got {shown(given)}')
        raw = list(given)
        if not 0 < len(raw) <= MOST_COLUMNS:
            raise ShapeError(
                f'expected feature "{name}" to have 1 to {MOST_COLUMNS:,} categories, got {len(raw)}; hashed("{name}", '
                "buckets) takes any number"
            )
        categories = tuple(checked_category(value, name) for value in raw)
        kinds = set(map(type, categories))
        if len(kinds) > 1:
            raise InvalidValue(
                f'the categories of feature "{name}" must be all text, all whole numbers or all bools, but they mix '
                f'{" and ".join(sorted(kind.__name__ for kind in kinds))}; 1 and "1" are not the same'
            )
        places = {value: place for place, value in enumerate(categories)}
        if len(places) < len(categories):
            twice = next(value for place, value in enumerate(categories) if places[value] != place)
            raise InvalidValue(f'feature "{name}" has the category {shown(twice)} twice')
        one_of(self.unknown, f'unknown of feature "{name}"', ("error", "zeros", "other"))
        one_of(self.missing, f'missing of feature "{name}"', ("error", "zeros", "category"))
        settings = {"name": name, "categories": categories, "kind": kinds.pop(), "places": places}
        for key, value in settings.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        words = [repr(self.name), repr(list(self.categories))]
        words += [f"{key}={value!r}" for key in ("unknown", "missing") if (value := getattr(self, key)) != "error"]
        return f"one_hot({', '.join(words)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """One per category, then that of others and that of missing values, where they have one."""
        names = [f"{self.name}={value}" for value in self.categories]
        names += [f"{self.name}=(other)"] * (self.unknown == "other")
        names += [f"{self.name}=(missing)"] * (self.missing == "category")
        return tuple(names)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.categories) + (self.unknown == "other") + (self.missing == "category")

    def find(self, value: Any, row: int | None) -> int:
        """Return which column is 1 for a value that is there, -1 for none."""
        found = category(value, self.name, row)
        if type(found) is not self.kind:
            # Also with a rule for unknown categories: "1" for 1 is a mistake in the types, not a new category.
            raise InvalidValue(
                f"expected {feature(self.name, row)} to be one of its categories, {KINDS[self.kind]}, got "
                f"{shown(value)} of type "
                f"{type(value).__name__}; convert it"
            )
        place = self.places.get(found)
        if place is not None:
            return place
        if self.unknown == "error":
            some = ", ".join(map(shown, self.categories[:5])) + (", ..." if len(self.categories) > 5 else "")
            raise InvalidValue(
                f"{feature(self.name, row)} is {shown(value)}, which is none of its categories {some}; declare it, or "
                'what others mean: unknown="zeros" or "other"'
            )
        return -1 if self.unknown == "zeros" else len(self.categories)


def one_hot(name: str, categories: Iterable[Category], *, unknown: str = "error", missing: str = "error") -> OneHot:
    """Declare one of several categories: a column ``name=category`` for each, of which one is 1.

    Parameters
    ----------
    name : str
    categories : strings, whole numbers or bools
        All of one type, in the order of their columns.
    unknown : "error", "zeros" or "other"
        What a value of that type means which is none of them: refuse; all zeros; 1 in a column ``name=(other)``.
    missing : "error", "zeros" or "category"
        What None, NaN or an absent value means: refuse; all zeros; 1 in a column ``name=(missing)``.

    Notes
    -----
    A value of another type is always refused: "1" is not 1, and True is not 1. A float without a fraction counts as the
    whole number, since tables with gaps make floats of whole numbers. The empty string is a category, not missing.

    Examples
    --------
    >>> one_hot("color", ["red", "green"], unknown="other").columns
    ('color=red', 'color=green', 'color=(other)')
    """
    return OneHot(name, categories, unknown, missing)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, repr=False)
class Hashed(Marking):
    """One of any number of categories; make it with :func:`hashed`."""

    kind_name = "hashed"

    name: str
    buckets: int
    missing: str = "error"
    _start: Any = field(init=False, compare=False)

    def __post_init__(self) -> None:
        name = checked_name(self.name)
        buckets = whole_number(self.buckets, f'buckets of feature "{name}"', at_least=1)
        if buckets > MOST_COLUMNS:
            raise InvalidValue(f'expected buckets of feature "{name}" to be at most {MOST_COLUMNS:,}, got {buckets}')
        one_of(self.missing, f'missing of feature "{name}"', ("error", "zeros", "category"))
        encoded = name.encode()
        # The length keeps a name and a value apart from another name and value that read the same in a row.
        start = hashlib.blake2b(b"%d:%b" % (len(encoded), encoded), digest_size=8)
        for key, value in {"name": name, "buckets": buckets, "_start": start}.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        missing = f", missing={self.missing!r}" if self.missing != "error" else ""
        return f"hashed({self.name!r}, buckets={self.buckets}{missing})"

    def __reduce__(self) -> tuple[type[Hashed], tuple[str, int, str]]:
        return Hashed, (self.name, self.buckets, self.missing)  # a running hash cannot be copied otherwise

    @property
    def columns(self) -> tuple[str, ...]:
        """One per bucket, then that of missing values, where they have one."""
        names = [f"{self.name}#{bucket}" for bucket in range(self.buckets)]
        return (*names, f"{self.name}#(missing)") if self.missing == "category" else tuple(names)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.buckets + (self.missing == "category")

    def bucket(self, value: Category) -> int:
        """Return the column of a category; the same in every version and on every machine."""
        state = self._start.copy()
        if isinstance(value, str):
            state.update(b"s" + value.encode("utf-8", "surrogatepass"))
        else:
            state.update((b"b" if type(value) is bool else b"i") + b"%d" % value)
        return int.from_bytes(state.digest(), "little") % self.buckets

    def find(self, value: Any, row: int | None) -> int:
        """Return which column is 1 for a value that is there."""
        return self.bucket(category(value, self.name, row))


def hashed(name: str, buckets: int, *, missing: str = "error") -> Hashed:
    """Declare a category whose values are not known before: columns ``name#0``, ``name#1``, ..., of which one is 1.

    Parameters
    ----------
    name : str
    buckets : int
        Number of columns. Values that fall into one column share its coefficient; n values leave about
        ``n**2 / (2 * buckets)`` pairs that do.
    missing : "error", "zeros" or "category"
        What None, NaN or an absent value means: refuse; all zeros; 1 in a column ``name#(missing)``.

    Notes
    -----
    The column is BLAKE2b of the name, the type and the value, as UTF-8, modulo the number of buckets: never Python's
    ``hash``, which differs from process to process. There is no random sign. A sign makes collisions cancel on average
    where a context sums over many hashed values; here each feature has one value, and a sign would force two values
    in one column to have opposite effects where without it they share one.

    Examples
    --------
    >>> hashed("city", buckets=4).columns
    ('city#0', 'city#1', 'city#2', 'city#3')
    """
    return Hashed(name, buckets, missing)
