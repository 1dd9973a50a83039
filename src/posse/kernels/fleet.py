"""Decisions and lessons of a fleet: any arms may be eligible, and every decision knows how likely it was.

An arm is drawn from the probabilities that are reported, with one uniform number. That has the law of drawing scores
and taking the best, and what the log says was the propensity is the propensity.
"""

from __future__ import annotations

import math

import numpy as np

from posse.kernels.compiler import allocating_kernel, kernel, woven_kernel
from posse.kernels.decision_arrays import DecisionArrays, open_decision_arrays, predict_arms, settle
from posse.kernels.lanes import Lanes
from posse.kernels.llvm.vector import fetch
from posse.kernels.posterior import observe
from posse.kernels.propensity import score_room
from posse.kernels.rule import action_probabilities, pick
from posse.kernels.sums import Sums, add_reward_at
from posse.types import Array, BoolArray, IntArray

AHEAD = 12  # rows of a batch after the present one whose sums are asked for


@kernel
def numbers(mean: Array, sd: Array) -> bool:
    """Whether all of these are finite."""
    for i in range(mean.shape[0]):  # noqa: SIM110 -- a generator does not compile
        if not abs(mean[i]) + sd[i] < math.inf:
            return False
    return True


@woven_kernel
def take_silent(ground: DecisionArrays, arms: IntArray, out: Array) -> None:
    """Write what the first of ``arms`` are kept at."""
    for i in range(out.shape[0]):
        out[i] = ground.silent[arms[i]]


@kernel
def decide(
    address: int, task: int, x: Array, arms: IntArray, step: int, explore: bool, uniform: float, out: Array
) -> int:
    """Decide among ``arms``; return the position of the chosen one, or -1 if a belief is not a number.

    ``address`` is that of a :class:`DecisionArrays`. ``out`` has three rows: probability, mean and standard deviation
    of each of ``arms``.
    """
    ground = open_decision_arrays(address)
    probabilities, mean, sd = out[0], out[1], out[2]
    predict_arms(ground, task, x, arms, arms.shape[0], ground.lanes, mean, sd)
    if not numbers(mean, sd):
        return -1
    silent = ground.scores[4, 2 * arms.shape[0] : 3 * arms.shape[0]]  # the rule works in what is before
    take_silent(ground, arms, silent)
    action_probabilities(mean, sd, silent, step, ground.rule, explore, ground.scores, probabilities)
    return pick(probabilities, uniform)


@allocating_kernel
def decide_rows(
    address: int,
    order: IntArray,
    tasks: IntArray,
    contexts: Array,
    eligible: BoolArray,
    first_step: int,
    least_step: int,
    advance: bool,
    explore: bool,
    uniforms: Array,
    first: int,
    last: int,
    lanes: Lanes,
    chosen: IntArray,
    probabilities: Array,
    means: Array,
    sds: Array,
) -> None:
    """Decide for rows ``order[first:last]``; arms that are not eligible get probability 0, and NaN for the rest.

    The chosen arm is -1 where a belief is not a number. Rows of one task must not be in two calls at the same time:
    whoever comes first settles what it believes.

    ``eligible`` has one row for all, or one for each. With ``advance`` every row is a step of its own,
    from ``first_step`` on, but not before ``least_step``.
    """
    ground = open_decision_arrays(address)
    n_arms = probabilities.shape[1]
    arms = np.empty(n_arms, dtype=np.int64)
    out, scores = np.empty((3, n_arms)), np.empty((5, score_room(n_arms)))
    for place in range(first, last):
        row = order[place]
        n_eligible = 0
        mask = eligible[row if eligible.shape[0] > 1 else 0]
        for arm in range(n_arms):
            if mask[arm]:
                arms[n_eligible] = arm
                n_eligible += 1
            else:
                probabilities[row, arm] = 0.0
                means[row, arm] = math.nan
                sds[row, arm] = math.nan
        mean, sd, chance = out[1, :n_eligible], out[2, :n_eligible], out[0, :n_eligible]
        predict_arms(ground, tasks[row], contexts[row], arms, n_eligible, lanes, mean, sd)
        chosen[row] = -1
        if not numbers(mean, sd):
            continue
        step = max(first_step + (row if advance else 0), least_step)
        silent = scores[4, 2 * n_eligible : 3 * n_eligible]
        take_silent(ground, arms, silent)
        action_probabilities(mean, sd, silent, step, ground.rule, explore, scores, chance)
        chosen[row] = arms[pick(chance, uniforms[row])]
        for i in range(n_eligible):
            probabilities[row, arms[i]] = chance[i]
            means[row, arms[i]] = mean[i]
            sds[row, arms[i]] = sd[i]


