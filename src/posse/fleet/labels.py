"""Names of arms and tasks, and the numbers that the arrays know them by."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from posse.errors import InvalidValue

Label: TypeAlias = str | int
"""A name: text or a whole number."""

LONGEST = 1000  # characters of a name
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

    def add(self, label: Label, number: int) -> None:
        """Give a name its number."""
        self._number[label] = number
        self._label[number] = label
        self._kind = type(label)

    def remove(self, label: Label) -> int:
        """Take a name out of use; return its number."""
        number = self._number.pop(label)
        del self._label[number]
        if not self._number:
            self._kind = None
        return number

    def rename(self, old: Label, new: Label) -> None:
        """Give a number another name, in the same place."""
        self._number = {new if label == old else label: number for label, number in self._number.items()}
        self._label[self._number[new]] = new
        self._kind = type(new)
