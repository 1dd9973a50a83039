"""Names of arms and tasks, and the numbers that a core knows them by."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from posse.checks import nearest
from posse.errors import InvalidValue, ShapeError, UnknownArm, UnknownTask

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.core.core import Core
    from posse.types import BoolArray, IntArray

    Keys = npt.NDArray[np.uint64]

Label: TypeAlias = str | int
"""A name: text or a whole number."""

LONGEST = 1000  # characters of a name
LARGEST_NUMBER = 2**63 - 1
N_BUCKETS = 4096
"""Parts that all tasks fall into; a machine has some of them."""


def listed(values: Any, expected: str) -> list[Any]:
    """Return any sequence as a list; anything else gets a clear error."""
    try:
        return list(values)
    except TypeError:
        raise InvalidValue(f"expected {expected}, got {type(values).__name__}; pass a list") from None


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


def _sound(kind: type, values: list[Any]) -> bool:
    """Whether these are names beyond doubt: the way of large batches."""
    if kind is int:
        return bool(min(values) >= -LARGEST_NUMBER and max(values) <= LARGEST_NUMBER)
    if kind is not str or not (min(map(len, values)) > 0 and max(map(len, values)) <= LONGEST):
        return False
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        return False
    return True


class Labels:
    """Names in use. All of one kind, text or whole numbers: ``17`` and ``"17"`` would be two tasks, silently.

    Parameters
    ----------
    what : str
        What an error calls one of them: "arm" or "task".
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.numbers: dict[Label, int] = {}
        """The number of every name, in the order in which they came."""
        self.kind: type[str] | type[int] | None = None
        """The type of the names, None before the first."""
        self._label: dict[int, Label] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.numbers)

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str | int) and type(label) is not bool and label in self.numbers

    def get(self, label: Any) -> int | None:
        """Return the number of a name, or None if it is not in use; a name of the wrong kind is an error."""
        if type(label) is self.kind:  # the path of every decision
            number: int | None = self.numbers.get(label)
            return number
        return self.numbers.get(self.checked(label))

    def known(self, labels: list[Label]) -> IntArray:
        """Return the numbers of checked names, -1 for those that are not in use.

        Names are checked before the lock is taken, so others may have come first, of the other kind.
        """
        if labels and type(labels[0]) is not self.kind:
            self.checked(labels[0])
        found = map(self.numbers.get, labels)
        return np.fromiter((-1 if number is None else number for number in found), np.int64, len(labels))

    def label(self, number: int) -> Label:
        """Return the name of a number."""
        return self._label[number]

    def has(self, number: int) -> bool:
        """Whether a number has a name."""
        return number in self._label

    def checked(self, value: Any) -> Label:
        """Return ``value`` as a name that could be in use here."""
        label = checked_label(value, f"a {self.what}" if self.what != "arm" else "an arm")
        if self.kind is not None and type(label) is not self.kind:
            words = {str: "text", int: "whole numbers"}
            hint = f"; pass {str(label)!r}" if self.kind is str else ""
            raise InvalidValue(
                f"expected {self.what}s named by {words[self.kind]}, as in this fleet, got {label!r}{hint}"
            )
        return label

    def checked_all(self, values: Iterable[Any]) -> list[Label]:
        """Return names that could all be in use here together."""
        values = list(values)
        kinds = set(map(type, values))
        if len(kinds) == 1 and (self.kind is None or kinds == {self.kind}) and _sound(kinds.pop(), values):
            return values
        labels = [self.checked(value) for value in values]
        if len({type(label) for label in labels}) > 1:
            raise InvalidValue(f"expected {self.what}s named by text or by whole numbers, got both; take one of them")
        return labels

    def take(self, labels: Sequence[Label], numbers: Sequence[int]) -> None:
        """Give new names their numbers."""
        self.kind = type(labels[0]) if labels else self.kind
        self.numbers.update(zip(labels, numbers, strict=True))
        self._label.update(zip(numbers, labels, strict=True))

    def let_go(self, labels: Iterable[Label]) -> None:
        """Take names out of use, none twice."""
        for label in labels:
            del self._label[self.numbers.pop(label)]
        if not self.numbers:
            self.kind = None


