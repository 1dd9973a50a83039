"""Doing once, with the smallest core, all that a core does: then all of it is compiled before anything counts on it.

The compiler takes seconds, needs memory and can be interrupted; a reward that is in the log must be learned without it.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.core.compiler import compile_all
from posse.core.forgetting import HalfLife
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.types import Array

FEW = 12  # rows, so that estimates have something to go by

_lock = threading.RLock()
_done = False


def rehearse(cores: type[Core]) -> None:
    """Have all compiled that a core does, of whatever family and settings; nothing the second time."""
    global _done
    if _done:
        return
    with _lock:
        if not _done:
            _done = True  # first: what is rehearsed makes a core, too
            try:
                compile_all("core", partial(_use, cores))
            except BaseException:
                _done = False
                raise


def _use(cores: type[Core]) -> None:
    core = _new(cores)
    tasks = np.arange(FEW) % 3
    core.take_tasks(core.reserve_tasks(3))
    core.know(np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([True, False]))
    x, out = np.ones(2), np.empty((3, 2))
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
    core.ensure_fresh()
    core.estimate()
    _look(core, x, out)
    _estimate_beside(core, x)
    core.add_arm()
    core.forget(np.array([2]))
    core.renew()


def _estimate_beside(core: Core, x: Array) -> None:
    lock = threading.RLock()
    core.run_in_background(lock)
    with lock:
        core.refresh_later()
        core.learn(0, 0, x, 1.0, 5.0)
        core.finish_background()
    core.run_in_background(None)


def _look(core: Core, x: Array, out: Array) -> None:
    core.predict(0, x, 4.0, np.arange(2), out[:2])
    core.coefficients(0, 0, 4.0)
    core.count(4.0)
    everyone = np.ones((1, 2), dtype=np.bool_)
    core.decide_rows(np.array([0, -1]), np.ones((2, 2)), 4.0, everyone, (1, 1), True, np.full(2, 0.5))
    core.sums()
    core.snapshot()


def _new(cores: type[Core]) -> Core:
    return cores(
        2, 2, family=family_of("number"), rule=Rule(RANDOMISED.scaled(0.4), 0.0, 0.0), forgetting=HalfLife(10.0),
        n_task_features=1, arm_features=np.array([[0.0], [1.0]]),
    )  # fmt: skip
