"""``posse lab reproduce``: the paper's figures and claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.console import table_console
from posse.cli.options import make_folder
from posse.errors import InvalidValue
from posse_lab.cli.options import AddressOption, EngineOption, available_cores

if TYPE_CHECKING:
    from posse_lab.reproduction.chapters import Report


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="all, or any of balanced, data-poor, sparse, contexts, tasks, arms, features, oracle-regret, sarcos, "
            "activity, movielens, letter, coverage, bounds, ablation.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds. Default: 100, or 5 with `--quick`.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores, of the cluster with Ray.")] = None,
    engine: EngineOption = "processes",
    address: AddressOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report. Default: `report`, or `report-quick` with `--quick`."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets. Default: the one that POSSE_DATA names.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short horizons and few seeds: does everything work?")] = False,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Run nothing; draw and write the report from its result files.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Change a setting of the experiment, e.g. `horizon=5000`; repeatable."
        ),
    ] = None,
) -> None:
    """Run the paper's experiments and write one page: every figure redrawn, every claim tested.

    A stopped run continues where it was; the page shows all experiments that the folder has results of.
    """
    from posse.checks import whole_number
    from posse.cli.progress import stages
    from posse.simulation.engines import using_engine, usual_workers
    from posse_lab.cli.progress import many_runs
    from posse_lab.reproduction.registry import EXPERIMENTS, chosen
    from posse_lab.reproduction.report import write_report
    from posse_lab.reproduction.run import PAPER_SEEDS, QUICK_SEEDS, execute, plan

    folder = out if out is not None else Path("report-quick" if quick else "report")
    skipped: dict[str, str] = {}
    if not redraw:
        if not names:
            raise InvalidValue(f"name an experiment, or all: {', '.join(EXPERIMENTS)}; or pass --redraw")
        experiments = chosen(names)
        usual = QUICK_SEEDS if quick else PAPER_SEEDS
        n_seeds = whole_number(seeds if seeds is not None else usual, "seeds", at_least=1)
        with stages() as begin:
            planned = plan(
                experiments,
                data=data,
                quick=quick,
                overrides=_overrides(setting),
                begin=lambda name: begin(f"preparing {name}"),
            )
        make_folder(folder)
        with using_engine(engine, address), many_runs(n_seeds * len(planned.runs)) as (begin, advance):
            execute(
                planned,
                out=folder,
                seeds=n_seeds,
                workers=workers if workers is not None else usual_workers(available_cores()),
                begin=begin,
                advance=advance,
            )
        skipped = planned.skipped
    elif names:
        raise InvalidValue("--redraw draws all results in the folder; leave the names out")
    report = write_report(folder, list(EXPERIMENTS.values()), skipped=skipped)
    _print(report, folder, skipped)


def _overrides(settings: list[str] | None) -> dict[str, str]:
    given = {}
    for text in settings or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidValue(f"expected --set NAME=VALUE, got {text!r}")
        given[name.strip()] = value.strip()
    return given


def _print(report: Report, folder: Path, skipped: dict[str, str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from posse_lab.reproduction.words import number_words

    console = table_console()
    table = Table(title="Claims of the paper", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("claim", "verdict", "value", "95 % interval", "seeds"):
        table.add_column(
            heading,
            justify="right" if heading in ("value", "seeds") else "left",
            # Names and numbers are never cut; verdicts are sentences and may take several lines.
            no_wrap=heading != "verdict",
            overflow="fold",
        )
    for claim in report.claims:
        low, high = (number_words(end) for end in claim.interval)
        verdict = escape(claim.verdict)
        table.add_row(escape(claim.id), verdict, number_words(claim.value), f"{low} to {high}", str(claim.seeds))
    console.print(table)
    for name, reason in skipped.items():
        console.print(f"skipped {name}: {reason}", highlight=False, markup=False, soft_wrap=True)
    for file in ("index.html", "claims.json", "claims.md"):
        console.print(f"wrote {folder / file}", highlight=False, markup=False, soft_wrap=True)
