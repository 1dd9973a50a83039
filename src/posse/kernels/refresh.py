"""THE loop that estimates a population, as stages between which somebody sums over pairs.

A refresh takes sums over all (arm, task) pairs, and between them it only knows the arms. So the loop is a function that
is called when a sum is there, does what follows, and says in ``wanted`` which sum it needs next::

    MEASURES        products of features and rewards                             once
    INFORMATION     what pairs say about the shared means, under the population  at the start, and after every step
    SECOND_MOMENTS  those of the tasks' deviations                               for every step
    WEIGHTS         how far each task lies from the shared means                 likewise, if outliers are modelled
    DONE

Who sums, and where, is not the loop's business: a policy in compiled code, a fleet block by block on several threads,
a background thread from copies, other machines later. Sums that are the same to the last bit give the same population.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.kernels.arms import pool_arms, share_arms
from posse.kernels.compiler import woven_kernel
from posse.kernels.evidence import (
    Evidence,
    add_distances,
    admit_features,
    centre_said,
    finish_arms,
    improve,
    measure_rows,
    new_evidence,
    pairs_of,
    set_measures,
    set_population,
    set_start,
    set_weights,
    starts_again,
)
from posse.kernels.lanes import N_COUNTS, Lanes, sum_information, sum_moments
from posse.kernels.llvm.callback import CompiledCallback, call
from posse.kernels.llvm.handle import Layout, floats, ints
from posse.kernels.passes import finish_moments, mark_silent, prepare_moments, unwhiten
from posse.kernels.posterior import Belief, Buffers
from posse.types import Array, IntArray

DONE, MEASURES, INFORMATION, SECOND_MOMENTS, WEIGHTS = range(5)  # what is wanted

# What the loop is told: to begin, that the sum it wanted is there, to rebuild under the population at hand, to compute
# the shared means again from the information at hand.
BEGIN, SUMMED, REBUILD, FINISH = range(4)

# Entries of ``now``: what is wanted; steps that may still be made; whether the priors of the shared means are learned
# with the next information, and whether that is the last; whether the posterior is that of all sums, so that the first
# step may start from it; whether to leave the population as it is and only weigh tasks; whether all rewards are zero;
# the address of IMPROVE.
WANTED, STEPS_LEFT, SHARED, LAST, EXACT, FIXED, ZEROS, IMPROVE_AT = range(8)
SETTLED_AT, MOVE, SCATTER = range(3)  # of ``numbers``


class Population(NamedTuple):
    """What is believed about arms: the fields of a :class:`posse.kernels.posterior.Belief` that know no pairs."""

    n_seen: IntArray  # (K,)
    rewards: Array  # (K,)
    covariance: Array  # (K, d, d)
    noise_variance: Array  # (K,)
    shared_precision: Array  # (K, d, d)
    shared_location: Array  # (K, d)
    shared_covariance: Array  # (K, d, d)
    shared_moment: Array  # (K, d)
    shared_mean: Array  # (K, d)
    task_weight: Array  # (N,)


def population_of(belief: Belief) -> Population:
    """Return the population of a belief, the same arrays."""
    return Population(*(getattr(belief, name) for name in Population._fields))


class Loop(NamedTuple):
    """All that the loop knows, and where it is told sums."""

    population: Population
    evidence: Evidence
    buffers: Buffers
    root: Array  # (K, d, d) the upper R with R'R the covariance
    shared_root: Array  # (K, d, d) see posse.kernels.passes.prepare_moments
    start: Array  # (K, d)
    information: Array  # (K, d, d + 1) the sum of [V, z] over the pairs of every arm
    moments: Array  # (K, d, d) and the sums of posse.kernels.lanes.sum_moments
    counts: Array  # (K, N_COUNTS)
    n_pairs: IntArray  # (K,) how many pairs these are sums over
    freedom: Array  # (N,) features that were looked at of every task; no entries unless outliers are modelled
    distance: Array  # (N,) and how far they lie from the shared means
    now: IntArray  # (8,)
    numbers: Array  # (3,)


def new_loop(population: Population, evidence: Evidence, buffers: Buffers) -> Loop:
    """Return a loop that works on these arrays in place; its sums are those of nothing."""
    n_arms, d = population.shared_mean.shape
    n_tasks = population.task_weight.size if evidence.robust > 0 else 0
    return Loop(
        population=population,
        evidence=evidence,
        buffers=buffers,
        root=np.zeros((n_arms, d, d)),
        shared_root=np.zeros((n_arms, d, d)),
        start=np.zeros((n_arms, d)),
        information=np.zeros((n_arms, d, d + 1)),
        moments=np.zeros((n_arms, d, d)),
        counts=np.zeros((n_arms, N_COUNTS)),
        n_pairs=np.zeros(n_arms, dtype=np.int64),
        freedom=np.zeros(n_tasks),
        distance=np.zeros(n_tasks),
        now=np.zeros(8, dtype=np.int64),
        numbers=np.zeros(3),
    )


LOOP: Layout[Loop] = Layout(
    Loop(
        population=Population(
            ints(1), floats(1), floats(3), floats(1), floats(3), floats(2), floats(3), floats(2), floats(2), floats(1)
        ),
        evidence=new_evidence(1, 1, 1, 0.0),
        buffers=Buffers(floats(3), floats(2), Lanes(floats(2), 0)),
        root=floats(3),
        shared_root=floats(3),
        start=floats(2),
        information=floats(3),
        moments=floats(3),
        counts=floats(2),
        n_pairs=ints(1),
        freedom=floats(1),
        distance=floats(1),
        now=ints(1),
        numbers=floats(1),
    )
)
open_loop = LOOP.open


@woven_kernel
def begin(loop: Loop) -> None:
    """Ask for measures; what the loop may do was written to ``now`` and ``numbers``."""
    loop.evidence.steps[0] = 0.0
    loop.numbers[SCATTER] = loop.evidence.reward_scatter[0]
    loop.now[WANTED] = MEASURES


@woven_kernel
def after_measures(loop: Loop) -> None:
    """Set the scale of rewards and features, and start again where it is another one."""
    population, evidence, now = loop.population, loop.evidence, loop.now
    total = 0.0
    for arm in range(population.rewards.shape[0]):
        total += population.rewards[arm]
    set_measures(population.rewards, total, population.n_seen.sum(), evidence)
    now[LAST], now[ZEROS] = 0, 0
    if evidence.reward_square[0] > 0.0:
        fresh = starts_again(population.rewards, evidence.refreshed_at, evidence.reward_scatter, loop.numbers[SCATTER])
        evidence.refreshed_at[0] = total
    else:
        # Nothing but zeros so far: no scale to learn. Any size will do, as long as features are standardised.
        evidence.reward_square[0], evidence.reward_scatter[0] = 1.0, 1.0
        fresh = True
        now[ZEROS] = 1
    admitted = admit_features(population, evidence)
    if fresh:
        set_start(population, evidence)
    now[SHARED] = 1 if fresh or admitted else 0
    if now[ZEROS] or now[STEPS_LEFT] <= 0 or (fresh and total < population.rewards.shape[0]):
        now[LAST] = 1
    now[WANTED] = INFORMATION
    if now[EXACT] and not now[SHARED]:
        now[WANTED] = DONE if now[LAST] else SECOND_MOMENTS


@woven_kernel
def after_information(loop: Loop) -> None:
    """Compute the shared means from what pairs say about them, and their priors from what other arms say."""
    population, evidence, now = loop.population, loop.evidence, loop.now
    for arm in range(population.rewards.shape[0]):
        unwhiten(loop.root[arm], loop.information[arm], evidence.information[arm], evidence.moment[arm])
        centre_said(evidence, arm)
    if now[SHARED]:
        pool_arms(evidence, loop.buffers)
        share_arms(population, evidence, loop.buffers)
    finish_arms(population, evidence, loop.buffers)
    now[SHARED] = 1
    now[WANTED] = DONE if now[LAST] else SECOND_MOMENTS
    if now[ZEROS]:
        evidence.reward_square[0], evidence.reward_scatter[0] = 0.0, 0.0


@woven_kernel
def after_moments(loop: Loop) -> None:
    """Improve the population by one step."""
    population, evidence, now = loop.population, loop.evidence, loop.now
    for arm in range(population.rewards.shape[0]):
        finish_moments(
            population.rewards[arm], population.noise_variance[arm], loop.root[arm], loop.moments[arm],
            loop.counts[arm], loop.n_pairs[arm], evidence.second_moment[arm], evidence.summaries[arm], loop.buffers,
        )  # fmt: skip
        if evidence.constant[arm]:
            mark_silent(evidence.summaries[arm])
    if not now[FIXED]:
        loop.numbers[MOVE] = improve(population, evidence, loop.buffers)
    now[WANTED] = WEIGHTS if evidence.robust > 0.0 else INFORMATION


@woven_kernel
def end_step(loop: Loop) -> None:
    """Count a step, and see whether it was the last."""
    evidence, now = loop.evidence, loop.now
    now[SHARED] = 1
    if now[FIXED]:
        now[LAST] = 1
    else:
        evidence.steps[0] += 1.0
        evidence.last_move[0] = loop.numbers[MOVE]
        now[STEPS_LEFT] -= 1
        if now[STEPS_LEFT] <= 0 or loop.numbers[MOVE] < loop.numbers[SETTLED_AT]:
            now[LAST] = 1


def _improve(address: int, _number: int) -> None:
    after_moments(open_loop(address))


IMPROVE = CompiledCallback(_improve)
"""The step itself, which is half of all that there is to compile, and which a first reward does not need."""


def _advance(address: int, told: int) -> None:
    loop = open_loop(address)
    population, now = loop.population, loop.now
    before = now[WANTED] if told == SUMMED else DONE
    if told == BEGIN:
        begin(loop)
    elif told == REBUILD:
        now[WANTED] = INFORMATION
    elif told == FINISH or before == INFORMATION:
        if told == FINISH:
            now[SHARED], now[LAST], now[ZEROS] = 0, 1, 0
        after_information(loop)
    elif before == MEASURES:
        after_measures(loop)
    elif before == SECOND_MOMENTS:
        call(now[IMPROVE_AT], address, 0)
    elif before == WEIGHTS:
        move = set_weights(loop.freedom, loop.distance, loop.evidence.robust, population.task_weight)
        loop.numbers[MOVE] = max(loop.numbers[MOVE], move)
        now[WANTED] = INFORMATION
    if now[WANTED] == INFORMATION and before in (SECOND_MOMENTS, WEIGHTS):
        end_step(loop)
    # What whoever sums next has to know about the arms.
    if now[WANTED] == INFORMATION or (now[WANTED] == SECOND_MOMENTS and before == MEASURES):
        for arm in range(population.rewards.shape[0]):
            set_population(
                population.covariance[arm], loop.evidence.inverse[arm], loop.root[arm], loop.buffers.matrices[0]
            )
    if now[WANTED] == SECOND_MOMENTS:
        for arm in range(population.rewards.shape[0]):
            prepare_moments(
                population.shared_covariance[arm], population.shared_mean[arm], loop.root[arm], loop.shared_root[arm],
                loop.start[arm],
            )  # fmt: skip


ADVANCE = CompiledCallback(_advance)
"""``ADVANCE(address of a Loop, BEGIN or SUMMED or REBUILD or FINISH)``, from Python or by its address."""


@woven_kernel
def sum_pairs(loop: Loop, belief: Belief, distance: Array) -> None:
    """Take the sum that the loop wants over all pairs of a belief, whose local parts are kept up to date."""
    wanted = loop.now[WANTED]
    n_arms, d = belief.shared_mean.shape
    if wanted == MEASURES:
        loop.evidence.arm_measures[:] = 0.0
    elif wanted == WEIGHTS:
        loop.freedom[:] = 0.0
        loop.distance[:] = 0.0
    for arm in range(n_arms):
        pairs, s2 = pairs_of(belief, arm), belief.noise_variance[arm]
        if wanted == MEASURES:
            measure_rows(belief.sums, pairs.rows, loop.buffers.matrices[0], loop.evidence.arm_measures[arm])
        elif wanted == INFORMATION:
            sum_information(
                pairs, loop.root[arm], s2, belief.local_covariance, belief.local_mean, True, loop.buffers.lanes,
                loop.information[arm],
            )  # fmt: skip
        elif wanted == SECOND_MOMENTS:
            loop.n_pairs[arm] = belief.n_seen[arm]
            sum_moments(
                pairs, loop.root[arm], s2, belief.shared_mean[arm], loop.shared_root[arm], loop.start[arm],
                distance[arm], loop.buffers.lanes, loop.moments[arm], loop.counts[arm],
            )  # fmt: skip
        else:
            add_distances(pairs, distance[arm], d, loop.freedom, loop.distance)
