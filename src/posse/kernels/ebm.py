"""The hierarchical policies: decide, learn, refresh, and whole runs without leaving compiled code.

All of them take the address of a handle of a :class:`State`, see :mod:`posse.kernels.llvm.handle`.
"""

from __future__ import annotations

from typing import NamedTuple

from posse.kernels.batches import open_reward_batch, open_step_batch
from posse.kernels.compiler import allocating_kernel, kernel, short_kernel, woven_kernel
from posse.kernels.estimators import (
    EVIDENCE,
    KNOWN,
    MOMENTS,
    PAPER,
    PAPER_LITERAL,
    PAPER_UNTHRESHOLDED,
    Memory,
    new_memory,
    refresh_due,
)
from posse.kernels.estimators import refresh as refresh_prior
from posse.kernels.evidence import SETTLED, STEPS
from posse.kernels.lanes import Lanes
from posse.kernels.llvm.callback import CompiledCallback, call
from posse.kernels.llvm.handle import Layout, floats
from posse.kernels.llvm.stack_array import room
from posse.kernels.posterior import Belief, Buffers, belief_layout, observe, predict_arm
from posse.kernels.refresh import (
    BEGIN,
    DONE,
    EXACT,
    SETTLED_AT,
    STEPS_LEFT,
    SUMMED,
    WANTED,
    open_loop,
    sum_pairs,
)
from posse.kernels.rule import choose_by_draws
from posse.kernels.select import Exploration
from posse.types import Array

METHODS = KNOWN, PAPER, PAPER_LITERAL, MOMENTS, EVIDENCE, PAPER_UNTHRESHOLDED


class State(NamedTuple):
    """All that a hierarchical policy holds."""

    belief: Belief
    memory: Memory
    buffers: Buffers  # for learning, which one thread does at a time
    exploration: Exploration
    first_pulls: bool
    method: int
    refresh_growth: Array  # (1,) an array, so that it may be set
    loop_at: int  # the addresses of its Loop and of ADVANCE, under the evidence prior
    advance_at: int


ROOM = Buffers(floats(3), floats(2), Lanes(floats(2), 0))
STATE = Layout(
    State(
        belief=belief_layout(3),
        memory=new_memory(1, 1, 1),
        buffers=ROOM,
        exploration=Exploration(0.0, 0.0, False, False),
        first_pulls=False,
        method=0,
        refresh_growth=floats(1),
        loop_at=0,
        advance_at=0,
    )
)
BUFFERS = Layout(ROOM)
open_state, open_buffers = STATE.open, BUFFERS.open


@woven_kernel
def choose_arm(state: State, task: int, x: Array, step: int, draws: Array, vectors: Array, scores: Array) -> int:
    """Return the arm that Algorithm 1 of the paper pulls; ``vectors`` (3, d) and ``scores`` (5, K) are room."""
    n_arms = scores.shape[1]
    if state.first_pulls and step <= n_arms:
        return step - 1
    mean, sd = scores[0], scores[1]
    for arm in range(n_arms):
        mean[arm], sd[arm] = predict_arm(state.belief, task, arm, x, vectors)
    summaries = state.memory.evidence.summaries
    return choose_by_draws(mean, sd, summaries, step, state.exploration, draws, scores[2:])


@woven_kernel
def due(state: State, arm: int) -> bool:
    """Whether the prior is to be re-estimated after a reward of this arm."""
    return refresh_due(state.belief, state.memory, arm, state.method, state.refresh_growth[0])


