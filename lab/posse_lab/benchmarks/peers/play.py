"""Going through a stream step by step, with a clock on every call."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from posse.types import Array, IntArray
from posse_lab.benchmarks.peers.entry import Entry
from posse_lab.benchmarks.peers.stream import Stream

CHECK = 20  # steps between two looks at the time that is left


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What was decided, and how long every call took.

    Parameters
    ----------
    arms : ndarray of shape (n_steps,)
    given, decide, outcome, update : ndarray of shape (n_steps,)
        Seconds: to make the arguments of a decision, to decide, to make those of an update, to update. Each includes
        one reading of the clock, some 50 ns.
    """

    arms: IntArray
    given: Array
    decide: Array
    outcome: Array
    update: Array


def play(entry: Entry, stream: Stream, *, n_steps: int | None = None, seconds: float = float("inf")) -> Played:
    """Decide and learn step after step.

    Parameters
    ----------
    entry : Entry
    stream : Stream
    n_steps : int, optional
        Default: all.
    seconds : float
        No further step is begun after so long; at least one is made.
    """
    n_steps = len(stream) if n_steps is None else min(n_steps, len(stream))
    tasks, contexts, rewards = stream.tasks, stream.contexts, stream.rewards.tolist()
    given_of, arm_of, outcome_of, decide, update = entry.given, entry.arm, entry.outcome, entry.decide, entry.update
    clock = time.perf_counter_ns
    times = np.empty((n_steps, 4))
    arms = np.empty(n_steps, dtype=np.int64)
    done, until = 0, time.perf_counter() + seconds
    for step in range(n_steps):
        if step % CHECK == 0 and step and time.perf_counter() > until:
            break
        started = clock()
        given = given_of(tasks[step], contexts[step], step + 1)
        has_given = clock()
        decided = decide(*given)
        has_decided = clock()
        arm = arm_of(decided)
        reward = rewards[step][arm]
        begun = clock()
        outcome = outcome_of(given, decided, reward)
        has_outcome = clock()
        update(*outcome)
        has_updated = clock()
        arms[step] = arm
        times[step] = (
            has_given - started,
            has_decided - has_given,
            has_outcome - begun,
            has_updated - has_outcome,
        )
        done = step + 1
    each = times[:done].T * 1e-9
    return Played(arms[:done], *each)
