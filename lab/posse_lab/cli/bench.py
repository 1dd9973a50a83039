"""``posse lab bench``: fixed benchmarks."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.console import table_console
from posse.cli.options import make_folder
from posse.errors import InvalidValue
from posse_lab.cli.calibration import calibration
from posse_lab.cli.distributed import distributed
from posse_lab.cli.drift import drift
from posse_lab.cli.features import features
from posse_lab.cli.load import serve
from posse_lab.cli.options import AddressOption, EngineOption, available_cores
from posse_lab.cli.peers import peers
from posse_lab.cli.soak import soak
from posse_lab.cli.speed import scale, step

if TYPE_CHECKING:
    from rich.console import Console

    from posse_lab.benchmarks.regret import Ratio, RegretReport

app = typer.Typer(no_args_is_help=True)
app.command()(step)
app.command()(scale)
app.command()(peers)
app.command()(serve)
app.command()(soak)
app.command()(calibration)
app.command()(distributed)
app.command()(drift)
app.command()(features)

LONGEST_NAME = 16  # of a setting: names are typed after --only, so they are never cut
WIDE = 130  # columns from which an interval fits on the line of its ratio


@app.callback()
def _bench() -> None:
    """Run a fixed benchmark."""


@app.command()
def regret(
    seeds: Annotated[int, typer.Option(help="Number of seeds; slow worlds use at most 20.")] = 100,
    first_seed: Annotated[int, typer.Option(help="The first of them; the others follow.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores, of the cluster with Ray.")] = None,
    engine: EngineOption = "processes",
    address: AddressOption = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets. Default: the one that POSSE_DATA names.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run this setting, e.g. `balanced`; repeatable. A wrong name lists them."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for one result file per setting and `regret.json`; an interrupted run continues."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this Markdown file.")] = None,
) -> None:
    """Compare the evidence prior with the paper's, the known one and the rivals, in all settings."""
    from posse.cli.progress import many_runs
    from posse.simulation.engines import using_engine, usual_workers
    from posse_lab.benchmarks.markdown import regret_markdown
    from posse_lab.benchmarks.regret import measure, plan, seeds_of, summarise
    from posse_lab.benchmarks.settings import SETTINGS

    if markdown is not None and not markdown.parent.is_dir() and markdown.parent != out:
        raise InvalidValue(f"--markdown needs a folder that exists, but {markdown.parent} does not; make it first")
    planned = plan(only, data)
    if out is not None:
        make_folder(out)
    counts = {name: seeds_of(SETTINGS[name], seeds) for name in planned.worlds}
    console = table_console()
    results = {}
    with using_engine(engine, address), many_runs(sum(counts.values())) as (begin, advance):
        cores = workers if workers is not None else usual_workers(available_cores())
        for name, world in planned.worlds.items():
            begin(name)
            results[name] = measure(
                SETTINGS[name], world, seeds=seeds, first_seed=first_seed, workers=cores, out=out, progress=advance
            )
    report = summarise(results, planned.skipped)
    _print_report(console, report)
    files = []
    if out is not None:
        files.append(out / "regret.json")
        files[-1].write_text(json_module.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    if markdown is not None:
        files.append(markdown)
        markdown.write_text(regret_markdown(report), encoding="utf-8")
    for name, reason in report.skipped.items():
        console.print(f"skipped {name}: {reason}", highlight=False, soft_wrap=True)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _print_report(console: Console, report: RegretReport) -> None:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    from posse_lab.benchmarks.markdown import verdict
    from posse_lab.benchmarks.settings import EVIDENCE, EVIDENCE_UCB, PAPER_UCB

    def cell(ratio: Ratio) -> str:
        low, high = ratio.interval
        if console.width >= WIDE:
            return f"{ratio} {ratio.bar and f'[{ratio.bar}]'}"
        return f"{ratio.ratio:.3f} {ratio.bar and f'[{ratio.bar}]'}\n{low:.3f}-{high:.3f}"

    def table(title: str, left: Sequence[str], right: Sequence[str], rest: Sequence[str]) -> Table:
        made = Table(
            title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False
        )
        for heading in left:
            made.add_column(heading, min_width=LONGEST_NAME)
        for heading in right:
            made.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
        for heading in rest:
            made.add_column(heading, no_wrap=True)
        return made

    if report.rows:
        regrets = table(
            "Cumulative regret; ratios with their bars and 95 % intervals",
            ["setting"],
            ["seeds", "paper", "known", "evidence"],
            ["UCB/paper", "UCB/known", "met"],
        )
        for row in report.rows:
            regrets.add_row(
                row.setting,
                str(row.seeds),
                *(f"{row.methods[name].regret:.0f}" for name in (PAPER_UCB, row.known, EVIDENCE_UCB)),
                escape(cell(row.to_paper)),
                escape(cell(row.to_known)),
                verdict(row.met),
            )
        console.print(regrets)
    if report.everyday:
        everyday = table(
            "Everyday rewards: cumulative regret; the ratio to the best rival with its bar and 95 % interval",
            ["setting"],
            ["seeds", *EVIDENCE],
            ["best rival", "UCB/rival", "met"],
        )
        for one in report.everyday:
            everyday.add_row(
                one.setting,
                str(one.seeds),
                *(f"{one.methods[name].regret:.0f}" for name in EVIDENCE),
                "" if one.rival is None else f"{one.methods[one.rival].regret:.0f} {one.rival}",
                escape(cell(one.ratios[0])) if one.ratios else "",
                verdict(one.met),
            )
        console.print(everyday)
    if report.checks:
        title = "Units, offsets, and ordinary tasks beside outlier tasks"
        checks = table(title, ["regret of", "over that of"], ["seeds"], ["ratio", "met"])
        for check in report.checks:
            checks.add_row(check.first, check.second, str(check.seeds), escape(cell(check)), verdict(check.met))
        console.print(checks)
