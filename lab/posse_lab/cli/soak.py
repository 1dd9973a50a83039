"""``posse lab bench soak``: a long day of a service, with all that goes wrong in a year."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from posse.cli.console import table_console, titled_table


def soak(
    seconds: Annotated[float | None, typer.Option(help="How long. Default: 1,800.")] = None,
    rate: Annotated[float | None, typer.Option(help="Pairs a second. Default: 500.")] = None,
    every: Annotated[float | None, typer.Option(help="Seconds between two disturbances. Default: 15.")] = None,
    kills: Annotated[bool, typer.Option("--kills/--no-kills", help="Kill the service, too.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of half an hour: see that it runs.")] = False,
) -> None:
    """Load a service while it is killed, erased from, exported, given new fleets and wrong clocks; nothing may be lost.

    Exit status 1 if a promise was not kept.
    """
    from posse_lab.benchmarks.markdown import verdict
    from posse_lab.benchmarks.soak import QUICK, Plan, measure_soak

    plan = QUICK if quick else Plan()
    plan = replace(
        plan,
        kills=kills,
        seconds=plan.seconds if seconds is None else seconds,
        rate=plan.rate if rate is None else rate,
        every=plan.every if every is None else every,
    )
    found = measure_soak(plan, lambda words: typer.echo(words, err=True))
    console = table_console()
    done = ", ".join(f"{count} {kind}" for kind, count in found.done.items()) or "no disturbance"
    a_second = f"{found.pairs / plan.seconds:,.0f} a second of {plan.rate:g}"
    console.print(f"{found.pairs:,} pairs in {plan.seconds:g} s ({a_second}); {done}", highlight=False)
    console.print(
        "answers: " + ", ".join(f"{count:,} x {status or 'none'}" for status, count in sorted(found.statuses.items())),
        highlight=False,
    )
    table = titled_table("What was promised", ["what"], ["measured", "bar", "met"])
    for bar in found.bars():
        table.add_row(bar.what, bar.measured_words, bar.bar_words, verdict(bar.met) or "–")
    console.print(table)
    for words in found.wrong[:10]:
        console.print(words, highlight=False, markup=False)
    if any(bar.met is False for bar in found.bars()):
        raise typer.Exit(1)
