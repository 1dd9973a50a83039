"""``posse lab bench calibration``: what is believed beside what is true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.errors import InvalidValue
from posse_lab.cli.options import available_cores

if TYPE_CHECKING:
    from rich.console import Console

    from posse_lab.benchmarks.calibration import CalibrationReport


def calibration(
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 100,
    first_seed: Annotated[int, typer.Option(help="The first of them; the others follow.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Meet this situation, e.g. `rare-clicks`; repeatable. A wrong name lists them."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for `calibration.json`.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this Markdown file.")] = None,
) -> None:
    """Compare beliefs with the truth under everyday rewards: noise, spread, click rates, intervals, traffic."""
    from posse.cli.progress import many_runs
    from posse_lab.benchmarks.calibration import calibration_markdown, chosen_situations, measure_calibration
    from posse_lab.benchmarks.machine import write_report

    if markdown is not None and not markdown.parent.is_dir() and markdown.parent != out:
        raise InvalidValue(f"--markdown needs a folder that exists, but {markdown.parent} does not; make it first")
    situations = chosen_situations(only)
    if out is not None:
        make_folder(out)
    with many_runs(seeds * len(situations)) as (begin, advance):
        report = measure_calibration(
            situations,
            seeds=seeds,
            first_seed=first_seed,
            workers=workers if workers is not None else available_cores(),
            begin=begin,
            advance=advance,
        )
    console = table_console()
    _print_report(console, report)
    files = []
    if out is not None:
        files.append(write_report(out, "calibration", report.to_dict()))
    if markdown is not None:
        files.append(markdown)
        markdown.write_text(calibration_markdown(report), encoding="utf-8")
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _print_report(console: Console, report: CalibrationReport) -> None:
    from posse_lab.benchmarks.markdown import verdict

    for name, title in report.titles.items():
        table = titled_table(f"{name}: {title}", ["what"], ["measured", "95 %", "bar", "met"])
        for finding in report.findings:
            if finding.situation == name:
                table.add_row(
                    finding.bar.what,
                    finding.bar.measured_words,
                    finding.interval_words,
                    finding.bar.bar_words,
                    verdict(finding.met),
                )
        console.print()
        console.print(table)
