"""Learning: rows are prepared with all that can fail, and then learned in steps that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.engine.site_store import SiteStore

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.engine.engine import Engine
    from posse.model.refresh import Refresh
    from posse.types import Array, IntArray


class PreparedUpdate(NamedTuple):
    """Rows that are about to be learned: the steps that do it, and what follows."""

    steps: Steps
    way: str  # "one by one", or "sums", or sums and then "refresh"
    refresh: Refresh | None = None
    provisional: bool = False  # whether all rows are decisions that wait for their reward


def prepare_rows(
    engine: Engine,
    tasks: IntArray,
    arms: IntArray,
    contexts: Array,
    rewards: Array,
    *,
    old: Array | None = None,
    refresh: bool = True,
    provisional: bool = False,
    waiting: bool = False,
    fit: bool = False,
) -> PreparedUpdate:
    """Return rows with all that learning them needs; without ``refresh`` only their sums are taken.

    With ``fit`` they are a table, after which clicks and counts have their population estimated to the end. ``old`` is
    the reward that each row was learned with before, NaN for those that are new; default: all are new. New ones that
    are ``waiting``, or ``provisional``, may be replaced by their reward. In a world that changes they are as
    of now; see :meth:`posse.engine.fading.Fading.learn_rows` for those that came at other times.

    :meth:`posse.engine.engine.Engine.estimate_after` follows when the steps were taken.
    """
    engine.require_loaded()
    store = engine.store
    # Kernels are compiled for the kinds of their arguments, and only one kind was loaded.
    contexts, rewards = (np.require(array, np.float64, ["C", "A", "W"]) for array in (contexts, rewards))
    tasks, arms = (np.require(array, np.int64, ["C", "A", "W"]) for array in (tasks, arms))
    slots = store.claim(tasks, arms)
    if engine.known is not None and not isinstance(store, SiteStore):
        shift = engine.known.shift(tasks, arms, contexts)
        rewards, old = rewards - shift, None if old is None else old - shift
    due = store.refresh_due(engine.growth, len(rewards), provisional=provisional)
    if isinstance(store, SiteStore):
        fit = fit and refresh
        waiting = waiting or provisional
        later = engine.refresh_later if refresh and not fit and engine.estimates_later else None
        steps = store.learning_in_turn(tasks, arms, contexts, rewards, old=old, waiting=waiting, fit=fit, later=later)
        return PreparedUpdate(steps, "refresh" if fit and due else "one by one")
    if refresh and store.stale:
        due = True
    elif engine.estimates_later and (engine.learns_first or len(rewards) <= store.n_rewards):
        due = False  # one by one, and the estimate follows in the background
    new: Any = slice(None) if old is None else np.isnan(old)
    new_refresh, one_by_one = None, refresh and not due
    store.keep(slots, arms)
    if one_by_one:
        steps = store.learning_rows(tasks[new], arms[new], contexts[new], rewards[new])
    else:
        new_refresh = store.new_refresh(slots[new], arms[new]) if refresh else None
        parts = store.parts_of(slots[new])
        steps = store.adding_rows(slots[new], arms[new], contexts[new], rewards[new], parts)
    if old is not None:
        # After those that are new: a decision and its reward may come together.
        known, before = ~new, np.require(old[~new], np.float64, ["C", "A", "W"])
        if one_by_one:
            steps += store.replacing_rows(tasks[known], arms[known], contexts[known], before, rewards[known])
        else:
            steps += store.exchanging_rows(slots[known], contexts[known], before, rewards[known])
    way = "one by one" if one_by_one else "refresh" if refresh else "sums"
    return PreparedUpdate(steps, way, new_refresh, provisional)


def prepare_one(engine: Engine, task: int, arm: int, *, provisional: bool = False) -> tuple[bool, Refresh | None]:
    """Prepare for one reward of a pair; return whether an estimate is due after it, and what that needs.

    The task may only have been reserved. :meth:`posse.engine.engine.Engine.estimate_after_one` follows when the reward
    was learned.
    """
    store = engine.store
    slot = store.slot_of(task, arm)
    if slot < 0:
        slot = int(store.claim(np.array([task]), np.array([arm]))[0])
    # What is behind on a whole table is estimated by whoever looks next, with more steps than here.
    due = not store.stale and store.refresh_due(engine.growth, 1.0, provisional=provisional)
    # As is_read, which every reward would ask.
    if due or store.kept is not None or store.frozen or store.overdue is not None:
        slots, arms = np.array([slot]), np.array([arm])
        store.keep(slots, arms)
        if due and not engine.estimates_later:
            return True, store.new_refresh(slots, arms)
    return due, None


def shift_of(engine: Engine, task: int, arm: int, x: Array) -> float:
    """Return by how much a reward is lowered before it is learned: what features of task and arm say of it.

    Clicks and counts stay what they are, and their sites are lowered (:mod:`posse.engine.site_offsets`).
    """
    if engine.known is None or isinstance(engine.store, SiteStore):
        return 0.0
    return float(engine.known.shift(np.array([task]), np.array([arm]), x[None])[0])
