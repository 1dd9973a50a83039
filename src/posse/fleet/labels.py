"""Names of arms and tasks, and the numbers that the arrays know them by."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from posse.engine.commit import Steps, commit
from posse.errors import InvalidValue
from posse.kernels.distinct import find_numbers, put_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

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
            raise InvalidValue(f"expected the name of {what} to have 1 to {LONGEST} characters, got {len(value)}")
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
            if "bool" not in type(value).__name__:
                return _sized(number, what)
    raise InvalidValue(f"expected {what} to be named by text or a whole number, got {value!r}")


def _sized(number: int, what: str) -> int:
    if -LARGEST_NUMBER <= number <= LARGEST_NUMBER:
        return number
    raise InvalidValue(
        f"expected the number of {what} to fit in 64 bits (at most 2**63 - 1 in size), got {number}; "
        f"name it by text: {str(number)!r}"
    )


def require_one_by_one(tasks: Iterable[Any]) -> None:
    """Raise if a list of tasks came where tasks were expected."""
    for task in tasks:
        if isinstance(task, list | tuple | set | frozenset):
            raise InvalidValue(f"expected tasks one by one, got a {type(task).__name__}; pass forget(*tasks)")


class _Index:
    """Numbers of names that are whole numbers, for many at once."""

    def __init__(self) -> None:
        self._keys, self._found, self.count = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0

    def catch_up(self, named: dict[Any, int]) -> None:
        """Enter those at the end of all names that are not there yet."""
        n = len(named) - self.count
        if not n:
            return
        values = np.fromiter(islice(reversed(named), n), np.int64, n)
        numbers = np.fromiter(islice(reversed(named.values()), n), np.int64, n)
        if 2 * len(named) > len(self._keys):
            there = self._found >= 0
            values = np.concatenate([self._keys[there], values])
            numbers = np.concatenate([self._found[there], numbers])
            size = 1 << max(4 * len(named), 1024).bit_length()
            self._keys, self._found = np.empty(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        put_numbers(values, numbers, self._keys, self._found)
        self.count = len(named)

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
        self._keys = np.empty(0, dtype=np.uint64)
        self._n_keys: int | None = 0

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
            # One that is interrupted while it catches up is made again.
            index, self._index = self._index or _Index(), None
            index.catch_up(self._number)
            self._index = index
            return index.find(np.array(labels, dtype=np.int64))
        found = map(self._number.get, labels)
        return np.array([-1 if number is None else number for number in found], dtype=np.int64)

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the key of every name (:mod:`posse.fleet.task_keys`) at its number; what has no name has any."""
        from posse.fleet.task_keys import keys_of

        known, self._n_keys = self._n_keys or 0, None  # one that is interrupted is made again
        if known < len(self._number):
            n = len(self._number) - known
            numbers = np.fromiter(islice(reversed(self._number.values()), n), np.int64, n)
            keys = np.zeros(max(int(numbers.max()) + 1, self._keys.size), dtype=np.uint64)
            keys[: self._keys.size] = self._keys
            keys[numbers] = keys_of(list(islice(reversed(self._number), n)))
            self._keys = keys
        self._n_keys = len(self._number)
        return self._keys

    def label(self, number: int) -> Label:
        """Return the name of a number."""
        return self._label[number]

    def has(self, number: int) -> bool:
        """Whether a number has a name."""
        return number in self._label

    def checked(self, value: Any) -> Label:
        """Return ``value`` as a name that could be in use here."""
        label = checked_label(value, f"a {self.what}" if self.what != "arm" else "an arm")
        if self._kind is not None and type(label) is not self._kind:
            words = {str: "text", int: "whole numbers"}
            raise InvalidValue(
                f"expected {self.what}s named by {words[self._kind]}, as in this fleet, got {label!r}; "
                f"pass {str(label)!r}" if self._kind is str else
                f"expected {self.what}s named by {words[self._kind]}, as in this fleet, got {label!r}"
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
            raise InvalidValue(f"expected {self.what}s named by text or by whole numbers, got both; take one of them")
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

    def adding(self, named: list[tuple[Label, int]]) -> Steps:
        """Give new names their numbers; see :func:`posse.engine.commit.commit`."""
        if not named:
            return []
        return [
            partial(self._number.update, named),
            partial(self._label.update, [(number, label) for label, number in named]),
            partial(self.__dict__.update, _kind=type(named[0][0])),
        ]

    def add_all(self, named: list[tuple[Label, int]]) -> None:
        """Give new names their numbers."""
        commit(self.adding(named))

    def add(self, label: Label, number: int) -> None:
        """Give a name its number."""
        self.add_all([(label, number)])

    def removing(self, labels: list[Label]) -> Steps:
        """Take names out of use, none twice."""
        steps: Steps = [partial(self.__dict__.update, _index=None, _n_keys=None)]
        for label in labels:
            steps += [partial(self._label.pop, self._number[label]), partial(self._number.pop, label)]
        if len(labels) == len(self._number):
            steps.append(partial(self.__dict__.update, _kind=None))
        return steps

    def remove(self, label: Label) -> int:
        """Take a name out of use; return its number."""
        number = self._number[label]
        commit(self.removing([label]))
        return number

    def renaming(self, old: Label, new: Label) -> Steps:
        """Give a number another name, in the same place."""
        numbers = {new if label == old else label: number for label, number in self._number.items()}
        labels = self._label | {numbers[new]: new}
        return [
            partial(self.__dict__.update, _index=None, _n_keys=None, _number=numbers, _label=labels, _kind=type(new))
        ]

    def rename(self, old: Label, new: Label) -> None:
        """Give a number another name, in the same place."""
        commit(self.renaming(old, new))
