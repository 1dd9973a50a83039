"""``posse inspect``: what a fleet has learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from posse.errors import UnknownTask

if TYPE_CHECKING:
    from posse.fleet import Overview, Posse
    from posse.fleet.labels import Label
    from posse.fleet.rates import Rate

RATE = "expected (90 %)"
MOST_COLUMNS = 12  # of the population that a terminal shows


def inspect(
    fleet: Annotated[Path, typer.Argument(help="The fleet's file.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Show this task.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many tasks to list, those with most rewards first.")] = 10,
    covariance: Annotated[
        bool, typer.Option("--covariance", help="Also how coefficients vary together between tasks.")
    ] = False,
    plot: Annotated[
        list[Path] | None, typer.Option(help="Draw how tasks differ, or the task, to this PNG, SVG or PDF; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show a fleet's arms, its population, what is unusual about it, its tasks and how much they borrow."""
    from posse.cli.progress import stages
    from posse.fleet import Posse
    from posse.fleet.rates import expected_rates

    if plot:
        from posse.plotting.style import check_figure_paths

        check_figure_paths(plot)
    with stages() as begin:
        begin("loading the fleet")
        loaded = Posse.load(fleet)
        begin("looking at its tasks")
        overview = loaded.overview(top) if task is None else None
    if overview is None:
        assert task is not None
        label = task_label(loaded, task)
        _show_task(loaded, label, json)
    else:
        if json:
            from json import dumps

            rates = expected_rates(loaded)
            found = {str(arm): rate._asdict() for arm, rate in rates.items()}
            print(dumps(overview.to_json() | ({"rates": found} if rates else {}), indent=2))
        else:
            print_overview(overview, title=str(fleet), covariance=covariance, rates=expected_rates(loaded))
    if plot:
        from posse.plotting import plot_population, plot_task

        if task is None:
            plot_population(loaded.overview(0), plot)
        else:
            plot_task(loaded.overview(0), loaded.coefficients(label), label, plot)
        for path in plot:
            typer.echo(f"wrote {path}", err=json)


def task_label(fleet: Posse, text: str) -> Label:
    """Return the task that was typed: a number where tasks are named by numbers."""
    known = fleet.tasks
    if known and isinstance(known[0], int):
        try:
            return int(text)
        except ValueError:
            raise UnknownTask(f"no task {text!r}; tasks of this fleet are named by whole numbers") from None
    return text


def print_overview(
    overview: Overview, *, title: str, covariance: bool = False, rates: Mapping[Label, Rate] | None = None
) -> None:
    """Print arms, population, findings and tasks; ``rates`` are those of clicks and counts at the average context."""
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    from posse.cli.console import table_console

    console = table_console()
    pending = f"{overview.n_pending:,} pending"
    counts = "" if overview.pending_reward is None else f" (of which {pending} count as {overview.pending_reward:g})"
    kind = overview.drift_words() + overview.family_words()
    console.print(
        f"[bold]{escape(title)}[/bold]\n{overview.policy}, {overview.prior} prior{kind}; {overview.n_tasks:,} tasks, "
        f"{overview.n_rewards:,.0f} rewards{counts}, {overview.n_decisions:,} decisions"
        + ("" if counts else f", {pending}"),
        highlight=False,
    )
    arms = Table(title="arms", title_justify="left", title_style="bold")
    for name in ("arm", "", "rewards", "tasks", "noise sd"):
        arms.add_column(name, justify="left" if name in ("arm", "") else "right")
    if rates:
        arms.add_column(RATE, justify="right")
    for arm in overview.arms:
        state = "retired" if arm.retired else ""
        cells = [_rate_words(overview.rewards, rates[arm.arm])] if rates else []
        arms.add_row(
            escape(str(arm.arm)), state, f"{arm.rewards:,.0f}", f"{arm.tasks:,}", f"{arm.noise_sd:.3g}", *cells
        )
    console.print(arms)

    spread = np.array([np.sqrt(np.diagonal(arm.covariance)) for arm in overview.arms])
    shown = list(range(len(overview.columns)))
    if len(shown) > MOST_COLUMNS:
        shown = sorted(np.argsort(-spread.max(axis=0), kind="stable")[:MOST_COLUMNS].tolist())
    population = Table(
        title=f"population: mean of a coefficient{overview.scale_words()} (± how well it is known) "
        "and how much tasks differ (sd)",
        title_justify="left",
        title_style="bold",
    )
    population.add_column("coefficient")
    for arm in overview.arms:
        population.add_column(escape(str(arm.arm)), justify="right")
    for column in shown:
        cells = [
            f"{arm.mean[column]:.3g} ± {arm.mean_sd[column]:.2g}, sd {spread[position, column]:.3g}"
            for position, arm in enumerate(overview.arms)
        ]
        population.add_row(escape(overview.columns[column]), *cells)
    console.print(population)
    if len(shown) < len(overview.columns):
        console.print(f"({len(shown)} of {len(overview.columns)} coefficients: those in which tasks differ most)")
    if overview.effects is not None:
        known = Table(title="what is known", title_justify="left", title_style="bold")
        for name in ("of", "feature", "sd of its effects"):
            known.add_column(name, justify="right" if name.startswith("sd") else "left")
        for side, feature, sd in overview.effect_rows():
            known.add_row(side, escape(feature), f"{sd:.3g}")
        console.print(known)
    if overview.findings:
        console.print("[bold]Findings[/bold]", highlight=False)
        for finding in overview.findings:
            console.print(Padding.indent(escape(f"- {finding}"), 2), highlight=False)
    if covariance:
        for arm in overview.arms:
            _print_covariance(console, overview, arm, shown)
    if overview.tasks:
        tasks = Table(title="tasks with the most rewards", title_justify="left", title_style="bold")
        tasks.add_column("task")
        tasks.add_column("rewards", justify="right")
        tasks.add_column("stands on its own rewards by", justify="right")
        for task in overview.tasks:
            tasks.add_row(escape(str(task.task)), f"{task.rewards:,.0f}", f"{task.own_share:.0%}")
        console.print(tasks)


