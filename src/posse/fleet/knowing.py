"""Saying what is known about tasks and arms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.errors import InvalidValue
from posse.fleet.menu import read_menu

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.fleet.fleet import Fleet


def set_task_features(fleet: Fleet, tasks: Any) -> int:
    """Know something about tasks from now on; see :meth:`posse.Posse.set_task_features`."""
    with fleet._lock:
        fleet._require_whole()
        known = fleet._engine.known
        if known is None or known.tasks.spec is None:
            raise InvalidValue(
                "expected a fleet with task_features, got one without; make it with task_features=FeatureSpec(...)"
            )
        side = known.tasks
        spec = side.spec
        assert spec is not None
        menu = read_menu(tasks, spec, fleet._tasks, what="task")
        numbers, new = fleet._tasks.numbered(fleet._engine.store, menu.arms, fleet._tasks.known(menu.arms))
        side.reserve(fleet._engine.store.n_tasks + len(new))
        old = np.flatnonzero(numbers < fleet._engine.store.n_tasks)
        fleet._engine.ensure_fresh()
        steps = known.moving_tasks(fleet._engine.store, numbers[old], menu.columns[old])
        steps += side.setting(numbers, menu.columns, menu.all_raw())
        commit([*steps, partial(side.__dict__.update, spec=menu.spec), *fleet._tasks.taking(fleet._engine.store, new)])
        return len(menu)


def setting_arm(fleet: Fleet, arm: Any, features: Any) -> Steps:
    """Return the steps that let something be known about an arm that is added; the lock must be held."""
    known = fleet._engine.known
    if known is None or known.arms.spec is None:
        raise InvalidValue(
            "expected a fleet with arm_features, got one without; make it with arm_features=FeatureSpec(...), or add "
            "the arm without features"
        )
    number = fleet._arms.get(arm)
    if number is not None:
        raise InvalidValue(
            f"expected features of a new arm, got those of {arm!r}, which there was before; bring it back without"
        )
    known.arms.spec.encode(features)  # which refuses a scaling that one arm cannot teach
    menu = read_menu({arm: features}, known.arms.spec, fleet._arms)
    known.arms.reserve(fleet._engine.store.n_arms + 1)
    return known.arms.setting(np.array([fleet._engine.store.n_arms]), menu.columns, menu.all_raw())
