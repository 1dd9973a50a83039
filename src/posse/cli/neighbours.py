"""``posse bench neighbours``: what other fleets notice of a large one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.cli.progress import stages


def neighbours(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("bench"),
    tasks: Annotated[int | None, typer.Option(help="Tasks of the large fleet. Default: 100,000.")] = None,
    decisions: Annotated[int | None, typer.Option(help="Its decisions, all rewarded. Default: 500,000.")] = None,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="On a PostgreSQL server that is started for it. Default: on SQLite.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")
    ] = False,
) -> None:
    """Look at, snapshot, erase from, export and delete a large fleet, and time decisions of another one."""
    from posse.lab.benchmarks.bars import quantity
    from posse.lab.benchmarks.machine import machine, write_report
    from posse.lab.benchmarks.markdown import verdict
    from posse.lab.benchmarks.neighbours import N_STAGES, QUICK, RATE, Plan, measure_neighbours, summary

    given = {"n_tasks": tasks, "n_decisions": decisions}
    plan = replace(
        QUICK if quick else Plan(),
        postgres=postgres,
        **{name: value for name, value in given.items() if value is not None},
    )
    make_folder(out)
    with stages(N_STAGES, moves=False) as begin:
        report = measure_neighbours(plan, begin)
    console = table_console()
    console.print(machine().words(), highlight=False, soft_wrap=True)
    size = f"N={plan.n_tasks:,} K={plan.n_arms} d={plan.n_features}, {plan.n_decisions:,} decisions"
    table = titled_table(
        f"Decisions of another fleet beside one of {size}; ms", ["meanwhile"],
        ["seconds", "decisions", "50 %", "99 %", "most", "MB", "all MB"],
    )  # fmt: skip
    for name, *numbers in summary(report):
        table.add_row(name, *map(quantity, numbers))
    promised = titled_table("What was promised", ["what"], ["measured", "bar", "met"])
    for bar in report.bars:
        promised.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met) or "–")
    for one in (table, promised):
        console.print()
        console.print(one)
    console.print(
        f"Decisions are due {RATE:g} times a second and measured from then. "
        "MB: the most resident memory of the process, and of it and all that it started.",
        highlight=False,
    )
    console.print(f"wrote {write_report(out, 'neighbours', report.to_dict())}", highlight=False, soft_wrap=True)
