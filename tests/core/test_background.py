"""Estimates beside a core that decides and learns on."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from posse.core import core as core_module
from posse.core.core import Core

from .cores import FAMILIES, believed, context, draw_reward, filled, messages_are_those_of_the_sums, new_core


class Crowd:
    """A core in the background, and rewards for it."""

    def __init__(self, family: str, half_life: float | None, p: int) -> None:
        self.rng, self.family, self.clock = np.random.default_rng(2), family, 0.0
        self.core, self.lock = (
            filled(new_core(3, 3, family, half_life, growth=1e9, n_task_features=p), 40),
            threading.RLock(),
        )
        if p:
            self.core.know(np.arange(40), self.rng.normal(size=(40, p)), np.ones(40, dtype=np.bool_))

    def learn(self, n: int) -> None:
        for _ in range(n):
            x, self.clock = context(self.rng, 3), self.clock + 1.0
            task, arm = int(self.rng.integers(self.core.n_tasks)), int(self.rng.integers(3))
            self.core.learn(task, arm, x, draw_reward(self.family, 0.5 * x[1], self.rng), self.clock)


def wait_for(core: Core) -> None:
    for _ in range(30_000):
        if not core.refreshing:
            return
        time.sleep(0.01)
    raise AssertionError("the estimate did not end")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("half_life", [None, 500.0])
@pytest.mark.parametrize("p", [0, 2])
def test_what_is_learned_meanwhile_is_in_the_posterior(
    family: str, half_life: float | None, p: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(family, half_life, p)
    core = crowd.core
    crowd.learn(300)
    core.run_in_background(crowd.lock)
    before, may_go_on = core.version, threading.Event()
    plain = core_module.estimated_in_place

    def slowly(*arguments: object, **settings: object) -> object:
        assert may_go_on.wait(200)
        return plain(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(core_module, "estimated_in_place", slowly)
    with crowd.lock:
        core.refresh_later()
    while core.refreshing and not may_go_on.is_set():  # all is copied when the lock is free for long
        with crowd.lock:
            crowd.learn(50)
            core.take_tasks(core.reserve_tasks(1), crowd.rng.normal(size=(1, p)) if p else None)
            if p:
                core.know(np.array([3, 31]), crowd.rng.normal(size=(2, p)), np.array([True, True]))
            crowd.learn(20)
        may_go_on.set()
    wait_for(core)
    assert core.version == before + 1
    assert core.n_rewards == pytest.approx(370.0) or half_life
    messages_are_those_of_the_sums(core, 1e-9)
    crowd.learn(20)
    messages_are_those_of_the_sums(core, 1e-8)


def test_an_estimate_of_a_core_that_has_changed_comes_to_nothing() -> None:
    crowd = Crowd("number", None, 0)
    core = crowd.core
    crowd.learn(200)
    core.run_in_background(crowd.lock)
    with crowd.lock:
        core.refresh_later()
        core.forget(np.array([3]))
        version = core.version
        assert not core.refreshing
    time.sleep(0.5)
    assert core.version == version
    assert 3 not in core.sums().tasks


def test_whoever_holds_the_lock_can_wait_for_the_estimate() -> None:
    crowd = Crowd("binary", None, 0)
    crowd.learn(200)
    crowd.core.run_in_background(crowd.lock)
    with crowd.lock:
        version = crowd.core.version
        crowd.core.refresh_later()
        crowd.core.finish_background()
        assert crowd.core.version == version + 1
        assert not crowd.core.refreshing
    messages_are_those_of_the_sums(crowd.core, 1e-9)


def test_an_estimate_that_fails_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd("number", None, 0)
    core = crowd.core
    crowd.learn(200)
    core.run_in_background(crowd.lock)
    x = np.array([1.0, 0.2, -0.3])
    before = believed(core, 4, x)

    def fail(*_: object, **__: object) -> object:
        raise MemoryError("no memory")

    monkeypatch.setattr(core_module, "estimated_in_place", fail)
    with crowd.lock:
        core.refresh_later()
    wait_for(core)
    np.testing.assert_array_equal(believed(core, 4, x), before)
    assert core.problem is not None
    assert "no memory" in core.problem
    crowd.learn(5)
    messages_are_those_of_the_sums(core, 1e-9)
