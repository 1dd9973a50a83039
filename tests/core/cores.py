"""Cores for tests, and what tests do with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.core.core import Core, Receipt
from posse.core.estimate import with_posterior
from posse.core.forgetting import HalfLife
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of

FAMILIES = ("number", "binary", "count")
RULE = Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)


def new_core(n_arms: int, d: int, family: str = "number", half_life: float | None = None, **settings: Any) -> Core:
    forgetting = None if half_life is None else HalfLife(half_life)
    return Core(n_arms, d, family=family_of(family), rule=RULE, forgetting=forgetting, **settings)


def filled(core: Core, n_tasks: int) -> Core:
    core.take_tasks(core.reserve_tasks(n_tasks))
    return core


def believed(core: Core, task: int, x: np.ndarray, now: float = 0.0) -> np.ndarray:
    out = np.empty((2, core.n_arms))
    core.predict(task, x, now, np.arange(core.n_arms), out)
    return out


def decided(core: Core, task: int, x: np.ndarray, now: float, step: int, uniform: float) -> tuple[int, np.ndarray]:
    out = np.empty((3, core.n_arms))
    return core.decide(task, x, now, np.arange(core.n_arms), step, True, uniform, out), out


def draw_reward(family: str, predictor: float, rng: np.random.Generator) -> float:
    if family == "number":
        return float(predictor + rng.normal())
    if family == "binary":
        return float(rng.random() < 1.0 / (1.0 + np.exp(-predictor)))
    return float(rng.poisson(np.exp(min(predictor, 3.0))))


def context(rng: np.random.Generator, d: int) -> np.ndarray:
    return np.append(1.0, rng.normal(size=d - 1))


def messages_are_those_of_the_sums(core: Core, tolerance: float) -> None:
    """Compare what arms were told one by one with what all pairs say now."""
    one_by_one = core.state.store
    at_rest = np.array([np.inf, 0.0, one_by_one.summed_at[0], 1.0])  # pairs are as old as when messages were summed
    afresh = with_posterior(core.state._replace(store=one_by_one._replace(ageing=at_rest)), learned=False)[0].store
    finite = np.isfinite(afresh.told)
    np.testing.assert_array_equal(finite, np.isfinite(one_by_one.told))
    size = np.abs(afresh.told[finite]).max()
    assert np.abs(afresh.told[finite] - one_by_one.told[finite]).max() < tolerance * size
    np.testing.assert_allclose(afresh.shared, one_by_one.shared, rtol=1e-6, atol=1e-9)


def play(
    core: Core, family: str, absent: float | None, rng: np.random.Generator, theta: np.ndarray, steps: int
) -> None:
    """Decide and reward; some rewards are late, some never come, and each is absent until it comes."""
    d, waiting = core.n_features, list[tuple[int, int, np.ndarray, float, Receipt | None]]()
    for n in range(steps):
        task, x, now = int(rng.integers(len(theta))), context(rng, d), float(n)
        arm, _ = decided(core, task, x, now, n + 1, float(rng.random()))
        assert arm >= 0
        receipt = None if absent is None else core.learn(task, arm, x, absent, now, is_open=True)
        waiting.append((task, arm, x, draw_reward(family, float(x @ theta[task, arm]), rng), receipt))
        while len(waiting) > 6:
            task, arm, x, reward, receipt = waiting.pop(int(rng.integers(len(waiting))))
            comes = rng.random() > 0.1
            if receipt is not None:
                core.close(core.replace(receipt, reward, now) if comes else receipt)
            elif comes:
                core.learn(task, arm, x, reward, now)
        core.estimate_if_due()
