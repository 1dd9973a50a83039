"""What the experiments on data sets have in common: the paper's protocol, another heterogeneity, real rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse.environments.base import World
from posse.plotting.intervals import Interval
from posse_lab.reproduction.claims import Claim
from posse_lab.reproduction.experiment import Figure, Results, Run, Section, Simulated
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.pieces import Curves, curve_figure, grid_table, interval_figure, percent, regret_table
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest

PROTOCOL, OTHER, REAL = "protocol", "heterogeneity", "real-rewards"


def data_runs(protocol: World, other: World, real: World, horizon: int) -> list[Run]:
    """Return the paper's protocol, the same with another heterogeneity, and the honest variant."""
    worlds = {PROTOCOL: protocol, OTHER: other, REAL: real}
    return [
        Simulated(key=key, world=world, policies=lineup(), horizon=horizon, checkpoints=60)
        for key, world in worlds.items()
    ]


def data_section(
    results: Results, experiment: str, name: str, *, reward: str, regret: str = "cumulative regret"
) -> Section:
    """Return curves of the three runs, and the claims about them.

    Parameters
    ----------
    results : mapping
    experiment, name : str
        What the command and what sentences call it.
    reward : str
        What a real reward is.
    regret : str
        What regret is called where rewards are real.
    """
    scale = results[OTHER].settings["world"]["heterogeneity"]
    protocol = Reading(results[PROTOCOL], PROTOCOL, "the paper's protocol")
    other = Reading(results[OTHER], OTHER, f"heterogeneity × {scale:g}")
    real = Reading(results[REAL], REAL, "real rewards")
    readings = [protocol, other, real]
    real_pair = real.compare("ebmUCB", "LinUCB tuned")
    evidence = real.compare("evidence UCB", "LinUCB tuned")
    pooled = real.compare("evidence UCB", "pooled LinUCB")
    claims: list[Claim] = [
        lowest(
            f"{experiment}-lowest",
            f"Both ebm methods have the lowest regret on the {name} data.",
            experiment,
            [(protocol, None)],
        ),
        lowest(
            f"{experiment}-other-heterogeneity",
            f"Both ebm methods have the lowest regret on the {name} data, with tasks {_differ(scale)} than by the "
            "protocol.",
            experiment,
            [(other, None)],
        ),
        lowest(
            f"{experiment}-real-rewards",
            f"Both ebm methods have the lowest regret on the {name} data when rewards are real.",
            experiment,
            [(real, None)],
        ),
    ]
    return Section(
        found=(
            f"Data: {_data_words(results)}.",
            "By the paper's protocol rewards are simulated from a linear model, so the model is right by construction. "
            f"There ebmUCB has {protocol.regret('ebmUCB').mean():,.1f}, the evidence prior "
            f"{protocol.regret('evidence UCB').mean():,.1f}, {protocol.words('LinUCB tuned')} "
            f"{protocol.regret('LinUCB tuned').mean():,.1f} and one LinUCB for all tasks "
            f"{protocol.regret('pooled LinUCB').mean():,.1f} at {protocol.horizon:,} steps.",
            f"With real rewards ({reward}) the linear model can be wrong and tasks really differ: ebmUCB is "
            f"{percent(real_pair.ratio)} than {real_pair.second}, the evidence prior {percent(evidence.ratio)}, and "
            f"{percent(pooled.ratio)} than one LinUCB for all tasks.",
        ),
        figures=(
            curve_figure(
                f"{experiment}-protocol",
                [Curves(reading=protocol, title=protocol.label), Curves(reading=other, title=other.label)],
                f"Cumulative regret on {name}: rewards simulated as the paper does, and with another heterogeneity, "
                "which the paper does not declare.",
            ),
            curve_figure(
                f"{experiment}-real",
                [Curves(reading=real, title=f"real rewards: {reward}", y_label=regret)],
                f"Cumulative regret on {name} when rewards are real. HierTS has a prior that was fitted offline to "
                "rows that are not met.",
            ),
            _advantage(experiment, readings),
        ),
        tables=(
            grid_table(readings, f"Mean cumulative regret at {protocol.horizon:,} steps", "world"),
            regret_table(real, "Real rewards"),
        ),
        claims=tuple(claims),
    )


def _advantage(experiment: str, readings: list[Reading]) -> Figure:
    rows = []
    for reading in readings:
        for method in ("ebmUCB", "ebmTS", "evidence UCB", "evidence TS"):
            for rival in ("LinUCB", "LinUCB tuned", "pooled LinUCB"):
                pair = reading.compare(method, rival)
                low, high = pair.ratio_interval
                rows.append(
                    Interval(label=f"{method} / {rival}", value=pair.ratio, low=low, high=high, group=reading.label)
                )
    return interval_figure(
        f"{experiment}-advantage",
        rows,
        [reading.source for reading in readings],
        x_label="ratio of mean regret",
        about="Regret of the hierarchical methods over that of LinUCB, by default, tuned, and pooled over tasks.",
    )


def _differ(scale: float) -> str:
    return "that differ more" if scale > 1 else "that differ less" if scale < 1 else "that differ no more"


def _data_words(results: Mapping[str, Any]) -> str:
    words = []
    for key, what in ((PROTOCOL, "protocol"), (REAL, "real rewards")):
        world = results[key].settings["world"]
        words.append(
            f"{world['data']} ({what}: {world['n_tasks']} tasks, {world['n_arms']} arms, {world['n_features']} "
            f"features, {world['n_rows']:,} rows to meet; SHA-256 {str(world['sha256'])[:12]}…)"
        )
    return "; ".join(words)
