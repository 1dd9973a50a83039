"""The tasks of a fleet by name: which there are, which are to come, and which were left in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import nearest
from posse.engine.commit import Steps, commit
from posse.errors import UnknownTask
from posse.fleet.labels import Label, Labels, require_one_by_one

if TYPE_CHECKING:
    from posse.engine.store import Store
    from posse.fleet.fleet import Fleet
    from posse.types import IntArray


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

    def numbered(self, store: Store, labels: list[Label], known: IntArray) -> tuple[IntArray, list[tuple[Label, int]]]:
        """Return the numbers of all labels, and the labels that have none yet with what they will get."""
        missing = np.flatnonzero(known < 0)
        if not missing.size:
            return known, []
        reserved = store.reserve_tasks(missing.size)
        numbers = known.copy()
        numbers[missing] = reserved
        return numbers, [
            (labels[position], number) for position, number in zip(missing.tolist(), reserved, strict=True)
        ]

    def taking(self, store: Store, new: list[tuple[Label, int]]) -> Steps:
        """Let tasks be there whose numbers were reserved."""
        return [*store.taking_tasks(len(new)), *self.adding(new)] if new else []


def forget_tasks(fleet: Fleet, tasks: tuple[Label, ...], more: Steps | None = None) -> None:
    """Remove all data of some tasks; see :meth:`posse.Posse.forget`. The lock must be held; ``more`` goes with it."""
    fleet._require_whole()
    engine = fleet._engine
    engine.finish_background()
    require_one_by_one(tasks)
    labels = list(dict.fromkeys(fleet._tasks.checked(task) for task in tasks))
    numbers = np.array([fleet._tasks.number(label) for label in labels], dtype=np.int64)
    if not numbers.size:
        return
    store = engine.store
    refresh, steps = store.new_refresh(), store.dropping_tasks(numbers, store.new_memory())
    for ledger in fleet._ledgers():
        steps += ledger.forgetting(ledger.of(numbers))
    if engine.fading is not None:
        steps += engine.fading.forgetting(numbers.tolist())
    if engine.known is not None:
        steps += engine.known.tasks.forgetting(numbers)
    commit([*steps, *fleet._tasks.removing(labels), *(more or ())])
    # Whoever is interrupted here has forgotten; the next who looks estimates the population.
    if store.n_rewards > 0:
        engine.renew(refresh)
    else:
        store.rebuild()
