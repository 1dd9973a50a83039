"""Steps of the hierarchical policies on the arrays of a core, compiled: decide, learn, change the prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.changes import add_linked, add_number
from posse.core.compiler import compiled, inlined
from posse.core.decide import Buffers, predict_arms
from posse.core.envelope import envelope_probabilities, upper_tail
from posse.core.forgetting import FADES
from posse.core.linalg import ZERO, factorise, invert, multiply, quadratic
from posse.core.pair import Work, age, finish_arm, lean, tell, touch
from posse.core.rule import keep_silent, keeps_silent, pick, raise_to_minimum
from posse.core.select import Exploration, explore, growth
from posse.core.state import State
from posse.core.store import COUNT, Beliefs, Store, n_triangle, totals_at
from posse.families.sites import NUMBER
from posse.model.dense import EPSILON, factor, factor_semidefinite
from posse.policies.playing import StepBatch, player
from posse.types import Array, IntArray

NOTHING = np.zeros(0, dtype=np.bool_)
HEAD = 8  # numbers with which constants begin: the exploration and the ageing


class Model(NamedTuple):
    """All that compiled steps of a hierarchical policy work on."""

    beliefs: Beliefs
    buffers: Buffers
    arms: IntArray  # (K,) all of them
    scores: Array  # (4, K) buffers
    silent: Array  # (K,) least probabilities of arms whose rewards were all the same so far
    exploration: Exploration
    first_pulls: bool
    store: Store
    work: Work
    numbers: Array  # of the core
    clock: Array  # (1,) rewards learned


@compiled
def choose_by_draws(beliefs: Array, silent: Array, step: int, exploration: Exploration, draws: Array) -> int:
    """Return the arm with the highest score, while no silent arm has to be kept; ``beliefs`` has four rows.

    Otherwise the first draw says which one it is, by the probabilities of a fleet.
    """
    mean, sd, least, chances = beliefs[0], beliefs[1], beliefs[2], beliefs[3]
    if not keeps_silent(silent, exploration):
        return explore(mean, sd, step, exploration, draws)
    least[:] = 0.0
    more = growth(exploration, step)
    envelope_probabilities(mean, sd, more * exploration.centre, more * exploration.spread, chances)
    keep_silent(mean, sd, silent, least)
    raise_to_minimum(least, chances)
    return pick(chances, upper_tail(-draws[0]))


_lean = inlined(lean.py_func)  # a call with twenty arguments costs as much as a product


@compiled
def choose(
    pairs: Array, factors: Array, prior: Array, shared: Array, constants: Array, task: int, x: Array, step: int,
    draws: Array, now: float,
) -> int:  # fmt: skip
    """Return the arm to pull; few arguments, as each costs as much as a product.

    Slots are in the order of tasks, then arms; ``constants`` are as :func:`constants_of` returns them.
    """
    n_arms, d = draws.shape[0], x.shape[0]
    beliefs, packed, at = np.empty((4, n_arms)), np.empty((1, 1 + n_triangle(d) + 2 * d)), 1 + n_triangle(d)
    solved, direction = packed[0, at : at + d], packed[0, at + d :]
    exploration = Exploration(constants[0], constants[1], constants[2] > 0.0, constants[3] > 0.0)
    at = HEAD + n_arms
    ageing, generation, noise = constants[4:HEAD], constants[HEAD:at], constants[at : at + n_arms]
    silent, weight = constants[at + n_arms : at + 2 * n_arms], constants[at + 2 * n_arms :]
    for arm in range(n_arms):  # without features of tasks, which are not looked at, anything may stand for them
        beliefs[0, arm], variance = _lean(
            pairs, factors, packed, NOTHING, weight, generation, noise, prior, shared, prior, ageing, packed, solved,
            direction, task * n_arms + arm, arm, task, x, now,
        )  # fmt: skip
        variance += noise[arm] * noise[arm] * quadratic(shared, arm, direction, d)
        beliefs[1, arm] = math.sqrt(max(variance, 0.0))
    return choose_by_draws(beliefs, silent, step, exploration, draws)


def constants_of(state: State, exploration: Exploration) -> Array:
    """Return all but the large arrays that :func:`choose` needs, as long as the population stays as it is."""
    store = state.store
    return np.concatenate([exploration, store.ageing, store.generation, store.noise, state.silent, store.weight])


@inlined
def choose_arm(model: Model, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    if model.first_pulls and step <= draws.shape[0]:
        return step - 1
    now = model.clock[0] + 1.0
    predict_arms(model.beliefs, model.buffers, task, x, now, model.arms, model.scores[0], model.scores[1])
    return choose_by_draws(model.scores, model.silent, step, model.exploration, draws)


@inlined
def learn_reward(model: Model, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward."""
    model.clock[0] += 1.0
    store, now, slot = model.store, model.clock[0], model.store.slot[task, arm]
    if store.ageing[FADES] > 0.0:
        age(store, model.work, slot, now, 0.0)
    if store.family == NUMBER:
        add_number(store, model.work, model.numbers, slot, x, reward, 0.0, 1.0, 0.0, now)
    else:
        add_linked(store, model.work, model.numbers, slot, x, reward, -1, 0.0, now, False, 0.0, 0.0)


