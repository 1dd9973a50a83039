"""``posse lab simulate``: any policies on any synthetic world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.options import policy_options
from posse.errors import InvalidValue
from posse_lab.cli.options import (
    AddressOption,
    EngineOption,
    available_cores,
    covariance_option,
    number_or_numbers,
    numbers,
)

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
    noise_sd: Annotated[str, typer.Option(help="Reward noise: one number, or one per arm, with commas.")] = "1",
    arrivals: Annotated[
        str, typer.Option(help="`balanced`, `data-poor` (the first task comes a tenth as often), or probabilities.")
    ] = "balanced",
    contexts: Annotated[
        str, typer.Option(help="`mixed-gaussian`, `uniform`, `intercept` or `one-hot`.")
    ] = "mixed-gaussian",
    heterogeneity: Annotated[
        str, typer.Option(help="How tasks differ: `gaussian` (covariance bb'+I) or `sparse` (few coordinates jump).")
    ] = "gaussian",
    covariance: Annotated[
        str | None,
        typer.Option(
            help="A given covariance in place of --heterogeneity: a text file with one matrix, or one per arm below "
            "each other; or the diagonal with commas."
        ),
    ] = None,
    jumps: Annotated[int | None, typer.Option(help="Coordinates that jump with `sparse`.")] = None,
    shared_sd: Annotated[float, typer.Option(help="Spread of the shared coefficients.")] = 1.0,
    odd_share: Annotated[float, typer.Option(help="Share of outlier tasks, which differ more than the others.")] = 0.0,
    odd_scale: Annotated[float, typer.Option(help="How much more outlier tasks differ.")] = 10.0,
    feature_scale: Annotated[
        str | None, typer.Option(help="Factors for the features, with commas: the same world in other units.")
    ] = None,
    rewards: Annotated[
        str, typer.Option(help="What the world pays: `number`, `binary` (clicks) or `count`.")
    ] = "number",
    base_rate: Annotated[
        float | None,
        typer.Option(help="With clicks, counts and `--contexts intercept`: the rate that intercepts are centred at."),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(metavar="STEPS", help="Steps in which half of a task's deviation is replaced. Default: none."),
    ] = None,
    change_every: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Some tasks draw new coefficients every so many steps.")
    ] = None,
    change_share: Annotated[float, typer.Option(help="With --change-every, the probability of each task to.")] = 1.0,
    population_moves: Annotated[
        bool, typer.Option("--population-moves", help="What tasks have in common changes as well.")
    ] = False,
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
    from posse.cli.progress import many_runs
    from posse.environments import SyntheticWorld
    from posse.simulation import simulate as run
    from posse.simulation.engines import using_engine, usual_workers
    from posse_lab.cli.tables import print_json, print_summary

    factories = policy_options(policy or (PAPER if rewards == "number" else for_family(rewards)))
    law: Any = heterogeneity
    if covariance is not None:
        if heterogeneity != "gaussian":
            raise InvalidValue("give --heterogeneity or --covariance, not both")
        law = covariance_option(covariance)
    world = SyntheticWorld(
        n_tasks=tasks,
        n_arms=arms,
        n_features=features,
        noise_sd=number_or_numbers(noise_sd, "--noise-sd"),
        arrivals=numbers(arrivals, "--arrivals") if "," in arrivals else arrivals,
        contexts=contexts,  # type: ignore[arg-type]  # checked by the world
        heterogeneity=law,
        jumps=jumps,
        shared_sd=shared_sd,
        odd_share=odd_share,
        odd_scale=odd_scale,
        feature_scale=numbers(feature_scale, "--feature-scale") if feature_scale is not None else None,
        rewards=rewards,  # type: ignore[arg-type]  # checked by the world
        base_rate=base_rate,
        half_life=half_life,
        change_every=change_every,
        change_share=change_share,
        population_moves=population_moves,
    )
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


def for_family(rewards: str) -> list[str]:
    """Return the policies that are compared where rewards are clicks or counts, and the one for numbers."""
    keys = ("family-ucb", "family-ts", "family-rand-ucb", "logistic-ts", "logistic-ts-pooled")
    settings = "" if rewards == "binary" else f":rewards={rewards}"  # clicks are what they expect
    return [*(key + settings for key in keys), "ebm-ucb:prior=evidence"]
