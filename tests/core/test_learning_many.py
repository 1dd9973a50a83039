"""Rows learned at once: sums alone, estimates in between, threads, and rows of another core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from posse.core.core import Core, Receipt
from posse.core.state import Receipts

from .cores import FAMILIES, believed, context, draw_reward, filled, messages_are_those_of_the_sums, new_core

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def drawn_rows(n: int, n_tasks: int, n_arms: int, d: int, family: str = "number", seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(n_arms, size=n)
    contexts = np.array([context(rng, d) for _ in range(n)])
    theta = 0.7 * rng.normal(size=(n_tasks, n_arms, d))
    predictors = np.einsum("ni,ni->n", contexts, theta[tasks, arms])
    rewards = np.array([draw_reward(family, predictor, rng) for predictor in predictors])
    return tasks, arms, contexts, rewards, np.sort(rng.uniform(0.0, 100.0, size=n))


def part(rows: Rows, first: int, last: int) -> Any:
    return tuple(column[first:last] for column in rows)


@pytest.mark.parametrize("half_life", [None, 50.0])
def test_sums_alone_give_the_beliefs_of_learning_row_by_row(half_life: float | None) -> None:
    rows = drawn_rows(300, 6, 3, 4)
    one_by_one, at_once = (filled(new_core(3, 4, half_life=half_life, growth=1e9), 6) for _ in range(2))
    for core in (one_by_one, at_once):
        core.learn_rows(*part(rows, 0, 100))
        core.estimate()
    for row in zip(*part(rows, 100, 300), strict=True):
        one_by_one.learn(int(row[0]), int(row[1]), row[2], float(row[3]), float(row[4]))
    at_once.learn_rows(*part(rows, 100, 300), estimate=False)
    assert at_once.behind
    at_once.ensure_fresh()
    assert not at_once.behind
    np.testing.assert_allclose(one_by_one.sums(now=100.0).gram, at_once.sums(now=100.0).gram, rtol=1e-12)
    messages_are_those_of_the_sums(at_once, 1e-12)
    x = np.array([1.0, 0.3, -0.2, 0.5])
    if half_life is None:  # otherwise arms are told that a pair has aged at its next reward, or with all others
        for task in range(6):
            np.testing.assert_allclose(believed(one_by_one, task, x), believed(at_once, task, x), rtol=1e-9)


def test_a_table_in_parts_gives_the_sums_of_the_whole_table_to_the_bit() -> None:
    rows = drawn_rows(9000, 40, 3, 4)  # enough for threads
    whole, parts = filled(new_core(3, 4), 40), filled(new_core(3, 4), 40)
    whole.learn_rows(*rows, estimate=False)
    for first in range(0, 9000, 700):
        parts.learn_rows(*part(rows, first, first + 700), estimate=False)
    for mine, theirs in zip(whole.sums(), parts.sums(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for core in (whole, parts):
        core.ensure_fresh()
    x = np.array([1.0, 0.3, -0.2, 0.5])
    np.testing.assert_array_equal(believed(whole, 3, x), believed(parts, 3, x))


@pytest.mark.parametrize("family", FAMILIES)
def test_many_rows_are_decided_as_one_by_one(family: str) -> None:
    core = filled(new_core(4, 3, family), 200)
    core.learn_rows(*drawn_rows(2000, 150, 4, 3, family))
    rng = np.random.default_rng(3)
    n = 5000  # enough for threads
    tasks, uniforms = rng.integers(-1, 200, size=n), rng.random(n)
    contexts, mask = np.array([context(rng, 3) for _ in range(n)]), rng.random((n, 4)) < 0.7
    mask[:, 0] = True
    chosen, probabilities, mean, sd = core.decide_rows(tasks, contexts, 0.0, mask, (10, 20), True, uniforms)
    for row in range(0, n, 97):
        among = np.flatnonzero(mask[row])
        out = np.empty((3, among.size))
        step = max(10 + row, 20)
        place = core.decide(int(tasks[row]), contexts[row], 0.0, among, step, True, float(uniforms[row]), out)
        assert chosen[row] == among[place]
        np.testing.assert_array_equal(out, np.array([probabilities, mean, sd])[:, row, among])
        assert not probabilities[row, ~mask[row]].any()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("half_life", [None, 60.0])
def test_merging_adds_sums_and_rows_and_receipts_stay_good(family: str, half_life: float | None) -> None:
    def core_of(rows: Rows) -> tuple[Core, list[Receipts]]:
        core = filled(new_core(3, 3, family, half_life, growth=1e9), 8)
        return core, [core.learn_rows(*rows)]

    rows, others = drawn_rows(120, 8, 3, 3, family, seed=1), drawn_rows(120, 8, 3, 3, family, seed=2)
    mine, theirs = core_of(rows)[0], core_of(others)
    tasks, arms = np.array([0, 1, 2, 3, 7, 6, 5, -1]), np.array([1, 2, 0])  # the other's last task does not join
    joins = others[0] != 7
    before, added = mine.sums(now=100.0), theirs[0].sums(now=100.0)
    of_pairs = others[0], others[1]
    receipts = mine.merge(theirs[0], tasks, arms, 100.0, theirs[1][0], of_pairs)
    assert receipts is not None
    mine.ensure_fresh()
    merged = {(task, arm): row for row, (task, arm) in enumerate(zip(*mine.sums()[:2], strict=True))}
    counts = np.zeros(len(merged))
    for task, arm, count in zip(before.tasks, before.arms, before.counts, strict=True):
        counts[merged[task, arm]] += count
    for task, arm, count in zip(added.tasks, added.arms, added.counts, strict=True):
        if task != 7:
            counts[merged[tasks[task], arms[arm]]] += count
    np.testing.assert_allclose(mine.sums(now=100.0).counts, counts)
    messages_are_those_of_the_sums(mine, 1e-9)
    if family != "number":
        assert mine.plain_sums().counts.sum() == 120 + joins.sum()
        kept = receipts.row >= 0
        assert kept[joins].all()
        assert not kept[~joins].any()
    row = int(np.flatnonzero(joins)[5])
    task, arm = int(tasks[others[0][row]]), int(arms[others[1][row]])
    receipt = Receipt(
        task, arm, others[2][row], float(others[3][row]), float(receipts.decay[row]), int(receipts.row[row]),
        int(receipts.serial[row]),
    )  # fmt: skip
    assert mine.replaceable(receipt)
    mine.replace(receipt, 1.0 - float(others[3][row]) if family == "binary" else 4.0, 101.0)
    messages_are_those_of_the_sums(mine, 1e-8)
