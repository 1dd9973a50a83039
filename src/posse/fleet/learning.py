"""Rows of tables and logs are learned, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.core.state import ReadyRows, Receipts
    from posse.features import FeatureSpec
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array, IntArray


def learn_rows(
    fleet: Fleet,
    labels: list[Label],
    codes: IntArray,
    arms: IntArray,
    X: Array,
    y: Array,
    times: Array | None = None,
    *,
    refresh: bool = True,
    features: FeatureSpec | None = None,
) -> None:
    """Learn rows of a table, all of them or none; the lock must be held.

    Parameters
    ----------
    fleet : Fleet
    labels : list
        Distinct tasks.
    codes : ndarray of shape (n,)
        The task of every row, by its position in ``labels``.
    arms : ndarray of shape (n,)
    X : ndarray of shape (n, n_columns)
    y : ndarray of shape (n,)
    times : ndarray of shape (n,), optional
        Rows are learned in this order. Default: in their own, as of now.
    refresh : bool
        Whether the population is estimated if that is due.
    features : FeatureSpec, optional
        Of contexts, with a scaling that was learned from this table.
    """
    core, names = fleet.core, fleet.names.tasks
    numbers, new = names.numbered(core, labels)
    tasks = numbers[codes]
    if times is None:
        times = np.full(len(y), fleet.now)
    else:
        order = np.argsort(times, kind="stable")
        tasks, arms, X, y, times = tasks[order], arms[order], X[order], y[order], times[order]
    due = refresh and core.due(len(y))
    ready = _ready(fleet, tasks, arms, X, y, times, refresh=refresh)
    with defer_interrupts():
        if features is not None:
            fleet.features = features
        names.take_new(core, new)
        _learn(fleet, ready)
    core.ensure_fresh() if refresh else None
    if due and fleet.rewards != "number" and not fleet.background:
        core.renew(steps=FIT_STEPS, settled=FIT_SETTLED)  # to the end: it may be all the data there will ever be
    elif refresh:
        core.estimate_if_due()


def learn_numbered(
    fleet: Fleet,
    tasks: IntArray,
    arms: IntArray,
    X: Array,
    y: Array,
    times: Array,
    *,
    refresh: bool,
    is_open: bool = False,
    serials: IntArray | None = None,
) -> Receipts:
    """Learn rows of tasks and arms by number; those of numbers with one estimate at most, which is to follow.

    What a click or count says depends on the population in force, so its estimates are at places that follow from the
    rows alone.
    """
    return _learn(fleet, _ready(fleet, tasks, arms, X, y, times, refresh=refresh, is_open=is_open), serials)


def _ready(
    fleet: Fleet, tasks: IntArray, arms: IntArray, X: Array, y: Array, times: Array, *, refresh: bool,
    is_open: bool = False,
) -> ReadyRows:  # fmt: skip
    """Return rows that :func:`_learn` learns and cannot fail to."""
    core, estimate = fleet.core, True
    if fleet.rewards == "number" and fleet.settings.learns_population:
        beside = fleet.background and len(y) <= core.n_rewards
        estimate = refresh and (beside or not core.due(len(y)))
    return core.ready_rows(tasks, arms, X, y, times, is_open=is_open, estimate=estimate)


def _learn(fleet: Fleet, ready: ReadyRows, serials: IntArray | None = None) -> Receipts:
    core, growth = fleet.core, fleet.core.growth
    # Whether something has changed depends on what was believed by then, so estimates come in between there.
    if fleet.rewards == "number" and not core.forgetting.watches:
        core.growth = np.inf
    try:
        return core.learn_ready(ready, serials)
    finally:
        core.growth = growth
