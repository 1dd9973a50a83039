"""Categories without a list: a stable hash of the value says which column is 1."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from posse.checks import one_of, whole_number
from posse.errors import InvalidValue
from posse.features.parts import Marking
from posse.features.values import MOST_COLUMNS, Category, category, checked_name


@dataclass(frozen=True, slots=True, repr=False)
class Hashed(Marking):
    """One of any number of categories; make it with :func:`hashed`."""

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

    def to_json(self) -> dict[str, Any]:
        """Return plain values that it can be made from."""
        return {"kind": "hashed", "name": self.name, "buckets": self.buckets, "missing": self.missing}


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
