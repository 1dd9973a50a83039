"""Adding what one fleet has learned to another."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.core.state import Receipts
from posse.errors import InvalidValue
from posse.fleet.joining import add_to, new_core
from posse.fleet.ledger import Ledger
from posse.fleet.posse import Posse
from posse.fleet.worth import joined_worth
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import IntArray


def merge_fleet(mine: Posse, other: Posse) -> None:
    """Add what ``other`` has learned to ``mine``; see :meth:`posse.Posse.merge`."""
    if not isinstance(other, Posse):
        raise InvalidValue(f"expected a Posse to merge, got {type(other).__name__}")
    if other is mine:
        raise InvalidValue("a fleet cannot be merged with itself: every reward would count twice")
    first, second = sorted((mine, other), key=id)
    with first.lock, second.lock:
        require_mergeable(mine, other)
        add(mine, other)


def require_mergeable(mine: Fleet, other: Fleet) -> None:
    """Raise unless two fleets have the same settings, as far as sums depend on them, and no common past."""
    for fleet in (mine, other):
        fleet.require_whole()
    if mine.rewards != other.rewards:
        raise InvalidValue(
            f"expected a fleet of rewards={mine.rewards!r}, as this one is, got {other.rewards!r}; make both with the "
            "same rewards"
        )
    for name in ("task_features", "arm_features"):
        specs = [(one.known.tasks if name == "task_features" else one.known.arms).spec for one in (mine, other)]
        if specs[0] != specs[1]:
            raise InvalidValue(
                f"expected a fleet with the {name} of this one, scaling included, {specs[0]!r}, got {specs[1]!r}; let "
                "one fleet learn the table or log of the other"
            )
    if mine.features != other.features:
        raise InvalidValue(
            "fleets can be merged only if their features are the same, scaling included; "
            f"here they are {mine.features!r} and {other.features!r}"
        )
    if mine.rewards == "revenue" and not mine.features.intercept:
        raise InvalidValue(
            "expected fleets of revenue with an intercept, so that amounts of one can be counted as the other counts "
            "them, got features without; leave intercept=False out"
        )
    silence = [fleet.settings.silence() for fleet in (mine, other)]
    if silence[0] != silence[1]:
        raise InvalidValue(
            "fleets can be merged only if decisions without a reward mean the same in both, but "
            f"{silence[0]} here and {silence[1]} in the other; make both with the same settings"
        )
    drift = [fleet.settings.fading() for fleet in (mine, other)]
    if drift[0] != drift[1]:
        raise InvalidValue(
            "fleets can be merged only if old rewards fade in the same way in both, but "
            f"drift is {drift[0]} here and {drift[1]} in the other; make both with the same drift"
        )
    if mine.ledgers.origins & other.ledgers.origins:
        raise InvalidValue(
            "these fleets have a common past (one is a copy of the other, or was merged before), so its rewards "
            "would count twice; merge only fleets that were made and learned apart"
        )


def add(
    mine: Fleet,
    other: Fleet,
    choice_of: IntArray | None = None,
    joined: Callable[[], object] = lambda: None,
    *,
    wanted: Collection[Label] | None = None,
    estimate: bool = True,
) -> None:
    """Add names, sums, decisions and what is known; both locks must be held.

    Parameters
    ----------
    mine, other : Fleet
    choice_of : int ndarray, optional
        The numbers here of what the other's decisions chose. Default: those of its arms.
    joined : callable, optional
        Is called together with the change.
    wanted : collection of str or int, optional
        The tasks that join; decisions are then counted by whoever calls. Default: all.
    estimate : bool, default True
        Whether the population is estimated at the end.
    """
    arms, theirs = mine.names.arms, other.names.arms
    task_labels = list(other.names.tasks)
    if wanted is not None:
        task_labels = [label for label in task_labels if label in wanted]
    arm_labels, task_labels = arms.checked_all(theirs), mine.names.tasks.checked_all(task_labels)
    new_arms = [label for label in arm_labels if label not in arms]
    numbers = arms.numbers | {label: mine.core.n_arms + place for place, label in enumerate(new_arms)}
    retired = arms.retired | {numbers[label] for label in new_arms if theirs.numbers[label] in theirs.retired}
    mine.settings.require_floor(len(numbers) - len(retired))
    if new_arms:
        mine.settings.require_extendable()
    worth = joined_worth(mine, other, new_arms)
    # On a copy, which may fail anywhere.
    core = new_core(mine)
    core.method = mine.core.method
    core.restore(mine.core.snapshot())
    core.elsewhere = mine.core.elsewhere
    tasks, new = mine.names.tasks.numbered(core, task_labels)
    task_of = _mapping(other.names.tasks.numbers, task_labels, tasks)
    arm_of = _mapping(theirs.numbers, arm_labels, np.array([numbers[label] for label in arm_labels]))
    side = mine.known.tasks
    known = [task for task in other.known.tasks.raw if task_of[task] >= 0 and task_of[task] not in side.raw]
    rows = side.encode([other.known.tasks.raw[task] for task in known]) if known else None
    raw_arms = {numbers[label]: other.known.arms.raw.get(theirs.numbers[label]) for label in new_arms}
    columns = {arm: mine.known.arms.encode([raw])[0] if raw is not None else None for arm, raw in raw_arms.items()}
    for encoded in columns.values():
        add_to(core, mine, encoded)
    core.take_tasks(new.numbers)
    if rows is not None:
        core.know(task_of[known], rows, np.ones(len(known), dtype=np.bool_))
    now = max(mine.now, other.now)
    ledgers = _merged(core, other, task_of, arm_of if choice_of is None else choice_of, now)
    if estimate:
        core.renew(steps=FIT_STEPS, settled=FIT_SETTLED)
        core.ensure_fresh()
    core.run_in_background(mine.lock if mine.background else None)
    with defer_interrupts():
        mine.core.drop_background()
        mine.core = core
        joined()
        mine.names.tasks.take(new.labels, new.numbers)
        arms.change(numbers, retired)
        mine.worth = worth
        side.raw.update({int(task_of[task]): other.known.tasks.raw[task] for task in known})
        mine.known.arms.raw.update({arm: raw for arm, raw in raw_arms.items() if raw is not None})
        mine.ledgers.adopted.update({ledger.prefix: mine.ledgers.joined(ledger) for ledger in ledgers})
        mine.ledgers.origins |= other.ledgers.origins
        mine.stream.decided += other.stream.decided if wanted is None else 0


def _mapping(numbers: dict[Any, int], labels: list[Any], here: IntArray) -> IntArray:
    """Return the numbers here by those of the other fleet; -1 at the end."""
    mapping = np.full(max(numbers.values(), default=-1) + 2, -1, dtype=np.int64)
    mapping[[numbers[label] for label in labels]] = here
    return mapping


def _merged(core: Core, other: Fleet, task_of: IntArray, arm_of: IntArray, now: float) -> list[Ledger]:
    """Merge the core of another fleet; return its decisions, with numbers and receipts as they are here."""
    ledgers = []
    for ledger in other.ledgers:
        copy = Ledger(ledger.prefix, ledger.context.shape[1], ledger.first)
        copy.fill(ledger.columns())
        there = copy.task[copy.live]
        copy.forget(copy.head + np.flatnonzero((there >= 0) & (task_of[there] < 0)))  # those of tasks that do not join
        ledgers.append(copy)
    task, arm, decay, row, serial = (
        np.concatenate([getattr(one, name)[one.live] for one in ledgers])
        for name in ("task", "arm", "decay", "row", "serial")
    )
    gone = task < 0
    contexts = np.concatenate([one.context[one.live] for one in ledgers])
    pairs, chosen = (np.where(gone, 0, task), np.where(gone, 0, arm)), arm_of[arm]
    here = core.merge(other.core, task_of, arm_of, now, Receipts(decay, row, serial), pairs, contexts)
    assert here is not None
    first = 0
    for copy in ledgers:
        part = slice(first, first + copy.size)
        copy.task[copy.live] = np.where(gone[part], -1, task_of[pairs[0][part]])
        copy.arm[copy.live] = np.where(gone[part], -1, chosen[part])
        copy.context[copy.live] = contexts[part]
        copy.decay[copy.live], copy.row[copy.live], copy.serial[copy.live] = (column[part] for column in here)
        first = part.stop
    return ledgers
