"""How long the calls of a learner take, and how to be fair to many of them on a machine that others use too."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from posse.types import Settings
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peers.entry import Entry
from posse_lab.benchmarks.peers.play import Played, play
from posse_lab.benchmarks.peers.stream import Stream

MOST_ROUNDS = 8  # of one learner in one turn


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds per call of one entry; each the best and the median of some rounds through a stream.

    Parameters
    ----------
    decide, update : Timing
        The middle one of all calls of a round, its arguments at hand. It is not moved by what else the machine does now
        and then, nor by the few updates in which posse estimates its prior anew.
    decide_average, update_average : Timing
        The average of a round, with everything that happens in it.
    decide_built, update_built : Timing
        The middle one, with making the arguments out of a task number and an array.
    """

    decide: Timing
    update: Timing
    decide_average: Timing
    update_average: Timing
    decide_built: Timing
    update_built: Timing

    @property
    def both(self) -> float:
        """A decision and an update, each in the middle of all."""
        return self.decide.best + self.update.best

    @property
    def both_built(self) -> float:
        """A decision and an update out of a task number and an array, each in the middle of all."""
        return self.decide_built.best + self.update_built.best

    @property
    def both_average(self) -> float:
        """A decision and an update on average: for posse, with its refreshes."""
        return self.decide_average.best + self.update_average.best

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {name: getattr(self, name)._asdict() for name in self.__dataclass_fields__}


def latency_of(rounds: list[Played]) -> Latency:
    """Return the latency of some rounds through the same stream."""
    calls = min(len(played.arms) for played in rounds)

    def timing(value: Callable[[Played], np.floating]) -> Timing:
        values = [float(value(played)) for played in rounds]
        return Timing(min(values), statistics.median(values), calls)

    return Latency(
        decide=timing(lambda played: np.median(played.decide)),
        update=timing(lambda played: np.median(played.update)),
        decide_average=timing(lambda played: played.decide.mean()),
        update_average=timing(lambda played: played.update.mean()),
        decide_built=timing(lambda played: np.median(played.given + played.decide)),
        update_built=timing(lambda played: np.median(played.outcome + played.update)),
    )


def measure_latencies(
    learners: Mapping[str, Callable[[], Entry]],
    stream: Stream,
    *,
    turns: int,
    seconds: float,
    at_least: int = 50,
    most: int = MOST_ROUNDS,
    begin: Callable[[str], None] = lambda _: None,
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
    at_least : int
        Steps of a round.
    most : int
        Rounds of a turn.
    begin : callable
        Told which turn comes next.
    """
    steps = {}
    for name, new in learners.items():
        first = play(new(), stream, n_steps=at_least)
        each = float(np.median(first.given + first.decide + first.outcome + first.update))
        steps[name] = max(at_least, int(seconds / max(each, 1e-9)))
    rounds: dict[str, list[Played]] = {name: [] for name in learners}
    for turn in range(turns):
        begin(f"latency, turn {turn + 1} of {turns}")
        for name, new in learners.items():
            until = time.perf_counter() + seconds
            for _ in range(most):
                rounds[name].append(play(new(), stream, n_steps=steps[name]))
                if time.perf_counter() > until:
                    break
    return {name: latency_of(some) for name, some in rounds.items()}
