"""The benchmark: everyone on the same streams, for regret and for latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from posse.benchmarks.peers import vowpal_wabbit
from posse.benchmarks.peers.blocks import compare_blocks
from posse.benchmarks.peers.catalogue import BLOCKS, PEERS, POSSE, chosen
from posse.benchmarks.peers.entry import RECOMMENDED, TUNED, Peer, version_of, words_of
from posse.benchmarks.peers.jobs import Job, best_of, run_jobs
from posse.benchmarks.peers.play import measure_latency
from posse.benchmarks.peers.report import PeersReport, Row
from posse.benchmarks.peers.stream import TUNING_SEED, draw_stream
from posse.benchmarks.workload import Size
from posse.checks import number, whole_number
from posse.types import Settings

TABLE_SIZE, BLOCK_SIZE = Size(100, 5, 10), Size(1_000, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure.

    Parameters
    ----------
    size, block_size : Size
        Of the table, and of the comparison with task blocks.
    seeds, n_steps : int
    rounds : int
        Of a timing.
    round_seconds : float
        About, for a learner that is slow.
    block_seconds : float
        For the learner with task blocks, in all.
    block_seeds, block_steps : int
    """

    size: Size = TABLE_SIZE
    block_size: Size = BLOCK_SIZE
    seeds: int = 5
    n_steps: int = 2_000
    rounds: int = 5
    round_seconds: float = 0.4
    block_seconds: float = 120.0
    block_seeds: int = 2
    block_steps: int = 20_000

    def __post_init__(self) -> None:
        for name in ("seeds", "n_steps", "rounds", "block_seeds", "block_steps"):
            whole_number(getattr(self, name), name, at_least=1)
        for name in ("round_seconds", "block_seconds"):
            number(getattr(self, name), name, above=0)


QUICK = Plan(
    size=Size(20, 5, 10),
    block_size=Size(100, 5, 10),
    seeds=2,
    n_steps=200,
    rounds=2,
    round_seconds=0.1,
    block_seconds=6.0,
    block_steps=300,
)
"""Enough to see that everything runs."""


def n_stages(names: Sequence[str]) -> int:
    """Return how many stages a run of these entries has."""
    return 2 + 3 * sum(name in PEERS for name in names) + (4 if BLOCKS in names else 0)


def measure_peers(
    plan: Plan, only: Sequence[str] | None, *, workers: int, begin: Callable[[str], None] = lambda _: None
) -> PeersReport:
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
    rows = _rows_of(POSSE, plan, workers, begin)
    for name in names:
        if name in PEERS:
            rows += _rows_of(PEERS[name], plan, workers, begin)
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
        parsed = vowpal_wabbit.time_parsed(draw_stream(plan.size, 0, plan.n_steps))
    return PeersReport(
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


def _rows_of(peer: Peer, plan: Plan, workers: int, begin: Callable[[str], None]) -> list[Row]:
    """Return the rows of one library: every form, recommended and tuned."""
    wanted = [(form, "", POSSE.recommended) for form in POSSE.forms] if peer is POSSE else []
    if peer is not POSSE:
        begin(f"{peer.name}: tuning")
        for form in peer.forms:
            tuned = _tuned(peer, form, plan, workers)
            wanted += [(form, RECOMMENDED, peer.recommended), (form, TUNED, tuned)]
    # Where tuning finds nothing better than what is recommended, that is run once and shown twice.
    different = list({_key(form, setting): (form, setting) for form, _, setting in wanted}.values())
    begin(f"{peer.name}: regret")
    jobs = [
        Job(package=peer.package, form=form, settings=setting, size=plan.size, seed=seed, n_steps=plan.n_steps)
        for form, setting in different
        for seed in range(plan.seeds)
    ]
    finals = iter(float(regret[-1]) for regret in run_jobs(jobs, workers=workers))
    regrets = {_key(form, setting): list(islice(finals, plan.seeds)) for form, setting in different}
    begin(f"{peer.name}: latency")
    stream = draw_stream(plan.size, 0, plan.n_steps)
    latencies = {
        _key(form, setting): measure_latency(
            partial(peer.build, plan.size, form, 0, setting), stream, rounds=plan.rounds, seconds=plan.round_seconds
        )
        for form, setting in different
    }
    return [
        Row(
            library=peer.name,
            form=form,
            configuration=configuration,
            settings=setting,
            regret=regrets[_key(form, setting)],
            latency=latencies[_key(form, setting)],
        )
        for form, configuration, setting in wanted
    ]


def _tuned(peer: Peer, form: str, plan: Plan, workers: int) -> Settings:
    jobs = [
        Job(package=peer.package, form=form, settings=one, size=plan.size, seed=TUNING_SEED, n_steps=plan.n_steps)
        for one in peer.trials
    ]
    return best_of(peer.trials, run_jobs(jobs, workers=workers))


def _key(form: str, settings: Settings) -> tuple[str, str]:
    return form, words_of(settings)
