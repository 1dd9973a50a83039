"""``posse lab bench distributed``: what tasks, rows and messages cost, and what a large cluster takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.cli.progress import stages


def distributed(
    out: Annotated[Path, typer.Option(help="Folder for `distributed.json`.")] = Path("bench"),
    rows: Annotated[int | None, typer.Option(help="Rows to stream; as many as the time allows.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks of all fleets. Default: a million.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")
    ] = False,
) -> None:
    """Time streaming, one process and shards on Ray, and say what 10^8 tasks on 16 machines would take."""
    from posse_lab.benchmarks.distributed import QUICK, Plan, measure_distributed
    from posse_lab.benchmarks.machine import machine, write_report

    make_folder(out)
    plan = QUICK if quick else Plan()
    if rows is not None:
        plan = replace(plan, rows=rows, sharded_rows=min(rows, plan.sharded_rows))
    if tasks is not None:
        plan = replace(plan, n_tasks=tasks, sharded_tasks=tasks)
    with stages(4, moves=False) as begin:
        report = measure_distributed(plan, begin)
    console = table_console()
    table = titled_table(f"Measured: {machine().words()}", ["what"], ["streaming", "one process", "Ray"])
    names = dict.fromkeys([*report.streaming, *report.one, *report.sharded])
    for name in names:
        parts = (report.streaming, report.one, report.sharded)
        table.add_row(name.replace("_", " "), *(f"{part[name]:,.6g}" if name in part else "" for part in parts))
    console.print(table)
    gaps = ", ".join(f"{name.replace('_', ' ')} {gap:.1e}" for name, gap in report.agreement.items())
    console.print(f"population on Ray against one process, largest relative difference: {gaps}", highlight=False)
    sweep, same = report.sweep, "the same bytes" if report.sweep["same_bytes"] else "OTHER BYTES"
    console.print(
        f"a simulation on Ray with two workers: {sweep['speed_up']:.2f} times as fast as one process "
        f"({sweep['one_process_seconds']:.3g} s and {sweep['ray_seconds']:.3g} s), {same}",
        highlight=False,
    )
    table = titled_table("A large cluster, at that", ["what"], ["value"])
    for name, value in report.model.items():
        table.add_row(name.replace("_", " "), f"{value:,.4g}")
    console.print(table)
    for line in report.assumptions:
        console.print(f"assumes {line}", highlight=False, soft_wrap=True)
    console.print(f"wrote {write_report(out, 'distributed', report.to_dict())}", highlight=False, soft_wrap=True)
