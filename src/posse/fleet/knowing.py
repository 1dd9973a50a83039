"""Saying what is known about tasks and arms."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.errors import InvalidValue
from posse.fleet.menu import read_menu

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.fleet.posse import Posse


def set_task_features(
    fleet: Fleet, tasks: Any, more: Steps | None = None, *, steps: int = FIT_STEPS, settled: float = FIT_SETTLED
) -> int:
    """Know something about tasks from now on; see :meth:`posse.Posse.set_task_features`.

    ``more`` goes with it; ``steps`` and ``settled`` are of an estimate that is due then.
    """
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
        engine, raw = fleet._engine, menu.all_raw()
        store = engine.store
        numbers, new = fleet._tasks.numbered(store, menu.arms, fleet._tasks.known(menu.arms))
        side.reserve(store.n_tasks + len(new))
        old = np.flatnonzero(numbers < store.n_tasks)
        changes, moved = known.moving_tasks(store, numbers[old], menu.columns[old])
        changes += side.setting(numbers, menu.columns, raw)
        changes += [
            partial(side.__dict__.update, spec=menu.spec),
            # Rewards of a task of another kind are news to the effects as much as rewards that are replaced.
            partial(store.__dict__.update, replaced=store.replaced + moved),
        ]
        note = partial(_note, fleet, menu.arms, raw) if fleet._log else None
        commit([*changes, *fleet._tasks.taking(store, new), *(more or ())], note)
        if not store.stale and store.refresh_due(engine.growth):
            engine.renew(steps=steps, settled=settled)
        return len(menu)


def _note(fleet: Fleet, tasks: list[Label], raw: list[list[Any]]) -> None:
    """Write what is known about tasks to the log before it counts, a line each."""
    from posse.fleet.notes import task_feature_records

    assert fleet._log is not None
    assert fleet._engine.known is not None
    fleet._log(task_feature_records(tasks, fleet._engine.known.task_names, raw, fleet._clock()))


def know_arms(fleet: Fleet, arms: Mapping[Any, Any]) -> None:
    """Know something about arms of a fleet that has no rewards yet; the others have nothing known about them."""
    arms = {arm: values for arm, values in arms.items() if arm in fleet._arms}
    if not arms:
        return
    with fleet._lock:
        known = fleet._engine.known
        assert known is not None
        assert known.arms.spec is not None
        assert not fleet._engine.store.n_rewards
        menu = read_menu(arms, known.arms.spec, fleet._arms)
        numbers = np.array([fleet._arms.number(arm) for arm in menu.arms])
        commit(known.arms.setting(numbers, menu.columns, menu.all_raw()))


def about_task(fleet: Fleet, task: Label) -> dict[str, Any] | None:
    """Return what is known about a task by name, or None if that is nothing or the fleet has no task features."""
    known = fleet._engine.known
    if known is None or known.tasks.spec is None:
        return None
    with fleet._lock:
        number = fleet._tasks.get(task)
        return None if number is None or number not in known.tasks.raw else known.about(number)


def task_feature_names(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of what may be known about tasks; none if that is nothing, or nobody has said any yet."""
    known = fleet._engine.known
    spec = None if known is None else known.tasks.spec
    return () if spec is None or not spec.ready else tuple(spec.names)


def with_more_tasks(fleet: Posse, features: Sequence[Mapping[str, Any]]) -> tuple[Posse, list[Label]]:
    """Return a copy of a fleet that has further tasks, known by their features alone, and what they are called there.

    The fleet itself stays as it is; what is asked about a task that it does not know leaves no trace.
    """
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = Path(folder) / "fleet.posse"
        fleet.save(path)
        copy = type(fleet).load(path, clock=fleet._clock)
    labels: list[Label] = []
    free = max((task for task in copy.tasks if isinstance(task, int)), default=-1)
    while len(labels) < len(features):
        free += 1
        label: Label = free if copy._tasks.kind is int else f"new task {free}"
        if label not in copy._tasks:
            labels.append(label)
    set_task_features(copy, dict(zip(labels, features, strict=True)))
    return copy, labels


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
