"""What a fleet's decisions and rewards stand on, and beliefs that are brought up to date when they are looked at.

A new population changes what every pair believes, but most pairs will not be asked before the next one. So a refresh
only counts up the *generation*; a pair whose local part is of an older one is *settled* when a decision or a reward
comes to it, from its sums, which is exact. All arms of a task are settled side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel, woven_kernel
from posse.kernels.lanes import (
    COLUMN,
    FLAGS,
    KEEP,
    N_MATRICES,
    PACKED,
    ROOTS,
    Lanes,
    fill,
    spread_vector,
    take_mean,
    take_symmetric,
)
from posse.kernels.linalg import copy_symmetric, factor_semidefinite
from posse.kernels.llvm.callback import call
from posse.kernels.llvm.handle import Layout, floats, ints
from posse.kernels.llvm.vector import LANES, add_products, address, fetch, interleave
from posse.kernels.posterior import Belief, belief_layout
from posse.kernels.rule import Rule, set_silent
from posse.kernels.select import Exploration
from posse.types import Array, IntArray


class DecisionArrays(NamedTuple):
    """All arrays that a decision or a reward reads or writes."""

    belief: Belief
    root: Array  # (K, d, d) the upper R with R'R the covariance
    triangle: Array  # (K, d (d + 1) / 2) the upper triangle of the covariance
    silent: Array  # (K,) what arms are kept at whose rewards were all the same so far, see posse.kernels.rule
    settled: IntArray  # (S,) the generation that the local part of a slot is of
    generation: IntArray  # (1,)
    rule: Rule
    lanes: Lanes  # to work in, of whoever holds the fleet's lock
    vectors: Array  # (4, d)
    scores: Array  # (5, 8 K or more)
    one: IntArray  # (1,) the arm that a reward is of


DECISION_ARRAYS: Layout[DecisionArrays] = Layout(
    DecisionArrays(
        belief=belief_layout(2),
        root=floats(3),
        triangle=floats(2),
        silent=floats(1),
        settled=ints(1),
        generation=ints(1),
        rule=Rule(Exploration(0.0, 0.0, False, False), 0.0, 0.0),
        lanes=Lanes(floats(2), 0),
        vectors=floats(2),
        scores=floats(2),
        one=ints(1),
    )
)
open_decision_arrays = DECISION_ARRAYS.open


@kernel
def set_roots(covariance: Array, root: Array) -> None:
    """Write the factor of every arm's covariance, which may be singular."""
    for arm in range(root.shape[0]):
        factor_semidefinite(covariance[arm], root[arm])


@kernel
def set_triangles(covariance: Array, triangle: Array) -> None:
    """Write the upper triangle of every arm's covariance."""
    for arm in range(triangle.shape[0]):
        copy_symmetric(covariance[arm], 1.0, triangle[arm])


@kernel
def set_kept(summaries: Array, silent: Array) -> None:
    """Write what arms whose rewards were all the same so far are kept at, as their summaries say."""
    set_silent(summaries, silent)


@inlined_kernel
def slot_of(slot: IntArray, counts: Array, task: int, arm: int) -> int:
    """Return the slot of a pair that has rewards, or -1."""
    row = slot[task, arm] if task >= 0 else -1
    return row if row >= 0 and counts[row] > 0.0 else -1


@woven_kernel
def settle(ground: DecisionArrays, task: int, arms: IntArray, first: int, n: int, lanes: Lanes) -> None:
    """Bring the local parts of up to eight arms of a task, from ``arms[first]`` on, to the present generation."""
    belief = ground.belief
    now = ground.generation[0]
    stale = 0
    for lane in range(n):
        row = slot_of(belief.slot, belief.sums.counts, task, arms[first + lane])
        if row >= 0 and ground.settled[row] != now:
            stale += 1
    if stale > 0:
        d = belief.shared_mean.shape[1]
        room = lanes.room
        upper, local, column = room[0], room[8], room[9]
        noise, last = room[11][d * LANES :], room[N_MATRICES - 1]
        fill(0.0, last, last.shape[0])
        places = last.view(np.int64)
        grams, moments, roots = places[:LANES], places[LANES : 2 * LANES], places[2 * LANES : 3 * LANES]
        nothing = address(last, 3 * LANES)
        for lane in range(LANES):
            # Lanes without anything to settle are worked on as well; an arm's own factor keeps them finite.
            arm = arms[first + lane] if lane < n else arms[first]
            row = slot_of(belief.slot, belief.sums.counts, task, arm) if lane < n else -1
            roots[lane] = address(ground.root, arm)
            noise[lane] = belief.noise_variance[arm] * (belief.task_weight[task] if task >= 0 else 1.0)
            grams[lane], moments[lane] = nothing, nothing
            if row >= 0 and ground.settled[row] != now:
                grams[lane], moments[lane] = address(belief.sums.gram, row), address(belief.sums.moment, row)
        call(lanes.condition_at, address(room, 0), FLAGS * d + PACKED + KEEP + COLUMN + ROOTS)
        for lane in range(n):
            row = slot_of(belief.slot, belief.sums.counts, task, arms[first + lane])
            if row >= 0 and ground.settled[row] != now:
                take_symmetric(local, lane, belief.local_covariance[row])
                take_mean(d, upper, column, 1, 0, lane, belief.local_mean[row])
                ground.settled[row] = now