class Tasks(Labels):
    """Names and numbers of tasks."""

    def __init__(self) -> None:
        super().__init__("task")
        self.elsewhere: frozenset[Label] = frozenset()
        """Those of the file that were not loaded."""

    def number(self, task: Any) -> int:
        """Return the number of a task, or raise if there is none of this name."""
        number = self.get(task)
        if number is None:
            raise UnknownTask(f"no task {task!r} in this fleet; {nearest(task, self, 'tasks')}")
        return number

    def require_loaded(self, labels: list[Label]) -> None:
        """Raise if one is in the file that this fleet was loaded from, but was not loaded."""
        for label in labels if self.elsewhere else ():
            if label in self.elsewhere:
                raise UnknownTask(
                    f"task {label!r} is in the file but was not loaded; load it with tasks=[..., {label!r}]"
                )

    def numbered(self, core: Core, labels: list[Label]) -> tuple[IntArray, NewTasks]:
        """Return the numbers of all labels, those reserved among them of the ones that are new, and these."""
        numbers = self.known(labels)
        missing = np.flatnonzero(numbers < 0)
        if not missing.size:
            return numbers, NewTasks([], [])
        reserved = core.reserve_tasks(missing.size)
        numbers[missing] = reserved
        return numbers, NewTasks([labels[place] for place in missing.tolist()], reserved)

    def take_new(self, core: Core, new: NewTasks) -> None:
        """Let tasks be there whose numbers were reserved."""
        if new.labels:
            core.take_tasks(new.numbers)
            self.take(new.labels, new.numbers)

    def keys(self) -> Keys:
        """Return the key of every name (:func:`keys_of`) at its number; a number without a name has any."""
        keys = np.zeros(max(self.numbers.values(), default=-1) + 1, dtype=np.uint64)
        keys[list(self.numbers.values())] = keys_of(list(self.numbers))
        return keys


class NewTasks(NamedTuple):
    """Tasks that are to come, and the numbers that are reserved for them."""

    labels: list[Label]
    numbers: list[int]


class Active(NamedTuple):
    """The arms that may be chosen."""

    arms: IntArray
    names: tuple[Label, ...]


