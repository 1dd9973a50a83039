"""``posse inspect``: what a fleet has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from posse.errors import UnknownTask

if TYPE_CHECKING:
    from posse.fleet import Overview, Posse
    from posse.fleet.expecting import Rate
    from posse.fleet.names import Label

RATE = "expected (90 %)"
MOST_COLUMNS = 12  # of the population that a terminal shows
MOST_ARMS = 8
ALL_ARMS = "those with the most rewards; posse inspect --all-arms lists all"


def inspect(
    fleet: Annotated[Path, typer.Argument(help="The fleet's file.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Show this task.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many tasks to list, those with most rewards first.")] = 10,
    covariance: Annotated[
        bool, typer.Option("--covariance", help="Also how coefficients vary together between tasks.")
    ] = False,
    all_arms: Annotated[
        bool, typer.Option("--all-arms", help=f"List all arms, rather than the {MOST_ARMS} with the most rewards.")
    ] = False,
    plot: Annotated[
        list[Path] | None, typer.Option(help="Draw how tasks differ, or the task, to this PNG, SVG or PDF; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show a fleet's arms, its population, what is unusual about it, its tasks and how much they borrow."""
    from posse.cli.progress import stages
    from posse.fleet import Posse
    from posse.fleet.expecting import expected_rates

    if plot:
        from posse.plotting.style import check_figure_paths

        check_figure_paths(plot)
    with stages() as begin:
        begin("loading the fleet")
        loaded = Posse.load(fleet)
        begin("looking at its tasks")
        overview = loaded.overview(top) if task is None else None
        label = None if task is None else task_label(loaded, task)
        rates = expected_rates(loaded, label)
    if overview is None:
        assert label is not None
        _show_task(loaded, label, rates, json, all_arms)
    elif json:
        from json import dumps

        found = {str(arm): rate._asdict() for arm, rate in rates.items()}
        print(dumps(overview.to_json() | ({"rates": found} if rates else {}), indent=2))
    else:
        print_overview(overview, title=str(fleet), covariance=covariance, rates=rates, all_arms=all_arms)
    if plot:
        from posse.plotting import plot_population, plot_task

        if label is None:
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
    overview: Overview,
    *,
    title: str,
    covariance: bool = False,
    rates: Mapping[Label, Rate] | None = None,
    all_arms: bool = False,
) -> None:
    """Print arms, population, findings and tasks; ``rates`` are those of clicks and counts at the average context."""
    from rich.markup import escape
    from rich.padding import Padding

    from posse.cli.console import print_in_blocks, table_console, titled_table
    from posse.fleet.overview import PAID

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
    listed = _listed([arm.rewards for arm in overview.arms], all_arms)
    paid = overview.rewards == "revenue"
    heads = ["rewards", "tasks", *(PAID if paid else ["noise sd"]), *([RATE] if rates else [])]
    table = titled_table("arms", ["arm"], heads)
    for arm in (overview.arms[place] for place in listed):
        name = escape(str(arm.arm)) + " (retired)" * arm.retired
        cells = [_rate_words(overview.rewards, rates[arm.arm])] if rates else []
        scale = arm.paid_words() if paid else [f"{arm.noise_sd:.3g}"]
        table.add_row(name, f"{arm.rewards:,.0f}", f"{arm.tasks:,}", *scale, *cells)
    console.print(table)
    if len(listed) < len(overview.arms):
        console.print(f"({len(listed)} of {len(overview.arms)} arms: {ALL_ARMS})", highlight=False)

    spread = np.array([np.sqrt(np.diagonal(arm.covariance)) for arm in overview.arms])
    shown = list(range(len(overview.columns)))
    if len(shown) > MOST_COLUMNS:
        shown = sorted(np.argsort(-spread.max(axis=0), kind="stable")[:MOST_COLUMNS].tolist())
    print_in_blocks(
        console,
        f"population: mean of every coefficient{overview.scale_words()} ± standard error, and sd between tasks",
        "coefficient",
        [overview.columns[column] for column in shown],
        [
            (
                str(arm.arm),
                [f"{arm.mean[i]:.3g} ± {arm.mean_sd[i]:.2g}, sd {arm.covariance[i, i] ** 0.5:.3g}" for i in shown],
            )
            for arm in (overview.arms[place] for place in listed)
        ],
    )
    if len(shown) < len(overview.columns):
        console.print(f"({len(shown)} of {len(overview.columns)} coefficients: those in which tasks differ most)")
    if overview.effects is not None:
        known = titled_table("what is known", ["of", "feature"], ["sd of its effects"])
        for side, feature, sd in overview.effect_rows():
            known.add_row(side, escape(feature), f"{sd:.3g}")
        console.print()
        console.print(known)
    if overview.findings:
        console.print("\n[bold]Findings[/bold]", highlight=False)
        for finding in overview.findings:
            console.print(Padding.indent(escape(f"- {finding}"), 2), highlight=False)
    if covariance:
        for arm in (overview.arms[place] for place in listed):
            print_in_blocks(
                console,
                f"covariance between tasks: {arm.arm}",
                "",
                [overview.columns[column] for column in shown],
                [(overview.columns[i], [f"{arm.covariance[row, i]:.3g}" for row in shown]) for i in shown],
            )
    if overview.tasks:
        tasks = titled_table("tasks with the most rewards", ["task"], ["rewards", "weight of own data"])
        for task in overview.tasks:
            tasks.add_row(escape(str(task.task)), f"{task.rewards:,.0f}", f"{task.own_share:.0%}")
        console.print()
        console.print(tasks)


