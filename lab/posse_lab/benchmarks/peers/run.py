"""The benchmark: everyone on the same streams, for regret and for latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from posse.checks import number, whole_number
from posse.types import Settings
from posse_lab.benchmarks.peers import vowpal_wabbit
from posse_lab.benchmarks.peers.blocks import compare_blocks
from posse_lab.benchmarks.peers.catalogue import BLOCKS, PEERS, POSSE, chosen
from posse_lab.benchmarks.peers.entry import RECOMMENDED, TUNED, Peer, version_of, words_of
from posse_lab.benchmarks.peers.jobs import Job, best_of, run_jobs
from posse_lab.benchmarks.peers.latency import measure_latencies
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.report import Found, Row
from posse_lab.benchmarks.peers.stream import TUNING_SEED, draw_stream
from posse_lab.benchmarks.report import Begin
from posse_lab.benchmarks.workload import Size

TABLE_SIZE, BLOCK_SIZE = Size(100, 5, 10), Size(1_000, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure.

    Parameters
    ----------
    size, block_size : Size
        Of the table, and of the comparison with task blocks.
    seeds, n_steps : int
    turns : int
        In which latency is measured.
    turn_seconds : float
        Of each entry in a turn, about.
    block_seconds : float
        For the learner with task blocks, in all.
    block_seeds, block_steps : int
    """

    size: Size = TABLE_SIZE
    block_size: Size = BLOCK_SIZE
    seeds: int = 5
    n_steps: int = 2_000
    turns: int = 5
    turn_seconds: float = 0.4
    block_seconds: float = 120.0
    block_seeds: int = 2
    block_steps: int = 20_000

    def __post_init__(self) -> None:
        for name in ("seeds", "n_steps", "turns", "block_seeds", "block_steps"):
            whole_number(getattr(self, name), name, at_least=1)
        for name in ("turn_seconds", "block_seconds"):
            number(getattr(self, name), name, above=0)

    def job(self, package: str, form: str, settings: Settings, seed: int) -> Job:
        """Return a run of the table."""
        return Job(package=package, form=form, settings=settings, size=self.size, seed=seed, n_steps=self.n_steps)


@dataclass(frozen=True, slots=True)
class Configured:
    """A library in one form with one choice of settings."""

    peer: Peer
    form: str
    configuration: str
    settings: Settings

    @property
    def key(self) -> str:
        """The same for the same settings, whether recommended or tuned."""
        return f"{self.peer.package}, {self.form}, {words_of(self.settings)}"


QUICK = Plan(
    size=Size(20, 5, 10),
    block_size=Size(100, 5, 10),
    seeds=2,
    n_steps=200,
    turns=2,
    turn_seconds=0.1,
    block_seconds=6.0,
    block_steps=300,
)
"""Enough to see that everything runs."""


def n_stages(plan: Plan, names: Sequence[str]) -> int:
    """Return how many stages a run of these entries has."""
    return 2 + 2 * sum(name in PEERS for name in names) + plan.turns + (4 if BLOCKS in names else 0)


def measure_peers(plan: Plan, only: Sequence[str] | None, *, workers: int, begin: Begin = lambda _: None) -> Found:
    """Run posse and the peers that are installed.

    Parameters
    ----------
    plan : Plan
    only : sequence of str, optional
        Names of the catalogue; posse always runs.
    workers : int
        Processes for the runs that are not timed.
    begin : callable
        Told what comes next.
    """
    names, skipped = chosen(only)
    stream = draw_stream(plan.size, 0, plan.n_steps)
    begin("posse: compiling")
    for form in POSSE.forms:  # here, so that other processes find it compiled
        play(POSSE.build(plan.size, form, 0, POSSE.recommended), stream.head(50))
    configured: list[Configured] = []
    regrets: dict[str, list[float]] = {}
    for peer in [POSSE, *(PEERS[name] for name in names if name in PEERS)]:
        found = _configured(peer, plan, workers, begin)
        begin(f"{peer.name}: regret")
        regrets |= _regrets(found, plan, workers)
        configured += found
    # Where tuning finds nothing better than what is recommended, that is measured once and shown twice.
    learners = {one.key: partial(one.peer.build, plan.size, one.form, 0, one.settings) for one in configured}
    latencies = measure_latencies(learners, stream, turns=plan.turns, seconds=plan.turn_seconds, begin=begin)
    rows = [
        Row(
            library=one.peer.name,
            form=one.form,
            configuration=one.configuration,
            settings=one.settings,
            regret=regrets[one.key],
            latency=latencies[one.key],
        )
        for one in configured
    ]
    blocks = None
    if BLOCKS in names:
        blocks = compare_blocks(
            plan.block_size,
            seconds=plan.block_seconds,
            seeds=plan.block_seeds,
            workers=workers,
            begin=begin,
            most=plan.block_steps,
        )
    packages = ["bayesianbandits" if name == BLOCKS else name for name in names]
    parsed = None
    if vowpal_wabbit.PEER.package in names:
        parsed = vowpal_wabbit.time_parsed(stream)
    return Found(
        size=plan.size,
        n_steps=plan.n_steps,
        seeds=plan.seeds,
        rows=rows,
        random=[draw_stream(plan.size, seed, plan.n_steps).random_regret for seed in range(plan.seeds)],
        blocks=blocks,
        parsed=parsed,
        skipped=skipped,
        versions={package: version_of(package) for package in dict.fromkeys(packages)},
    )


def _configured(peer: Peer, plan: Plan, workers: int, begin: Begin) -> list[Configured]:
    """Return every form of a library, as recommended and tuned."""
    if peer is POSSE:
        return [Configured(peer, form, "", peer.recommended) for form in peer.forms]
    begin(f"{peer.name}: tuning")
    found = []
    for form in peer.forms:
        jobs = [plan.job(peer.package, form, one, TUNING_SEED) for one in peer.trials]
        tuned = best_of(peer.trials, run_jobs(jobs, workers=workers))
        found.append(Configured(peer, form, RECOMMENDED, peer.recommended))
        found.append(Configured(peer, form, TUNED, tuned))
    return found


def _regrets(configured: Sequence[Configured], plan: Plan, workers: int) -> dict[str, list[float]]:
    """Return the regret of every seed, by key."""
    different = {one.key: one for one in configured}
    jobs = [
        plan.job(one.peer.package, one.form, one.settings, seed)
        for one in different.values()
        for seed in range(plan.seeds)
    ]
    finals = iter(float(regret[-1]) for regret in run_jobs(jobs, workers=workers))
    return {key: list(islice(finals, plan.seeds)) for key in different}