@woven_kernel
def ask(belief: Belief, task: int, arms: IntArray, n_arms: int) -> None:
    """Ask memory for what a decision will read, all arms at once.

    In a large fleet nothing of a task is in the cache. Arm after arm, a decision would wait for memory as often as it
    has arms; asked for together, the answers come together.
    """
    for position in range(n_arms):
        row = belief.slot[task, arms[position]] if task >= 0 else -1
        if row >= 0:
            fetch(belief.sums.counts, row)
            fetch(belief.local_mean, row)
            fetch(belief.local_covariance, row)
            fetch(belief.sums.gram, row)


@woven_kernel
def multiply_triangles(d: int, matrix: Array, x: Array, out: Array) -> None:
    """Add symmetric matrices, given by their upper triangles, times vectors to ``out``."""
    place = 0
    for i in range(d):
        here = i * LANES
        add_products(out, here, d - i, x, here, 0, matrix, place, 0, 1)
        add_products(out, here, 1, x, here + LANES, LANES, matrix, place + LANES, LANES, d - i - 1)
        place += (d - i) * LANES


@woven_kernel
def predict_arms(
    ground: DecisionArrays, task: int, x: Array, arms: IntArray, n_arms: int, lanes: Lanes, mean: Array, sd: Array
) -> None:
    """Write mean and standard deviation of the expected reward of ``arms``; a negative task is one never seen.

    The same as :func:`posse.kernels.posterior.predict_arm` for each, eight at a time.
    """
    belief = ground.belief
    d = x.shape[0]
    step = d * LANES
    triangle = d * (d + 1) // 2
    ask(belief, task, arms, n_arms)
    room = lanes.room
    local, gram, shared, context = room[0], room[1], room[2], room[3]
    v, w, p, mean_of = room[4], room[5], room[6], room[7]
    last = room[N_MATRICES - 1]
    places = last.view(np.int64)
    for first in range(0, n_arms, LANES):
        n = min(LANES, n_arms - first)
        settle(ground, task, arms, first, n, lanes)
        # Lanes left over repeat the first arm.
        covariances, grams, sharings, means = (
            places[:LANES], places[LANES : 2 * LANES], places[2 * LANES : 3 * LANES], places[3 * LANES : 4 * LANES]
        )  # fmt: skip
        fill(0.0, last[4 * LANES :], triangle)
        nothing = address(last, 4 * LANES)
        for lane in range(LANES):
            arm = arms[first + lane] if lane < n else arms[first]
            row = slot_of(belief.slot, belief.sums.counts, task, arm)
            sharings[lane] = address(belief.shared_covariance, arm)
            if row >= 0:
                covariances[lane], grams[lane] = address(belief.local_covariance, row), address(belief.sums.gram, row)
                means[lane] = address(belief.local_mean, row)
            else:
                covariances[lane], grams[lane], means[lane] = address(ground.triangle, arm), nothing, nothing
        spread_vector(x, context)
        interleave(covariances, triangle, local)
        interleave(grams, triangle, gram)
        interleave(sharings, d * d, shared)
        interleave(means, d, mean_of)
        fill(0.0, v, step)
        fill(0.0, w, step)
        fill(0.0, p, step)
        multiply_triangles(d, local, context, v)
        multiply_triangles(d, gram, v, w)
        for i in range(step):
            w[i] = context[i] - w[i]
        add_products(p, 0, d, w, 0, LANES, shared, 0, step, d)
        for lane in range(n):
            arm = arms[first + lane]
            row = slot_of(belief.slot, belief.sums.counts, task, arm)
            own, form, center = 0.0, 0.0, 0.0
            for i in range(d):
                own += x[i] * v[i * LANES + lane]
                form += w[i * LANES + lane] * p[i * LANES + lane]
                center += w[i * LANES + lane] * belief.shared_mean[arm, i] + x[i] * mean_of[i * LANES + lane]
            if row >= 0:
                own *= belief.noise_variance[arm]
            elif task >= 0:
                own /= belief.task_weight[task]
            mean[first + lane] = center
            sd[first + lane] = math.sqrt(max(own + form, 0.0))
