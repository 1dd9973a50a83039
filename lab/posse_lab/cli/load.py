"""``posse lab bench serve``: what the service holds under load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.cli.progress import stages
from posse.errors import MissingDependency

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from posse.types import Settings
    from posse_lab.benchmarks.serve import ServeReport


def serve(
    out: Annotated[Path, typer.Option(help="Folder for the report and the picture.")] = Path("bench"),
    seconds: Annotated[float | None, typer.Option(help="How long is measured, at most an hour. Default: 60.")] = None,
    connections: Annotated[
        int | None,
        typer.Option(help="Pairs of a decision and its reward under way at once, for each process. Default: 16."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Pairs a second that arrive at random, however the service is doing; latencies then include waiting. "
            "Default: a pair begins when another ends."
        ),
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks of the fleet. Default: 10,000.")] = None,
    sqlite: Annotated[bool, typer.Option("--sqlite/--no-sqlite", help="Measure one process on SQLite.")] = True,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Measure two processes on a PostgreSQL server that is started for it.")
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Measure two processes on this PostgreSQL: postgresql://user@host/name."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")
    ] = False,
) -> None:
    """Start the service and load it with decisions and rewards: pairs a second, latency, memory, none lost."""
    from posse_lab.benchmarks.machine import machine, write_report
    from posse_lab.benchmarks.serve import QUICK, Plan, measure_serve, n_stages

    given: Settings = {
        "seconds": seconds, "connections": connections, "rate": rate, "n_tasks": tasks, "database": database,
    }  # fmt: skip
    plan = replace(
        QUICK if quick else Plan(),
        sqlite=sqlite,
        postgres=postgres or database is not None,
        **{name: value for name, value in given.items() if value is not None},
    )
    make_folder(out)
    with stages(n_stages(plan), moves=False) as begin:
        report = measure_serve(plan, begin)
    console = table_console()
    console.print(machine().words(), highlight=False, soft_wrap=True)
    for table in (runs_table(report), latency_table(report), bars_table(report)):
        console.print()
        console.print(table)
    for line in notes(report):
        console.print(line, highlight=False, markup=False)
    path = write_report(out, "serve", report.to_dict())
    for file in [path, *_draw(console, path)]:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _draw(console: Console, path: Path) -> list[Path]:
    """Draw the report that was written; say so if there is nothing to draw with."""
    from posse_lab.plotting.serve import plot_serve

    pictures = [path.with_suffix(".png"), path.with_suffix(".svg")]
    try:
        plot_serve(json.loads(path.read_text(encoding="utf-8")), pictures)
    except MissingDependency as missing:
        console.print(f"no picture: {missing}", highlight=False, markup=False, soft_wrap=True)
        return []
    return pictures


def runs_table(report: ServeReport) -> Table:
    """Return what every storage held."""
    from posse_lab.benchmarks.bars import quantity

    plan = report.plan
    size = f"N={plan.n_tasks:,} K={plan.n_arms} d={plan.n_features}"
    table = titled_table(
        f"{size}, {plan.connections} connections a process, {plan.seconds:g} s",
        ["storage"],
        [
            "pro-\ncesses",
            "pairs\na second",
            "failed",
            "MB at\nfirst",
            "MB in\nthe end",
            "bytes\na pair",
            "cores",
            "of the\nload",
        ],
    )
    for run in report.runs:
        load = run.load
        lasted = plan.warm + load.seconds
        memory = [f"{bytes_now / 1e6:,.0f}" for bytes_now in (run.memory[0], run.memory[-1])] if run.memory else "––"
        cores = "–" if run.processor_seconds is None else f"{run.processor_seconds / lasted:.2f}"
        table.add_row(
            run.storage,
            str(run.deciders),
            quantity(run.pairs_per_second),
            f"{sum(load.errors.values()):,}",
            *memory,
            f"{run.database_bytes / max(1, load.acknowledged):,.0f}",
            cores,
            f"{load.processor_seconds / lasted:.2f}",
        )
    return table


def latency_table(report: ServeReport) -> Table:
    """Return how long requests took."""
    from posse_lab.benchmarks.bars import quantity
    from posse_lab.benchmarks.load import QUANTILES

    columns = ["requests", "mean", *(f"{100 * share:g} %" for share in QUANTILES.values()), "most"]
    table = titled_table("Latency, ms", ["storage", "request"], columns)
    for run in report.runs:
        for kind, latencies in (("decide", run.load.decide), ("reward", run.load.reward)):
            times = (latencies.mean, *latencies.quantiles.values(), latencies.most)
            table.add_row(run.storage, kind, f"{latencies.requests:,}", *(quantity(one * 1e3) for one in times))
    return table


def bars_table(report: ServeReport) -> Table:
    """Return the promises and what was measured."""
    from posse_lab.benchmarks.markdown import verdict

    table = titled_table("What was promised", ["what"], ["measured", "bar", "met"])
    for bar in report.bars:
        table.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met) or "–")
    return table


def notes(report: ServeReport) -> list[str]:
    """Return what else there is to say."""
    rate = report.plan.rate
    arrival = (
        "A pair begins when another ends"
        if rate is None
        else f"Pairs arrive at random, {rate:,g} a second, and latencies of decisions include waiting for a connection"
    )
    lines = [
        f"{arrival}. Load and service share this machine. A reward is answered when it is on disk. MB: resident memory "
        "of all processes of the service; it is flat if its mean in the last quarter is at most 5 % or 20 MB above "
        "that in the second. cores: processor time over time. bytes a pair: by which the database grew."
    ]
    for run in report.runs:
        load = run.load
        if load.errors:
            lines.append(f"{run.storage}: failed: {', '.join(f'{n:,} x {kind}' for kind, n in load.errors.items())}")
        if load.unserved:
            lines.append(f"{run.storage}: {load.unserved:,} pairs had arrived and were not begun at the end")
        lines.append(f"{run.storage}: {run.expected:,} rewards were acknowledged, {run.counted:,} are counted")
        missing = [bar for bar in run.bars if bar.measured is None]
        lines += [f"not measured, {bar.note}: {bar.what}" for bar in missing]
    return lines
