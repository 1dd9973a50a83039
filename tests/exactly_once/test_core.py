"""A change of a core counts once or not at all, whatever is raised at whatever place of it."""

from __future__ import annotations

import functools
import itertools
import logging

import numpy as np
import pytest

from posse.core.core import Core
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of

from .injecting import Injection

N_TASKS, N_ARMS, D = 6, 3, 2
ERRORS = (MemoryError, OSError, KeyboardInterrupt, RuntimeError)


def bare_core(family: str) -> Core:
    rule = Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)
    return Core(N_ARMS, D, family=family_of(family), rule=rule, n_task_features=1, growth=1.5)


def new_core(family: str) -> Core:
    core = bare_core(family)
    rng = np.random.default_rng(1)
    core.take_tasks(core.reserve_tasks(N_TASKS), rng.normal(size=(N_TASKS, 1)))
    core.learn_rows(*rows(40, seed=2))
    return core


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    contexts = np.column_stack([np.ones(n), rng.normal(size=n)])
    tasks, arms = rng.integers(N_TASKS - 1, size=n), rng.integers(N_ARMS, size=n)
    return tasks, arms, contexts, rng.integers(2, size=n).astype(np.float64), np.zeros(n)


def learn(core: Core) -> None:
    core.prepare_one(5, 1)  # a task without rewards
    core.learn(5, 1, np.array([1.0, 0.3]), 1.0, 0.0)


def learn_table(core: Core) -> None:
    core.learn_rows(*rows(60, seed=3))  # with estimates in between


def learn_sums(core: Core) -> None:
    core.learn_rows(*rows(60, seed=3), estimate=False)


def replace(core: Core) -> None:
    receipt = core.open_receipt(0, 0, X, 1.0)
    assert receipt is not None
    core.replace(receipt, 0.0, 0.0)


def forget(core: Core) -> None:
    core.forget(np.array([1, 3]))


def know(core: Core) -> None:
    core.know(np.array([1, 3]), np.array([[0.3], [2.0]]), np.array([True, False]))


def add_arm(core: Core) -> None:
    core.add_arm()


def add_task(core: Core) -> None:
    core.take_tasks(core.reserve_tasks(20), np.ones((20, 1)))


def estimate(core: Core) -> None:
    core.estimate(steps=2)


other_core = functools.cache(new_core)


def merge(core: Core) -> None:
    core.merge(other_core(core.family.name), np.arange(N_TASKS)[::-1], np.array([2, 1, 0]), 1.0)


X = np.array([1.0, 0.5])
CHANGES = (learn, learn_table, learn_sums, replace, forget, know, add_arm, add_task, estimate, merge)


def contents(core: Core) -> dict[str, object]:
    """Return all that a change could do twice or by half; sums of clicks depend on where their sites were made."""
    sums, store = core.sums(), core.state.store
    taken = {(int(task), int(arm)): number for number, (task, arm) in enumerate(zip(*sums[:2], strict=True))}
    order = [taken[pair] for pair in sorted(taken)]
    found: dict[str, object] = {
        "pairs": sorted(taken), "counts": sums.counts[order].tolist(), "arms": core.n_arms, "tasks": core.n_tasks,
        "known": store.known[:N_TASKS].tolist(), "rewards": core.n_rewards,
    }  # fmt: skip
    if core.family.name == "number":
        return found | {"gram": sums.gram[order].round(9).tolist(), "moment": sums.moment[order].round(9).tolist()}
    plain = core.plain_sums()
    kept = int(store.free_rows[1]) - int(store.free_rows[0])
    return found | {"plain": [part[order].round(9).tolist() for part in plain[2:]], "kept": kept}


@pytest.mark.parametrize("family", ["number", "binary"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_counts_once_or_not_at_all(change, family, caplog) -> None:  # type: ignore[no-untyped-def]
    caplog.set_level(logging.CRITICAL, logger="posse")

    first = new_core(family)
    first.learn(0, 0, X, 1.0, 0.0, is_open=True)
    saved = first.snapshot()

    def fresh() -> Core:
        core = bare_core(family)
        core.restore(saved)
        return core

    straight = fresh()
    before = contents(straight)
    change(straight)
    after = contents(straight)
    raised = 0
    core = fresh()
    places = itertools.chain(range(1, 40), range(40, 400, 37), range(400, 10**6, 400))  # an estimate has very many
    for place, error in zip(places, itertools.cycle(ERRORS), strict=False):
        injection = Injection(place, error)
        injection.run(lambda: change(core))  # noqa: B023
        found = contents(core)
        if injection.raised is not None:
            raised += 1
            assert found == before, f"place {place}: {injection.raised!r}"
            continue
        assert found == after, f"place {place}"
        core.ensure_fresh()
        assert np.isfinite(core.coefficients(0, 0, 0.0)[0]).all()
        if not injection.fired:
            break
        core = fresh()
    assert raised > 0
    # And it goes on as if nothing had happened.
    core.learn_rows(*rows(10, seed=9))
    assert core.n_rewards == after["rewards"] + 10  # type: ignore[operator]
