"""posse beside bayesianbandits with shared features and a block of features per task: the one way to share there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from posse.types import Array, Settings
from posse_lab.benchmarks.peers import bayesianbandits, ours
from posse_lab.benchmarks.peers.catalogue import POSSE
from posse_lab.benchmarks.peers.entry import RECOMMENDED, TASK_BLOCKS, TUNED, Entry
from posse_lab.benchmarks.peers.jobs import Job, best_of, run_jobs
from posse_lab.benchmarks.peers.latency import Latency, measure_latencies
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import TUNING_SEED, draw_stream, lessons
from posse_lab.benchmarks.workload import Rows, Size, each

TUNING, REGRET, KNOWN = 0.25, 0.6, 0.15  # parts of the time
PER_PAIR = 2  # rewards of every arm in every task, with which the known state begins
MOST_STEPS = 20_000
FIRST_STEPS = 200
KNOWN_STEPS = 2_000  # of posse with all known: enough for refreshes to take their part
TURNS = 3

OURS = (ours.TS, ours.UCB)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """Task blocks in one configuration, and posse over the same steps.

    Parameters
    ----------
    configuration : str
    settings : dict
    n_steps : list of int
        How far each seed came in its time.
    regret : list of float
        One per seed.
    ours : dict from policy to a list of float
        Regret of posse's policies over the same steps of the same streams.
    """

    configuration: str
    settings: Settings
    n_steps: list[int]
    regret: list[float]
    ours: dict[str, list[float]]

    def ratio(self, policy: str) -> float:
        """Regret of a policy of posse over that of the blocks."""
        return float(np.mean(self.ours[policy]) / np.mean(self.regret))

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        plain: Settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {"ratio": {policy: self.ratio(policy) for policy in self.ours}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The comparison.

    Parameters
    ----------
    size : Size
    solver : str
        What factors the sparse matrices of bayesianbandits.
    rows : list of BlockRow
    first, known : dict from name to Latency
        In the first steps of a stream, and with every arm of every task known.
    """

    size: Size
    solver: str
    rows: list[BlockRow]
    first: dict[str, Latency]
    known: dict[str, Latency]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "size": self.size._asdict(),
            "solver": self.solver,
            "per_pair": PER_PAIR,
            "rows": [row.to_dict() for row in self.rows],
            "first": {name: latency.to_dict() for name, latency in self.first.items()},
            "known": {name: latency.to_dict() for name, latency in self.known.items()},
        }


def compare_blocks(
    size: Size, *, seconds: float, seeds: int, workers: int, begin: Callable[[str], None], most: int = MOST_STEPS
) -> Blocks:
    """Tune, run both configurations for as long as there is time, and time single calls.

    Parameters
    ----------
    size : Size
    seconds : float
        For bayesianbandits, about; posse comes on top.
    seeds, workers : int
    begin : callable
        Told what comes next.
    most : int
        Steps of a stream.
    """
    peer = bayesianbandits.BLOCKS
    trials = peer.trials
    begin("task blocks: tuning")
    waves = -(-len(trials) // workers)
    regrets = run_jobs(
        [_job(size, setting, TUNING_SEED, most, TUNING * seconds / waves) for setting in trials], workers=workers
    )
    settings = {RECOMMENDED: peer.recommended, TUNED: best_of(trials, regrets)}
    begin("task blocks: regret")
    share = REGRET * seconds / -(-len(settings) * seeds // workers)
    found = run_jobs(
        [_job(size, setting, seed, most, share) for setting in settings.values() for seed in range(seeds)],
        workers=workers,
    )
    longest = max(len(regret) for regret in found)
    begin("task blocks: posse on the same steps")
    own = {
        (policy, seed): regret
        for policy in OURS
        for seed, regret in enumerate(_own_regrets(size, policy, seeds, longest))
    }
    rows = []
    for number, (configuration, setting) in enumerate(settings.items()):
        some = found[number * seeds : (number + 1) * seeds]
        rows.append(
            BlockRow(
                configuration=configuration,
                settings=setting,
                n_steps=[len(regret) for regret in some],
                regret=[float(regret[-1]) for regret in some],
                ours={
                    policy: [float(own[policy, seed][len(regret) - 1]) for seed, regret in enumerate(some)]
                    for policy in OURS
                },
            )
        )
    begin("task blocks: latency")
    learners = _learners(size, settings)
    stream = draw_stream(size, 0, KNOWN_STEPS)
    share = KNOWN * seconds / (2 * TURNS * len(settings))
    first = measure_latencies(learners, stream.head(FIRST_STEPS), turns=TURNS, seconds=share)
    rows_of_all = lessons(size, 0, PER_PAIR)
    taught = {name: partial(_taught, new, rows_of_all) for name, new in learners.items()}
    known = measure_latencies(taught, stream, turns=TURNS, seconds=share, at_least=10, most=1)
    return Blocks(size=size, solver=bayesianbandits.solver(), rows=rows, first=first, known=known)


def _job(size: Size, settings: Settings, seed: int, n_steps: int, seconds: float) -> Job:
    return Job(
        package="bayesianbandits",
        form=TASK_BLOCKS,
        settings=settings,
        size=size,
        seed=seed,
        n_steps=n_steps,
        seconds=seconds,
    )


def _own_regrets(size: Size, policy: str, seeds: int, n_steps: int) -> Iterator[Array]:
    for seed in range(seeds):
        stream = draw_stream(size, seed, n_steps)
        entry = POSSE.build(size, policy, seed, POSSE.recommended)
        yield stream.regret(play(entry, stream).arms)


def _learners(size: Size, settings: dict[str, Settings]) -> Mapping[str, Callable[[], Entry]]:
    """Return what makes new learners, posse's policies first."""
    own = {policy: partial(POSSE.build, size, policy, 0, POSSE.recommended) for policy in OURS}
    blocks = {name: partial(bayesianbandits.build, size, TASK_BLOCKS, 0, setting) for name, setting in settings.items()}
    return own | blocks


def _taught(new: Callable[[], Entry], rows: Rows) -> Entry:
    """Return a learner that has rewards of every arm in every task."""
    entry = new()
    if isinstance(entry, bayesianbandits.AgentEntry):
        entry.teach(rows)
        return entry
    for task, arm, context, reward in each(rows):
        entry.update(task, arm, context, reward)
    return entry
