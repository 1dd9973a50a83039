"""The arms of a fleet by name: which there are, which may be chosen, and which are eligible for a decision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import nearest
from posse.engine.commit import Steps
from posse.errors import InvalidValue, ShapeError, UnknownArm
from posse.fleet.checking import require_room
from posse.fleet.labels import Label, Labels, checked_label
from posse.fleet.rows import listed

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.types import BoolArray, IntArray


class Active(NamedTuple):
    """The arms that may be chosen."""

    arms: IntArray
    names: tuple[Label, ...]


class Arms(Labels):
    """Names and numbers of arms, retired ones too."""

    def __init__(self) -> None:
        super().__init__("arm")
        self.retired: set[int] = set()
        self.active: IntArray = np.empty(0, dtype=np.int64)
        """The numbers of those that may be chosen."""
        self.active_names: tuple[Label, ...] = ()

    def number(self, arm: Any) -> int:
        """Return the number of an arm, or raise if there is none of this name."""
        number = self.get(arm)
        if number is None:
            raise UnknownArm(f"no arm {arm!r}; {nearest(arm, self, 'arms')} (add it with add_arm({arm!r}))")
        return number

    def active_among(self, numbers: Mapping[Label, int], retired: Collection[int]) -> Active:
        """Return which arms may be chosen, given the numbers of all and those that are retired."""
        active = [(label, arm) for label, arm in numbers.items() if arm not in retired]
        return Active(np.array([arm for _, arm in active], dtype=np.int64), tuple(label for label, _ in active))

    def activating(self, active: Active) -> Steps:
        """Let these be the arms that may be chosen."""
        return [partial(self.__dict__.update, active=active.arms, active_names=active.names)]

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
        active[0, self.active] = True
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


def adding_arm(fleet: Fleet, arm: Label, features: Any = None) -> Steps:
    """Return the steps that add an arm to a fleet, or raise; nothing changes until they are taken."""
    fleet._require_whole()
    fleet._engine.finish_background()
    about: Steps = []
    if features is not None:
        from posse.fleet.knowing import setting_arm

        about = setting_arm(fleet, arm, features)
    arms, store = fleet._arms, fleet._engine.store
    label = arms.checked(arm)
    number = arms.get(label)
    fleet._require_floor(len(arms.active_names) + 1)
    if number is not None:
        if number not in arms.retired:
            raise InvalidValue(f"there is an arm {label!r} already; give the new one another name")
        active = arms.active_among(arms.numbers, arms.retired - {number})
        steps: Steps = [partial(arms.retired.discard, number)]
    else:
        new = store.n_arms
        require_room(new + 1, fleet._features.n_features)
        active = arms.active_among(arms.numbers | {label: new}, arms.retired)
        steps = [*store.adding_arm(), *arms.adding([(label, new)])]
    return [*steps, *about, *arms.activating(active)]


def retiring_arm(arms: Arms, arm: Label) -> Steps:
    """Return the steps after which an arm is chosen no more, or raise."""
    number = arms.number(arm)
    if number in arms.retired:
        raise InvalidValue(f"arm {arm!r} is retired already")
    if len(arms.retired) + 1 == len(arms):
        raise InvalidValue(f"arm {arm!r} is the last one; add another with add_arm before it is retired")
    active = arms.active_among(arms.numbers, arms.retired | {number})
    return [partial(arms.retired.add, number), *arms.activating(active)]


def renaming_arm(arms: Arms, arm: Label, to: Label) -> Steps:
    """Return the steps that give an arm another name, or raise."""
    arms.number(arm)
    label = checked_label(to, "an arm") if len(arms) == 1 else arms.checked(to)
    if label in arms:
        raise InvalidValue(f"there is an arm {label!r} already; give the new one another name")
    old = arms.checked(arm)
    renamed = {label if name == old else name: place for name, place in arms.numbers.items()}
    active = arms.active_among(renamed, arms.retired)
    return [*arms.renaming(old, label), *arms.activating(active)]
