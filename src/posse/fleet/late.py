"""Decisions without a reward: how long they wait, what they count as meanwhile, and what they teach in the end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import number
from posse.engine.commit import commit
from posse.engine.learn import prepare_rows
from posse.engine.site_store import SiteStore
from posse.errors import InvalidValue
from posse.fleet.checking import require_truth_value
from posse.fleet.ledger import FORGOTTEN, PENDING, REWARDED

if TYPE_CHECKING:
    from posse.engine.fading import Fading
    from posse.engine.learn import PreparedUpdate
    from posse.fleet.ledger import Ledger
    from posse.fleet.posse import Posse
    from posse.types import IntArray

    Late = list[tuple[Ledger, IntArray]]

MONTH = 30 * 24 * 3600.0


class LateRewards(NamedTuple):
    """What it means that a decision has no reward yet, or never gets one.

    Parameters
    ----------
    time_to_live : float or None
        Seconds for which a decision may get its reward; None is for ever.
    absent_reward : float or None
        What none is learned as; None learns nothing.
    count_pending : bool
        Whether a decision counts as the absent reward from the moment it is made.
    """

    time_to_live: float | None
    absent_reward: float | None
    count_pending: bool


def late_rewards(time_to_live: Any, absent_reward: float | None, count_pending: Any) -> LateRewards:
    """Return the settings of late rewards, or raise; ``absent_reward`` is a reward that can be learned."""
    time_to_live = None if time_to_live is None else number(time_to_live, "time_to_live", above=0)
    require_truth_value(count_pending, "count_pending")
    late = LateRewards(time_to_live, absent_reward, bool(count_pending))
    if not late.count_pending and absent_reward is None:
        raise InvalidValue(
            "count_pending=False learns every decision when its time_to_live is over, its reward or absent_reward; "
            "expected absent_reward to be a number, got None: pass absent_reward, or leave count_pending out"
        )
    if not late.count_pending and time_to_live is None:
        raise InvalidValue(
            "count_pending=False learns every decision when its time_to_live is over; "
            "expected time_to_live to be a number of seconds, got None"
        )
    return late


def drop_late(fleet: Posse, before: float, now: float) -> None:
    """Let decisions go that were made before a time; those without a reward get the absent one, if there is one."""
    late = [(ledger, ledger.late(before)) for ledger in fleet._ledgers() if ledger.is_late(0, before)]
    if not late:
        return
    update, note = None, None
    absent = fleet._late.absent_reward
    if fleet._engine.fading is not None and absent is not None and not fleet._partial:
        for ledger, rows in late:
            for _ in range(rows.size):
                _end_oldest(fleet, fleet._engine.fading, ledger, now)
        return
    if absent is not None and not fleet._partial:
        waiting = [(ledger, rows[ledger.status[rows] == PENDING]) for ledger, rows in late]
        ids = [f"{ledger.prefix}-{ledger.first + row}" for ledger, rows in waiting for row in rows.tolist()]
        if not fleet._late.count_pending:
            update = _held(fleet, late)
        elif ids and isinstance(fleet._engine.store, SiteStore):
            update = _over(fleet, waiting)
        if ids:
            note = partial(fleet._note_rewards, ids, [absent] * len(ids), now)
    drops = [step for ledger, rows in late for step in ledger.dropping_oldest(rows.size)]
    commit([*(update.steps if update is not None else ()), *drops], note)
    if update is not None:
        fleet._engine.estimate_after(update)


def _over(fleet: Posse, waiting: Late) -> PreparedUpdate:
    """Return what decisions teach whose time is over: what they counted as, from now on for good."""
    absent = np.full(sum(rows.size for _, rows in waiting), fleet._late.absent_reward)
    return prepare_rows(
        fleet._engine,
        np.concatenate([ledger.task[rows] for ledger, rows in waiting]),
        np.concatenate([ledger.arm[rows] for ledger, rows in waiting]),
        np.concatenate([ledger.context[rows] for ledger, rows in waiting]),
        absent,
        old=absent,
    )


def _end_oldest(fleet: Posse, fading: Fading, ledger: Ledger, now: float) -> None:
    """Let the oldest decision go, in a world that changes: each is learned by itself, see :meth:`Fading.learn_one`."""
    drops, status = ledger.dropping_oldest(1), ledger.status[0]
    if status == FORGOTTEN:
        commit(drops)
        return
    absent: Any = fleet._late.absent_reward
    value = float(ledger.reward[0] if status == REWARDED else absent)
    note = partial(fleet._note_rewards, [f"{ledger.prefix}-{ledger.first}"], [value], now)
    x = np.array(ledger.context[0], dtype=np.float64)
    task, arm = int(ledger.task[0]), int(ledger.arm[0])
    fading.learn_one(now, task, arm, x, value, drops, note if status == PENDING else None)


def _held(fleet: Posse, late: Late) -> PreparedUpdate | None:
    """Return what decisions past their time teach: the reward that came meanwhile, or the absent one."""
    kept = [(ledger, rows[ledger.status[rows] != FORGOTTEN]) for ledger, rows in late]
    rewards = [
        np.where(ledger.status[rows] == REWARDED, ledger.reward[rows], fleet._late.absent_reward)
        for ledger, rows in kept
    ]
    if not sum(rows.size for _, rows in kept):
        return None
    return prepare_rows(
        fleet._engine,
        np.concatenate([ledger.task[rows] for ledger, rows in kept]),
        np.concatenate([ledger.arm[rows] for ledger, rows in kept]),
        np.concatenate([ledger.context[rows] for ledger, rows in kept]),
        np.concatenate(rewards),
    )
