"""Adding what one fleet has learned to another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from posse.engine.commit import Steps, commit
from posse.engine.loading import require_loaded
from posse.engine.site_store import SiteStore
from posse.errors import InvalidValue
from posse.fleet.labels import Label
from posse.fleet.ledger import Ledger
from posse.fleet.merge_known import Rows, adding_known_sites, join_known, raw_rows, require_same_known
from posse.fleet.posse import Posse
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.model.refresh import Refresh
    from posse.types import IntArray


Joining: TypeAlias = Callable[["IntArray"], tuple["IntArray", Steps]]
"""Takes the numbers here of the other's tasks, -1 at the end; returns those of what its decisions chose, and steps."""


def merge_fleet(mine: Posse, other: Posse, joining: Joining | None = None) -> None:
    """Add what ``other`` has learned to ``mine``; see :meth:`posse.fleet.Posse.merge`.

    ``joining`` is for those whose decisions are not among the arms of these fleets: catalogues.
    """
    if not isinstance(other, Posse):
        raise InvalidValue(f"expected a Posse to merge, got {type(other).__name__}")
    if other is mine:
        raise InvalidValue("a fleet cannot be merged with itself: every reward would count twice")
    first, second = sorted((mine, other), key=id)
    with first._lock, second._lock:
        for fleet in (mine, other):
            fleet._require_whole()
            fleet._engine.finish_background()
        families = [fleet._behaviour.family.name for fleet in (mine, other)]
        if families[0] != families[1]:
            raise InvalidValue(
                f"expected a fleet of rewards={families[0]!r}, as this one is, got {families[1]!r}; make both with the "
                "same rewards"
            )
        require_same_known(mine, other)
        if mine._features != other._features:
            raise InvalidValue(
                "fleets can be merged only if their features are the same, scaling included; "
                f"here they are {mine._features!r} and {other._features!r}"
            )
        if mine._late[1:] != other._late[1:]:
            raise InvalidValue(
                "fleets can be merged only if decisions without a reward mean the same in both, but "
                f"{_silence(mine)} here and {_silence(other)} in the other; make both with the same settings"
            )
        if _drift(mine) != _drift(other):
            raise InvalidValue(
                "fleets can be merged only if old rewards fade in the same way in both, but "
                f"drift is {_drift(mine)} here and {_drift(other)} in the other; make both with the same drift"
            )
        if mine._origins & other._origins:
            raise InvalidValue(
                "these fleets have a common past (one is a copy of the other, or was merged before), so its rewards "
                "would count twice; merge only fleets that were made and learned apart"
            )
        arm_labels = mine._arms.checked_all(other._arms)
        task_labels = mine._tasks.checked_all(other._tasks)
        require_loaded()
        if mine._engine.fading is not None and other._engine.fading is not None:
            both = (mine._engine.fading, other._engine.fading)
            mine._engine.fading.advance(max(fading.drift.aged_at or 0.0 for fading in both))
        mine._engine.ensure_fresh()
        before = (mine._engine.store.n_arms, mine._engine.store.memory)
        try:
            steps, refresh = prepare(mine, other, arm_labels, task_labels, other._decided, joining)
            commit(steps)
        except BaseException:
            if other._prefix not in mine._origins:
                # Arms may have joined the arrays, and have neither a name nor rewards.
                mine._engine.store.shrink(*before)
            raise
        # Whoever is interrupted here has merged; the next who looks estimates the population.
        mine._engine.renew(refresh)


def _drift(fleet: Posse) -> str:
    """Return the setting that says how old rewards fade."""
    if fleet._engine.fading is None:
        return "None"
    return "'learn'" if fleet._engine.fading.given is None else f"{fleet._engine.fading.given:g} seconds"


def _silence(fleet: Posse) -> str:
    """Return the settings that say what a decision without a reward means."""
    return f"absent_reward={fleet._late.absent_reward!r}, count_pending={fleet._late.count_pending}"


