"""``posse lab bench``: fixed benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.options import make_folder
from posse.cli.progress import stages
from posse_lab.cli.options import AddressOption, EngineOption, available_cores

if TYPE_CHECKING:
    from posse_lab.benchmarks.report import Begin, Report

app = typer.Typer(no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder for the report.")]
OutOrNone = Annotated[Path | None, typer.Option(help="Folder for the report, and of regret for result files.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")]
Seeds = Annotated[int, typer.Option(help="Number of seeds.")]
FirstSeed = Annotated[int, typer.Option(help="The first of them; the others follow.")]
Workers = Annotated[int | None, typer.Option(help="Processes. Default: all cores.")]
Only = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Run this; repeatable. A wrong name lists them.")]
BENCH = Path("bench")


@app.callback()
def _bench() -> None:
    """Run a fixed benchmark."""


@app.command()
def step(out: Out = BENCH, quick: Quick = False) -> None:
    """Time decide, update and refresh against tasks, arms and features."""
    from posse_lab.benchmarks.step import QUICK, Plan, measure_step

    plan = QUICK if quick else Plan()
    _timed(out, plan.n_stages, partial(measure_step, plan))


@app.command()
def scale(
    out: Out = BENCH,
    largest: Annotated[int, typer.Option(help="Tasks of the largest fleet; a million needs 10 GB of memory.")] = 10**6,
    quick: Quick = False,
) -> None:
    """Teach fleets of 1,000 to 1,000,000 tasks: throughput, memory, refresh, decisions meanwhile."""
    from posse_lab.benchmarks.scale import jobs_up_to, measure_scale

    jobs = jobs_up_to(largest, quick=quick)
    _timed(out, len(jobs), partial(measure_scale, jobs))


@app.command()
def distributed(
    out: Out = BENCH,
    rows: Annotated[int | None, typer.Option(help="Rows to stream; as many as the time allows.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks of all fleets. Default: a million.")] = None,
    quick: Quick = False,
) -> None:
    """Time streaming, one process and shards on Ray, and say what 10^8 tasks on 16 machines would take."""
    from posse_lab.benchmarks.distributed import QUICK, Plan, measure_distributed

    plan = QUICK if quick else Plan()
    if rows is not None:
        plan = replace(plan, rows=rows, sharded_rows=min(rows, plan.sharded_rows))
    if tasks is not None:
        plan = replace(plan, n_tasks=tasks, sharded_tasks=tasks)
    _timed(out, 3, partial(measure_distributed, plan))


@app.command()
def peers(
    out: Out = BENCH,
    seeds: Annotated[int | None, typer.Option(help="Seeds of the table. Default: 5.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of a seed. Default: 2000.")] = None,
    only: Only = None,
    workers: Workers = None,
    quick: Quick = False,
) -> None:
    """Put the same stream through Vowpal Wabbit, river, MABWiser and bayesianbandits: latency and regret."""
    from posse_lab.benchmarks.peers.entries import chosen
    from posse_lab.benchmarks.peers.run import QUICK, Plan, measure_peers

    plan = _given(QUICK if quick else Plan(), seeds=seeds, n_steps=steps)
    peers, _ = chosen(only)
    _timed(out, plan.n_stages(peers), partial(measure_peers, plan, only, workers or available_cores()))


@app.command()
def serve(
    out: Out = BENCH,
    seconds: Annotated[float | None, typer.Option(help="How long is measured, at most an hour. Default: 60.")] = None,
    connections: Annotated[
        int | None,
        typer.Option(help="Pairs of a decision and its reward under way at once, for each process. Default: 16."),
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks of the fleet. Default: 10,000.")] = None,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Also two processes on a PostgreSQL server that is started for it.")
    ] = False,
    quick: Quick = False,
) -> None:
    """Start the service and load it with decisions and rewards: pairs a second, latency, memory, none lost."""
    from posse_lab.benchmarks.serve import QUICK, Plan, measure_serve, n_stages

    plan = replace(QUICK if quick else Plan(), postgres=postgres)
    plan = _given(plan, seconds=seconds, connections=connections, n_tasks=tasks)
    _timed(out, n_stages(plan), lambda begin: measure_serve(plan, begin))


@app.command()
def soak(
    seconds: Annotated[float | None, typer.Option(help="How long. Default: 1,800.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second. Default: 1,000.")] = None,
    every: Annotated[float | None, typer.Option(help="Seconds between two disturbances. Default: 15.")] = None,
    kills: Annotated[bool, typer.Option("--kills/--no-kills", help="Kill the service, too.")] = True,
    quick: Quick = False,
) -> None:
    """Load a service while it is killed, erased from, exported, given new fleets and wrong clocks; nothing may be lost.

    Exit status 1 if a promise was not kept.
    """
    from posse_lab.benchmarks.soak import QUICK, Plan, measure_soak

    plan = _given(replace(QUICK if quick else Plan(), kills=kills), seconds=seconds, rate=rate, every=every)
    report = measure_soak(plan, lambda words: typer.echo(words, err=True))
    report.show()
    if not report.kept:
        raise typer.Exit(1)


@app.command()
def regret(
    seeds: Annotated[int, typer.Option(help="Number of seeds; slow worlds use at most 20.")] = 100,
    first_seed: FirstSeed = 0,
    workers: Workers = None,
    engine: EngineOption = "processes",
    address: AddressOption = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets. Default: the one that POSSE_DATA names.")
    ] = None,
    only: Only = None,
    out: OutOrNone = None,
) -> None:
    """Compare the evidence prior with the paper's, the known one and the rivals, in all settings."""
    from posse.simulation.engines import using_engine, usual_workers
    from posse_lab.benchmarks.regret import measure, plan, seeds_of, summarise
    from posse_lab.benchmarks.settings import SETTINGS
    from posse_lab.cli.progress import many_runs

    planned = plan(only, data)
    if out is not None:
        make_folder(out)
    counts = {name: seeds_of(SETTINGS[name], seeds) for name in planned.worlds}
    results = {}
    with using_engine(engine, address), many_runs(sum(counts.values())) as (begin, advance):
        cores = workers if workers is not None else usual_workers(available_cores())
        for name, world in planned.worlds.items():
            begin(name)
            results[name] = measure(
                SETTINGS[name], world, seeds=seeds, first_seed=first_seed, workers=cores, out=out, progress=advance
            )
    summarise(results, planned.skipped).show(out)