def _rate_words(family: str, rate: Rate) -> str:
    from posse.families import family_of

    mean, low, high = map(family_of(family).show, rate)
    return f"{mean} ({low} to {high})"


def _print_covariance(console: Any, overview: Overview, arm: Any, shown: list[int]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"covariance between tasks: {escape(str(arm.arm))}", title_justify="left", title_style="bold")
    table.add_column("")
    for column in shown:
        table.add_column(escape(overview.columns[column]), justify="right")
    for row in shown:
        table.add_row(escape(overview.columns[row]), *(f"{arm.covariance[row, column]:.3g}" for column in shown))
    console.print(table)


def _show_task(fleet: Posse, task: Label, as_json: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from posse.cli.console import table_console
    from posse.fleet.rates import expected_rates

    if as_json:
        from json import dumps

        print(dumps(fleet.export(task), indent=2))
        return
    borrowing, coefficients = fleet.borrowing(task), fleet.coefficients(task)
    table = Table(title=f"task {escape(str(task))}", title_justify="left", title_style="bold")
    for name in ("arm", "rewards", "own share", "borrowed"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    rates = expected_rates(fleet, task)
    if rates:
        table.add_column(RATE, justify="right")
    shown = coefficients.columns[:MOST_COLUMNS]
    for column in shown:
        table.add_column(escape(column), justify="right")
    for position, (arm, mean) in enumerate(coefficients.mean.items()):
        sd = np.sqrt(np.diagonal(coefficients.covariance[arm]))
        table.add_row(
            escape(str(arm)),
            f"{borrowing.rewards[position]:,.0f}",
            f"{borrowing.own_share[position]:.0%}",
            f"{borrowing.borrowed[position]:,.1f}",
            *([_rate_words(fleet.rewards, rates[arm])] if rates else []),
            *(f"{mean[i]:.3g} ± {sd[i]:.2g}" for i in range(len(shown))),
        )
    console = table_console()
    console.print(table)
    about = fleet.export(task).get("features")
    if about is not None:
        console.print(
            "known: " + escape(", ".join(f"{name} {value}" for name, value in about.items())), highlight=False
        )
    if rates:
        scale = fleet.overview(0).scale_words()
        console.print(f"coefficients are{scale}; rates are at the task's average context", highlight=False)
    console.print(
        "own share: weight of the task's own rewards; borrowed: how many rewards of its own the others are worth",
        highlight=False,
    )
