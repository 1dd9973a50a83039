"""Names of arms and tasks, and the numbers that the arrays know them by."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from posse.errors import InvalidValue
from posse.kernels.distinct import find_numbers, put_numbers

if TYPE_CHECKING:
    from posse.types import IntArray

Label: TypeAlias = str | int
"""A name: text or a whole number."""

LONGEST = 1000  # characters of a name
MANY = 1000  # names from which on compiled code looks for them
LARGEST_NUMBER = 2**63 - 1


def checked_label(value: Any, what: str) -> Label:
    """Return ``value`` as a plain str or int, or raise."""
    if type(value) is str:
        if not 0 < len(value) <= LONGEST:
            raise InvalidValue(f"the name of {what} must have 1 to {LONGEST} characters, but it has {len(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidValue(f"the name of {what} is not valid Unicode text: {value!r}") from None
        return value
    if type(value) is not bool:
        if isinstance(value, str):
            return checked_label(str(value), what)
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if -LARGEST_NUMBER <= number <= LARGEST_NUMBER and "bool" not in type(value).__name__:
                return number
    raise InvalidValue(f"{what} is named by text or a whole number, but {value!r} came")


class _Index:
    """Numbers of names that are whole numbers, for many at once."""

    def __init__(self, named: dict[Any, int]) -> None:
        self._keys, self._found, self._count = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0
        n = len(named)
        self.add(np.fromiter(named, np.int64, n), np.fromiter(named.values(), np.int64, n))

    def add(self, values: IntArray, numbers: IntArray) -> None:
        """Enter names that are not there yet."""
        self._count += len(values)
        if 2 * self._count > len(self._keys):
            there = self._found >= 0
            values = np.concatenate([self._keys[there], values])
            numbers = np.concatenate([self._found[there], numbers])
            size = 1 << max(4 * self._count, 1024).bit_length()
            self._keys, self._found = np.empty(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        put_numbers(values, numbers, self._keys, self._found)

    def find(self, values: IntArray) -> IntArray:
        """Return the numbers, -1 for names that are not there."""
        out = np.empty(len(values), dtype=np.int64)
        find_numbers(values, self._keys, self._found, out)
        return out


class Labels:
    """Names in use. All of one kind, text or whole numbers: ``17`` and ``"17"`` would be two tasks, silently.

    Parameters
    ----------
    what : str
        What an error calls one of them: "arm" or "task".
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._number: dict[Label, int] = {}
        self._label: dict[int, Label] = {}
        self._kind: type[str] | type[int] | None = None
        self._index: _Index | None = None

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[Label]:
        return iter(self._number)

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str | int) and type(label) is not bool and label in self._number

    @property
    def kind(self) -> type[str] | type[int] | None:
        """The type of the names, None before the first."""
        return self._kind

    @property
    def numbers(self) -> dict[Label, int]:
        """The number of every name, in the order in which they came."""
        return self._number

    def get(self, label: Any) -> int | None:
        """Return the number of a name, or None if it is not in use; a name of the wrong kind is an error."""
        if type(label) is self._kind:  # the path of every decision
            number: int | None = self._number.get(label)
            return number
        return self._number.get(self.checked(label))

    def known(self, labels: list[Label]) -> IntArray:
        """Return the numbers of checked names, -1 for those that are not in use.

        Names are checked before the lock is taken, so others may have come first, of the other kind.
        """
        if labels and type(labels[0]) is not self._kind:
            self.checked(labels[0])
        if self._kind is int and len(labels) >= MANY:
            if self._index is None:
                self._index = _Index(self._number)
            return self._index.find(np.array(labels, dtype=np.int64))
        found = map(self._number.get, labels)
        return np.array([-1 if number is None else number for number in found], dtype=np.int64)

    def label(self, number: int) -> Label:
        """Return the name of a number."""
        return self._label[number]

    def checked(self, value: Any) -> Label:
        """Return ``value`` as a name that could be in use here."""
        label = checked_label(value, f"a {self.what}" if self.what != "arm" else "an arm")
        if self._kind is not None and type(label) is not self._kind:
            words = {str: "text", int: "whole numbers"}
            raise InvalidValue(
                f"{self.what}s of this fleet are named by {words[self._kind]}, but {label!r} came; "
                f"pass {str(label)!r}" if self._kind is str else
                f"{self.what}s of this fleet are named by {words[self._kind]}, but {label!r} came"
            )  # fmt: skip
        return label

    def checked_all(self, values: Iterable[Any]) -> list[Label]:
        """Return names that could all be in use here together."""
        values = list(values)
        if self._sound(values):
            return values
        labels = [self.checked(value) for value in values]
        kinds = {type(label) for label in labels}
        if len(kinds) > 1:
            raise InvalidValue(f"{self.what}s must be named by text or by whole numbers, not by both")
        return labels

    def _sound(self, values: list[Any]) -> bool:
        """Whether these are names beyond doubt: the way of large batches."""
        kinds = set(map(type, values))
        if len(kinds) != 1 or (self._kind is not None and kinds != {self._kind}):
            return False
        if kinds == {int}:
            return bool(min(values) >= -LARGEST_NUMBER and max(values) <= LARGEST_NUMBER)
        if kinds != {str} or not (min(map(len, values)) > 0 and max(map(len, values)) <= LONGEST):
            return False
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            return False
        return True

    def add_all(self, named: list[tuple[Label, int]]) -> None:
        """Give names their numbers."""
        if named:
            self._number.update(named)
            self._label.update((number, label) for label, number in named)
            self._kind = type(named[0][0])
            if self._index is not None:
                try:
                    labels, numbers = zip(*named, strict=True)
                    self._index.add(np.array(labels, dtype=np.int64), np.array(numbers, dtype=np.int64))
                except MemoryError:
                    self._index = None  # it is made again when there is room

    def add(self, label: Label, number: int) -> None:
        """Give a name its number."""
        self.add_all([(label, number)])

    def remove(self, label: Label) -> int:
        """Take a name out of use; return its number."""
        self._index = None
        number = self._number.pop(label)
        del self._label[number]
        if not self._number:
            self._kind = None
        return number

    def rename(self, old: Label, new: Label) -> None:
        """Give a number another name, in the same place."""
        self._index = None
        self._number = {new if label == old else label: number for label, number in self._number.items()}
        self._label[self._number[new]] = new
        self._kind = type(new)
