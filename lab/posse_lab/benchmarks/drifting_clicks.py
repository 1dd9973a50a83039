"""Regret of fleets of clicks whose arms swap places at half time: learned drift beside none, and a fresh start."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from posse.fleet import Posse
from posse.types import Array

N_TASKS, N_ARMS, N_FEATURES = 20, 4, 2
STEPS = 8000
MINUTE = 60.0
LEVEL = -1.7  # of the logit: a click in five or so
START = 1.8e9  # seconds since the epoch


class Clicks(NamedTuple):
    """One run.

    Parameters
    ----------
    regret : ndarray of shape (2,)
        Before and after half time.
    early : int
        Changes that were noticed before anything had changed.
    noticed : int or None
        Rewards after half time until a change of all tasks was noticed.
    tasks : int
        Changes of single tasks that were noticed after half time.
    """

    regret: Array
    early: int
    noticed: int | None
    tasks: int


def play_clicks(
    moved: int, drift: Any, seed: int, *, restart: bool = False, steps: int = STEPS, level: float = LEVEL
) -> Clicks:
    """Let a fleet decide every minute; at half time the arms of the first ``moved`` tasks swap places."""
    rng = np.random.default_rng([seed, 17])
    before = rng.normal(0, 0.6, (N_ARMS, 1, N_FEATURES)) + 0.5 * rng.normal(size=(N_ARMS, N_TASKS, N_FEATURES))
    before[:, :, 0] += level
    after = before.copy()
    after[:, :moved] = np.roll(before, 1, axis=0)[:, :moved]
    tasks, values, uniform = rng.integers(N_TASKS, size=steps), rng.normal(size=steps), rng.random(steps)
    contexts, half = np.column_stack([np.ones(steps), values]), steps // 2
    predictor = [
        np.einsum("knd,nd->nk", truth[:, tasks[rows]], contexts[rows])
        for truth, rows in ((before, slice(half)), (after, slice(half, steps)))
    ]
    rates = 1.0 / (1.0 + np.exp(-np.concatenate(predictor)))
    now = [START]

    def new() -> Posse:
        return Posse(range(N_ARMS), ["value"], rewards="binary", seed=seed, drift=drift, clock=lambda: now[0])

    fleet, regret = new(), np.zeros(2)
    for step in range(steps):
        if restart and step == half:
            fleet = new()
        now[0] += MINUTE
        decision = fleet.decide(int(tasks[step]), [values[step]])
        rate = rates[step, decision.arm]
        fleet.reward(decision, bool(uniform[step] < rate))
        regret[step // half] += rates[step].max() - rate
    when = [(round((change.time.timestamp() - START) / MINUTE) - half, change.task) for change in fleet.changes]
    everywhere = [at for at, task in when if task is None and at > 0]
    return Clicks(
        regret,
        sum(at <= 0 for at, _ in when),
        everywhere[0] if everywhere else None,
        sum(at > 0 and task is not None for at, task in when),
    )
