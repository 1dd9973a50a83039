"""The core: exact beliefs, every combination of options, and changes that can be taken back or made later."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from posse.core.pair import new_work
from posse.core.rows import remake_slots
from posse.model import Statistics, posterior

from .cores import (
    FAMILIES,
    believed,
    context,
    decided,
    draw_reward,
    filled,
    messages_are_those_of_the_sums,
    new_core,
    play,
)


def test_beliefs_are_those_of_the_plain_posterior_whatever_was_replaced() -> None:
    rng, n_arms, n_tasks, d = np.random.default_rng(1), 4, 30, 5
    core, plain = filled(new_core(n_arms, d), n_tasks), []
    theta = rng.normal(size=(n_arms, d)) + rng.normal(size=(n_tasks, n_arms, d)) * 0.7
    for n in range(1200):
        task, arm, x = int(rng.integers(n_tasks)), int(rng.integers(n_arms)), context(rng, d)
        reward = float(x @ theta[task, arm] + rng.normal())
        receipt = core.learn(task, arm, x, reward, 0.0)
        if n < 600:  # what follows is learned by rank-one steps under this prior
            core.estimate_if_due()
        if n % 7 == 0:
            reward += 1.0
            core.replace(receipt, reward, 0.0)
        plain.append((task, arm, x, reward))
    tasks, arms, contexts, rewards = (np.array(part) for part in zip(*plain, strict=True))
    stats = Statistics.from_data(task=tasks, arm=arms, context=contexts, reward=rewards, n_tasks=n_tasks, n_arms=n_arms)
    found = posterior(stats, core.prior)
    for j in range(n_tasks):
        x = context(rng, d)
        mean, sd = believed(core, j, x)
        np.testing.assert_allclose(mean, found.mean[:, j] @ x, atol=1e-10)
        np.testing.assert_allclose(sd, np.sqrt(np.einsum("i,kij,j->k", x, found.covariance[:, j], x)), rtol=1e-10)
        for arm in range(n_arms):
            mean, covariance = core.coefficients(j, arm, 0.0)
            np.testing.assert_allclose(mean, found.mean[arm, j], atol=1e-10)
            np.testing.assert_allclose(covariance, found.covariance[arm, j], atol=1e-10)


def test_a_task_never_seen_is_one_without_rewards() -> None:
    rng = np.random.default_rng(4)
    core = filled(new_core(3, 4), 6)
    for _ in range(200):
        x = context(rng, 4)
        core.learn(int(rng.integers(5)), int(rng.integers(3)), x, float(x.sum() + rng.normal()), 0.0)
        core.estimate_if_due()
    x = context(rng, 4)
    np.testing.assert_array_equal(believed(core, -1, x), believed(core, 5, x))
    core.prepare(np.full(3, 5), np.arange(3))
    np.testing.assert_allclose(believed(core, -1, x), believed(core, 5, x), rtol=1e-10)
    for arm in range(3):
        mean, covariance = core.coefficients(-1, arm, 0.0)
        np.testing.assert_allclose(believed(core, -1, x)[:, arm], [mean @ x, np.sqrt(x @ covariance @ x)], rtol=1e-9)


@pytest.mark.parametrize("is_late", [False, True])
def test_under_forgetting_a_reward_replaced_late_counts_as_if_it_had_come_at_once(is_late: bool) -> None:
    def aged(first: float) -> np.ndarray:
        core = filled(new_core(1, 2, half_life=10.0), 1)
        receipt = core.learn(0, 0, np.array([1.0, 0.5]), first, 0.0)
        for look in range(1, 5):
            core.learn(0, 0, np.array([1.0, -1.0]), 1.0, 4.0 * look)
        for look in range(30 if is_late else 0):
            believed(core, 0, np.ones(2), float(look))
        if first != 3.0:
            core.replace(receipt, 3.0, 25.0)
        core.learn(0, 0, np.array([1.0, 2.0]), 0.5, 30.0)  # brings what the pair tells to the present
        return believed(core, 0, np.ones(2), 31.0)

    np.testing.assert_allclose(aged(0.0), aged(3.0), rtol=1e-12)


def test_clicks_replaced_late_are_those_that_were_right_from_the_start() -> None:
    def clicked(replace: bool) -> np.ndarray:
        rng, core = np.random.default_rng(3), filled(new_core(2, 2, "binary"), 1)
        receipts = []
        for n in range(30):
            x, right = context(rng, 2), float(rng.random() < 0.3)
            wrong = n % 5 == 0 and replace
            receipts.append((core.learn(0, n % 2, x, 1.0 - right if wrong else right, 0.0), right, wrong))
        for receipt, right, wrong in receipts:
            if wrong:
                core.replace(receipt, right, 0.0)
        store = core.state.store
        work = new_work(2, 2)
        for _ in range(10):  # to the fixed point
            remake_slots(store, work, np.arange(2))
        return believed(core, 0, np.array([1.0, 0.3]))

    np.testing.assert_allclose(clicked(True), clicked(False), atol=1e-5)


@pytest.mark.parametrize(
    ("family", "half_life", "p", "q", "absent"), list(product(FAMILIES, (None, 300.0), (0, 2), (0, 2), (None, 0.0)))
)
def test_every_combination_decides_learns_forgets_and_goes_on_from_a_snapshot(
    family: str, half_life: float | None, p: int, q: int, absent: float | None
) -> None:
    n_arms, d, n_tasks, steps, rng = 4, 3, 12, 250, np.random.default_rng(7)
    features, z = rng.normal(size=(n_arms, q)) if q else None, rng.normal(size=(n_tasks, p))
    theta = 0.7 * rng.normal(size=(n_tasks, n_arms, d))

    core = new_core(n_arms, d, family, half_life, n_task_features=p, arm_features=features)
    core.take_tasks(core.reserve_tasks(n_tasks), z if p else None)
    play(core, family, absent, rng, theta, steps)
    core.forget(np.array([3]))
    core.add_arm(np.ones(q) if q else None)
    if p:
        core.know(np.array([2]), np.ones((1, p)), np.array([True]))
    rows = np.zeros((n_arms + 1, q)) if q else None
    other = new_core(n_arms + 1, d, family, half_life, n_task_features=p, arm_features=rows)
    other.restore(core.snapshot())
    for one in (core, other):
        generator = np.random.default_rng(11)
        for n in range(60):
            x = context(generator, d)
            arm, _ = decided(one, 2, x, float(steps + n), steps + n, float(generator.random()))
            one.learn(2, arm, x, draw_reward(family, 0.2, generator), float(steps + n))
            one.estimate_if_due()
    x = context(rng, d)
    for task in (2, 5, -1):
        mine, theirs = (decided(one, task, x, 400.0, 400, 0.4) for one in (core, other))
        assert mine[0] == theirs[0]
        np.testing.assert_array_equal(mine[1], theirs[1])
        assert np.isfinite(mine[1]).all()
        assert abs(mine[1][0].sum() - 1.0) < 1e-9
    messages_are_those_of_the_sums(core, 1e-8)