class Arms(Labels):
    """Names and numbers of arms, retired ones too."""

    def __init__(self) -> None:
        super().__init__("arm")
        self.retired: frozenset[int] = frozenset()
        self.active = Active(np.empty(0, dtype=np.int64), ())

    def number(self, arm: Any) -> int:
        """Return the number of an arm, or raise if there is none of this name."""
        number = self.get(arm)
        if number is None:
            raise UnknownArm(f"no arm {arm!r}; {nearest(arm, self, 'arms')} (add it with add_arm({arm!r}))")
        return number

    def change(self, numbers: Mapping[Label, int], retired: Collection[int]) -> None:
        """Have these arms, of which some are retired, all at once."""
        there = [(label, arm) for label, arm in numbers.items() if arm not in retired]
        active = Active(np.array([arm for _, arm in there], dtype=np.int64), tuple(label for label, _ in there))
        self.__dict__.update(
            numbers=dict(numbers),
            retired=frozenset(retired),
            active=active,
            kind=type(next(iter(numbers))),
            _label={number: label for label, number in numbers.items()},
        )

    def renamed(self, arm: Label, to: Label) -> dict[Label, int]:
        """Return the numbers of all arms once one has another name, or raise."""
        self.number(arm)
        label = checked_label(to, "an arm") if len(self) == 1 else self.checked(to)
        self.require_new(label)
        old = self.checked(arm)
        return {label if name == old else name: number for name, number in self.numbers.items()}

    def require_new(self, label: Label) -> None:
        """Raise if there is such an arm."""
        if label in self.numbers:
            raise InvalidValue(f"there is an arm {label!r} already; give the new one another name")

    def without(self, arm: Label) -> frozenset[int]:
        """Return the arms that are retired once another one is, or raise."""
        number = self.number(arm)
        if number in self.retired:
            raise InvalidValue(f"arm {arm!r} is retired already")
        if len(self.retired) + 1 == len(self):
            raise InvalidValue(f"arm {arm!r} is the last one; add another with add_arm before it is retired")
        return self.retired | {number}

    def eligible(self, eligible: Iterable[Label]) -> Active:
        """Return the arms that a caller named, in the order of their numbers, or raise."""
        if isinstance(eligible, str):
            raise InvalidValue(f"expected eligible to be a sequence of arms, got the text {eligible!r}")
        names = listed(eligible, "eligible to be a sequence of arms")
        numbers = [self.number(name) for name in names]
        if not numbers:
            raise InvalidValue("expected at least one eligible arm, got none; leave eligible out for all arms")
        if len(set(numbers)) < len(numbers):
            raise InvalidValue(f"eligible has an arm twice: {', '.join(map(repr, names))}")
        for name, arm in zip(names, numbers, strict=True):
            if arm in self.retired:
                raise UnknownArm(
                    f"arm {name!r} is retired and cannot be eligible (bring it back with add_arm({name!r}))"
                )
        numbers.sort()  # so that the arm does not depend on the order in which they were named
        return Active(np.array(numbers, dtype=np.int64), tuple(self.label(arm) for arm in numbers))

    def mask(self, eligible: Iterable[Iterable[Label] | None] | None, n: int) -> BoolArray:
        """Return which arms are eligible, one row for all or one for each of ``n``."""
        active = np.zeros((1, len(self)), dtype=np.bool_)
        active[0, self.active.arms] = True
        if eligible is None:
            return active
        rows = listed(eligible, "eligible to have a sequence of arms, or None, for every row")
        alone = [names for names in rows if isinstance(names, str | int)]
        if alone:
            raise InvalidValue(
                "expected eligible of many rows to have a sequence of arms, or None, for every row, got the arm "
                f"{alone[0]!r}; for the same arms in every row pass [{alone[: len(self)]!r}] * {n}"
            )
        if len(rows) != n:
            raise ShapeError(f"expected eligible to have one entry per row, got {len(rows)} for {n} rows")
        mask = np.repeat(active, n, axis=0)
        for row, names in enumerate(rows):
            if names is not None:
                mask[row] = False
                mask[row, self.eligible(names).arms] = True
        return mask


def require_one_by_one(tasks: Iterable[Any]) -> None:
    """Raise if a list of tasks came where tasks were expected."""
    for task in tasks:
        if isinstance(task, list | tuple | set | frozenset):
            raise InvalidValue(f"expected tasks one by one, got a {type(task).__name__}; pass forget(*tasks)")


# Numbers that tasks are spread by: over machines, and for a sample that does not depend on the machine. They follow
# from the names alone, for ever: files that were sharded by them are read by later versions.


def keys_of(labels: Sequence[Label]) -> Keys:
    """Return a number from 0 to 2**64 - 1 for every name, evenly spread.

    Parameters
    ----------
    labels : sequence of str, or of int

    Examples
    --------
    >>> keys_of([1, 2])
    array([10451216379200822465, 10905525725756348110], dtype=uint64)
    """
    if labels and isinstance(labels[0], str):
        values = np.fromiter((zlib.crc32(str(label).encode()) for label in labels), np.uint64, len(labels))
    else:
        values = np.array(labels, dtype=np.int64).view(np.uint64)
    return _mixed(values)


def buckets_of(labels: Sequence[Label]) -> npt.NDArray[np.int64]:
    """Return the bucket of every name."""
    return (keys_of(labels) % np.uint64(N_BUCKETS)).astype(np.int64)


def _mixed(values: Keys) -> Keys:
    """Return numbers whose bits all depend on all bits of ``values``: the finalizer of SplitMix64 (Steele et al. 2014).

    Arithmetic is modulo 2**64.
    """
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
