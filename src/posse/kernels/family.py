"""Policies that learn clicks and counts: decide, learn, refresh, and whole runs without leaving compiled code.

As :mod:`posse.kernels.ebm`, except that a reward is learned as its site. All take the address of a handle of a
:class:`State`, see :mod:`posse.kernels.llvm.handle`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from posse.kernels.batches import open_reward_batch, open_step_batch
from posse.kernels.compiler import allocating_kernel, kernel, short_kernel, woven_kernel
from posse.kernels.evidence import Evidence, evidence_due, new_evidence
from posse.kernels.family_evidence import refresh_family
from posse.kernels.kept_rows import KeptRows, keep_row, new_rows
from posse.kernels.lanes import Lanes
from posse.kernels.llvm.callback import CompiledCallback, call
from posse.kernels.llvm.handle import Layout, floats
from posse.kernels.llvm.stack_array import room
from posse.kernels.posterior import Belief, Buffers, belief_layout, observe, predict_arm
from posse.kernels.rule import choose_by_draws
from posse.kernels.select import Exploration
from posse.kernels.sites import CLOSE, site
from posse.types import Array


class State(NamedTuple):
    """All that such a policy holds."""

    belief: Belief
    evidence: Evidence
    rows: KeptRows
    features: Array  # (2, d) sums of the contexts, and of their squares
    buffers: Buffers
    exploration: Exploration
    first_pulls: bool
    family: int
    refresh_growth: float


STATE = Layout(
    State(
        belief=belief_layout(3),
        evidence=new_evidence(1, 1, 1, 0.0),
        rows=new_rows(1, 1, 1),
        features=floats(2),
        buffers=Buffers(floats(3), floats(2), Lanes(floats(2), 0)),
        exploration=Exploration(0.0, 0.0, False, False),
        first_pulls=False,
        family=0,
        refresh_growth=0.0,
    )
)
open_state = STATE.open


@woven_kernel
def choose_arm(state: State, task: int, x: Array, step: int, draws: Array, vectors: Array, scores: Array) -> int:
    """Return the arm to pull, by the scale of the linear predictor: links rise, so the best arm is the same."""
    n_arms = scores.shape[1]
    if state.first_pulls and step <= n_arms:
        return step - 1
    mean, sd = scores[0], scores[1]
    for arm in range(n_arms):
        mean[arm], sd[arm] = predict_arm(state.belief, task, arm, x, vectors)
    return choose_by_draws(mean, sd, state.evidence.summaries, step, state.exploration, draws, scores[2:])


@kernel
def learn_one(state: State, task: int, arm: int, x: Array, reward: float, vectors: Array) -> None:
    """Learn one reward: its site under the belief of now. ``vectors`` (4, d) is room."""
    mean, sd = predict_arm(state.belief, task, arm, x, vectors)
    w, h = site(state.family, reward, 1.0, mean, sd * sd, mean, sd * sd, CLOSE)
    root = math.sqrt(w)
    seen_at = vectors[3]
    for i in range(x.shape[0]):
        seen_at[i] = root * x[i]
        state.features[0, i] += x[i]
        state.features[1, i] += x[i] * x[i]
    observe(state.belief, arm, task, seen_at, h / root, state.buffers)
    keep_row(state.rows, state.belief.slot[task, arm], x, reward, w, h)


@woven_kernel
def due(state: State) -> bool:
    """Whether the prior is to be re-estimated."""
    return evidence_due(state.belief, state.evidence, state.refresh_growth)


@short_kernel
def decide(handle: int, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    state = open_state(handle)
    n_arms, d = state.belief.shared_mean.shape
    return choose_arm(state, task, x, step, draws, room(3, d), room(5, n_arms))


@short_kernel
def believe(handle: int, task: int, x: Array, out: Array) -> None:
    """Write mean and standard deviation of the linear predictor of every arm to the two rows of ``out``."""
    state = open_state(handle)
    vectors = room(3, x.shape[0])
    for arm in range(out.shape[1]):
        out[0, arm], out[1, arm] = predict_arm(state.belief, task, arm, x, vectors)


@short_kernel
def learn(handle: int, task: int, arm: int, x: Array, reward: float) -> bool:
    """Learn one reward; return whether the prior is to be re-estimated now."""
    state = open_state(handle)
    learn_one(state, task, arm, x, reward, room(4, x.shape[0]))
    return due(state)


def _refresh(handle: int, _arm: int) -> None:
    state = open_state(handle)
    refresh_family(state.belief, state.evidence, state.rows, state.features, state.family, state.buffers)


REFRESH = CompiledCallback(_refresh)
"""``REFRESH(handle, 0)`` re-estimates the prior of all arms."""


@allocating_kernel
def play(handle: int, steps: int, refresh_at: int) -> None:
    """Play a stretch of steps; ``refresh_at`` is the address of :data:`REFRESH`."""
    state, stretch = open_state(handle), open_step_batch(steps)
    n_arms, d = state.belief.shared_mean.shape
    vectors, scores = room(4, d), room(5, n_arms)
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
        learn_one(state, stretch.tasks[t], arm, x, stretch.rewards[t, arm], vectors)
        if due(state):
            call(refresh_at, handle, 0)


@allocating_kernel
def learn_rows(handle: int, lesson: int, refresh_at: int) -> None:
    """Learn rows one after another."""
    state, rows = open_state(handle), open_reward_batch(lesson)
    vectors = room(4, state.features.shape[1])
    for row in range(rows.tasks.shape[0]):
        learn_one(state, rows.tasks[row], rows.arms[row], rows.contexts[row], rows.rewards[row], vectors)
        if due(state):
            call(refresh_at, handle, 0)
