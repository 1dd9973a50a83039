"""``posse lab bench features``: what features of tasks and arms gain, and what catalogues cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.console import table_console, titled_table
from posse.cli.options import make_folder
from posse.errors import InvalidValue
from posse_lab.cli.options import available_cores


def features(
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 20,
    first_seed: Annotated[int, typer.Option(help="The first of them; the others follow.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Measure this row, e.g. `regions`; repeatable. A wrong name lists them."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for `features.json`.")] = None,
) -> None:
    """Compare fleets that know regions or categories with those that do not; time catalogues; order MTTS."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from posse.cli.progress import many_runs
    from posse_lab.benchmarks.bars import Bar
    from posse_lab.benchmarks.features import RATIOS, catalogue_milliseconds, measure_ratio
    from posse_lab.benchmarks.machine import write_report
    from posse_lab.benchmarks.markdown import verdict

    names = only if only else [*RATIOS, "catalogue"]
    for name in names:
        if name not in (*RATIOS, "catalogue"):
            raise InvalidValue(f"no row {name!r}; the rows are {', '.join(RATIOS)}, catalogue")
    if out is not None:
        make_folder(out)
    cores = workers if workers is not None else available_cores()
    rows, bars = [], []
    with many_runs(len(names)) as (begin, advance):
        for name in names:
            begin(name)
            if name == "catalogue":
                found = catalogue_milliseconds()
                bars = [
                    Bar(what=f"2,000 arms, 20 joint features, from a {kind}", measured=taken, unit="ms", at_most=2)
                    for kind, taken in found.items()
                ]
            elif cores == 1:
                rows.append(measure_ratio(name, range(first_seed, first_seed + seeds)))
            else:
                with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
                    rows.append(measure_ratio(name, range(first_seed, first_seed + seeds), pool))
            advance(1)
    console = table_console()
    table = titled_table("Regret over regret", ["what"], ["measured", "95 %", "bar", "met"])
    for row in rows:
        interval = f"{row.low:.3f}-{row.high:.3f}"
        met = verdict(row.bar.met) if row.bar.bar_words else "–"
        table.add_row(row.bar.what, row.bar.measured_words, interval, row.bar.bar_words, met)
    for bar in bars:
        table.add_row(bar.what, bar.measured_words, "", bar.bar_words, verdict(bar.met))
    console.print(table)
    if out is not None:
        data = {"seeds": seeds, "first_seed": first_seed}
        written = write_report(
            out, "features", data | {"rows": [*(row.to_dict() for row in rows), *(bar.to_dict() for bar in bars)]}
        )
        console.print(f"wrote {written}", highlight=False, soft_wrap=True)