@short_kernel
def decide(handle: int, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    state = open_state(handle)
    n_arms, d = state.belief.shared_mean.shape
    return choose_arm(state, task, x, step, draws, room(3, d), room(5, n_arms))


@short_kernel
def believe(handle: int, task: int, x: Array, out: Array) -> None:
    """Write mean and standard deviation of the expected reward of every arm to the two rows of ``out``."""
    state = open_state(handle)
    vectors = room(3, x.shape[0])
    for arm in range(out.shape[1]):
        out[0, arm], out[1, arm] = predict_arm(state.belief, task, arm, x, vectors)


@short_kernel
def learn(handle: int, task: int, arm: int, x: Array, reward: float) -> bool:
    """Learn one reward; return whether the arm's prior is to be re-estimated now."""
    state = open_state(handle)
    observe(state.belief, arm, task, x, reward, state.buffers)
    return due(state, arm)


def _refresh_all(handle: int, arm: int) -> None:  # noqa: ARG001 -- the evidence prior is that of all arms
    state = open_state(handle)
    loop = open_loop(state.loop_at)
    loop.now[STEPS_LEFT], loop.now[EXACT] = STEPS, 1
    loop.numbers[SETTLED_AT] = SETTLED
    call(state.advance_at, state.loop_at, BEGIN)
    while loop.now[WANTED] != DONE:
        sum_pairs(loop, state.belief, state.memory.evidence.distance)
        call(state.advance_at, state.loop_at, SUMMED)


def _refresher(method: int) -> CompiledCallback:
    # The method is fixed before anything is compiled, so that no policy waits for another one's estimator.
    if method == EVIDENCE:
        return CompiledCallback(_refresh_all)

    def refresh(handle: int, arm: int) -> None:
        state = open_state(handle)
        n_tasks = state.belief.task_weight.shape[0]
        refresh_prior(state.belief, state.memory, arm, method, state.buffers, n_tasks)

    return CompiledCallback(refresh)


REFRESH = {method: _refresher(method) for method in METHODS}
"""By method: ``refresh(handle, arm)`` re-estimates the prior of an arm (of all under the evidence prior)."""


@allocating_kernel
def play(handle: int, steps: int, refresh_at: int) -> None:
    """Play a stretch of steps; ``refresh_at`` is the address of the method's :data:`REFRESH`."""
    state, stretch = open_state(handle), open_step_batch(steps)
    n_arms, d = state.belief.shared_mean.shape
    vectors, scores = room(3, d), room(5, n_arms)
    asked = stretch.everywhere.shape[1] if stretch.everywhere.shape[0] > 0 else 0
    for t in range(stretch.tasks.shape[0]):
        step, x, draws = stretch.first_step + t, stretch.contexts[t], stretch.draws[t]
        arm = 0
        # Every task that is asked, and last the one that is here.
        for position in range(asked + 1):
            task = position if position < asked else stretch.tasks[t]
            arm = choose_arm(state, task, x, step, draws, vectors, scores)
            if position < asked:
                stretch.everywhere[t, position] = arm
        stretch.arms[t] = arm
        observe(state.belief, arm, stretch.tasks[t], x, stretch.rewards[t, arm], state.buffers)
        if due(state, arm):
            call(refresh_at, handle, arm)


@allocating_kernel
def decide_rows(handle: int, steps: int, first: int, last: int) -> None:
    """Decide steps ``first`` to ``last`` of a stretch, and learn nothing."""
    state, stretch = open_state(handle), open_step_batch(steps)
    n_arms, d = state.belief.shared_mean.shape
    vectors, scores = room(3, d), room(5, n_arms)
    for t in range(first, last):
        step = stretch.first_step + t
        arm = choose_arm(state, stretch.tasks[t], stretch.contexts[t], step, stretch.draws[t], vectors, scores)
        stretch.arms[t] = arm


@kernel
def learn_rows(handle: int, lesson: int, first: int, many: int, refresh_at: int) -> int:
    """Learn rows from ``first`` on, one after another, up to ``many`` that go without a refresh.

    Returns the row before these, or the number of rows when all are learned.
    """
    state, rows = open_state(handle), open_reward_batch(lesson)
    n_rows = rows.tasks.shape[0]
    while first < n_rows:
        last = next_refresh(handle, lesson, first)
        if abs(last) - first >= many:
            break
        for row in range(first, abs(last)):
            observe(state.belief, rows.arms[row], rows.tasks[row], rows.contexts[row], rows.rewards[row], state.buffers)
        first = abs(last)
        if last > 0:
            call(refresh_at, handle, rows.arms[first - 1])
    return first


@allocating_kernel
def next_refresh(handle: int, lesson: int, first: int) -> int:
    """Return how many rows will have been learned when the next refresh is due; if none is, the last with a minus."""
    state, rows = open_state(handle), open_reward_batch(lesson)
    counts = state.belief.rewards
    last = -rows.arms.shape[0]
    # A refresh depends on nothing but the counts: count, look, and take back.
    before = room(1, counts.shape[0])[0]
    for arm in range(counts.shape[0]):
        before[arm] = counts[arm]
    for row in range(first, rows.arms.shape[0]):
        counts[rows.arms[row]] += 1.0
        if due(state, rows.arms[row]):
            last = row + 1
            break
    for arm in range(counts.shape[0]):
        counts[arm] = before[arm]
    return last


@kernel
def learn_arms(handle: int, lesson: int, buffers: int, first: int, last: int, part: int, parts: int) -> None:
    """Learn rows ``first`` to ``last`` of one part of the arms, without a refresh.

    Arms do not meet between two refreshes, so threads that take a part each do what one would do.
    """
    state, rows, own = open_state(handle), open_reward_batch(lesson), open_buffers(buffers)
    for row in range(first, last):
        if rows.arms[row] % parts == part:
            observe(state.belief, rows.arms[row], rows.tasks[row], rows.contexts[row], rows.rewards[row], own)