def prepare(
    mine: Posse,
    other: Posse,
    arm_labels: list[Label],
    task_labels: list[Label],
    decided: int,
    joining: Joining | None = None,
) -> tuple[Steps, Refresh | None]:
    """Do all that can fail; return what is left to do, and room for the estimate that follows.

    Parameters
    ----------
    mine, other : Posse
    arm_labels, task_labels : list
        All arms of ``other``, and those of its tasks that are to be added.
    decided : int
        How many of its decisions count here.
    joining : callable, optional
        As in :func:`merge_fleet`.
    """
    store = mine._engine.store
    numbers_of_arms = dict(mine._arms.numbers)
    retired = set(mine._arms.retired)
    for label in arm_labels:
        if label not in numbers_of_arms:
            numbers_of_arms[label] = store.add_arm()
            if other._arms.numbers[label] in other._arms.retired:
                retired.add(numbers_of_arms[label])
    active = mine._arms.active_among(numbers_of_arms, retired)
    mine._require_floor(len(active.names))
    numbers, new = mine._tasks.numbered(mine._engine.store, task_labels, mine._tasks.known(task_labels))
    task_of = np.full(other._engine.store.n_tasks + 1, -1, dtype=np.int64)
    task_of[[other._tasks.numbers[label] for label in task_labels]] = numbers
    arm_of = np.array([numbers_of_arms[label] for label in arm_labels] + [-1])
    tasks, arms, sums = other._engine.store.copy_of_sums()
    if len(task_labels) < len(other._tasks):
        there = task_of[tasks] >= 0
        tasks, arms, sums = tasks[there], arms[there], Sums(*(field[there] for field in sums))
    if other._engine.known is not None:
        sums = raw_rows(other._engine.known, tasks, arms, sums)
    left = None
    if mine._engine.fading is not None and other._engine.fading is not None:
        left = mine._engine.fading.meet_other(other._engine.fading, sums)
    steps: Steps = []
    n_pairs, after = tasks.size, None
    if mine._engine.known is not None:
        (tasks, arms, sums), steps, after = join_known(mine, other, task_of, arm_of, Rows(tasks, arms, sums))
    else:
        tasks, arms = task_of[tasks], arm_of[arms]
    slots = store.claim(tasks, arms)
    choice_of, more = (arm_of, Steps()) if joining is None else joining(task_of)
    ledgers = {}
    for ledger in other._ledgers():
        copy = Ledger(ledger.prefix, mine._features.n_features, ledger.first)
        copy.reserve(ledger.size)
        copy.add_many(task_of[ledger.task], choice_of[ledger.arm], 0.0, ledger.context)
        copy.time[:], copy.status[:], copy.reward[:] = ledger.time, ledger.status, ledger.reward
        copy.forget(copy.task < 0)  # what belongs to tasks that stay where they are
        ledgers[ledger.prefix] = copy
    refresh = store.new_refresh(slots, arms)
    steps += mine._arms.adding([pair for pair in numbers_of_arms.items() if pair[0] not in mine._arms])
    steps += mine._tasks.taking(mine._engine.store, new)
    steps += [
        partial(mine._adopted.update, ledgers),
        partial(mine._origins.update, other._origins),
        partial(mine._arms.__dict__.update, retired=retired),
        *mine._arms.activating(active),
        partial(mine.__dict__.update, _decided=mine._decided + decided, _rng=mine._stream(mine._decided + decided)),
        *store.adding_sums(slots, arms, sums),
        *more,
    ]
    if isinstance(store, SiteStore) and isinstance(other._engine.store, SiteStore):
        theirs = other._engine.store
        if mine._engine.known is None or other._engine.known is None or after is None:
            steps += store.adding_sites(slots, theirs, left)
        else:
            known, first = (mine._engine.known, other._engine.known, after), slice(n_pairs)
            steps += adding_known_sites(store, theirs, known, slots[first], tasks[first], arms[first])
    return steps, refresh