def _rate_words(family: str, rate: Rate) -> str:
    from posse.families import family_of

    mean, low, high = map(family_of(family).show, rate)
    return f"{mean} ({low} to {high})"


def _listed(rewards: Sequence[float], everything: bool) -> list[int]:
    """Return the places of the arms with the most rewards, or of all."""
    return sorted(np.argsort(-np.asarray(rewards), kind="stable")[: None if everything else MOST_ARMS].tolist())


def _show_task(fleet: Posse, task: Label, rates: Mapping[Label, Rate], as_json: bool, all_arms: bool) -> None:
    from rich.markup import escape

    from posse.cli.console import print_in_blocks, table_console, titled_table

    if as_json:
        from json import dumps

        print(dumps(fleet.export(task), indent=2))
        return
    borrowing, coefficients = fleet.borrowing(task), fleet.coefficients(task)
    own = ["rewards", "weight of own data", "borrowed"]
    table = titled_table(f"task {escape(str(task))}", ["arm"], [*own, *([RATE] if rates else [])])
    listed = _listed(borrowing.rewards.tolist(), all_arms)
    arms = [list(coefficients.mean)[place] for place in listed]
    for place, arm in zip(listed, arms, strict=True):
        table.add_row(
            escape(str(arm)),
            f"{borrowing.rewards[place]:,.0f}",
            f"{borrowing.own_share[place]:.0%}",
            f"{borrowing.borrowed[place]:,.1f}",
            *([_rate_words(fleet.rewards, rates[arm])] if rates else []),
        )
    console = table_console()
    console.print(table)
    if len(arms) < len(coefficients.mean):
        console.print(f"({len(arms)} of {len(coefficients.mean)} arms: {ALL_ARMS})", highlight=False)
    columns = coefficients.columns[:MOST_COLUMNS]
    sds = {arm: np.sqrt(np.diagonal(coefficients.covariance[arm])) for arm in arms}
    means = coefficients.mean
    print_in_blocks(
        console,
        f"coefficients{fleet.overview(0).scale_words()} (mean ± sd)",
        "coefficient",
        columns,
        [(str(arm), [f"{means[arm][i]:.3g} ± {sds[arm][i]:.2g}" for i in range(len(columns))]) for arm in arms],
    )
    about = fleet.export(task).get("features")
    if about is not None:
        console.print(
            "known: " + escape(", ".join(f"{name} {value}" for name, value in about.items())), highlight=False
        )
    console.print()
    if rates:
        subject = "expected revenue is" if fleet.rewards == "revenue" else "rates are"
        console.print(f"{subject} at the task's average context", highlight=False)
    console.print(
        "borrowed: how many rewards of its own the other tasks are worth",
        highlight=False,
    )
