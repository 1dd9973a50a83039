"""Arms that join a fleet, and tasks about which something is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from posse.errors import InvalidValue
from posse.fleet.menu import read_menu
from posse.fleet.settings import require_memory
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array


class NewArm(NamedTuple):
    """An arm that can be added, or brought back."""

    label: Label
    number: int
    encoded: Array | None
    raw: list[Any] | None


def checked_arm(fleet: Fleet, arm: Any, features: Any) -> NewArm:
    """Return an arm that can be added or brought back, or raise; the lock must be held."""
    fleet.require_whole()
    arms, encoded, raw = fleet.names.arms, None, None
    if features is not None:
        encoded, raw = fleet.known.new_arm(arm, features, arms)
    label = arms.checked(arm)
    fleet.settings.require_floor(len(arms.active.names) + 1)
    number = arms.get(label)
    if number is not None:
        if number not in arms.retired:
            arms.require_new(label)
        return NewArm(label, number, None, None)
    require_memory(fleet.core.n_arms + 1, fleet.features.n_features)
    fleet.settings.require_extendable()
    return NewArm(label, fleet.core.n_arms, encoded, raw)


def new_core(fleet: Fleet) -> Core:
    """Return a core of a fleet that has learned nothing; one of revenue has the same methods, and no state."""
    n_arms, n_features = len(fleet.names.arms), fleet.features.n_features
    core = cast("Core", fleet.settings.new_core(n_arms, n_features, fleet.known, fleet.core_kind))
    core.keys = fleet.names.tasks.keys
    return core


def add_to(core: Core, fleet: Fleet, encoded: Array | None) -> None:
    """Add an arm to a core of a fleet; under a known population, or one of the paper, as the first ones."""
    start, prior = fleet.settings.start, None
    if start is not None:
        prior = fleet.settings.start_of(1)
        core.start = fleet.settings.start_of(core.n_arms + 1)
    core.add_arm(encoded, prior)


def know_tasks(fleet: Fleet, tasks: Any, then: Callable[[], object] = lambda: None) -> int:
    """Know something about tasks; ``then`` is called together with the change. The lock must be held."""
    fleet.require_whole()
    side, names = fleet.known.tasks, fleet.names.tasks
    if side.spec is None:
        raise InvalidValue(
            "expected a fleet with task_features, got one without; make it with task_features=FeatureSpec(...)"
        )
    menu = read_menu(tasks, side.spec, names, what="task")
    raw = menu.all_raw()
    numbers, new = names.numbered(fleet.core, menu.arms)
    with defer_interrupts():
        if fleet.notes is not None:
            fleet.notes.task_features(fleet, menu.arms, raw)
        names.take_new(fleet.core, new)
        fleet.core.know(numbers, menu.columns, np.ones(numbers.size, dtype=np.bool_))
        side.raw.update(zip(numbers.tolist(), raw, strict=True))
        side.spec = menu.spec
        then()
    fleet.core.estimate_if_due()
    return len(menu)
