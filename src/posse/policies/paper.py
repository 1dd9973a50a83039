"""Steps of a policy that estimates an arm's prior from its tasks' least squares, after every reward if need be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.core.blocks import FEWEST_LANES, MOST_LANES, condition, load, solve
from posse.core.compiler import compiled, inlined
from posse.core.linalg import multiply, unpack
from posse.core.store import COUNT, SQUARES, Store, n_triangle, totals_at
from posse.model.least_squares import Memory, estimate_arm, fit_pair
from posse.policies.playing import StepBatch, player
from posse.policies.stepping import Model, choose_arm, finish_shared, learn_reward, set_prior
from posse.types import Array, IntArray


class Blocks(NamedTuple):
    """Buffers for the pairs of an arm, some at a time: the last axis is over pairs."""

    slots: IntArray  # (N,) pairs with rewards
    data: Array  # (d, d + 1, L) A and b
    factor: Array  # (d, d, L) of P
    solved: Array  # (d, d + 1, L) P^-1 [A, b]
    noise: Array  # (L,)
    total: Array  # (d, d + 1) sums of those
    message: Array  # (d, d + 1)


class PaperModel(NamedTuple):
    """All that steps work on; see :class:`posse.policies.stepping.Model`."""

    model: Model
    memory: Memory
    blocks: Blocks
    method: int
    growth: Array  # (1,)
    estimated_at: Array  # (K,) rewards of every arm at its last estimate
    shared: Array  # (K, d + 1, d) prior precision of the shared means, and where they are believed to lie


def new_blocks(n_tasks: int, d: int) -> Blocks:
    """Return such buffers."""
    lanes = min(MOST_LANES, FEWEST_LANES * -(-n_tasks // FEWEST_LANES))
    return Blocks(
        np.zeros(n_tasks, dtype=np.int64), np.zeros((d, d + 1, lanes)), np.empty((d, d, lanes)),
        np.empty((d, d + 1, lanes)), np.empty(lanes), np.empty((d, d + 1)), np.empty((d, d + 1)),
    )  # fmt: skip


@compiled
def slots_of(store: Store, arm: int, slots: IntArray) -> tuple[int, float]:
    """Write the pairs of an arm that have rewards; return how many there are, and how many rewards."""
    n, rewards, at = 0, 0.0, totals_at(store.prior.shape[2]) + COUNT
    for task in range(slots.shape[0]):
        slot = store.slot[task, arm]
        if store.pairs[slot, at] > 0.0:
            slots[n] = slot
            rewards += store.pairs[slot, at]
            n += 1
    return n, rewards


@compiled
def residual_squares(store: Store, blocks: Blocks, arm: int, n: int) -> float:
    """Return the squared residuals of an arm's rewards around the posterior means of their tasks."""
    d, lanes, total = store.prior.shape[2], blocks.noise.shape[0], 0.0
    data, solved, mean, at = blocks.data, blocks.solved, blocks.message[:, 0], totals_at(d) + SQUARES
    blocks.noise[:] = store.noise[arm]
    for first in range(0, n, lanes):
        load(store.pairs, blocks.slots[:n], first, data)
        condition(data, store.prior[arm], blocks.noise, blocks.factor)
        solve(blocks.factor, data, solved)
        for lane in range(min(lanes, n - first)):
            total += store.pairs[blocks.slots[first + lane], at]
            for i in range(d):  # m = m0 + P^-1 b - P^-1 A m0
                mean[i] = store.shared[arm, d, i] + solved[i, d, lane]
                for j in range(d):
                    mean[i] -= solved[i, j, lane] * store.shared[arm, d, j]
            for i in range(d):
                fitted = -2.0 * data[i, d, lane]
                for j in range(d):
                    fitted += data[i, j, lane] * mean[j]
                total += mean[i] * fitted
    return max(total, 0.0)


@compiled
def condition_arm(paper: PaperModel, arm: int, n: int) -> None:
    """Compute the posterior of an arm's shared mean from its sums, under the prior in force."""
    store, blocks, d = paper.model.store, paper.blocks, paper.shared.shape[2]
    told, total, message, lanes = store.told[arm], blocks.total, blocks.message, blocks.noise.shape[0]
    total[:] = 0.0
    blocks.noise[:] = store.noise[arm]
    for first in range(0, n, lanes):
        load(store.pairs, blocks.slots[:n], first, blocks.data)
        condition(blocks.data, store.prior[arm], blocks.noise, blocks.factor)
        solve(blocks.factor, blocks.data, blocks.solved)
        for i in range(d):
            for j in range(d + 1):
                entry = blocks.solved[i, j]
                for lane in range(min(lanes, n - first)):
                    total[i, j] += entry[lane]
    for i in range(d):  # Q P^-1 [A, b]
        multiply(total, store.prior[arm, i], message[i])
    for i in range(d):
        told[d, i] = message[i, d]
        for j in range(d):
            told[i, j] = paper.shared[arm, i, j] + 0.5 * (message[i, j] + message[j, i])
            told[d, i] += paper.shared[arm, i, j] * paper.shared[arm, d, j]
    finish_shared(store, paper.model.work, arm)


@compiled
def estimate_if_due(paper: PaperModel, task: int, arm: int) -> None:
    """Note the last reward, and re-estimate the arm's prior if its rewards have grown enough."""
    store, work, at = paper.model.store, paper.model.work, paper.estimated_at[arm]
    d, pair, gram = paper.shared.shape[2], store.pairs[store.slot[task, arm]], work.matrices[0]
    totals = totals_at(d)
    unpack(pair, gram)
    fit_pair(
        paper.memory, paper.method, arm, task, gram, pair[n_triangle(d) : totals], pair[totals + SQUARES],
        pair[totals + COUNT],
    )  # fmt: skip
    n, rewards = slots_of(store, arm, paper.blocks.slots)
    if rewards - at < max(1.0, paper.growth[0] * at):
        return
    paper.estimated_at[arm] = rewards
    residual, covariance = residual_squares(store, paper.blocks, arm, n), work.matrices[1]
    covariance[:] = store.prior[arm, d + 1 :]
    estimate_arm(paper.memory, paper.method, arm, rewards, residual, store.noise, covariance)
    set_prior(store, work, arm, store.noise[arm], covariance)
    condition_arm(paper, arm, n)


@inlined
def _choose(paper: PaperModel, task: int, x: Array, step: int, draws: Array) -> int:
    return choose_arm(paper.model, task, x, step, draws)


@inlined
def _learn(paper: PaperModel, task: int, arm: int, x: Array, reward: float) -> None:
    learn_reward(paper.model, task, arm, x, reward)
    estimate_if_due(paper, task, arm)


_play = player(_choose, _learn)


@compiled
def play(model: PaperModel, batch: StepBatch) -> None:
    """Play a batch of steps, with an estimate wherever one is due."""
    _play(model, batch)