@app.command()
def calibration(
    seeds: Seeds = 100, first_seed: FirstSeed = 0, workers: Workers = None, only: Only = None, out: OutOrNone = None
) -> None:
    """Compare beliefs with the truth under everyday rewards: noise, spread, click rates, intervals, traffic."""
    from posse_lab.benchmarks.calibration.report import measure_calibration
    from posse_lab.benchmarks.calibration.situations import chosen_situations

    situations = chosen_situations(only)
    cores = workers or available_cores()
    measure = partial(measure_calibration, situations, seeds=seeds, first_seed=first_seed, workers=cores)
    _counted(out, seeds * len(situations), measure)


@app.command()
def drift(seeds: Seeds = 12, first_seed: FirstSeed = 0, workers: Workers = None, out: OutOrNone = None) -> None:
    """Regret in worlds that drift and jump: learned drift beside none and fixed half-lives."""
    from posse_lab.benchmarks.drift import measure_drift

    _counted(out, seeds, partial(measure_drift, seeds, first_seed, workers or available_cores()))


@app.command()
def features(
    seeds: Seeds = 20, first_seed: FirstSeed = 0, workers: Workers = None, only: Only = None, out: OutOrNone = None
) -> None:
    """Compare fleets that know regions or categories with those that do not; time catalogues; order MTTS."""
    from posse_lab.benchmarks.features import RATIOS, measure_features

    chosen = range(first_seed, first_seed + seeds)
    _counted(out, len(only or RATIOS), partial(measure_features, only, chosen, workers or available_cores()))


def _timed(out: Path, n_stages: int, measure: Callable[[Begin], Report]) -> None:
    """Run a benchmark of so many stages, show what it found and write it."""
    make_folder(out)
    with stages(n_stages) as begin:
        report = measure(begin)
    report.show(out)


def _counted(out: Path | None, total: int, measure: Callable[..., Report]) -> None:
    """Run a benchmark that says which part begins and how many are done, show what it found and write it."""
    from posse_lab.cli.progress import many_runs

    if out is not None:
        make_folder(out)
    with many_runs(total) as (begin, advance):
        report = measure(begin=begin, advance=advance)
    report.show(out)


def _given(plan: Any, **changes: Any) -> Any:
    """Return a plan with the options that were given."""
    return replace(plan, **{name: value for name, value in changes.items() if value is not None})
