"""The stream that everyone sees, drawn once from a seed; going through it with a clock on every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from posse.environments.synthetic import SyntheticWorld
from posse.types import Array, IntArray
from posse_lab.benchmarks.peers.entries import Entry
from posse_lab.benchmarks.report import Begin
from posse_lab.benchmarks.workload import Size

TUNING_SEED = 1_000_003  # settings are tuned on this stream; reported seeds count from 0
MOST_ROUNDS = 8  # of one learner in one turn
FEWEST_STEPS = 50  # of a round


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Steps that are the same for every library, whatever it decides.

    Parameters
    ----------
    tasks : list of int
    contexts : list of ndarray of shape (n_features,)
        Each an array of its own, as it would come from a request.
    expected, rewards : ndarray of shape (n_steps, n_arms)
        What every arm pays on average, and what it would pay in this step.
    """

    tasks: list[int]
    contexts: list[Array]
    expected: Array
    rewards: Array

    def regret(self, arms: IntArray) -> float:
        """Return the regret of the arms of all steps, from the true means."""
        return float((self.expected.max(axis=1) - self.expected[np.arange(len(arms)), arms]).sum())

    @property
    def random_regret(self) -> float:
        """What pulling any arm, each as likely as the others, costs on average."""
        return float((self.expected.max(axis=1) - self.expected.mean(axis=1)).sum())


def draw_stream(size: Size, seed: int, n_steps: int) -> Stream:
    """Return the stream of a seed: the paper's world, with tasks that arrive equally often."""
    draw = SyntheticWorld(**size._asdict()).draw(seed, n_steps)
    return Stream(draw.tasks.tolist(), [context.copy() for context in draw.contexts], draw.expected, draw.rewards)


def play(entry: Entry, stream: Stream, n_steps: int | None = None) -> tuple[IntArray, Array]:
    """Decide and learn step after step; return the arms, and seconds with one row per step.

    The columns are the seconds to make the arguments of a decision, to decide, to make those of an update, and to
    update. Each includes one reading of the clock, some 50 ns.
    """
    tasks, contexts, rewards = stream.tasks[:n_steps], stream.contexts, stream.rewards.tolist()
    given_of, arm_of, outcome_of, decide, update = entry.given, entry.arm, entry.outcome, entry.decide, entry.update
    clock = time.perf_counter_ns
    times, arms = np.empty((len(tasks), 4)), np.empty(len(tasks), dtype=np.int64)
    for step, task in enumerate(tasks):
        started = clock()
        given = given_of(task, contexts[step], step + 1)
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
        times[step] = has_given - started, has_decided - has_given, has_outcome - begun, has_updated - has_outcome
    return arms, times * 1e-9


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per call, the best of some rounds through a stream.

    Parameters
    ----------
    decide, update : float
        The middle one of all calls of a round, its arguments at hand. It is not moved by what else the machine does now
        and then, nor by the few updates in which posse estimates its prior anew.
    decide_average, update_average : float
        The average of a round, with everything that happens in it.
    decide_built, update_built : float
        The middle one, with making the arguments out of a task number and an array.
    """

    decide: float
    update: float
    decide_average: float
    update_average: float
    decide_built: float
    update_built: float

    @classmethod
    def of(cls, rounds: list[Array]) -> Latency:
        """Return the latency of some rounds through the same stream."""
        middle = np.min([np.median(times, axis=0) for times in rounds], axis=0)
        average = np.min([times.mean(axis=0) for times in rounds], axis=0)
        built = np.min([np.median(times[:, ::2] + times[:, 1::2], axis=0) for times in rounds], axis=0)
        return cls(*map(float, (middle[1], middle[3], average[1], average[3], built[0], built[1])))


def measure_latencies(
    learners: Mapping[str, Callable[[], Entry]], stream: Stream, *, turns: int, seconds: float, begin: Begin
) -> dict[str, Latency]:
    """Time learners in turns, so that a busy minute of the machine is one for all of them.

    Parameters
    ----------
    learners : mapping
        By name, what returns a learner that is new to the stream. The first of each goes uncounted, since it may have
        to compile.
    stream : Stream
    turns : int
    seconds : float
        Of a turn. Whoever is fast goes through the stream several times; a round of one that is slow has as many steps
        as fit.
    begin : callable
        Called with the turn that comes next.
    """
    steps = {}
    for name, new in learners.items():
        each = float(np.median(play(new(), stream, FEWEST_STEPS)[1].sum(axis=1)))
        steps[name] = max(FEWEST_STEPS, int(seconds / max(each, 1e-9)))
    rounds: dict[str, list[Array]] = {name: [] for name in learners}
    for turn in range(turns):
        begin(f"latency, turn {turn + 1} of {turns}")
        for name, new in learners.items():
            until = time.perf_counter() + seconds
            for _ in range(MOST_ROUNDS):
                rounds[name].append(play(new(), stream, steps[name])[1])
                if time.perf_counter() > until:
                    break
    return {name: Latency.of(some) for name, some in rounds.items()}
