"""Decisions and lessons of a fleet: any arms may be eligible, and every decision knows how likely it was.

An arm is drawn from the probabilities that are reported, with one uniform number. Under Thompson sampling that has the
law of drawing a score for every arm and taking the best, and what the log says was the chance is the chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.posterior import Belief, Buffers, observe, predict_arm
from posse.kernels.propensity import win_probabilities
from posse.kernels.select import Exploration
from posse.kernels.sums import Sums, add_reward_at
from posse.types import Array, BoolArray, IntArray


class Rule(NamedTuple):
    """How beliefs become probabilities: ``floor`` is the least that every eligible arm gets."""

    exploration: Exploration
    floor: float


class SightSums(NamedTuple):
    """The sums that a decision reads."""

    gram: Array
    counts: Array


class Sight(NamedTuple):
    """What a decision reads of a belief, under the same names: every array that is passed costs time."""

    sums: SightSums
    slot: IntArray
    covariance: Array
    noise_variance: Array
    task_weight: Array
    local_covariance: Array
    local_mean: Array
    shared_covariance: Array
    shared_mean: Array


def sight_of(belief: Belief) -> Sight:
    """Return what a decision reads."""
    return Sight(
        sums=SightSums(belief.sums.gram, belief.sums.counts),
        slot=belief.slot,
        covariance=belief.covariance,
        noise_variance=belief.noise_variance,
        task_weight=belief.task_weight,
        local_covariance=belief.local_covariance,
        local_mean=belief.local_mean,
        shared_covariance=belief.shared_covariance,
        shared_mean=belief.shared_mean,
    )


class Scratch(NamedTuple):
    """Room for one decision of one thread."""

    vectors: Array  # (4, d)
    spread: Array  # (K,)
    ratio: Array  # (K,)


def new_scratch(n_arms: int, n_features: int) -> Scratch:
    """Room for decisions among so many arms."""
    return Scratch(np.empty((4, n_features)), np.empty(n_arms), np.empty(n_arms))


@inlined_kernel
def favour(scores: Array, share: bool, out: Array) -> None:
    """Give all probability to the highest score; equal ones share it, or the first one gets it."""
    highest = -math.inf
    ties = 0
    for i in range(scores.shape[0]):
        if scores[i] > highest:
            highest = scores[i]
            ties = 1
        elif scores[i] == highest:
            ties += 1
    taken = False
    for i in range(scores.shape[0]):
        out[i] = 0.0
        if scores[i] == highest and (share or not taken):
            out[i] = 1.0 / ties if share else 1.0
            taken = True


@inlined_kernel
def weigh(mean: Array, sd: Array, step: int, rule: Rule, explore: bool, scratch: Scratch, out: Array) -> None:
    """Write the probability of every arm whose mean and standard deviation is given."""
    n_arms = mean.shape[0]
    if not explore:
        favour(mean, False, out)
        return
    scale = rule.exploration.scale
    if rule.exploration.growing:
        scale *= math.sqrt(math.log(max(step, 2)))
    spread = scratch.spread[:n_arms]
    if rule.exploration.sampling:
        for i in range(n_arms):
            spread[i] = scale * sd[i]
        win_probabilities(mean, spread, scratch.ratio[:n_arms], out)
    else:
        for i in range(n_arms):
            spread[i] = mean[i] + scale * sd[i]
        favour(spread, True, out)
    if rule.floor > 0.0:
        least = min(rule.floor, 1.0 / n_arms)
        for i in range(n_arms):
            out[i] = least + (1.0 - n_arms * least) * out[i]


@inlined_kernel
def pick(probabilities: Array, uniform: float) -> int:
    """Return the arm that a uniform number in [0, 1) falls on; never one with probability 0."""
    total = 0.0
    last = 0
    for i in range(probabilities.shape[0]):
        if probabilities[i] > 0.0:
            total += probabilities[i]
            last = i
            if uniform < total:
                break
    return last


@inlined_kernel
def fetch(belief: Sight, task: int, arms: IntArray, n_arms: int) -> float:
    """Look at what a decision will read, all arms at once.

    In a large fleet nothing of a task is in the cache. Arm after arm, a decision would wait for memory as often as it
    has arms; asked for together, the answers come together. Returns a number so that the looking is not left out.
    """
    total = 0.0
    if task >= 0:
        d = belief.shared_mean.shape[1]
        for position in range(n_arms):
            row = belief.slot[task, arms[position]]
            if row >= 0:
                total += belief.sums.counts[row] + belief.local_mean[row, 0] + belief.local_mean[row, d - 1]
                for i in range(d):
                    total += belief.local_covariance[row, i, 0] + belief.sums.gram[row, i, 0]
    return total


@inlined_kernel
def numbers(mean: Array, sd: Array) -> bool:
    """Whether all of these are finite."""
    for i in range(mean.shape[0]):  # noqa: SIM110 -- a generator does not compile
        if not abs(mean[i]) + sd[i] < math.inf:
            return False
    return True


@kernel
def decide(
    belief: Sight,
    task: int,
    x: Array,
    arms: IntArray,
    step: int,
    rule: Rule,
    explore: bool,
    uniform: float,
    scratch: Scratch,
    out: Array,
) -> int:
    """Decide among ``arms``; return the position of the chosen one, or -1 if a belief is not a number.

    ``out`` has three rows: probability, mean and standard deviation of each of ``arms``.
    """
    probabilities, mean, sd = out[0], out[1], out[2]
    scratch.spread[0] = fetch(belief, task, arms, arms.shape[0])
    for i in range(arms.shape[0]):
        mean[i], sd[i] = predict_arm(belief, task, arms[i], x, scratch.vectors)
    if not numbers(mean, sd):
        return -1
    weigh(mean, sd, step, rule, explore, scratch, probabilities)
    return pick(probabilities, uniform)


@kernel
def decide_rows(
    belief: Sight,
    order: IntArray,
    tasks: IntArray,
    contexts: Array,
    eligible: BoolArray,
    first_step: int,
    least_step: int,
    advance: bool,
    rule: Rule,
    explore: bool,
    uniforms: Array,
    first: int,
    last: int,
    scratch: Scratch,
    chosen: IntArray,
    probabilities: Array,
    means: Array,
    sds: Array,
) -> None:
    """Decide for rows ``order[first:last]``; arms that are not eligible get probability 0, and NaN for the rest.

    The chosen arm is -1 where a belief is not a number.

    ``eligible`` has one row for all, or one for each. With ``advance`` every row is a step of its own,
    from ``first_step`` on, but not before ``least_step``.
    """
    n_arms = probabilities.shape[1]
    arms = np.empty(n_arms, dtype=np.int64)
    out = np.empty((3, n_arms))
    for place in range(first, last):
        row = order[place]
        n_eligible = 0
        mask = eligible[row if eligible.shape[0] > 1 else 0]
        for arm in range(n_arms):
            probabilities[row, arm] = 0.0
            means[row, arm] = math.nan
            sds[row, arm] = math.nan
            if mask[arm]:
                arms[n_eligible] = arm
                n_eligible += 1
        mean, sd, chance = out[1, :n_eligible], out[2, :n_eligible], out[0, :n_eligible]
        scratch.spread[0] = fetch(belief, tasks[row], arms, n_eligible)
        for i in range(n_eligible):
            mean[i], sd[i] = predict_arm(belief, tasks[row], arms[i], contexts[row], scratch.vectors)
        chosen[row] = -1
        if not numbers(mean, sd):
            continue
        weigh(mean, sd, max(first_step + (row if advance else 0), least_step), rule, explore, scratch, chance)
        chosen[row] = arms[pick(chance, uniforms[row])]
        for i in range(n_eligible):
            probabilities[row, arms[i]] = chance[i]
            means[row, arms[i]] = mean[i]
            sds[row, arms[i]] = sd[i]


@kernel
def observe_rows(
    belief: Belief, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array, buffers: Buffers
) -> None:
    """Learn rows one after another, each exactly; every pair must have a slot."""
    for row in range(tasks.shape[0]):
        observe(belief, arms[row], tasks[row], contexts[row], rewards[row], buffers)


@kernel
def add_to_slots(sums: Sums, slots: IntArray, contexts: Array, rewards: Array, part: int, parts: int) -> None:
    """Add rows to the sums of their slots, of one part of the slots; the posterior is not touched.

    Every slot belongs to one of ``parts``, so threads that take one each do not meet, and every sum is added in the
    order of its rows.
    """
    for row in range(slots.shape[0]):
        slot = slots[row]
        if slot % parts == part:
            add_reward_at(sums, slot, contexts[row], rewards[row])


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