@compiled
def choose_rows(model: Model, batch: StepBatch, first: int, last: int) -> None:
    """Decide steps ``first`` to ``last`` of a batch, and learn nothing."""
    for t in range(first, last):
        batch.arms[t] = choose_arm(model, batch.tasks[t], batch.contexts[t], batch.first_step + t, batch.draws[t])


_play = player(choose_arm, learn_reward)


@compiled
def play(model: Model, batch: StepBatch) -> None:
    """Play a batch of steps, of which none asks for an estimate of the population but the last."""
    _play(model, batch)


@compiled
def put_prior(
    store: Store, work: Work, arm: int, noise: float, covariance: Array, precision: Array, location: Array
) -> None:
    """Put the prior of an arm in force, and compute its posterior from its sums."""
    d, told = location.shape[0], store.told[arm]
    set_prior(store, work, arm, noise, covariance)
    told[:d] = precision
    multiply(precision, location, told[d])
    for task in range(store.slot.shape[0] - 1):
        slot = store.slot[task, arm]
        if slot >= 0 and store.pairs[slot, totals_at(d) + COUNT] > 0.0:
            tell(store, work, slot, task, arm, 1.0)
    finish_shared(store, work, arm)


@compiled
def finish_shared(store: Store, work: Work, arm: int) -> None:
    """Compute the posterior of an arm's shared mean from its precision and moment.

    Of a task with far more data than its prior is worth, rounding may take more than all from the precision; it is
    given back, a little more at each try.
    """
    d, told, largest = work.solved.shape[0], store.told[arm], 0.0
    for i in range(d):
        largest = max(largest, abs(told[i, i]))
    jitter = EPSILON * largest
    for _try in range(20):
        if factor(told[:d], work.matrices[3]):
            break
        for i in range(d):
            told[i, i] += jitter
        jitter *= 10.0
    finish_arm(store.told, store.shared, arm, work)


@compiled
def set_prior(store: Store, work: Work, arm: int, noise: float, covariance: Array) -> None:
    """Write the prior of an arm; all that is believed under it is to be computed, and factors are made again.

    A covariance that is singular is widened by a ten-billionth of its largest variance, or of the noise.
    """
    d, prior, largest, singular = covariance.shape[0], store.prior[arm], 1e-10 * noise, False
    wide, root, packed, at = work.matrices[2], work.matrices[3], work.factor, 1
    factor_semidefinite(covariance, root)
    for i in range(d):
        largest, singular = max(largest, covariance[i, i]), singular or root[i, i] == 0.0
    for i in range(d):
        for j in range(d):
            prior[d + 1 + i, j] = wide[i, j] = covariance[i, j]
        wide[i, i] += 1e-10 * largest if singular else 0.0
    invert(work.matrices, 2, work.matrices, packed, work.column)
    for i in range(d):
        prior[d, i] = 0.0
        for j in range(d):
            prior[i, j] = wide[i, j]
        for j in range(i, d):
            packed[0, at] = wide[i, j]
            at += 1
    factorise(packed, ZERO[0], d, store.prior, arm, 0.0)
    at = 1
    for i in range(d):
        prior[d, i] = 1.0 / (packed[0, at] * packed[0, at])
        at += d - i
    store.noise[arm] = noise
    for task in range(store.slot.shape[0] - 1):
        if store.slot[task, arm] >= 0:
            touch(store.factors, store.slot[task, arm])
