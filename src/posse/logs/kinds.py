"""Which kind of value every key of a JSON Lines file holds, and where that was seen first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import polars as pl

Key: TypeAlias = str | tuple[str, str]
"""A key of a line, or ``("context", name)`` for a feature, ``("arm_features", name)`` for one of arms."""

WORDS = {"text": "text", "whole": "a whole number", "float": "a number", "truth": "true or false"}
KINDS = {str: "text", bool: "truth", float: "float", list: "a list", dict: "an object"}
LARGEST = 2**63 - 1
MOST_KEYS = 10_000  # of a line, or features; a file with more has values where names belong


class BadLine(Exception):
    """What is wrong with a line, in words; whoever knows its number adds it."""


class AtLine(Exception):
    """A bad line with its number."""

    def __init__(self, line: int, problem: str) -> None:
        self.line, self.problem = line, problem


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value that is not null."""
    if type(value) is int:
        return "whole" if -LARGEST - 1 <= value <= LARGEST else "float"
    return KINDS[type(value)]


class Order:
    """Keys in the order in which lines have them."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._known: set[str] = set()

    def merge(self, keys: Collection[str], what: str) -> None:
        """Put keys that are new behind those that they follow.

        Examples
        --------
        >>> order = Order()
        >>> order.merge("ac", "keys")
        >>> order.merge("abcd", "keys")
        >>> order.keys
        ['a', 'b', 'c', 'd']
        """
        if self._known.issuperset(keys):
            return
        place = 0
        for key in keys:
            if key in self._known:
                place = self.keys.index(key)
            else:
                self.keys.insert(place, key)
                self._known.add(key)
            place += 1
        if len(self.keys) > MOST_KEYS:
            raise BadLine(
                f"with this line there are more than {MOST_KEYS} different {what}; they must not vary by line"
            )


@dataclass
class Kinds:
    """What has been seen so far.

    A key is of one kind in a whole file, except that whole numbers and others are both numbers.
    """

    seen: dict[Key, dict[str, int]] = field(default_factory=dict)
    order: Order = field(default_factory=Order)
    features: Order = field(default_factory=Order)
    arm_features: Order = field(default_factory=Order)

    def see(self, key: Key, kind: str, line: int) -> None:
        """Note a value, or raise if it is of another kind than those before it."""
        known = self.seen.setdefault(key, {})
        if kind in known:
            return
        for other, where in known.items():
            if {kind, other} != {"whole", "float"}:
                name = f"feature {key[1]!r}" if isinstance(key, tuple) else key
                raise BadLine(f"{name} is {WORDS[kind]} here, but {WORDS[other]} in line {where}; make it one kind")
        known[kind] = line

    def of(self, key: Key) -> str | None:
        """Return the kind of a key; None if only nulls were seen."""
        known = self.seen.get(key)
        if not known:
            return None
        return "float" if "float" in known else next(iter(known))

    def dtype(self, key: Key) -> pl.DataType:
        """Return the type of a column with the values of a key."""
        import polars as pl

        kind = self.of(key)
        return {"text": pl.String(), "whole": pl.Int64(), "float": pl.Float64(), "truth": pl.Boolean()}.get(
            kind or "", pl.Null()
        )
