"""Going through a stream step by step, with a clock on every call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posse.benchmarks.machine import Timing
from posse.benchmarks.peers.entry import Entry
from posse.benchmarks.peers.stream import Stream
from posse.types import Array, IntArray, Settings

MOST_ROUNDS = 8  # times as many as were asked for
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


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per call of one entry.

    Parameters
    ----------
    decide, update : Timing
        The call alone, its arguments at hand: mean over a stream, best and median over rounds.
    decide_built, update_built : Timing
        With making the arguments out of a task number and an array.
    update_typical : Timing
        The middle one of all updates of a round: for posse, one between two refreshes.
    """

    decide: Timing
    update: Timing
    decide_built: Timing
    update_built: Timing
    update_typical: Timing

    @property
    def both(self) -> float:
        """A decision and an update, everything included."""
        return self.decide.best + self.update.best

    @property
    def both_typical(self) -> float:
        """A decision and an update in the middle of all."""
        return self.decide.best + min(self.update_typical.best, self.update.best)

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {name: getattr(self, name).to_dict() for name in self.__dataclass_fields__}


def latency_of(rounds: list[Played]) -> Latency:
    """Return the latency of some rounds through the same stream."""
    calls = min(len(played.arms) for played in rounds)

    def timing(value: Callable[[Played], float]) -> Timing:
        values = [value(played) for played in rounds]
        return Timing(min(values), statistics.median(values), calls)

    return Latency(
        decide=timing(lambda played: float(played.decide.mean())),
        update=timing(lambda played: float(played.update.mean())),
        decide_built=timing(lambda played: float((played.given + played.decide).mean())),
        update_built=timing(lambda played: float((played.outcome + played.update).mean())),
        update_typical=timing(lambda played: float(np.median(played.update))),
    )


def measure_latency(new: Callable[[], Entry], stream: Stream, *, rounds: int, seconds: float) -> Latency:
    """Time fresh learners on the stream; the first goes uncounted, since it may compile and fills caches.

    Whoever is fast makes more rounds in the same time: on a machine that others use too, it takes some luck for a
    round to go undisturbed.

    Parameters
    ----------
    new : callable
        Returns a learner that has seen nothing.
    stream : Stream
    rounds : int
        At least, and at most eight times as many.
    seconds : float
        A round makes as many steps as fit into this time, at least 50.
    """
    first = play(new(), stream, n_steps=min(len(stream), 50))
    step = float((first.given + first.decide + first.outcome + first.update)[-20:].mean())
    n_steps = min(len(stream), max(50, int(seconds / max(step, 1e-9))))
    played: list[Played] = []
    until = time.perf_counter() + rounds * seconds
    while len(played) < rounds or (len(played) < MOST_ROUNDS * rounds and time.perf_counter() < until):
        played.append(play(new(), stream, n_steps=n_steps))
    return latency_of(played)
