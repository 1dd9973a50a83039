"""``posse lab bench peers``: the same stream through other libraries."""

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
from posse_lab.cli.options import available_cores

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from posse.types import Settings
    from posse_lab.benchmarks.peers.blocks import Blocks
    from posse_lab.benchmarks.peers.report import PeersReport


def peers(
    out: Annotated[Path, typer.Option(help="Folder for the report and the picture.")] = Path("bench"),
    seeds: Annotated[int | None, typer.Option(help="Seeds of the table. Default: 5.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of a seed. Default: 2000.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run posse and this one, e.g. `river`; repeatable. A wrong name lists them."),
    ] = None,
    block_seconds: Annotated[
        float | None, typer.Option(help="Time for bayesianbandits with task blocks. Default: 120.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes for runs that are not timed. Default: all cores.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")
    ] = False,
) -> None:
    """Put the same stream through Vowpal Wabbit, river, MABWiser and bayesianbandits: latency and regret."""
    from posse_lab.benchmarks.machine import machine, write_report
    from posse_lab.benchmarks.peers.catalogue import chosen
    from posse_lab.benchmarks.peers.run import QUICK, Plan, measure_peers, n_stages

    plan = QUICK if quick else Plan()
    given: Settings = {"seeds": seeds, "n_steps": steps, "block_seconds": block_seconds}
    plan = replace(plan, **{name: value for name, value in given.items() if value is not None})
    names, _ = chosen(only)
    make_folder(out)
    with stages(n_stages(plan, names), moves=False) as begin:
        report = measure_peers(plan, only, workers=workers or available_cores(), begin=begin)
    console = table_console()
    console.print(machine().words(), highlight=False, soft_wrap=True)
    _print_report(console, report)
    path = write_report(out, "peers", report.to_dict())
    files = [path, *_draw(console, path)]
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _draw(console: Console, path: Path) -> list[Path]:
    """Draw the report that was written; say so if there is nothing to draw with."""
    from posse_lab.plotting.peers import plot_peers

    pictures = [path.with_suffix(".png"), path.with_suffix(".svg")]
    try:
        plot_peers(json.loads(path.read_text(encoding="utf-8")), pictures)
    except MissingDependency as missing:
        console.print(f"no picture: {missing}", highlight=False, markup=False, soft_wrap=True)
        return []
    return pictures


def _print_report(console: Console, report: PeersReport) -> None:
    tables = [entries_table(report)]
    if report.blocks is not None:
        tables.append(blocks_table(report.blocks))
    tables.append(bars_table(report))
    for table in tables:
        console.print()
        console.print(table)
    for line in notes(report):
        console.print(line, highlight=False, markup=False)


def entries_table(report: PeersReport) -> Table:
    """Return the table of all entries."""
    from posse_lab.benchmarks.bars import quantity

    title = f"{report.size.words}, {report.n_steps:,} steps, {report.seeds} seeds; µs per call"
    table = titled_table(title, [""], ["decide", "update", "average\nupdate", "input", "regret", "± s.e."])
    library = ""
    for row in report.rows:
        if row.library != library:
            library = row.library
            version = report.versions[_package(library)]
            table.add_row(f"[bold]{library}[/bold] {version}")
        latency = row.latency
        building = latency.decide_built.best - latency.decide.best + latency.update_built.best - latency.update.best
        times = (latency.decide.best, latency.update.best, latency.update_average.best, max(building, 0.0))
        error = row.standard_error
        words = f"{row.form}, {row.configuration}" if row.configuration else row.form
        table.add_row(
            f"  {words}",
            *(quantity(value * 1e6) for value in times),
            f"{row.mean:,.0f}",
            "" if error is None else f"{error:,.0f}",
        )
    table.add_row(
        "[bold]any arm at random[/bold]", "", "", "", "", f"{sum(report.random) / len(report.random):,.0f}", ""
    )
    return table


def _package(library: str) -> str:
    from posse_lab.benchmarks.peers.catalogue import PEERS

    return next((name for name, peer in PEERS.items() if peer.name == library), "posse")


def blocks_table(blocks: Blocks) -> Table:
    """Return the table of the comparison with task blocks."""
    from posse_lab.benchmarks.bars import quantity
    from posse_lab.benchmarks.peers import ours

    title = f"{blocks.size.words}; bayesianbandits with task blocks, {blocks.solver}; average µs"
    columns = ["decide", "update", "first\ndecide", "first\nupdate", "steps", "regret", "ebmTS", "ebmUCB"]
    table = titled_table(title, [""], columns)
    by_name = {row.configuration: row for row in blocks.rows}
    for name in blocks.known:
        calls = [state[name] for state in (blocks.known, blocks.first)]
        times = [
            quantity(one.best * 1e6) for latency in calls for one in (latency.decide_average, latency.update_average)
        ]
        row = by_name.get(name)
        rest = []
        if row is not None:
            means = (sum(some) / len(some) for some in (row.n_steps, row.regret))
            rest = [
                *(f"{mean:,.0f}" for mean in means),
                *(f"{row.ratio(policy):.2f}" for policy in (ours.TS, ours.UCB)),
            ]
        table.add_row(name if row else f"posse {name}", *times, *rest)
    return table


def bars_table(report: PeersReport) -> Table:
    """Return the promises and what was measured."""
    from posse_lab.benchmarks.markdown import verdict

    table = titled_table("What was promised", ["what"], ["measured", "bar", "met"])
    for bar in report.bars:
        table.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met) or "–")
    return table


def notes(report: PeersReport) -> list[str]:
    """Return what else there is to say."""
    from posse_lab.benchmarks.bars import quantity
    from posse_lab.benchmarks.peers.entry import INSTALL, TUNED, words_of

    lines = [
        "decide, update: the middle one of all calls of a stream, best of the rounds. average update: with everything "
        "that happens in a stream, for posse the refreshes of its prior. input: what it takes to make the text, "
        "dictionary or matrix that the library wants."
    ]
    tuned = [f"{row.library} {row.form}: {words_of(row.settings)}" for row in report.rows if row.configuration == TUNED]
    if report.blocks is not None:
        tuned += [f"task blocks: {words_of(row.settings)}" for row in report.blocks.rows if row.configuration == TUNED]
        lines.append(
            "Task blocks: decide and update with rewards of every arm in every task, first: in the first steps of a "
            "stream. Regret is over the steps that the blocks made in their time; ebmTS, ebmUCB: theirs over the same "
            "steps, in parts of it."
        )
    if tuned:
        lines.append(f"Tuned on another seed: {'; '.join(tuned)}.")
    if report.parsed is not None:
        lines.append(
            "A prediction of Vowpal Wabbit from an example parsed beforehand takes "
            f"{quantity(report.parsed.best * 1e6)} µs; a new context has to be parsed, so it is timed from text."
        )
    lines += [f"skipped {name}: {reason}" for name, reason in report.skipped.items()]
    if not report.peers and report.blocks is None and report.skipped:
        lines.append(f"No peer is installed, so only posse's own entries ran; to compare: {INSTALL}")
    return lines
