"""Doing once, with the smallest core of a kind, all that a core does between a log and what is believed.

The compiler takes seconds, needs memory and can be interrupted; a reward that is in the log must be learned without it.
So all of that is compiled when a core is made. What only reads is compiled when it is first called.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.compiler import compile_all
from posse.core.forgetting import HalfLife, Never, age_at, share_left
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of
from posse.families.sites import expected_reward, site_of_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from posse.core.core import Core
    from posse.core.revenue import Revenue
    from posse.types import Array

FEW = 12  # rows, so that estimates have something to go by

_lock = threading.RLock()
_busy = False


class Kind(NamedTuple):
    """Settings by which cores need other compiled functions."""

    linked: bool
    fades: bool = False
    watches: bool = False
    background: bool = False
    divides: bool = False  # every reward between a task and something else, see posse.fleet.residuals

    def __str__(self) -> str:
        words = ["linked" if self.linked else "numbers", *(name for name in self._fields[1:] if getattr(self, name))]
        return "-".join(words)


_done: set[Kind | str] = set()


def rehearse(cores: type[Core], kind: Kind) -> None:
    """Have all compiled that cores of some kind need; nothing the second time, or while that is under way."""
    _once(kind, partial(_use, cores, kind))


def rehearse_revenue(cores: type[Revenue]) -> None:
    """Have all compiled that revenue needs beyond its two parts, of which each rehearses its own kind."""
    _once("revenue", partial(_use_revenue, cores))


def _once(kind: Kind | str, use: Callable[[], None]) -> None:
    global _busy
    if kind in _done:
        return
    with _lock:
        if kind in _done or _busy:
            return
        _busy = True
        try:
            compile_all(f"core-{kind}", use)
        finally:
            _busy = False
        _done.add(kind)


def _use(cores: type[Core], kind: Kind) -> None:
    core = cores(
        2, 2, family=family_of("binary" if kind.linked else "number"), rule=Rule(RANDOMISED.scaled(0.4), 0.0, 0.0),
        forgetting=HalfLife(10.0) if kind.fades else Never(), n_task_features=1, arm_features=np.array([[0.0], [1.0]]),
    )  # fmt: skip
    tasks = np.arange(FEW) % 3
    core.take_tasks(core.reserve_tasks(3))
    core.know(np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([True, False]))
    x, out = np.ones(2), np.empty((3, 2))
    if kind.background:
        _estimate_beside(core, x)
        return
    if kind.divides:
        _divide(core, x)
        return
    position = core.decide(-1, x, 0.0, np.arange(2), 1, True, 0.5, out)
    core.show(out[1], out[2])
    receipt = core.learn(0, position, x, 0.0, 0.0, is_open=True)
    core.close(core.replace(receipt, 1.0, 1.0))
    core.estimate_if_due()
    arms, contexts = np.arange(FEW) // 3 % 2, np.stack([np.ones(FEW), np.arange(FEW) / FEW], axis=1)
    rewards = (np.arange(FEW) % 5 < 2).astype(np.float64)
    core.prepare(tasks, arms)
    core.learn_rows(tasks, arms, contexts, rewards, np.full(FEW, 2.0))
    core.learn_rows(tasks, arms, contexts, rewards, np.full(FEW, 3.0), estimate=False)
    if not kind.linked:
        core.replace(receipt, 2.0, 3.0)
    core.ensure_fresh()
    core.estimate()
    if kind.fades:
        core.count(4.0)
    if kind.watches:
        core.believed(0, 0, x, 4.0, None)
    core.add_arm()
    core.forget(np.array([2]))
    core.renew()


def _use_revenue(cores: type[Revenue]) -> None:
    rule = Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)
    core = cores(2, 2, family=family_of("revenue"), rule=rule, forgetting=(HalfLife(10.0), HalfLife(10.0)))
    core.take_tasks(core.reserve_tasks(1))
    x, out = np.ones(2), np.empty((3, 2))
    core.decide(-1, x, 0.0, np.arange(2), 1, True, 0.5, out)
    core.show(out[1], out[2])
    receipt = core.learn(0, 0, x, 2.0, 0.0, is_open=True)
    for revenue in (3.0, 0.0, 4.0):
        receipt = core.replace(receipt, revenue, 1.0)
    core.close(receipt)
    core.learn_rows(np.zeros(2, np.int64), np.arange(2), np.ones((2, 2)), np.array([0.0, 5.0]), 2.0)
    core.renew()


def _divide(core: Core, x: Array) -> None:
    core.predict(0, x, 0.0, np.arange(1), np.empty((2, 1)))
    site_of_part(core.family.code, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    expected_reward(core.family.code, 0.0, 0.0)
    share_left(1.0, 1.0)
    age_at(0.0, core.state.store.ageing)


def _estimate_beside(core: Core, x: Array) -> None:
    lock = threading.RLock()
    core.learn(0, 0, x, 1.0, 4.0)
    core.run_in_background(lock)
    with lock:
        core.refresh_later()
        core.learn(0, 0, x, 1.0, 5.0)
        core.finish_background()
    core.run_in_background(None)
