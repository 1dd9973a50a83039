"""``posse lab bench step`` and ``scale``: how fast, and how far from the promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.cli.progress import stages
from posse.errors import MissingDependency

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from posse.types import Settings
    from posse_lab.benchmarks.bars import Bar
    from posse_lab.benchmarks.scale import ScaleReport
    from posse_lab.benchmarks.step import StepReport

Out = Annotated[Path, typer.Option(help="Folder for the report and the picture.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: see that it runs; the numbers mean little.")]


def step(out: Out = Path("bench"), quick: Quick = False) -> None:
    """Time decide, update and refresh against tasks, arms and features."""
    from posse_lab.benchmarks.step import QUICK, Plan, measure_step

    make_folder(out)
    plan = QUICK if quick else Plan()
    with stages(plan.n_stages, moves=False) as begin:
        report = measure_step(plan, begin)
    console = _console()
    _print_step(console, report)
    _print_bars(console, report.bars)
    _leave(console, out, "step", report.to_dict())


def scale(
    out: Out = Path("bench"),
    largest: Annotated[int, typer.Option(help="Tasks of the largest fleet; a million needs 10 GB of memory.")] = 10**6,
    quick: Quick = False,
) -> None:
    """Teach fleets of 1,000 to 1,000,000 tasks: throughput, memory, refresh, decisions meanwhile."""
    from posse_lab.benchmarks.scale import jobs_up_to, measure_scale

    jobs = jobs_up_to(largest, quick=quick)
    make_folder(out)
    with stages(moves=False) as begin:
        report = measure_scale(jobs, begin)
    console = _console()
    _print_scale(console, report)
    _print_bars(console, report.bars)
    for note in report.notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
    _leave(console, out, "scale", report.to_dict(), picture=bool(report.results))


def _console() -> Console:
    from posse_lab.benchmarks.machine import machine

    console = table_console()
    console.print(machine().words(), highlight=False, soft_wrap=True)
    return console


def _print_step(console: Console, report: StepReport) -> None:
    from posse_lab.benchmarks import calls
    from posse_lab.benchmarks.bars import quantity

    headings = {
        calls.CHOOSE_TS: "choose\nTS",
        calls.CHOOSE_UCB: "choose\nUCB",
        calls.UPDATE: "update",
        calls.DECIDE: "Posse.\ndecide",
        calls.DECIDE_NAMED: "by\nname",
        calls.DECIDE_FIRST: "first\nafter",
        calls.REWARD: "Posse.\nreward",
        calls.REFRESH: "refresh\nms",
    }
    found = {(row.what, row.size): row for row in report.rows}
    table = titled_table(
        "µs per call: the best of the rounds, below it their median", [], ["N", "K", "d", *headings.values()]
    )
    for size in dict.fromkeys(row.size for row in report.rows if row.what == calls.DECIDE):
        rows = {what: found[what, size] for what in headings}
        units = {what: 1e3 if what == calls.REFRESH else 1e6 for what in headings}
        table.add_row(
            *(f"{number:,}" for number in size),
            *(f"{quantity(row.best * units[w])}\n{quantity(row.median * units[w])}" for w, row in rows.items()),
        )
    _show(console, table)
    console.print("first after: of a task's first decision since a refresh", highlight=False)
    many = titled_table("Many at once", ["what", "size"], ["rows a second", "median", "µs a row"])
    for what in (calls.AMORTISED, calls.LEARN_MANY, calls.DECIDE_MANY, calls.DECIDE_TABLE):
        row = report.row(what)
        many.add_row(what, row.size.words, quantity(1 / row.best), quantity(1 / row.median), quantity(row.best * 1e6))
    _show(console, many)


def _print_scale(console: Console, report: ScaleReport) -> None:
    from posse_lab.benchmarks.bars import quantity

    def shown(latencies: Settings, which: str) -> str:
        return quantity(latencies[which] * 1e6) if latencies else "–"

    def gigabytes(value: float | None) -> str:
        return "–" if value is None else f"{value / 1e9:.2f}"

    columns = ["tasks", "learned\na second", "refresh\ns", "GB", "most\nGB"]
    columns += ["decide\nµs", "first\nµs", "99.9 %\nµs", "in re-\nfresh", "paced\nµs"]
    table = titled_table("Fleets: learning, memory, latency of a decision", [], columns)
    for n_tasks, result in report.results.items():
        table.add_row(
            f"{n_tasks:,}",
            quantity(result["rows_per_second"]),
            quantity(result["refresh"]),
            gigabytes(result["resident"]),
            gigabytes(result["peak"]),
            shown(result["decide"], "median"),
            shown(result["decide_first"], "median"),
            shown(result["decide"], "p99.9"),
            shown(result["decide_behind"], "p99.9"),
            shown(result["decide_paced"], "p99.9"),
        )
    _show(console, table)
    console.print(
        "learned: rewards a second through learn_many, tables of a million rows; GB: resident when all is learned and "
        "the prior of all arms estimated; most: until then, the tables included. Decide: the median; first: of a "
        "task's first decision since a refresh. In refresh: 99.9 % of decisions while one runs in the background; "
        "paced: the same with a pause of a millisecond before each.",
        highlight=False,
    )
    files = titled_table("Files", [], ["tasks", "MB", "save s", "load s", "load of one task s"])
    for n_tasks, result in report.results.items():
        if saved := result["files"]:
            times = (quantity(saved[what]) for what in ("save", "load", "load_one"))
            files.add_row(f"{n_tasks:,}", quantity(saved["bytes"] / 1e6), *times)
    if files.row_count:
        _show(console, files)


def _print_bars(console: Console, bars: Sequence[Bar]) -> None:
    from posse_lab.benchmarks.markdown import verdict

    table = titled_table("What was promised", ["what"], ["measured", "bar", "met"])
    missing: dict[str, list[str]] = {}
    for bar in bars:
        if bar.measured is None:
            missing.setdefault(bar.note or "nothing to measure", []).append(bar.what)
        table.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met) or "–")
    _show(console, table)
    for note, whats in missing.items():
        console.print(f"not measured, {note}: {', '.join(whats)}", highlight=False)


def _show(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _leave(console: Console, out: Path, name: str, data: Settings, *, picture: bool = True) -> None:
    """Write the report and, if there is anything to draw and something to draw with, the picture."""
    import json

    from posse_lab.benchmarks.machine import write_report

    path = write_report(out, name, data)
    files = [path]
    if picture:
        try:
            draw = _drawing(name)
            pictures = [out / f"{name}.png", out / f"{name}.svg"]
            draw(json.loads(path.read_text(encoding="utf-8")), pictures)
            files += pictures
        except MissingDependency as missing:
            console.print(f"no picture: {missing}", highlight=False, soft_wrap=True)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _drawing(name: str) -> Callable[[Any, Sequence[Path]], None]:
    from posse_lab.plotting import bench

    return {"step": bench.plot_step, "scale": bench.plot_scale}[name]
