"""``posse lab simulate``: any policies on any synthetic world."""

from __future__ import annotations

import json as json_module
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.options import policy_options
from posse.errors import InvalidValue
from posse_lab.cli.options import AddressOption, EngineOption, available_cores

PAPER = ["ebm-ts", "ebm-ucb", "rm-bandit", "ols-bandit", "lin-ts", "lin-ucb"]


def simulate(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="KEY[:SETTING=VALUE,...]",
            help="A policy, e.g. `ebm-ucb:exploration=0.3,refresh_growth=0.1`; repeat for more. Keys: ebm-ucb, ebm-ts, "
            "hier-ts, mtts, lin-ucb, lin-ts, lin-ucb-pooled, ols-bandit, rm-bandit, random, oracle; for clicks and "
            "counts family-ucb, family-ts, family-rand-ucb, logistic-ts, logistic-ts-pooled, beta-bernoulli. "
            "`prior=known` is the world's own population. Default: the paper's six, or those for clicks and counts.",
        ),
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", "-N", help="Number of tasks.")] = 10,
    arms: Annotated[int, typer.Option("--arms", "-K", help="Number of arms.")] = 5,
    features: Annotated[int, typer.Option("--features", "-d", help="Number of features.")] = 3,
    horizon: Annotated[int, typer.Option("--horizon", "-n", help="Steps per run.")] = 2000,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 100,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of `SyntheticWorld`, e.g. `arrivals=data-poor`, `noise_sd=[0.5,2]`, "
            "`heterogeneity=sparse`, `rewards=binary` or `half_life=1000`; repeatable.",
        ),
    ] = None,
    appendix: Annotated[
        bool, typer.Option("--appendix", help="Also the regret of the paper's appendix (every task at every step).")
    ] = False,
    track_task: Annotated[int, typer.Option(help="The task whose own regret curve is kept.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: all cores, of the cluster with Ray.")] = None,
    engine: EngineOption = "processes",
    address: AddressOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Result file (Parquet); an interrupted run continues from it.")
    ] = None,
    plot: Annotated[
        list[Path] | None, typer.Option(help="Draw regret curves to this PNG, SVG or PDF; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run policies on the same synthetic worlds and compare their regret."""
    from posse.environments import SyntheticWorld
    from posse.simulation import simulate as run
    from posse.simulation.engines import using_engine, usual_workers
    from posse_lab.cli.progress import many_runs
    from posse_lab.cli.tables import print_json, print_summary

    settings = _settings(setting)
    rewards = settings.get("rewards", "number")
    factories = policy_options(policy or (PAPER if rewards == "number" else for_family(str(rewards))))
    world = SyntheticWorld(n_tasks=tasks, n_arms=arms, n_features=features, **settings)
    if plot:
        from posse.plotting.style import check_figure_paths

        check_figure_paths(plot)
    with using_engine(engine, address), many_runs(seeds) as (begin, advance):
        begin("simulating")
        result = run(
            world,
            factories,
            horizon=horizon,
            seeds=seeds,
            workers=workers if workers is not None else usual_workers(available_cores()),
            out=out,
            appendix=appendix,
            track_task=track_task,
            progress=advance,
        )
    files = [str(path) for path in ([out] if out else []) + (plot or [])]
    if plot:
        from posse.plotting import plot_regret

        plot_regret(result, plot)
    first = next(iter(factories))
    if json:
        print_json(result, against=first, files=files)
    else:
        print_summary(
            result,
            title=f"{tasks} tasks, {arms} arms, {features} features, {horizon} steps, {len(result.seeds)} seeds",
            against=first,
            note="".join(f"wrote {name}\n" for name in files).rstrip(),
        )


def _settings(given: list[str] | None) -> dict[str, Any]:
    """Return settings of a world from the command line; a value is JSON, or the text itself."""
    from posse.environments import SyntheticWorld

    known = [one.name for one in fields(SyntheticWorld) if one.name not in ("n_tasks", "n_arms", "n_features")]
    settings: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InvalidValue(f"expected --set NAME=VALUE with one of {', '.join(known)}, got {text!r}")
        try:
            settings[name] = json_module.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def for_family(rewards: str) -> list[str]:
    """Return the policies that are compared where rewards are clicks or counts, and the one for numbers."""
    keys = ("family-ucb", "family-ts", "family-rand-ucb", "logistic-ts", "logistic-ts-pooled")
    settings = "" if rewards == "binary" else f":rewards={rewards}"  # clicks are what they expect
    return [*(key + settings for key in keys), "ebm-ucb:prior=evidence"]
