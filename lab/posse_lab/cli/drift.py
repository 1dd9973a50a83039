"""``posse lab bench drift``: regret in worlds that change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse_lab.cli.options import available_cores


def drift(
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 12,
    first_seed: Annotated[int, typer.Option(help="The first of them; the others follow.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for `drift.json`.")] = None,
) -> None:
    """Regret in worlds that drift and jump: learned drift beside none and fixed half-lives."""
    from posse.cli.progress import many_runs
    from posse_lab.benchmarks.drift import measure_drift
    from posse_lab.benchmarks.machine import write_report
    from posse_lab.benchmarks.markdown import verdict

    if out is not None:
        make_folder(out)
    with many_runs(seeds) as (begin, advance):
        begin("worlds that change")
        report = measure_drift(seeds, first_seed, workers if workers is not None else available_cores(), advance)
    console = table_console()
    methods = list(next(iter(report.worlds.values())))
    table = titled_table(f"Regret, mean of {report.seeds} seeds", ["world"], methods)
    for name, regrets in report.worlds.items():
        table.add_row(name, *(f"{regrets[method]:,.0f}" for method in methods))
    console.print(table)
    for kind, swaps in (("", report.swaps), (" of clicks", report.clicks)):
        table = titled_table(f"Arms{kind} swap places at half time: regret", ["where", "drift"], ["before", "after"])
        for where, halves in swaps.items():
            for method, (before, after) in halves.items():
                table.add_row(where, method, f"{before:,.0f}", f"{after:,.0f}")
        console.print(table)
    seen = sorted(rewards for rewards in report.noticed if rewards is not None)
    console.print(
        f"Clicks: a swap everywhere was noticed in {len(seen)} of {report.seeds} runs"
        + (f", after {seen[len(seen) // 2]} rewards (median; {seen[-1]} at most)" if seen else "")
        + f"; {report.false_alarms} changes were noticed where nothing had changed"
    )
    table = titled_table("Promises", ["what"], ["measured", "bar", "met"])
    for bar in report.bars:
        table.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met))
    console.print(table)
    if out is not None:
        console.print(f"wrote {write_report(out, 'drift', report.to_dict())}", highlight=False, soft_wrap=True)