@woven_kernel
def learn(ground: DecisionArrays, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward of a pair that has a slot: settle what it believes, then one exact rank-one step."""
    ground.one[0] = arm
    settle(ground, task, ground.one, 0, 1, ground.lanes)
    observe(ground.belief, arm, task, x, reward, ground)
    ground.settled[ground.belief.slot[task, arm]] = ground.generation[0]


@kernel
def observe_one(address: int, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward."""
    learn(open_decision_arrays(address), arm, task, x, reward)


@kernel
def observe_rows(address: int, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
    """Learn rows one after another, each exactly; every pair must have a slot."""
    ground = open_decision_arrays(address)
    for row in range(tasks.shape[0]):
        learn(ground, arms[row], tasks[row], contexts[row], rewards[row])


@kernel
def sort_by_slots(slots: IntArray, shift: int, first: IntArray, order: IntArray) -> None:
    """Write the rows in the order of blocks of ``2**shift`` slots, rows of one block in their own order.

    ``first`` has one entry more than there are blocks, and gets where each begins.
    """
    for block in range(first.shape[0]):
        first[block] = 0
    for row in range(slots.shape[0]):
        first[(slots[row] >> shift) + 1] += 1
    for block in range(1, first.shape[0]):
        first[block] += first[block - 1]
    for row in range(slots.shape[0]):
        block = slots[row] >> shift
        order[first[block]] = row
        first[block] += 1
    for block in range(first.shape[0] - 1, 0, -1):
        first[block] = first[block - 1]
    first[0] = 0


@kernel
def add_to_slots(
    sums: Sums, settled: IntArray, slots: IntArray, contexts: Array, rewards: Array, order: IntArray
) -> None:
    """Add rows, in this order, to the sums of their slots; beliefs are marked as not settled."""
    n = order.shape[0]
    for place in range(n):
        if place + AHEAD < n:
            later = order[place + AHEAD]
            fetch(contexts, later)
            fetch(sums.gram, slots[later])
            fetch(sums.moment, slots[later])
        row = order[place]
        add_reward_at(sums, slots[row], contexts[row], rewards[row])
        settled[slots[row]] = -1


@kernel
def list_first(counts: Array, slots: IntArray, arms: IntArray, seen: IntArray, n_seen: IntArray) -> None:
    """List the slots that are about to get their first rewards, in the order of their rows."""
    for row in range(slots.shape[0]):
        slot = slots[row]
        if counts[slot] == 0.0:
            arm = arms[row]
            seen[arm, n_seen[arm]] = slot
            n_seen[arm] += 1
            counts[slot] = -1.0  # listed
    for row in range(slots.shape[0]):
        if counts[slots[row]] < 0.0:
            counts[slots[row]] = 0.0


@kernel
def count_rows(arms: IntArray, rewards: Array) -> None:
    """Count the rewards of every arm."""
    for row in range(arms.shape[0]):
        rewards[arms[row]] += 1.0


@kernel
def claim_rows(
    slot: IntArray, tasks: IntArray, arms: IntArray, free: IntArray, next_slot: int, slots: IntArray, new: IntArray
) -> int:
    """Write the slot of every row, and give pairs without one the next: ``free`` first, then ``next_slot`` and on.

    Tasks and arms of new pairs go to the rows of ``new``; returns how many there are.
    """
    count = 0
    for row in range(tasks.shape[0]):
        task, arm = tasks[row], arms[row]
        if slot[task, arm] < 0:
            slot[task, arm] = free[count] if count < free.shape[0] else next_slot + count - free.shape[0]
            new[0, count] = task
            new[1, count] = arm
            count += 1
        slots[row] = slot[task, arm]
    return count
