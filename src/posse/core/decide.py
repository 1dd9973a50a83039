"""Deciding: beliefs about many arms, the probabilities that a rule makes of them, and the arm that is drawn."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled, inlined
from posse.core.linalg import quadratic
from posse.core.pair import lean
from posse.core.propensity import score_columns
from posse.core.rule import action_probabilities, pick, rule_of
from posse.core.store import Beliefs, n_triangle
from posse.families.sites import NUMBER, expectations, spread
from posse.types import Array, BoolArray, IntArray


class Buffers(NamedTuple):
    """Buffers of beliefs: the first of those of :class:`posse.core.pair.Work`."""

    factor: Array
    solved: Array
    direction: Array


@inlined
def new_scratch(n_arms: int) -> Array:
    """Return buffers for deciding among this many arms."""
    return np.empty((8, score_columns(n_arms)))


@compiled
def show_rewards(family: int, mean: Array, sd: Array) -> None:
    """Turn mean and standard deviation of linear predictors into those of expected rewards, in place."""
    for place in range(mean.shape[0]):
        e, s = mean[place], sd[place]
        if family != NUMBER and not math.isnan(e):
            mean[place], sd[place] = expectations(family, e, s * s)[0], spread(family, e, s)


@compiled
def show_worth(family: int, worth: Array, mean: Array, sd: Array) -> None:
    """Turn mean and standard deviation of linear predictors into those of value x expected reward - cost, in place."""
    show_rewards(family, mean, sd)
    for i in range(mean.shape[0]):
        mean[i] = worth[0, i] * mean[i] - worth[1, i]
        sd[i] *= worth[0, i]


@inlined
def predict_arms(
    beliefs: Beliefs, work: Buffers, task: int, x: Array, now: float, among: IntArray, mean: Array, sd: Array
) -> bool:
    """Write mean and standard deviation of the predictor of some arms; return whether all are finite."""
    ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart = beliefs
    factor, solved, direction = work
    finite = True
    for n in range(among.shape[0]):
        arm = among[n]
        mean[n], variance = lean(
            pairs, factors, known, given, weight, generation, noise, prior, shared, apart, ageing, factor, solved,
            direction, slot[task, arm], arm, task, x, now,
        )  # fmt: skip
        variance += noise[arm] * noise[arm] * quadratic(shared, arm, direction, direction.shape[0])
        sd[n] = math.sqrt(max(variance, 0.0))
        finite = finite and abs(mean[n]) + sd[n] < math.inf
    return finite


@inlined
def predict_slot(
    beliefs: Beliefs, work: Buffers, slot: int, arm: int, task: int, x: Array, now: float
) -> tuple[float, float]:
    """Return mean and standard deviation of the predictor of one arm; slot -1 has no rewards."""
    ageing, _, pairs, factors, known, given, weight, generation, noise, prior, shared, apart = beliefs
    factor, solved, direction = work
    mean, variance = lean(
        pairs, factors, known, given, weight, generation, noise, prior, shared, apart, ageing, factor, solved,
        direction, slot, arm, task, x, now,
    )  # fmt: skip
    variance += noise[arm] * noise[arm] * quadratic(shared, arm, direction, direction.shape[0])
    return mean, math.sqrt(max(variance, 0.0))


@compiled
def decide_one(
    ageing: Array, slot: IntArray, pairs: Array, factors: Array, known: Array, given: BoolArray, weight: Array,
    generation: Array, noise: Array, prior: Array, shared: Array, apart: Array, factor: Array, solved: Array,
    direction: Array, silent: Array, rule: Array, family: int, scratch: Array, task: int, x: Array, now: float,
    among: IntArray, worth: Array, step: int, explore: bool, uniform: float, out: Array,
) -> int:  # fmt: skip
    """Write probability, mean and sd of the predictor of some arms; return the position of the one that is drawn.

    It is -1 if a belief is not finite. ``worth`` has value and cost of each of these arms, which are then compared by
    value x expected reward - cost; without columns, by their predictors. Arrays cost less to pass than tuples.
    """
    beliefs = Beliefs(ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart)
    n = among.shape[0]
    probabilities, mean, sd, kept = out[0, :n], out[1, :n], out[2, :n], scratch[5, :n]
    if not predict_arms(beliefs, Buffers(factor, solved, direction), task, x, now, among, mean, sd):
        return -1
    for i in range(n):
        kept[i] = silent[among[i]]
    if worth.shape[1] > 0:
        money, width = scratch[6, :n], scratch[7, :n]
        for i in range(n):
            money[i], width[i] = mean[i], sd[i]
        show_worth(family, worth, money, width)
        mean, sd = money, width
    action_probabilities(mean, sd, kept, step, rule_of(rule), explore, scratch, probabilities)
    return pick(probabilities, uniform)


@compiled
def decide_rows(
    beliefs: Beliefs, silent: Array, rule: Array, family: int, order: IntArray, tasks: IntArray, contexts: Array,
    now: float, mask: BoolArray, worth: Array, first_step: int, least_step: int, advance: bool, explore: bool,
    uniforms: Array, first: int, last: int, chosen: IntArray, probabilities: Array, mean: Array, sd: Array,
) -> None:  # fmt: skip
    """Decide the rows from ``first`` to ``last`` of an order; arms that may not be chosen have probability 0.

    ``worth`` has value and cost by arm, of every row or of all; without rows nothing is said of it.
    """
    n_arms, n_shared = mask.shape[1], beliefs.shared.shape[2]
    d = contexts.shape[1]
    ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart = beliefs
    factor, solved, direction = np.empty((1, 1 + n_triangle(d))), np.empty(d), np.empty(n_shared)
    scratch = new_scratch(n_arms)
    among, out = np.empty(n_arms, np.int64), np.empty((3, n_arms))
    valued = worth.shape[1] > 0
    prices = np.empty((2, n_arms if valued else 0))
    for place in range(first, last):
        row, n = order[place], 0
        eligible = mask[row if mask.shape[0] > 1 else 0]
        for arm in range(n_arms):
            probabilities[row, arm], mean[row, arm], sd[row, arm] = 0.0, math.nan, math.nan
            if eligible[arm]:
                among[n] = arm
                if valued:
                    at = row if worth.shape[1] > 1 else 0
                    prices[0, n], prices[1, n] = worth[0, at, arm], worth[1, at, arm]
                n += 1
        step = max(first_step + (row if advance else 0), least_step)
        position = decide_one(
            ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart, factor, solved,
            direction, silent, rule, family, scratch, tasks[row], contexts[row], now, among[:n], prices, step, explore,
            uniforms[row], out,
        )  # fmt: skip
        chosen[row] = among[position] if position >= 0 else -1
        for i in range(n if position >= 0 else 0):
            arm = among[i]
            probabilities[row, arm], mean[row, arm], sd[row, arm] = out[0, i], out[1, i], out[2, i]


@compiled
def compare_one(beliefs: Beliefs, work: Buffers, task: int, arm: int, x: Array, now: float, out: Array) -> None:
    """Write mean and sd of a predictor, and those of the same task if it had no rewards."""
    out[0], out[1] = predict_slot(beliefs, work, beliefs.slot[task, arm], arm, task, x, now)
    # A task that was never seen has no slots; the constant -1 would have all compiled once more.
    out[2], out[3] = predict_slot(beliefs, work, beliefs.slot[-1, arm], arm, task, x, now)
