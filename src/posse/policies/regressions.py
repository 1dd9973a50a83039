"""Regressions that share nothing between tasks, or everything: one Gaussian belief each, compiled.

A reward is learned as its site (:mod:`posse.families.sites`): a ridge regression for numbers, a logistic or log-linear
one for clicks and counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.core.compiler import compiled
from posse.core.select import Exploration, explore
from posse.families.sites import NUMBER, site
from posse.model.dense import add_outer, dot, multiply_symmetric
from posse.model.sums import Sums, add_reward
from posse.policies.playing import RewardBatch, StepBatch, player
from posse.types import Array


class Regressions(NamedTuple):
    """Beliefs about the coefficients of every arm, in every task or in all together."""

    mean: Array  # (K, N or 1, d)
    covariance: Array  # (K, N or 1, d, d), over the noise variance
    exploration: Exploration
    family: int


class Learner(NamedTuple):
    """Regressions, and what numbers they have learned."""

    regressions: Regressions
    sums: Sums


@compiled
def predict(model: Regressions, task: int, x: Array, mean: Array, sd: Array) -> None:
    """Write mean and standard deviation of every arm's linear predictor."""
    v, place = np.empty(x.shape[0]), min(task, model.mean.shape[1] - 1)
    for arm in range(mean.shape[0]):
        multiply_symmetric(model.covariance[arm, place], x, v)
        mean[arm] = dot(x, model.mean[arm, place])
        sd[arm] = math.sqrt(max(dot(x, v), 0.0))


@compiled
def choose(model: Regressions, task: int, x: Array, step: int, draws: Array) -> int:
    """Return the arm to pull."""
    beliefs = np.empty((2, draws.shape[0]))
    predict(model, task, x, beliefs[0], beliefs[1])
    return explore(beliefs[0], beliefs[1], step, model.exploration, draws)


@compiled
def learn(learner: Learner, task: int, arm: int, x: Array, reward: float) -> None:
    """Learn one reward by Sherman and Morrison's formula."""
    model, v = learner.regressions, np.empty(x.shape[0])
    place = min(task, model.mean.shape[1] - 1)
    mean, covariance = model.mean[arm, place], model.covariance[arm, place]
    multiply_symmetric(covariance, x, v)
    m, variance = dot(x, mean), dot(x, v)
    w, h = site(model.family, reward, 1.0, m, variance, 0.0)
    gain = 1.0 / (1.0 + w * variance)
    surprise = gain * (h - w * m)
    for i in range(x.shape[0]):
        mean[i] += surprise * v[i]
    add_outer(-w * gain, v, covariance)
    if model.family == NUMBER:
        add_reward(learner.sums, arm, place, x, reward)


@compiled
def _choose(learner: Learner, task: int, x: Array, step: int, draws: Array) -> int:
    return choose(learner.regressions, task, x, step, draws)


_play_steps = player(_choose, learn)


@compiled
def play(learner: Learner, batch: StepBatch) -> None:
    """Play a batch of steps."""
    _play_steps(learner, batch)


@compiled
def choose_rows(model: Regressions, batch: StepBatch, first: int, last: int) -> None:
    """Decide steps ``first`` to ``last`` of a batch, and learn nothing."""
    for t in range(first, last):
        batch.arms[t] = choose(model, batch.tasks[t], batch.contexts[t], batch.first_step + t, batch.draws[t])


@compiled
def learn_rows(learner: Learner, rows: RewardBatch, part: int, parts: int) -> None:
    """Learn the rows of one part of the regressions, in order.

    Regressions share nothing, so threads that take a part each do what one would do.
    """
    n_places = learner.regressions.mean.shape[1]
    for row in range(rows.tasks.shape[0]):
        task, arm = min(rows.tasks[row], n_places - 1), rows.arms[row]
        if (task + arm) % parts == part:
            learn(learner, task, arm, rows.contexts[row], rows.rewards[row])
